//! Memory that is refused while bytes are moved.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::Command;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zcopy::{Error, FilterTransfer, Relay, Report, Side, Strategy, Transfer, copy_buffered};

use crate::endpoints::{full, pipe};
use crate::files::{assert_same, contents, cursor, file, pattern, read_to_end};
use crate::interference::identity;
use crate::own_process::is_own_process;
#[cfg(target_env = "gnu")]
use crate::skip::report;

const LEN: usize = 300_000;

/// The amounts of memory, in bytes, that the process may have beyond what it has.
fn amounts() -> impl Iterator<Item = u64> {
    (0..24).map(|n| n * (32 << 10))
}

/// How the bytes reach the sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    Inspected,
    /// In small steps, each behind a splice into the private pipe.
    Rate,
    /// The sink refuses to splice.
    Appending,
    /// One is written to, the other one splices.
    TwoSinks,
}

/// Lets the allocator keep nothing that was freed, so that the limit refuses what exceeds it.
fn refuse_at_once(command: &mut Command) {
    command.env("MALLOC_MMAP_THRESHOLD_", "65536");
    command.env("MALLOC_TRIM_THRESHOLD_", "131072");
}

/// Returns how much private memory the process has, in bytes.
fn data_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let data = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    let kib = data.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() * 1024
}

/// Bytes for small allocations, without which a Rust program aborts. The heap of glibc keeps them;
/// musl takes pages for each size from the kernel.
const SMALL_ALLOCATIONS: u64 = if cfg!(target_env = "musl") {
    64 << 10
} else {
    0
};

/// Runs `run` in a process that may have this much more memory than it has, beside that for small
/// allocations.
fn with_memory<T>(amount: u64, run: impl FnOnce() -> T) -> T {
    let usual = getrlimit(Resource::Data);
    let current = Some(data_bytes() + SMALL_ALLOCATIONS + amount);
    // The heap keeps this memory, and gives it to small allocations.
    drop(std::hint::black_box(vec![0_u8; 60_000]));
    setrlimit(Resource::Data, Rlimit { current, ..usual }).unwrap();
    let result = run();
    setrlimit(Resource::Data, usual).unwrap();
    result
}

/// A pipe that holds these bytes, as a stream or in packets, and has no writer.
fn filled_pipe(bytes: &[u8], has_packets: bool) -> OwnedFd {
    let (reader, writer) = pipe();
    rustix::pipe::fcntl_setpipe_size(&writer, 1 << 20).unwrap();
    if has_packets {
        rustix::fs::fcntl_setfl(&writer, OFlags::DIRECT).unwrap();
    }
    for part in bytes.chunks(4000) {
        assert_eq!(rustix::io::write(&writer, part), Ok(part.len()));
    }
    reader
}

/// Checks that the sink, what was handed back and what is left are all bytes.
fn check(
    outcome: Result<Report, Error>,
    sink: &File,
    left: &[u8],
    bytes: &[u8],
    what: &str,
) -> bool {
    let arrived = contents(sink);
    match outcome {
        Ok(report) => {
            assert_eq!(report.bytes(), bytes.len() as u64, "{what}");
            assert_same(&arrived, bytes, what);
            true
        }
        Err(error) => {
            assert_eq!(error.side(), Side::Neither, "{what}: {error:#}");
            let errno = Some(Errno::NOMEM.raw_os_error());
            assert_eq!(error.raw_os_error(), errno, "{what}: {error:#}");
            assert_eq!(error.bytes(), arrived.len() as u64, "{what}: {error:#}");
            let all = [&arrived[..], error.undelivered(), left].concat();
            assert_same(&all, bytes, &format!("{what}: {error:#}"));
            false
        }
    }
}

#[test]
fn memory_that_is_refused_loses_no_byte_of_a_pipe() {
    let name = "refused_memory::memory_that_is_refused_loses_no_byte_of_a_pipe";
    if !is_own_process(name, refuse_at_once) {
        return;
    }
    let bytes = pattern(LEN);
    let mut n_failures = 0;
    for variant in [
        Variant::Inspected,
        Variant::Rate,
        Variant::Appending,
        Variant::TwoSinks,
    ] {
        for has_packets in [false, true] {
            let mut n_successes = 0;
            for amount in amounts() {
                let source = filled_pipe(&bytes, has_packets);
                let sink = file(b"");
                let (reader, other_sink) = pipe();
                rustix::pipe::fcntl_setpipe_size(&other_sink, 1 << 20).unwrap();
                let appending = crate::files::appending(&sink);
                let outcome = with_memory(amount, || {
                    let transfer = Transfer::new(&source, &sink);
                    match variant {
                        Variant::Inspected => transfer.inspect(|_| ()).run(),
                        Variant::Rate => transfer.rate_limit(100 << 20).run(),
                        Variant::Appending => Transfer::new(&source, &appending).run(),
                        Variant::TwoSinks => Transfer::new(&source, &appending)
                            .also_to(&other_sink)
                            .run(),
                    }
                });
                let what = format!("{variant:?}, packets: {has_packets}, {amount} bytes");
                let left = read_to_end(&source);
                let is_whole = check(outcome, &sink, &left, &bytes, &what);
                n_successes += usize::from(is_whole);
                n_failures += usize::from(!is_whole);
                drop((other_sink, reader));
            }
            assert!(n_successes > 0, "{variant:?}");
        }
    }
    assert!(n_failures > 0, "no memory was refused");
}

