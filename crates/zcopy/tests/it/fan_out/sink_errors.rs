//! One of three sinks fails, at each index and with each strategy, at once, half way or near the
//! end.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::process::{Resource, Rlimit, setrlimit};
use zcopy::{Ended, OnSinkError, Report, Side, Strategy};

use super::{Kind, TestSink, to_all};
use crate::endpoints::{Source, SourceKind, full, pipe, tcp};
use crate::files::{appending, assert_same, contents, file_in, pattern, reopen};
use crate::mounts::{Fs, loop_mount, mount_tmpfs};
use crate::own_process::is_own_process;
use crate::refused::is_refused;

const LEN: usize = (2 << 20) + 7;
/// The bytes that the sink takes, or slightly more, before it fails. The last is farther from the
/// end than any buffer is long.
const TAKES: [usize; 3] = [0, 700_000, LEN - 600_000];

const SOURCES: [SourceKind; 3] = [
    SourceKind::Pipe,
    SourceKind::Regular(Fs::Tmpfs),
    SourceKind::UnixStream,
];

/// The sink that fails.
#[derive(Clone, Debug)]
enum FailingKind {
    /// A pipe whose reader closes.
    Pipe,
    /// A connection that the reader resets.
    Tcp,
    /// A file on a file system that becomes full.
    File(PathBuf),
    Append(PathBuf),
    DevFull,
    /// A file that may grow to the limit `RLIMIT_FSIZE`.
    Limited,
    LimitedAppend,
}

/// The strategy by which the sink is served when it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Teed,
    PrivatePipe,
    Consumer,
    Written,
}

/// The sink that fails, with a way to read the bytes that it took.
enum FailingSink {
    Read(OwnedFd, JoinHandle<Vec<u8>>),
    Written(OwnedFd, File),
    Nothing(OwnedFd),
}

#[derive(Debug)]
struct Case {
    from: SourceKind,
    failing: FailingKind,
    role: Role,
    /// The bytes that the sink takes before it fails.
    takes: usize,
    index: usize,
    policy: OnSinkError,
}

impl Role {
    fn strategy(self) -> Strategy {
        match self {
            Self::Teed => Strategy::Tee,
            Self::PrivatePipe => Strategy::SplicePipe,
            Self::Consumer => Strategy::Splice,
            Self::Written => Strategy::Buffered,
        }
    }

    /// Other sinks, beside which the failing sink has this role.
    fn others(self) -> [Kind; 2] {
        match self {
            Self::Teed => [Kind::Pipe, Kind::Tcp],
            Self::PrivatePipe => [Kind::AppendedNull, Kind::Pipe],
            Self::Consumer => [Kind::OneSlot, Kind::Pipe],
            Self::Written => [Kind::Pipe, Kind::Null],
        }
    }
}

