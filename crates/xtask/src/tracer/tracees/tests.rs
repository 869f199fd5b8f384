use std::fs::{self, File};
use std::io::{IoSlice, IoSliceMut, Read, Seek, Write, pipe};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::io::ReadWriteFlags;
use rustix::pipe::SpliceFlags;
use tempfile::{NamedTempFile, TempDir};

use crate::tracer::{
    Amount, Call, Ending, Extent, Intervention, Shortened, Shortening, Traced, command, run,
};

/// Long enough for any program here, also on a machine that is busy.
const LIMIT: Duration = Duration::from_secs(60);

fn once(call: Call, first: u32, amount: Amount) -> Shortening {
    Shortening {
        call,
        first,
        extent: Extent::Once,
        amount,
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n % 251) as u8).collect()
}

fn file(len: usize) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(&bytes(len)).unwrap();
    file
}

/// A run, and what the program wrote.
struct Captured {
    traced: Traced,
    stdout: Vec<u8>,
    stderr: String,
}

fn capture(mut command: Command, intervention: Option<Intervention>, limit: Duration) -> Captured {
    let (stdout, stderr) = (NamedTempFile::new().unwrap(), NamedTempFile::new().unwrap());
    command.stdout(stdout.reopen().unwrap());
    command.stderr(stderr.reopen().unwrap());
    let traced = run(command, intervention, limit).unwrap();
    Captured {
        traced,
        stdout: fs::read(stdout.path()).unwrap(),
        stderr: fs::read_to_string(stderr.path()).unwrap(),
    }
}

/// Whether the kernel moved less than it would have: a call moved all of its lower count.
fn is_effective(traced: &Traced) -> bool {
    let moved_all = |call: &Shortened| u64::try_from(call.result) == Ok(call.to);
    traced.shortened.iter().any(moved_all)
}

/// `dd` from a file to a pipe, in blocks of 1,000 bytes. It makes one read and one write a block,
/// and reports on standard error.
fn dd(input: &Path) -> Command {
    let mut dd = command("dd");
    dd.arg("bs=1000").arg(format!("if={}", input.display()));
    dd.env("LC_ALL", "C");
    dd
}

#[test]
fn a_program_runs_as_ever_if_no_count_is_lowered() {
    let input = file(10_000);
    let Captured {
        traced,
        stdout,
        stderr,
    } = capture(dd(input.path()), None, LIMIT);
    assert_eq!(traced.ending, Ending::Exited(0));
    assert_eq!(stdout, bytes(10_000));
    assert!(stderr.starts_with("10+0 records in\n"), "{stderr}");
    let reads = &traced.results[&Call::Read];
    assert!(reads.ends_with(&[1000, 1000, 1000, 0]), "{reads:?}");
}

#[test]
fn a_read_is_short_and_the_next_one_reads_what_is_left() {
    let input = file(10_000);
    // dd may make other reads before.
    let whole = capture(dd(input.path()), None, LIMIT).traced;
    let reads = u32::try_from(whole.results[&Call::Read].len()).unwrap();
    let shortening = once(Call::Read, reads - 8, Amount::Half);
    let run = capture(
        dd(input.path()),
        Some(Intervention::Shorten(shortening)),
        LIMIT,
    );
    let Captured {
        traced,
        stdout,
        stderr,
    } = run;
    assert_eq!(traced.ending, Ending::Exited(0));
    assert_eq!(stdout, bytes(10_000));
    assert!(stderr.starts_with("9+2 records in\n"), "{stderr}");
    let [shortened] = &traced.shortened[..] else {
        panic!("{:?}", traced.shortened);
    };
    assert_eq!(
        (shortened.from, shortened.to, shortened.result),
        (1000, 500, 500)
    );
    let path = input.path().display();
    assert_eq!(shortened.fds, format!("0 ({path})"));
    assert!(is_effective(&traced));
}