/// Filters a file that is long enough for a thread that reads ahead, into a file and into a full
/// device, with each of these amounts of memory. Returns how many runs succeeded, and how many were
/// refused memory.
fn filter_with(amounts: impl Iterator<Item = u64>) -> (usize, usize) {
    let bytes = pattern(3 << 20);
    let (mut n_successes, mut n_failures) = (0, 0);
    for amount in amounts {
        for (sink, is_full) in [(file(b""), false), (File::from(full()), true)] {
            let source = file(&bytes);
            let mut transfer = FilterTransfer::new(&sink, identity);
            let outcome = with_memory(amount, || transfer.run(&source));
            let what = format!("{amount} bytes: {outcome:?}");
            let report = match &outcome {
                Ok(report) => report,
                Err(error) => error.report(),
            };
            let is_refused = outcome
                .as_ref()
                .is_err_and(|error| error.side() == Side::Neither);
            n_successes += usize::from(outcome.is_ok());
            n_failures += usize::from(is_refused);
            assert!(is_full || outcome.is_ok() || is_refused, "{what}");
            let arrived = if is_full { Vec::new() } else { contents(&sink) };
            assert_eq!(report.bytes(), arrived.len() as u64, "{what}");
            let left = &bytes[cursor(&source) as usize..];
            let passed = report.undelivered();
            let all = [&arrived, passed, transfer.pending_input(), left].concat();
            assert_same(&all, &bytes, &what);
        }
    }
    (n_successes, n_failures)
}

/// Copying what the thread had read needed memory, and starting a thread without memory aborted the
/// process.
#[test]
fn memory_that_is_refused_loses_no_byte_behind_a_filter() {
    let name = "refused_memory::memory_that_is_refused_loses_no_byte_behind_a_filter";
    if !is_own_process(name, refuse_at_once) {
        return;
    }
    let (n_successes, n_failures) = filter_with((0..64).map(|n| n * (64 << 10)));
    assert!(n_successes > 0 && n_failures > 0, "{n_successes} successes");
}

/// Returns whether a thread reads ahead while a file is filtered.
#[cfg(target_env = "gnu")]
fn reads_ahead(source: &File) -> bool {
    let mut has_thread = false;
    let look = |input: zcopy::Input<'_>, output: &mut [u8]| {
        let mut tasks = std::fs::read_dir("/proc/self/task").unwrap();
        has_thread |= tasks.any(|task| {
            let comm = std::fs::read(task.unwrap().path().join("comm"));
            comm.is_ok_and(|comm| comm == b"zcopy-reader\n")
        });
        identity(input, output)
    };
    let sink = file(b"");
    FilterTransfer::new(&sink, look).run(source).unwrap();
    has_thread
}

/// The allocator gave all buffers, and had more, while the kernel refused a thread its memory: that
/// aborted the process. Of musl's allocator the test cannot ask to keep all memory.
#[cfg(target_env = "gnu")]
#[test]
fn no_thread_is_started_with_memory_that_only_the_allocator_has() {
    let name = "refused_memory::no_thread_is_started_with_memory_that_only_the_allocator_has";
    let keep_all = |command: &mut Command| {
        command.env("MALLOC_MMAP_THRESHOLD_", (32 << 20).to_string());
        command.env("MALLOC_TRIM_THRESHOLD_", (64 << 20).to_string());
    };
    if !is_own_process(name, keep_all) {
        return;
    }
    if std::thread::available_parallelism().is_ok_and(|n| n.get() == 1) {
        report("one processor: no thread reads ahead");
    } else {
        assert!(reads_ahead(&file(&pattern(3 << 20))));
    }
    drop(std::hint::black_box(vec![0_u8; 16 << 20]));
    let (n_successes, _) = filter_with((0..64).map(|n| n * (12 << 10)));
    assert_eq!(n_successes, 64, "of 64 files");
}

