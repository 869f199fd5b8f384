//! However zc-pv ends, the cursor is visible.

use std::io::{Read as _, Write as _};

use rustix::process::Signal;

use super::{Desk, has_row};
use crate::screen::{CONTROL_Q, CONTROL_S, Seen};

/// Sees that every frame shows the cursor that it hides.
pub(super) fn shows_the_cursor_in_each_frame(seen: &Seen) {
    let raw = String::from_utf8_lossy(&seen.raw);
    let mut frames = raw.split("\x1b[?25l");
    assert!(!frames.next().unwrap().contains("\x1b[?25h"), "{raw:?}");
    for frame in frames {
        assert_eq!(frame.matches("\x1b[?25h").count(), 1, "{raw:?}");
    }
    crate::screen::hides_the_cursor_only_within_chunks(&raw);
}

#[test]
fn a_kill_in_the_middle_of_a_display_leaves_the_cursor_visible() {
    for switch in ["", "-c", "-x window"] {
        for n_frames in 1..=4 {
            let mut desk = Desk::with(&format!("exec pv {switch} -i 0.1 /dev/zero > /dev/null"));
            desk.wait_for(|seen| {
                let n = seen.raw.windows(4).filter(|shown| shown == b"B/s]").count();
                n >= n_frames
            });
            desk.signal(Signal::KILL);
            let _ = desk.end();
            let seen = desk.seen();
            assert!(!seen.cursor_is_hidden(), "{switch}");
            shows_the_cursor_in_each_frame(&seen);
        }
    }
    let mut desk = Desk::with(
        "mkfifo go; pv -cbN one -i 0.1 < in | pv -cbN two -i 0.1 > /dev/null & \
         read line < go; kill -9 $(jobs -p) $!; wait; echo over",
    );
    let _source = super::fed(&desk, 10);
    desk.wait_for(|seen| {
        has_row(seen, "      one: 10.0  B") && has_row(seen, "      two: 10.0  B")
    });
    desk.end_pipe("go");
    let _ = desk.end();
    assert!(!desk.seen().cursor_is_hidden());
    shows_the_cursor_in_each_frame(&desk.seen());
}

#[test]
fn a_terminal_that_is_stopped_at_the_end_keeps_no_hidden_cursor() {
    for switches in ["", "-c", "-x window", "-9"] {
        for pv in [Some(super::ours().to_owned()), crate::peer::pv()] {
            let Some(pv) = pv else { continue };
            let is_ours = pv == super::ours();
            if !is_ours && switches == "-9" {
                continue;
            }
            let script = format!("pv {switches} -bi 0.1 < in > out; echo over > status");
            let mut desk = Desk::of(&pv, 8, 72, &script);
            let (mut source, mut sink) = (desk.source(), desk.sink());
            source.write_all(b"x").unwrap();
            sink.read_exact(&mut [0]).unwrap();
            desk.wait_for(|seen| seen.row(0).starts_with("1.00  B"));
            desk.press(CONTROL_S);
            source.write_all(b"x").unwrap();
            drop(source);
            if is_ours {
                // pv waits for the terminal, and moves nothing meanwhile.
                sink.read_exact(&mut [0]).unwrap();
                assert_eq!(desk.line_in("status"), "over");
            }
            desk.press(CONTROL_Q);
            if !is_ours {
                // It ends when its bytes have been read.
                sink.read_exact(&mut [0]).unwrap();
            }
            assert_eq!(desk.line_in("status"), "over");
            let _ = desk.end();
            let seen = desk.seen();
            assert!(!seen.cursor_is_hidden(), "{switches}");
            if is_ours {
                shows_the_cursor_in_each_frame(&seen);
            }
        }
    }
}
