//! The filter on the real kernel, each time in a thread of its own, which the filter ends with.

use clap::Parser;
use rustix::io::Errno as RustixErrno;
use rustix::pipe::SpliceFlags;

use super::sweep::{Tally, run_once};
use super::*;

#[derive(Debug, Parser)]
struct CommandLine {
    #[command(flatten)]
    args: Args,
}

fn parse(line: &str) -> Args {
    let words = std::iter::once("without").chain(line.split_whitespace());
    CommandLine::try_parse_from(words).unwrap().args
}

/// Tries each call under a filter, and returns the calls that fail with its errno.
fn refused_under(refusal: &Refusal) -> Vec<Call> {
    let failing = || {
        filter::install(refusal).unwrap();
        let errno = RustixErrno::from_raw_os_error(refusal.errno.number());
        let calls = Call::value_variants().iter().copied();
        calls
            .filter(|&call| attempt(call) == Err(errno))
            .collect::<Vec<_>>()
    };
    std::thread::scope(|scope| scope.spawn(failing).join().unwrap())
}

/// Makes a call that the kernel itself answers otherwise than a filter.
fn attempt(call: Call) -> rustix::io::Result<()> {
    let (reader, writer) = std::io::pipe().unwrap();
    let (_other_reader, other_writer) = std::io::pipe().unwrap();
    rustix::io::write(&writer, b"x").unwrap();
    let nothing = tempfile::tempfile().unwrap();
    let flags = SpliceFlags::NONBLOCK;
    match call {
        Call::Splice => {
            rustix::pipe::splice(&reader, None, &other_writer, None, 1, flags).map(drop)
        }
        Call::Tee => rustix::pipe::tee(&reader, &other_writer, 1, flags).map(drop),
        Call::Sendfile => rustix::fs::sendfile(&other_writer, &nothing, None, 1).map(drop),
        Call::CopyFileRange => {
            let sink = tempfile::tempfile().unwrap();
            rustix::fs::copy_file_range(&nothing, None, &sink, None, 1).map(drop)
        }
        // EOPNOTSUPP or EXDEV, but on a file system that shares blocks.
        Call::Ficlone => rustix::fs::ioctl_ficlone(tempfile::tempfile().unwrap(), &nothing),
    }
}

#[test]
fn a_filter_refuses_what_it_is_told_and_nothing_else() {
    for errno in Errno::value_variants() {
        for call in Call::value_variants() {
            let refusal = Refusal::new(&[*call], *errno);
            assert_eq!(refused_under(&refusal), [*call], "{refusal}");
        }
        let refusal = Refusal::new(&[], *errno);
        assert_eq!(refused_under(&refusal), Call::value_variants(), "{refusal}");
    }
    let allowed = Call::value_variants().iter();
    let lost = allowed.filter(|call| attempt(**call) == Err(RustixErrno::NOSYS));
    assert_eq!(lost.count(), 0, "a filter outlived its thread");
}

#[test]
fn a_command_and_its_children_are_filtered_and_told_so() {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        r#"grep -q '^Seccomp:.2' /proc/self/status || exit 9
        test "$ZCOPY_WITHOUT $ZCOPY_WITHOUT_ERRNO" = 'tee,ficlone EPERM' || exit 8
        echo 'test a ... ok'
        echo 'test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured; 5 filtered out'
        echo 'NEEDS A REFUSED CALL: a::b: tee' >&2
        exit 7"#,
    ]);
    let refusal = Refusal::new(&[Call::Ficlone, Call::Tee], Errno::Eperm);
    let mut printed = Vec::new();
    let (status, tally) = run_once(command, &refusal, &mut printed).unwrap();
    let printed = String::from_utf8(printed).unwrap();
    assert!(!printed.contains("test a ... ok"), "{printed}");
    assert!(printed.contains("3 passed; 1 failed"), "{printed}");
    assert_eq!(status.code(), Some(7));
    let expected = Tally {
        passed: 3,
        failed: 1,
        ignored: 2,
        needs_call: 1,
    };
    assert_eq!(tally, expected);
}

#[test]
fn results_of_several_programs_add_up() {
    let mut tally = Tally::default();
    for line in [
        "running 2 tests",
        "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        "SKIPPED: only root can do this test result: FAILED. 1 passed; 3 failed; 4 ignored",
        "test result: garbled",
    ] {
        tally.add_line(line);
    }
    assert_eq!((tally.passed, tally.failed, tally.ignored), (3, 3, 4));
}

#[test]
fn a_command_line_asks_for_these_runs() {
    let cases = [
        ("", vec!["ENOSYS all"]),
        ("--errno eperm", vec!["EPERM all"]),
        ("tee splice -- true", vec!["ENOSYS splice,tee"]),
        ("--each --errno EPERM sendfile", vec!["EPERM sendfile"]),
        (
            "--each --errno EPERM sendfile ficlone",
            vec!["EPERM sendfile", "EPERM ficlone", "EPERM sendfile,ficlone"],
        ),
        (
            "--each",
            vec![
                "ENOSYS splice",
                "ENOSYS tee",
                "ENOSYS sendfile",
                "ENOSYS copy_file_range",
                "ENOSYS ficlone",
                "ENOSYS all",
                "EPERM splice",
                "EPERM tee",
                "EPERM sendfile",
                "EPERM copy_file_range",
                "EPERM ficlone",
                "EPERM all",
            ],
        ),
    ];
    for (line, expected) in cases {
        let found = refusals(&parse(line));
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{line}");
    }
}