impl FailingKind {
    fn roles(&self) -> &'static [Role] {
        match self {
            Self::Pipe => &[Role::Teed, Role::Consumer, Role::Written],
            Self::Tcp | Self::File(_) | Self::Limited => {
                &[Role::PrivatePipe, Role::Consumer, Role::Written]
            }
            Self::Append(_) | Self::LimitedAppend | Self::DevFull => &[Role::Written],
        }
    }

    /// Whether the sink takes splices, so that it is written to only on request.
    fn must_be_requested(&self, role: Role) -> bool {
        let takes_splices = matches!(self, Self::Pipe | Self::Tcp | Self::File(_) | Self::Limited);
        role == Role::Written && takes_splices
    }

    fn errnos(&self) -> &'static [Errno] {
        match self {
            Self::Pipe => &[Errno::PIPE],
            Self::Tcp => &[Errno::PIPE, Errno::CONNRESET],
            Self::File(_) | Self::Append(_) | Self::DevFull => &[Errno::NOSPC],
            Self::Limited | Self::LimitedAppend => &[Errno::FBIG],
        }
    }

    fn prepare(&self, takes: usize) -> FailingSink {
        match self {
            Self::Pipe => {
                let (reader, writer) = pipe();
                FailingSink::Read(writer, read_and_close(reader, takes))
            }
            Self::Tcp => {
                let (here, there) = tcp();
                sockopt::set_socket_send_buffer_size(&here, 64 << 10).unwrap();
                sockopt::set_socket_recv_buffer_size(&there, 64 << 10).unwrap();
                sockopt::set_socket_linger(&there, Some(Duration::ZERO)).unwrap();
                FailingSink::Read(here, read_and_close(there, takes))
            }
            Self::File(dir) => {
                let file = file_in(dir, b"");
                FailingSink::Written(reopen(&file, OFlags::WRONLY), file)
            }
            Self::Append(dir) => {
                let file = file_in(dir, b"");
                FailingSink::Written(appending(&file), file)
            }
            Self::Limited => {
                let file = file_in(Path::new("/dev/shm"), b"");
                FailingSink::Written(reopen(&file, OFlags::WRONLY), file)
            }
            Self::LimitedAppend => {
                let file = file_in(Path::new("/dev/shm"), b"");
                FailingSink::Written(appending(&file), file)
            }
            Self::DevFull => FailingSink::Nothing(full()),
        }
    }
}

/// Starts a thread that reads `n` bytes and closes the reader. If `n` is 0, the reader is closed
/// when this returns.
fn read_and_close(reader: OwnedFd, n: usize) -> JoinHandle<Vec<u8>> {
    let read = move || {
        let mut bytes = vec![0; n];
        let mut filled = 0;
        while filled < n {
            match rustix::io::read(&reader, &mut bytes[filled..]).unwrap() {
                0 => break,
                read => filled += read,
            }
        }
        bytes.truncate(filled);
        bytes
    };
    if n == 0 {
        drop(read);
        return std::thread::spawn(Vec::new);
    }
    std::thread::spawn(read)
}

impl FailingSink {
    fn fd(&self) -> &OwnedFd {
        match self {
            Self::Read(fd, _) | Self::Written(fd, _) | Self::Nothing(fd) => fd,
        }
    }

    /// Compares the bytes that the sink took with those that the report counts for it.
    fn check(self, n_reported: u64, bytes: &[u8], takes: usize, what: &str) {
        let accepted = &bytes[..usize::try_from(n_reported).unwrap()];
        match self {
            Self::Read(fd, reader) => {
                drop(fd);
                let read = reader.join().unwrap();
                assert_eq!(read.len(), takes, "{what}");
                // The bytes that it accepted beyond that were lost with its reader.
                assert!(accepted.len() >= takes, "{what}: {n_reported}");
                assert!(takes > 0 || n_reported == 0, "{what}: {n_reported}");
                assert_same(&read, &accepted[..takes], what);
            }
            Self::Written(_, file) => assert_same(&contents(&file), accepted, what),
            Self::Nothing(_) => assert_eq!(n_reported, 0, "{what}"),
        }
    }
}

/// Runs a case for each role, each index, and both policies.
fn every_case(failing: &FailingKind, from: SourceKind, takes: usize, bytes: &[u8]) {
    for &role in failing.roles() {
        for index in 0..3 {
            // Of several pipes, the last one consumes the bytes.
            let is_consumer = matches!(failing, FailingKind::Pipe) && role == Role::Consumer;
            if is_consumer && index < 2 {
                continue;
            }
            for policy in [OnSinkError::Stop, OnSinkError::Detach] {
                let failing = failing.clone();
                let case = Case {
                    from,
                    failing,
                    role,
                    takes,
                    index,
                    policy,
                };
                case.run(bytes);
            }
        }
    }
}