#[test]
fn all_calls_from_one_on_are_short() {
    let input = file(100);
    let shortening = Shortening {
        call: Call::Write,
        first: 1,
        extent: Extent::FromThen,
        amount: Amount::One,
    };
    let mut dd = dd(input.path());
    dd.arg("status=none");
    let Captured { traced, stdout, .. } =
        capture(dd, Some(Intervention::Shorten(shortening)), LIMIT);
    assert_eq!(stdout, bytes(100));
    assert_eq!(traced.results[&Call::Write].len(), 100);
    // The last byte's count is 1 already.
    assert_eq!(traced.shortened.len(), 99);
}

#[test]
fn a_call_beyond_the_last_is_reported_as_not_reached() {
    let input = file(10_000);
    let shortening = once(Call::Write, 1000, Amount::One);
    let traced = capture(
        dd(input.path()),
        Some(Intervention::Shorten(shortening)),
        LIMIT,
    )
    .traced;
    assert_eq!(traced.ending, Ending::Exited(0));
    assert!(!traced.is_reached() && !is_effective(&traced));
}

#[test]
fn the_calls_of_children_are_counted_and_lowered() {
    let input = file(10_000);
    let mut shell = command("sh");
    shell.args([
        "-c",
        "dd status=none bs=1000 | dd status=none bs=1000; exit 7",
    ]);
    shell.stdin(File::open(input.path()).unwrap());
    let shortening = once(Call::Write, 20, Amount::One);
    let Captured { traced, stdout, .. } =
        capture(shell, Some(Intervention::Shorten(shortening)), LIMIT);
    assert_eq!(traced.ending, Ending::Exited(7));
    assert_eq!(stdout, bytes(10_000));
    assert!(is_effective(&traced), "{traced:?}");
}

#[test]
fn a_program_that_cannot_be_run_is_an_error() {
    let mut missing = command("/missing/program");
    missing.stderr(Stdio::null());
    let error = run(missing, None, LIMIT).unwrap_err();
    assert!(error.to_string().contains("could not run"), "{error}");
}

#[test]
fn a_signal_that_kills_the_program_is_its_ending() {
    let mut shell = command("sh");
    shell.args(["-c", "kill -TERM $$"]);
    assert_eq!(run(shell, None, LIMIT).unwrap().ending, Ending::Killed(15));
}

#[test]
fn a_program_that_hangs_is_killed_with_its_children() {
    let mut shell = command("sh");
    shell.args(["-c", "sleep 1000 & echo $! $$; exec sleep 1000"]);
    let run = capture(shell, None, Duration::from_millis(300));
    assert_eq!(run.traced.ending, Ending::Hung);
    let output = String::from_utf8(run.stdout).unwrap();
    let processes: Vec<&str> = output.split_whitespace().collect();
    assert_eq!(processes.len(), 2);
    for process in processes {
        // One that its parent has not waited for is a zombie.
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        assert!(
            status.is_empty() || status.contains("Z (zombie)"),
            "{status}"
        );
    }
}

#[test]
fn a_process_that_outlives_the_program_is_killed_when_the_time_is_over() {
    let mut shell = command("sh");
    shell.args(["-c", "sleep 1000 & exit 0"]);
    let traced = run(shell, None, Duration::from_millis(300)).unwrap();
    assert_eq!(traced.ending, Ending::Hung);
}

#[test]
fn a_file_with_o_direct_gets_whole_blocks() {
    let input = file(16_384);
    let directory = TempDir::new().unwrap();
    let output = directory.path().join("output");
    let write = |block: usize| {
        let mut dd = dd(input.path());
        dd.arg(format!("of={}", output.display()));
        dd.arg(format!("bs={block}")).arg("oflag=direct");
        run(
            dd,
            Some(Intervention::Shorten(once(Call::Write, 1, Amount::One))),
            LIMIT,
        )
        .unwrap()
    };

    let traced = write(8192);
    assert_eq!(traced.ending, Ending::Exited(0), "{traced:?}");
    let [shortened] = &traced.shortened[..] else {
        panic!("{:?}", traced.shortened);
    };
    assert_eq!((shortened.to, shortened.result), (4096, 4096));
    assert_eq!(fs::read(&output).unwrap(), bytes(16_384));

    let traced = write(4096);
    assert_eq!(traced.ending, Ending::Exited(0));
    assert_eq!((traced.is_reached(), traced.left_alone), (false, 1));
    assert_eq!(fs::read(&output).unwrap(), bytes(16_384));
}

