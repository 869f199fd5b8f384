use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::num::NonZeroU16;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::thread::{self, JoinHandle};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Action, LocalModes, OptionalActions, Winsize};

use super::*;
use crate::common::sys;
use crate::common::terminal::capabilities::Capabilities;
use crate::dircopy::walk::Root;

const COLOURLESS: Capabilities = Capabilities {
    utf8: false,
    colour: false,
    sequences: true,
};

const COLUMNS: u16 = 40;

const ROWS: u16 = 8;

/// Both ends of a new terminal.
fn terminal() -> (File, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let user = openpt(flags).unwrap();
    grantpt(&user).unwrap();
    unlockpt(&user).unwrap();
    let size = Winsize {
        ws_row: ROWS,
        ws_col: COLUMNS,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(&user, size).unwrap();
    let name = ptsname(&user, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let program = rustix::fs::open(name, flags, Mode::empty()).unwrap();
    (File::from(user), program)
}

/// Takes all that comes until no program has the terminal.
fn all_of(mut user: File) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let (mut all, mut some) = (Vec::new(), [0; 4096]);
        // The last read fails.
        while let Ok(n @ 1..) = user.read(&mut some) {
            all.extend_from_slice(&some[..n]);
        }
        all
    })
}

/// What a person sees who has been shown this.
fn screen(shown: &[u8]) -> Vec<String> {
    let size = |n| NonZeroU16::new(n).unwrap();
    let mut parser = vt100::Parser::new(size(ROWS), size(COLUMNS), 0);
    parser.process(shown);
    let rows: Vec<String> = parser
        .screen()
        .rows(0, COLUMNS)
        .map(|row| row.trim_end().to_owned())
        .collect();
    let used = rows.iter().rposition(|row| !row.is_empty());
    rows[..used.map_or(0, |last| last + 1)].to_vec()
}

/// What stood on a screen before the line was taken away at last.
fn before_the_end(shown: &[u8]) -> Vec<String> {
    screen(shown.strip_suffix(b"\r\x1b[K").unwrap())
}

/// What was written to a file so far.
fn written(mut file: &File) -> String {
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}

fn broken() -> anyhow::Error {
    anyhow::Error::from(io::Error::from_raw_os_error(libc::EIO)).context("read failed")
}

/// A message, with the name of this program.
fn message(rest: &str) -> String {
    format!("{}: {rest}", message::program().to_string_lossy())
}

fn reporter_on<'a>(
    verbosity: Verbosity,
    counts: &'a Counts,
    stdout: BorrowedFd<'_>,
    stderr: BorrowedFd<'_>,
    capabilities: Capabilities,
) -> Reporter<'a> {
    let console = Console::on(verbosity, stdout, stderr, capabilities);
    Reporter::on(console.unwrap(), counts)
}