/// The rest of a prefix was copied for the error. If memory for the copy was refused, that rest was
/// lost after a failed write, and the process was aborted after a refused transfer.
#[test]
fn memory_that_is_refused_loses_no_byte_of_a_prefix() {
    let name = "refused_memory::memory_that_is_refused_loses_no_byte_of_a_prefix";
    if !is_own_process(name, refuse_at_once) {
        return;
    }
    for len in [10, 100_000, 8 << 20] {
        let (prefix, source) = (pattern(len), file(b"behind it"));
        let given = prefix.clone();
        let sink = full();
        let outcome = with_memory(0, || Transfer::new(&source, &sink).prefix(given).run());
        let error = outcome.unwrap_err();
        assert_eq!(error.bytes(), 0, "{error:#}");
        assert_same(error.undelivered(), &prefix, &format!("{len}: {error:#}"));
        assert_eq!(cursor(&source), 0, "{error:#}");

        // A directory is refused before anything moves.
        let (given, directory) = (prefix.clone(), File::open("/").unwrap());
        let outcome = with_memory(0, || Transfer::new(&directory, &sink).prefix(given).run());
        let error = outcome.unwrap_err();
        assert_same(error.undelivered(), &prefix, &format!("{len}: {error:#}"));

        // The session, or the direction of the relay, keeps the report of its failure.
        let given = prefix.clone();
        let (error, report) = with_memory(0, || {
            let transfer = Transfer::new(&source, &sink).prefix(given);
            let mut session = transfer.start().unwrap();
            let error = session.drive().unwrap_err();
            (error, session.finish().unwrap())
        });
        let what = format!("{len}: {error:#}");
        assert_same(error.undelivered(), &prefix, &what);
        assert_same(report.undelivered(), &prefix, &what);

        let (given, other) = (prefix.clone(), prefix.clone());
        let pairs = [UnixStream::pair().unwrap(), UnixStream::pair().unwrap()];
        // Both peers have gone, so that neither prefix arrives.
        let [a, b] = pairs.map(|(end, _)| end);
        let relay = Relay::new(&a, &b).prefix_from_a(given).prefix_from_b(other);
        let error = with_memory(0, || relay.run()).unwrap_err();
        let report = error.relay_report().unwrap();
        for direction in [report.a_to_b(), report.b_to_a()] {
            assert_same(direction.undelivered(), &prefix, &format!("{error:#}"));
        }
    }
}

/// The copy was not asked for: the process was aborted.
#[test]
fn memory_that_is_refused_leaves_buffered_bytes_in_their_reader() {
    let name = "refused_memory::memory_that_is_refused_leaves_buffered_bytes_in_their_reader";
    if !is_own_process(name, refuse_at_once) {
        return;
    }
    let bytes = pattern(LEN);
    let mut reader = BufReader::with_capacity(LEN, file(&bytes));
    assert_eq!(reader.fill_buf().unwrap().len(), LEN);
    let sink = file(b"");
    let error = with_memory(0, || copy_buffered(&mut reader, &sink)).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::NOMEM.raw_os_error()));
    assert_same(reader.buffer(), &bytes, "the reader");
    assert_eq!(
        copy_buffered(&mut reader, &sink).unwrap().bytes(),
        LEN as u64
    );
    assert_same(&contents(&sink), &bytes, "the sink");
}

/// It was kept until the transfer ended.
#[test]
fn the_memory_of_a_long_prefix_is_given_up_behind_it() {
    let name = "refused_memory::the_memory_of_a_long_prefix_is_given_up_behind_it";
    if !is_own_process(name, refuse_at_once) {
        return;
    }
    let prefix = pattern(16 << 20);
    let len = prefix.len() as u64;
    let sink = File::create("/dev/null").unwrap();
    let transfer = Transfer::new(File::open("/dev/zero").unwrap(), &sink);
    let transfer = transfer.strategy(Strategy::Buffered).prefix(prefix);
    let mut session = transfer.start().unwrap();
    let with_prefix = data_bytes();
    while session.progress().bytes() < 2 * len {
        let _ = session.step(1 << 20).unwrap();
    }
    assert!(data_bytes() + 15 * len / 16 < with_prefix);
}

#[test]
fn memory_that_is_refused_cuts_no_datagram() {
    if !is_own_process(
        "refused_memory::memory_that_is_refused_cuts_no_datagram",
        refuse_at_once,
    ) {
        return;
    }
    let message = pattern(100_000);
    let (mut n_successes, mut n_failures) = (0, 0);
    for amount in amounts() {
        let (sender, source) = UnixDatagram::pair().unwrap();
        sender.send(&message).unwrap();
        let sink = file(b"");
        let outcome = with_memory(amount, || {
            Transfer::new(&source, &sink)
                .limit(message.len() as u64)
                .run()
        });
        source.set_nonblocking(true).unwrap();
        let mut left = vec![0; message.len()];
        let n = source.recv(&mut left).unwrap_or(0);
        let what = format!("{amount} bytes");
        let is_whole = check(outcome, &sink, &left[..n], &message, &what);
        n_successes += usize::from(is_whole);
        n_failures += usize::from(!is_whole);
    }
    assert!(n_successes > 0 && n_failures > 0, "{n_successes} successes");
}