impl Case {
    fn run(self, bytes: &[u8]) {
        let what = format!("{self:?}");
        let Some(source) = Source::new(self.from, bytes) else {
            return;
        };
        let failing_sink = self.failing.prepare(self.takes);
        let others = self.role.others().into_iter().map(TestSink::new);
        let Some(others) = others.collect::<Option<Vec<_>>>() else {
            return;
        };
        let mut fds: Vec<_> = others.iter().map(TestSink::fd).collect();
        fds.insert(self.index, failing_sink.fd());
        let mut transfer = to_all(&source.fd, &fds)
            .grow_pipes(false)
            .on_sink_error(self.policy);
        if self.failing.must_be_requested(self.role) {
            transfer = transfer.strategy(Strategy::Buffered);
        }
        if self.index == 1 {
            transfer = transfer.tick(Duration::from_millis(1));
        }
        let outcome = transfer.run();
        let report = match (&outcome, self.policy) {
            (Ok(report), OnSinkError::Detach) => {
                assert_eq!(report.ended(), Ended::Eof, "{what}: {report:#}");
                assert_eq!(report.bytes(), bytes.len() as u64, "{what}: {report:#}");
                report
            }
            (Err(error), OnSinkError::Stop) => {
                assert_eq!(error.side(), Side::Sink, "{what}: {error:#}");
                let errno = error.raw_os_error().unwrap();
                assert!(self.is_expected(errno), "{what}: {error:#}");
                error.report()
            }
            (outcome, _) => panic!("{what}: {outcome:?}"),
        };
        let sinks = report.sinks();
        let failed = &sinks[self.index];
        // If a sink has taken nothing, read and write repeat the call, to get its error. Nothing is
        // reserved of a disk that is nearly full: it is written to.
        let is_disk = matches!(self.failing, FailingKind::File(_));
        let is_written_to = failed.strategy() == Some(Strategy::Buffered);
        let has_its_role = failed.strategy() == Some(self.role.strategy());
        let is_refused = is_refused(Strategy::Tee);
        let by_writing = is_written_to && (failed.bytes() == 0 || is_disk || is_refused);
        assert!(has_its_role || by_writing, "{what}: {report:#}");
        let errno = failed.error().unwrap().raw_os_error().unwrap();
        assert!(self.is_expected(errno), "{what}: {report:#}");
        assert_nothing_lost(source, report, bytes, &what);

        let fewest = sinks
            .iter()
            .filter(|sink| sink.error().is_none() || self.policy == OnSinkError::Stop);
        let fewest = fewest.map(zcopy::SinkReport::bytes).min();
        assert_eq!(fewest, Some(report.bytes()), "{what}: {report:#}");
        let mut left: Vec<_> = sinks.iter().collect();
        let failed = left.remove(self.index);
        failing_sink.check(failed.bytes(), bytes, self.takes, &what);
        for (other, sink) in others.into_iter().zip(left) {
            assert!(sink.error().is_none(), "{what}: {report:#}");
            if let Some(arrived) = other.into_bytes(sink.bytes()) {
                let accepted = usize::try_from(sink.bytes()).unwrap();
                assert_same(&arrived, &bytes[..accepted], &what);
            }
        }
    }

    fn is_expected(&self, errno: i32) -> bool {
        let errnos = self.failing.errnos().iter();
        errnos.map(|it| it.raw_os_error()).any(|it| it == errno)
    }
}

/// Asserts that the bytes that every sink has, those handed back and those left in the source are
/// the bytes of the source, in order.
fn assert_nothing_lost(source: Source, report: &Report, bytes: &[u8], what: &str) {
    if let Some(cursor) = source.cursor() {
        assert_eq!(cursor, report.bytes(), "{what}: {report:#}");
        assert_eq!(report.undelivered(), b"", "{what}: a file is rewound");
    }
    let rest = [report.undelivered(), &source.into_rest()].concat();
    let accepted = usize::try_from(report.bytes()).unwrap();
    assert_same(&rest, &bytes[accepted..], &format!("{what}: {report:#}"));
}