/// Every call with a count, each made by [`tracee`] with a count of 1,000.
const CALLS: [Call; 14] = [
    Call::Read,
    Call::Write,
    Call::Pread64,
    Call::Pwrite64,
    Call::Readv,
    Call::Writev,
    Call::Preadv,
    Call::Pwritev,
    Call::Preadv2,
    Call::Pwritev2,
    Call::Splice,
    Call::Tee,
    Call::Sendfile,
    Call::CopyFileRange,
];

/// The name under which [`tracee`] learns what to do.
const TRACEE: &str = "ZCOPY_TRACEE";

/// This test's program, which does what `job` says in a thread of its own.
fn this_program(job: &str) -> Command {
    let mut program = command(std::env::current_exe().unwrap());
    program.args(["--exact", "tracer::tracees::tests::tracee"]);
    program.arg("--nocapture").env(TRACEE, job);
    program.stdout(Stdio::null());
    program
}

#[test]
fn each_call_has_its_count_lowered_in_a_thread_of_a_program_without_libc() {
    for call in CALLS {
        let job = call.to_string();
        let whole = run(this_program(&job), None, LIMIT).unwrap();
        assert_eq!(whole.ending, Ending::Exited(100), "{call}");
        // The program fills its files and pipes before.
        let results = &whole.results[&call];
        let number = results.iter().rposition(|&result| result == 1000);
        let number = number.unwrap();
        let number = u32::try_from(number).unwrap() + 1;
        for (amount, moved, status) in [
            (Amount::One, 1, 0),
            (Amount::Half, 500, 50),
            (Amount::AllButOne, 999, 99),
        ] {
            let shortening = once(call, number, amount);
            let traced = run(
                this_program(&job),
                Some(Intervention::Shorten(shortening)),
                LIMIT,
            )
            .unwrap();
            let [shortened] = &traced.shortened[..] else {
                panic!("{call}: {traced:?}");
            };
            assert_eq!(shortened.from, 1000, "{shortened}");
            assert_eq!(shortened.to, moved, "{shortened}");
            assert_eq!(shortened.result.cast_unsigned(), moved, "{shortened}");
            // The result that the program saw, in tenths.
            assert_eq!(traced.ending, Ending::Exited(status), "{call}");
        }
    }
}

#[test]
fn threads_that_end_before_their_parent_is_heard_are_forgotten() {
    let traced = run(this_program("threads"), None, LIMIT).unwrap();
    assert_eq!(traced.ending, Ending::Exited(7));
}

#[test]
fn an_event_is_left_alone() {
    let traced = run(
        this_program("event"),
        Some(Intervention::Shorten(Shortening {
            call: Call::Read,
            first: 1,
            extent: Extent::FromThen,
            amount: Amount::AllButOne,
        })),
        LIMIT,
    );
    let traced = traced.unwrap();
    assert_eq!(traced.ending, Ending::Exited(8));
    assert_eq!(traced.left_alone, 1);
}

/// Not a test, but the program that others trace: it makes one call, and exits with a tenth of what
/// that returned.
#[test]
fn tracee() {
    let Ok(job) = std::env::var(TRACEE) else {
        return;
    };
    if job == "event" {
        let flags = rustix::event::EventfdFlags::empty();
        let event = rustix::event::eventfd(1, flags).unwrap();
        exit_with(rustix::io::read(&event, &mut [0; 8]).unwrap());
    }
    if job == "threads" {
        for _ in 0..500 {
            std::thread::spawn(|| ()).join().unwrap();
        }
        exit_with(7);
    }
    let moved = std::thread::spawn(move || make(&job)).join().unwrap();
    exit_with(moved / 10);
}

fn exit_with(status: usize) -> ! {
    std::process::exit(i32::try_from(status).unwrap())
}