/// Does something with a reporter on a terminal, and gives all that the terminal was shown.
fn on_terminal(
    capabilities: Capabilities,
    act: impl FnOnce(&Reporter<'_>, &Counts, &OwnedFd),
) -> Vec<u8> {
    let (user, program) = terminal();
    let shown = all_of(user);
    let (counts, nothing) = (Counts::default(), File::create("/dev/null").unwrap());
    let reporter = reporter_on(
        Verbosity::Normal,
        &counts,
        nothing.as_fd(),
        program.as_fd(),
        capabilities,
    );
    assert!(reporter.shows_progress());
    act(&reporter, &counts, &program);
    drop((reporter, program));
    shown.join().unwrap()
}

/// Does something with a face that speaks to files, and gives what stands in them: standard output
/// and error.
fn on_files(verbosity: Verbosity, act: impl FnOnce(&Reporter<'_>, &Counts)) -> (String, String) {
    let (stdout, stderr) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    let counts = Counts::default();
    let reporter = reporter_on(
        verbosity,
        &counts,
        stdout.as_fd(),
        stderr.as_fd(),
        COLOURLESS,
    );
    act(&reporter, &counts);
    drop(reporter);
    (written(&stdout), written(&stderr))
}

/// Draws one line.
fn draw(reporter: &Reporter<'_>, counts: &Counts) {
    let total = Total::default();
    reporter.draw(&mut Gauge::new(counts, &total), Duration::from_secs(1));
}

#[test]
fn a_complaint_names_the_path_and_every_cause_and_counts() {
    for verbosity in [Verbosity::Quiet, Verbosity::Normal] {
        let (stdout, stderr) = on_files(verbosity, |reporter, counts| {
            reporter.report_error(Path::new("a/two words"), &broken());
            reporter.report_error(Path::new(""), &broken());
            assert_eq!(counts.failed.get(), 2);
        });
        assert_eq!(stdout, "");
        let first = message("'a/two words': read failed: Input/output error\n");
        let second = message(".: read failed: Input/output error\n");
        assert_eq!(stderr, first + &second);
    }
}

#[test]
fn a_trouble_names_its_path_once() {
    let scratch = tempfile::tempdir().unwrap();
    let source = scratch.path().join("not there");
    let error = Root::open(&source, &scratch.path().join("copy")).unwrap_err();
    let (_, stderr) = on_files(Verbosity::Normal, |reporter, counts| {
        reporter.report_walk_error(&error);
        assert_eq!(counts.failed.get(), 1);
    });
    let source = quoted(source.as_os_str());
    let rest = format!("{source}: cannot open directory: No such file or directory\n");
    assert_eq!(stderr, message(&rest));
}

#[test]
fn a_remark_is_no_failure() {
    let (stdout, stderr) = on_files(Verbosity::Json, |reporter, counts| {
        reporter.note(Path::new("a"), "cloned");
        assert_eq!(counts.failed.get(), 0);
    });
    assert_eq!(stdout, "");
    assert_eq!(stderr, message("a: cloned\n"));
}

#[test]
fn programs_are_told_of_complaints_too() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let (stdout, stderr) = on_files(Verbosity::Json, |reporter, _| {
        reporter.report_error(Path::new("two words"), &broken());
        reporter.report_error(Path::new(""), &broken());
        reporter.report_error(Path::new(OsStr::from_bytes(b"a\xff")), &broken());
    });
    let objects: Vec<String> = ["two words", ".", "a\u{fffd}"]
        .map(|path| {
            format!(
                "{{\"event\":\"error\",\"path\":\"{path}\",\"message\":\"read failed: Input/output error\"}}\n"
            )
        })
        .into();
    assert_eq!(stdout, objects.concat());
    assert_eq!(stderr.lines().count(), 3, "{stderr}");
}

#[test]
fn programs_are_told_how_far_the_copy_is() {
    let (stdout, stderr) = on_files(Verbosity::Json, |reporter, counts| {
        assert!(reporter.shows_progress());
        counts.bytes.add(2048);
        counts.files.add(1);
        draw(reporter, counts);
    });
    assert_eq!(
        stdout,
        "{\"event\":\"progress\",\"bytes\":2048,\"files\":1,\"bytes_per_second\":2048.0,\"total_bytes\":2048,\
         \"total_files\":1,\"total_is_final\":false,\"seconds\":1.0}\n"
    );
    assert_eq!(stderr, "");
}

#[test]
fn the_summary_goes_to_standard_output() {
    let summary = |verbosity| {
        let said = on_files(verbosity, |reporter, counts| {
            counts.files.add(1);
            let sums = [PathBuf::from("sums")];
            reporter
                .summarize(
                    Duration::from_secs(1),
                    &sums,
                    reporter.state(&Interrupt::default()),
                )
                .unwrap();
        });
        assert_eq!(said.1, "");
        said.0
    };
    assert_eq!(summary(Verbosity::Quiet), "");
    let words = summary(Verbosity::Normal);
    assert!(words.starts_with("1 file, ") && words.ends_with("digests in sums\n"));
    let object: serde_json::Value = serde_json::from_str(&summary(Verbosity::Json)).unwrap();
    assert_eq!(object["event"], "summary");
    assert_eq!(object["files"], 1);
    assert_eq!(object["sums"], "sums");
}

#[test]
fn a_standard_output_that_takes_nothing_is_an_error_but_for_who_has_nothing_to_say() {
    let full = File::create("/dev/full").unwrap();
    let closed = File::open("/dev/null").unwrap();
    for (stdout, errno) in [(&full, libc::ENOSPC), (&closed, libc::EBADF)] {
        for verbosity in [Verbosity::Quiet, Verbosity::Normal, Verbosity::Json] {
            let (counts, stderr) = (Counts::default(), tempfile::tempfile().unwrap());
            let reporter = reporter_on(
                verbosity,
                &counts,
                stdout.as_fd(),
                stderr.as_fd(),
                COLOURLESS,
            );
            // It does not matter yet.
            reporter.report_error(Path::new("a"), &broken());
            let said =
                reporter.summarize(Duration::ZERO, &[], reporter.state(&Interrupt::default()));
            match verbosity {
                Verbosity::Quiet => said.unwrap(),
                _ => assert_eq!(
                    said.unwrap_err().raw_os_error(),
                    Some(errno),
                    "{verbosity:?}"
                ),
            }
        }
    }
}

#[test]
fn where_standard_error_is_no_terminal_or_nothing_is_wanted_there_is_no_progress() {
    for verbosity in [Verbosity::Quiet, Verbosity::Normal] {
        let (stdout, stderr) = on_files(verbosity, |reporter, _| {
            assert!(!reporter.shows_progress());
            // It does not wait for the end.
            reporter.draw_until(&StopFlag::default(), &Total::default());
        });
        assert_eq!((stdout.as_str(), stderr.as_str()), ("", ""));
    }
    let (_user, program) = terminal();
    for verbosity in [Verbosity::Quiet, Verbosity::Json] {
        let (counts, stdout) = (Counts::default(), tempfile::tempfile().unwrap());
        let reporter = reporter_on(
            verbosity,
            &counts,
            stdout.as_fd(),
            program.as_fd(),
            COLOURLESS,
        );
        assert_eq!(reporter.shows_progress(), verbosity == Verbosity::Json);
    }
}

#[test]
fn a_terminal_does_not_stop_who_speaks_in_the_background() {
    let counts = Counts::default();
    let _face = Reporter::new(Verbosity::Quiet, &counts).unwrap();
    assert!(sys::is_ignored(libc::SIGTTOU));
}

#[test]
fn a_line_is_drawn_in_place_and_clipped_to_the_terminal() {
    let shown = on_terminal(COLOURLESS, |reporter, counts, _| {
        draw(reporter, counts);
        counts.bytes.add(1 << 20);
        draw(reporter, counts);
    });
    // The last column stays free.
    let line = "1.00MiB of 1.00MiB+, 1.00MiB/s, 0 of 0+";
    assert_eq!(line.len(), usize::from(COLUMNS) - 1);
    assert_eq!(before_the_end(&shown), [line]);
    assert!(screen(&shown).is_empty(), "it is taken away at the end");
}

/// Turns the echo of a terminal on or off, and asks for a password when it is off.
fn echo(terminal: &OwnedFd, echoes: bool) {
    let mut settings = rustix::termios::tcgetattr(terminal).unwrap();
    settings.local_modes.set(LocalModes::ECHO, echoes);
    rustix::termios::tcsetattr(terminal, OptionalActions::Now, &settings).unwrap();
    if !echoes {
        rustix::io::write(terminal, b"Password: ").unwrap();
    }
}

#[test]
fn nothing_is_drawn_over_a_prompt() {
    let shown = on_terminal(COLOURLESS, |reporter, counts, terminal| {
        echo(terminal, false);
        draw(reporter, counts);
        reporter.report_error(Path::new("b"), &broken());
        draw(reporter, counts);
    });
    assert_eq!(screen(&shown)[0], "Password:");
    assert!(screen(&shown)[1..].concat().contains("b: read failed"));
    assert!(!String::from_utf8(shown).unwrap().contains(" of "));
}

#[test]
fn the_line_is_drawn_below_a_prompt_when_the_terminal_echoes_again() {
    let shown = on_terminal(COLOURLESS, |reporter, counts, terminal| {
        draw(reporter, counts);
        echo(terminal, false);
        draw(reporter, counts);
        echo(terminal, true);
        draw(reporter, counts);
        draw(reporter, counts);
    });
    let line = "0.00  B of 0.00  B+, 0.00  B/s, 0 of 0+";
    let prompt_behind_line = [&format!("{line}P")[..], "assword:", line];
    assert_eq!(before_the_end(&shown), prompt_behind_line);
}

#[test]
fn a_complaint_stands_above_the_line_which_comes_back() {
    for sequences in [true, false] {
        let capabilities = Capabilities {
            sequences,
            ..COLOURLESS
        };
        let shown = on_terminal(capabilities, |reporter, counts, _| {
            draw(reporter, counts);
            reporter.note(Path::new("a"), "cloned");
            reporter.report_error(Path::new("b"), &broken());
        });
        let text = String::from_utf8(shown).unwrap();
        let line = "0.00  B of 0.00  B+, 0.00  B/s, 0 of 0+";
        let (end, away) = if sequences {
            ("\x1b[K", "\r\x1b[K".to_owned())
        } else {
            ("", format!("\r{:1$}\r", "", line.len()))
        };
        let (first, second) = (
            message("a: cloned"),
            message("b: read failed: Input/output error"),
        );
        assert_eq!(
            text,
            format!("\r{line}{end}{away}{first}\r\n{line}{away}{second}\r\n{line}{away}")
        );
    }
}

#[test]
fn the_line_has_gone_before_the_summary_comes() {
    let (user, program) = terminal();
    let shown = all_of(user);
    let counts = Counts::default();
    let fd = program.as_fd();
    let reporter = reporter_on(Verbosity::Normal, &counts, fd, fd, COLOURLESS);
    draw(&reporter, &counts);
    reporter
        .summarize(Duration::ZERO, &[], reporter.state(&Interrupt::default()))
        .unwrap();
    drop((reporter, program));
    assert_eq!(
        screen(&shown.join().unwrap()),
        [
            "0 files, 0 bytes in 0.000 s, 0.00B/s",
            "0 copied, 0 cloned, 0 linked, 0 skipped,",
            " 0 failed"
        ]
    );
}

#[test]
fn the_display_draws_until_the_end() {
    let (mut user, program) = terminal();
    let (counts, stop, total) = (Counts::default(), StopFlag::default(), Total::default());
    let nothing = File::create("/dev/null").unwrap();
    let reporter = reporter_on(
        Verbosity::Normal,
        &counts,
        nothing.as_fd(),
        program.as_fd(),
        COLOURLESS,
    );
    let mut shown = Vec::new();
    thread::scope(|scope| {
        let drawing = scope.spawn(|| reporter.draw_until(&stop, &total));
        let mut some = [0; 4096];
        while !shown.ends_with(b"\x1b[K") {
            let n = user.read(&mut some).unwrap();
            shown.extend_from_slice(&some[..n]);
        }
        stop.stop();
        drawing.join().unwrap();
    });
    assert_eq!(screen(&shown), ["0.00  B of 0.00  B+, 0.00  B/s, 0 of 0+"]);
    let rest = all_of(user);
    drop((reporter, program));
    shown.extend(rest.join().unwrap());
    assert!(screen(&shown).is_empty());
}

#[test]
fn a_stopped_terminal_holds_up_nobody_and_loses_no_message() {
    const MANY: usize = 5000;
    let shown = on_terminal(COLOURLESS, |reporter, counts, program| {
        draw(reporter, counts);
        rustix::termios::tcflow(program, Action::OOff).unwrap();
        for number in 0..MANY {
            reporter.note(Path::new(&number.to_string()), "copied");
            if number % 1000 == 0 {
                draw(reporter, counts);
            }
        }
        rustix::termios::tcflow(program, Action::OOn).unwrap();
    });
    let text = String::from_utf8(shown).unwrap();
    let found: Vec<&str> = text
        .lines()
        .filter(|line| line.ends_with("copied"))
        .collect();
    assert_eq!(found.len(), MANY);
    for (number, line) in found.into_iter().enumerate() {
        assert!(
            line.ends_with(&message(&format!("{number}: copied"))),
            "{line}"
        );
    }
}

#[test]
fn very_many_messages_wait_for_the_terminal() {
    let text = "x".repeat(100_000);
    let shown = on_terminal(COLOURLESS, |reporter, _, program| {
        rustix::termios::tcflow(program, Action::OOff).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..20 {
                    reporter.note(Path::new("a"), &text);
                }
            });
            rustix::termios::tcflow(program, Action::OOn).unwrap();
        });
    });
    let line = message(&format!("a: {text}\r\n"));
    assert_eq!(String::from_utf8(shown).unwrap(), line.repeat(20));
}