fn every_number_of_bytes(failing: &FailingKind) {
    let bytes = pattern(LEN);
    for from in SOURCES {
        for takes in TAKES {
            every_case(failing, from, takes, &bytes);
        }
    }
}

#[test]
fn a_reader_of_a_pipe_goes() {
    every_number_of_bytes(&FailingKind::Pipe);
}

#[test]
fn a_connection_is_reset() {
    every_number_of_bytes(&FailingKind::Tcp);
}

#[test]
fn a_device_is_full() {
    let bytes = pattern(LEN);
    for from in SOURCES {
        every_case(&FailingKind::DevFull, from, 0, &bytes);
    }
}

#[test]
fn a_tmpfs_becomes_full() {
    fill_up(mount_tmpfs(8));
}

#[test]
fn an_ext4_becomes_full() {
    fill_up(loop_mount("ext4", 8));
}

fn fill_up(root: Option<crate::mounts::Root>) {
    let Some(root) = root else {
        return;
    };
    let bytes = pattern(LEN);
    let mut filler = file_in(&root.dir(), b"");
    let block = vec![1; 64 << 10];
    while filler.write_all(&block).is_ok() {}
    filler.sync_all().unwrap();
    let fullest = filler.metadata().unwrap().len();
    for takes in TAKES {
        filler.set_len(fullest - takes as u64).unwrap();
        filler.sync_all().unwrap();
        for from in SOURCES {
            every_case(&FailingKind::File(root.dir()), from, takes, &bytes);
            every_case(&FailingKind::Append(root.dir()), from, takes, &bytes);
        }
    }
}

#[test]
fn a_file_reaches_the_limit_of_its_size() {
    if !is_own_process(
        "fan_out::sink_errors::a_file_reaches_the_limit_of_its_size",
        |_| (),
    ) {
        return;
    }
    let bytes = pattern(LEN);
    // Files are no sources here: the limit would keep the test from writing them.
    for from in [SourceKind::Pipe, SourceKind::UnixStream] {
        for takes in TAKES {
            limit_file_size(Some(takes as u64));
            every_case(&FailingKind::Limited, from, takes, &bytes);
            every_case(&FailingKind::LimitedAppend, from, takes, &bytes);
        }
    }
    limit_file_size(None);
}

/// Limits the size of the files of this process. The test harness writes none.
fn limit_file_size(bytes: Option<u64>) {
    let maximum = rustix::process::getrlimit(Resource::Fsize).maximum;
    let current = bytes.or(maximum);
    setrlimit(Resource::Fsize, Rlimit { current, maximum }).unwrap();
}

#[test]
fn no_sink_is_left() {
    let bytes = pattern(LEN);
    for from in SOURCES {
        for takes_each in [
            [0, 700_000, 1_400_000],
            [1_400_000, 0, 700_000],
            [700_000; 3],
        ] {
            let kinds = [FailingKind::Pipe, FailingKind::Tcp, FailingKind::Pipe];
            let failing_sinks: Vec<_> = kinds
                .iter()
                .zip(takes_each)
                .map(|(it, takes)| it.prepare(takes))
                .collect();
            let fds: Vec<_> = failing_sinks.iter().map(FailingSink::fd).collect();
            let Some(source) = Source::new(from, &bytes) else {
                continue;
            };
            let report = to_all(&source.fd, &fds)
                .grow_pipes(false)
                .on_sink_error(OnSinkError::Detach)
                .run()
                .unwrap();
            let what = format!("{from:?}, {takes_each:?}: {report:#}");
            assert_eq!(report.ended(), Ended::NoSink, "{what}");
            assert_nothing_lost(source, &report, &bytes, &what);
            for ((failing_sink, sink), takes) in failing_sinks
                .into_iter()
                .zip(report.sinks())
                .zip(takes_each)
            {
                assert!(sink.error().is_some(), "{what}");
                failing_sink.check(sink.bytes(), &bytes, takes, &what);
            }
        }
    }
}
