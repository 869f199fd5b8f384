//! A signal in the middle of a step: what it leaves for others that use the same open files.

use std::fs::File;
use std::io::PipeReader;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use zcopy::Strategy;

use crate::child::{end_of, under, with_default_signals, zc_pv};
use crate::files::{assert_same, contents, cursor, file_in, read_to_end, write_all};
use crate::numbered::{RECORD, Writer};
use crate::refused::needs;
use crate::scene::{Thread, bounded, scratch_dirs};
use crate::skip::has_program;

const SIGNALS: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// Without an observer that the display needs, and with one.
const ARGUMENTS: [&[&str]; 3] = [&["-q"], &["-qL1G"], &["-n", "-i600"]];

/// `zc-pv`. `strace` has each of its splices begin a moment after it was
/// called.
fn slow_pv(arguments: &[&str]) -> Command {
    let mut strace = vec!["strace", "-D", "-f", "-qq", "-o", "/dev/null"];
    strace.push("--inject=splice:delay_enter=50000");
    with_default_signals(&under(&strace, zc_pv().args(arguments)))
}

/// The source of the bytes. Another reader continues to read it.
enum Input {
    File(File),
    Pipe(PipeReader, thread::JoinHandle<()>),
}

impl Input {
    fn pipe_with(bytes: &[u8]) -> Self {
        let (reader, writer) = std::io::pipe().unwrap();
        let bytes = bytes.to_vec();
        let feeding = thread::spawn(move || assert!(write_all(&writer, &bytes)));
        Self::Pipe(reader, feeding)
    }

    fn shared(&self) -> OwnedFd {
        match self {
            Self::File(file) => file.try_clone().unwrap().into(),
            Self::Pipe(reader, _) => reader.try_clone().unwrap().into(),
        }
    }

    /// Reads the rest, as the next reader does.
    fn rest(self) -> Vec<u8> {
        match self {
            Self::File(file) => read_to_end(&file),
            Self::Pipe(reader, feeding) => {
                let rest = read_to_end(&reader);
                feeding.join().unwrap();
                rest
            }
        }
    }
}

/// Waits until a range of the file is reserved and not filled, or the tool has ended.
fn until_reserved(out: &File, child: &mut Child) {
    let begin = Instant::now();
    while cursor(out) <= out.metadata().unwrap().len() {
        assert!(begin.elapsed() < Duration::from_secs(30), "nothing comes");
        assert_eq!(child.try_wait().unwrap(), None);
    }
}

/// Ends the tool amid a step that fills a range of the output, on which another writer goes on.
#[track_caller]
fn stop_amid_a_step(signal: Signal, arguments: &'static [&str], dir: &Path, is_piped: bool) {
    let (moved, written) = (Writer(1), Writer(2));
    let bytes = moved.records(1 << 16);
    let input = if is_piped {
        Input::pipe_with(&bytes)
    } else {
        Input::File(file_in(dir, &bytes))
    };
    let out = file_in(dir, b"");
    let mut child = slow_pv(arguments)
        .stdin(input.shared())
        .stdout(out.try_clone().unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until_reserved(&out, &mut child);
    kill_process(Pid::from_child(&child), signal).unwrap();
    let has_ended = AtomicBool::new(false);
    let n_written = thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let mut n = 0;
            while !has_ended.load(Ordering::Relaxed) {
                assert!(write_all(&out, &written.record(n)));
                n += 1;
                thread::sleep(Duration::from_micros(100));
            }
            n
        });
        assert_eq!(end_of(child).code(), Some(32));
        has_ended.store(true, Ordering::Relaxed);
        writing.join().unwrap()
    });

    let case = format!("{signal:?} {arguments:?} in {}, {is_piped}", dir.display());
    let found = contents(&out);
    let of = |writer: Writer| {
        let letters = writer.record(0)[0] / 32;
        let own = found.iter().copied().filter(|byte| byte / 32 == letters);
        own.collect::<Vec<u8>>()
    };
    let arrived = of(moved);
    let n_zeros = memchr::memchr_iter(0, &found).count();
    assert_eq!(n_zeros, 0, "{case}: {} bytes moved", arrived.len());
    assert_same(&of(written), &written.records(n_written), &case);
    let all = [arrived, input.rest()].concat();
    assert_same(&all, &bytes, &case);
}

#[track_caller]
fn stop_amid_steps(is_piped: bool) {
    if !has_program("strace") || !needs(&[Strategy::Splice]) {
        return;
    }
    for dir in scratch_dirs() {
        for signal in SIGNALS {
            for arguments in ARGUMENTS {
                let dir = dir.clone();
                bounded(move || stop_amid_a_step(signal, arguments, &dir, is_piped));
            }
        }
    }
}

#[test]
fn a_signal_leaves_no_gap_in_an_output_and_loses_nothing_of_a_pipe() {
    stop_amid_steps(true);
}

#[test]
fn a_signal_leaves_no_gap_in_an_output_and_takes_nothing_from_the_next_reader_of_a_file() {
    stop_amid_steps(false);
}

/// The output takes nothing more, so that the transfer sleeps with a range of the file reserved.
#[test]
fn the_next_reader_of_a_file_begins_where_the_output_of_a_stopped_run_ends() {
    for signal in SIGNALS {
        for arguments in [&["-q"][..], &["-qC"], &["-n", "-i600"]] {
            for dir in scratch_dirs() {
                let input = file_in(&dir, &Writer(1).records(1 << 16));
                let (reader, writer) = std::io::pipe().unwrap();
                let child = with_default_signals(zc_pv().args(arguments))
                    .stdin(input.try_clone().unwrap())
                    .stdout(writer)
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap();
                crate::child::read_exactly(reader.try_clone().unwrap(), RECORD);
                Thread::of_process(child.id()).until_asleep();
                kill_process(Pid::from_child(&child), signal).unwrap();
                assert_eq!(end_of(child).code(), Some(32));
                let n_arrived = RECORD + read_to_end(&reader).len();
                let case = format!("{signal:?} {arguments:?} in {}", dir.display());
                assert_eq!(cursor(&input), n_arrived as u64, "{case}");
            }
        }
    }
}

/// A step takes long, and a second transfer would follow.
#[test]
fn no_input_is_begun_after_a_signal() {
    if !has_program("strace") || !needs(&[Strategy::Splice]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let bytes = Writer(1).records(1 << 14);
    std::fs::write(dir.path().join("f"), &bytes).unwrap();
    let out = file_in(dir.path(), b"");
    let mut child = slow_pv(&["-q", "f", "f", "f"])
        .current_dir(dir.path())
        .stdout(out.try_clone().unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until_reserved(&out, &mut child);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(end_of(child).code(), Some(32));
    // On a busy machine the second input may have begun before the signal came.
    let (all, arrived) = (bytes.repeat(3), contents(&out));
    assert!(all.starts_with(&arrived) && arrived.len() < all.len());
}