/// Makes a call that moves 1,000 bytes if its count is whole.
fn make(call: &str) -> usize {
    let (mut source, mut sink) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    let mut buffer = bytes(1000);
    source.write_all(&buffer).unwrap();
    source.rewind().unwrap();
    let (pipe_reader, mut pipe_writer) = pipe().unwrap();
    let (_other_reader, other_writer) = pipe().unwrap();
    let flags = SpliceFlags::empty();
    let no_flags = ReadWriteFlags::empty();

    // The first of three vectors is whole at half of the bytes.
    let (first, rest) = buffer.split_at_mut(300);
    let (second, third) = rest.split_at_mut(600);
    if call.starts_with("read") || call.starts_with("preadv") {
        let vectors = &mut [first, second, third].map(IoSliceMut::new);
        let moved = match call {
            "read" => return rustix::io::read(&source, &mut buffer).unwrap(),
            "readv" => rustix::io::readv(&source, vectors).unwrap(),
            "preadv" => rustix::io::preadv(&source, vectors, 0).unwrap(),
            _ => rustix::io::preadv2(&source, vectors, 0, no_flags).unwrap(),
        };
        let lengths = vectors.each_ref().map(|vector| vector.len());
        assert_eq!(
            lengths,
            [300, 600, 100],
            "they are what they were before the call"
        );
        return moved;
    }
    if call.contains("writev") {
        let vectors = &[&*first, &*second, &*third].map(IoSlice::new);
        let moved = match call {
            "writev" => rustix::io::writev(&sink, vectors).unwrap(),
            "pwritev" => rustix::io::pwritev(&sink, vectors, 0).unwrap(),
            _ => rustix::io::pwritev2(&sink, vectors, 0, no_flags).unwrap(),
        };
        let lengths = vectors.each_ref().map(|vector| vector.len());
        assert_eq!(
            lengths,
            [300, 600, 100],
            "they are what they were before the call"
        );
        let mut written = Vec::new();
        sink.rewind().unwrap();
        sink.read_to_end(&mut written).unwrap();
        assert_eq!(written, buffer[..moved]);
        return moved;
    }
    match call {
        "write" => rustix::io::write(&sink, &buffer).unwrap(),
        "pread64" => rustix::io::pread(&source, &mut buffer, 0).unwrap(),
        "pwrite64" => rustix::io::pwrite(&sink, &buffer, 0).unwrap(),
        "sendfile" => rustix::fs::sendfile(&sink, &source, None, 1000).unwrap(),
        "copy_file_range" => rustix::fs::copy_file_range(&source, None, &sink, None, 1000).unwrap(),
        "splice" => {
            let pipe = pipe_writer.as_fd();
            rustix::pipe::splice(&source, None, pipe, None, 1000, flags).unwrap()
        }
        "tee" => {
            pipe_writer.write_all(&buffer).unwrap();
            rustix::pipe::tee(&pipe_reader, &other_writer, 1000, flags).unwrap()
        }
        _ => panic!("no job is called {call}"),
    }
}

#[test]
fn a_program_is_killed_as_it_enters_a_call() {
    let dir = TempDir::new().unwrap();
    let made = |kill: Option<Intervention>| {
        let path = dir.path().join("made");
        let _ = fs::remove_dir(&path);
        let mut command = command("mkdir");
        command.arg(&path);
        let traced = run(command, kill, LIMIT).unwrap();
        (traced, path.exists())
    };
    let (traced, is_made) = made(None);
    assert_eq!((traced.ending, is_made), (Ending::Exited(0), true));
    let mut states = Vec::new();
    for nth in 1..=traced.n_calls {
        let (traced, is_made) = made(Some(Intervention::Kill { nth }));
        assert_eq!(traced.ending, Ending::Killed(9), "{nth}");
        assert_eq!(traced.n_calls, nth);
        states.push(is_made);
    }
    // A kill before `mkdir` leaves no directory, and a kill after it leaves one.
    states.dedup();
    assert_eq!(states, [false, true]);
}
