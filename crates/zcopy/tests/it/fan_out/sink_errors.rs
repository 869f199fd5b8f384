//! One of three sinks fails: at once, half way or near the end, at every place and in every role.

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

use super::own_process::is_own_process;
use super::{Kind, TestSink, to_all};
use crate::endpoints::{Source, SourceKind, full, pipe, tcp};
use crate::files::{appending, assert_same, contents, file_in, pattern, reopen};
use crate::mounts::{Fs, loop_mount, mount_tmpfs};
use crate::refused::is_refused;

const LEN: usize = (2 << 20) + 7;
/// So many bytes the sink takes before it fails, or a little more: far from the end in any buffer's
/// terms.
const PLACES: [usize; 3] = [0, 700_000, LEN - 600_000];

const SOURCES: [SourceKind; 3] = [
    SourceKind::Pipe,
    SourceKind::Regular(Fs::Tmpfs),
    SourceKind::UnixStream,
];

/// The sink that fails.
#[derive(Clone, Debug)]
enum Victim {
    /// Its reader goes.
    Pipe,
    /// Its reader resets the connection.
    Tcp,
    /// It is on a file system that becomes full.
    File(PathBuf),
    Append(PathBuf),
    DevFull,
    /// It may grow to a limit.
    Limited,
    LimitedAppend,
}

/// How it is served when it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Teed,
    Private,
    TakesOut,
    Written,
}

/// The failing sink, and where to see what it took.
enum Doomed {
    Read(OwnedFd, JoinHandle<Vec<u8>>),
    Written(OwnedFd, File),
    Nothing(OwnedFd),
}

#[derive(Debug)]
struct Case {
    from: SourceKind,
    victim: Victim,
    role: Role,
    /// How many bytes it takes.
    takes: usize,
    index: usize,
    policy: OnSinkError,
}

impl Role {
    fn strategy(self) -> Strategy {
        match self {
            Self::Teed => Strategy::Tee,
            Self::Private => Strategy::SplicePipe,
            Self::TakesOut => Strategy::Splice,
            Self::Written => Strategy::Buffered,
        }
    }

    /// Other sinks that leave this role to the one that fails.
    fn others(self) -> [Kind; 2] {
        match self {
            Self::Teed => [Kind::Pipe, Kind::Tcp],
            Self::Private => [Kind::AppendedNull, Kind::Pipe],
            Self::TakesOut => [Kind::OneSlot, Kind::Pipe],
            Self::Written => [Kind::Pipe, Kind::Null],
        }
    }
}

impl Victim {
    fn roles(&self) -> &'static [Role] {
        match self {
            Self::Pipe => &[Role::Teed, Role::TakesOut, Role::Written],
            Self::Tcp | Self::File(_) | Self::Limited => {
                &[Role::Private, Role::TakesOut, Role::Written]
            }
            Self::Append(_) | Self::LimitedAppend | Self::DevFull => &[Role::Written],
        }
    }

    /// Whether it is written to though it would take a splice only if that is asked for.
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

    fn prepare(&self, takes: usize) -> Doomed {
        match self {
            Self::Pipe => {
                let (reader, writer) = pipe();
                Doomed::Read(writer, read_and_go(reader, takes))
            }
            Self::Tcp => {
                let (here, there) = tcp();
                sockopt::set_socket_send_buffer_size(&here, 64 << 10).unwrap();
                sockopt::set_socket_recv_buffer_size(&there, 64 << 10).unwrap();
                sockopt::set_socket_linger(&there, Some(Duration::ZERO)).unwrap();
                Doomed::Read(here, read_and_go(there, takes))
            }
            Self::File(dir) => {
                let file = file_in(dir, b"");
                Doomed::Written(reopen(&file, OFlags::WRONLY), file)
            }
            Self::Append(dir) => {
                let file = file_in(dir, b"");
                Doomed::Written(appending(&file), file)
            }
            Self::Limited => {
                let file = file_in(Path::new("/dev/shm"), b"");
                Doomed::Written(reopen(&file, OFlags::WRONLY), file)
            }
            Self::LimitedAppend => {
                let file = file_in(Path::new("/dev/shm"), b"");
                Doomed::Written(appending(&file), file)
            }
            Self::DevFull => Doomed::Nothing(full()),
        }
    }
}

/// Reads so many bytes and closes. If none, that has happened when this returns.
fn read_and_go(reader: OwnedFd, n: usize) -> JoinHandle<Vec<u8>> {
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

impl Doomed {
    fn fd(&self) -> &OwnedFd {
        match self {
            Self::Read(fd, _) | Self::Written(fd, _) | Self::Nothing(fd) => fd,
        }
    }

    /// Compares what it took with what it is said to have taken.
    fn check(self, said: u64, bytes: &[u8], takes: usize, what: &str) {
        let accepted = &bytes[..usize::try_from(said).unwrap()];
        match self {
            Self::Read(fd, reader) => {
                drop(fd);
                let read = reader.join().unwrap();
                assert_eq!(read.len(), takes, "{what}");
                // What it has accepted beyond that died with its reader.
                assert!(accepted.len() >= takes, "{what}: {said}");
                assert!(takes > 0 || said == 0, "{what}: {said}");
                assert_same(&read, &accepted[..takes], what);
            }
            Self::Written(_, file) => assert_same(&contents(&file), accepted, what),
            Self::Nothing(_) => assert_eq!(said, 0, "{what}"),
        }
    }
}

/// At every place, in every role, whether that stops the transfer or not.
fn every_case(victim: &Victim, from: SourceKind, takes: usize, bytes: &[u8]) {
    for &role in victim.roles() {
        for index in 0..3 {
            // Of pipes, the last takes the bytes out.
            let takes_out = matches!(victim, Victim::Pipe) && role == Role::TakesOut;
            if takes_out && index < 2 {
                continue;
            }
            for policy in [OnSinkError::Stop, OnSinkError::Detach] {
                let victim = victim.clone();
                let case = Case {
                    from,
                    victim,
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
        let doomed = self.victim.prepare(self.takes);
        let others = self.role.others().into_iter().map(TestSink::new);
        let Some(others) = others.collect::<Option<Vec<_>>>() else {
            return;
        };
        let mut fds: Vec<_> = others.iter().map(TestSink::fd).collect();
        fds.insert(self.index, doomed.fd());
        let mut transfer = to_all(&source.fd, &fds)
            .grow_pipes(false)
            .on_sink_error(self.policy);
        if self.victim.must_be_requested(self.role) {
            transfer = transfer.strategy(Strategy::Buffered);
        }
        if self.index == 1 {
            transfer = transfer.tick(Duration::from_millis(1));
        }
        let done = transfer.run();
        let report = match (&done, self.policy) {
            (Ok(report), OnSinkError::Detach) => {
                assert_eq!(report.ended(), Ended::Eof, "{what}: {report}");
                assert_eq!(report.bytes(), bytes.len() as u64, "{what}: {report}");
                report
            }
            (Err(error), OnSinkError::Stop) => {
                assert_eq!(error.side(), Side::Sink, "{what}: {error:#}");
                let errno = error.raw_os_error().unwrap();
                assert!(self.is_its(errno), "{what}: {error:#}");
                error.report()
            }
            (done, _) => panic!("{what}: {done:?}"),
        };
        let sinks = report.sinks();
        let failed = &sinks[self.index];
        // Of a sink that has taken nothing, read and write ask again in plain words; and nothing is
        // reserved of a disk that is nearly full, which is written to.
        let is_disk = matches!(self.victim, Victim::File(_));
        let is_written_to = failed.strategy() == Strategy::Buffered;
        let by_its_role = failed.strategy() == self.role.strategy();
        let is_refused = is_refused(Strategy::Tee);
        let by_writing = is_written_to && (failed.bytes() == 0 || is_disk || is_refused);
        assert!(by_its_role || by_writing, "{what}: {report}");
        let errno = failed.error().unwrap().raw_os_error().unwrap();
        assert!(self.is_its(errno), "{what}: {report}");
        nothing_is_lost(source, report, bytes, &what);

        let least = sinks
            .iter()
            .filter(|sink| sink.error().is_none() || self.policy == OnSinkError::Stop);
        let least = least.map(zcopy::SinkReport::bytes).min();
        assert_eq!(least, Some(report.bytes()), "{what}: {report}");
        let mut left: Vec<_> = sinks.iter().collect();
        let failed = left.remove(self.index);
        doomed.check(failed.bytes(), bytes, self.takes, &what);
        for (other, sink) in others.into_iter().zip(left) {
            assert!(sink.error().is_none(), "{what}: {report}");
            if let Some(arrived) = other.into_bytes(sink.bytes()) {
                let accepted = usize::try_from(sink.bytes()).unwrap();
                assert_same(&arrived, &bytes[..accepted], &what);
            }
        }
    }

    fn is_its(&self, errno: i32) -> bool {
        let errnos = self.victim.errnos().iter();
        errnos.map(|it| it.raw_os_error()).any(|it| it == errno)
    }
}

/// Asserts that the bytes that every sink has, those handed back and those left in the source are
/// the bytes of the source, in order.
fn nothing_is_lost(source: Source, report: &Report, bytes: &[u8], what: &str) {
    if let Some(cursor) = source.cursor() {
        assert_eq!(cursor, report.bytes(), "{what}: {report}");
        assert_eq!(report.undelivered(), b"", "{what}: a file is rewound");
    }
    let rest = [report.undelivered(), &source.into_rest()].concat();
    let accepted = usize::try_from(report.bytes()).unwrap();
    assert_same(&rest, &bytes[accepted..], &format!("{what}: {report}"));
}

fn every_place(victim: &Victim) {
    let bytes = pattern(LEN);
    for from in SOURCES {
        for takes in PLACES {
            every_case(victim, from, takes, &bytes);
        }
    }
}

#[test]
fn a_reader_of_a_pipe_goes() {
    every_place(&Victim::Pipe);
}

#[test]
fn a_connection_is_reset() {
    every_place(&Victim::Tcp);
}

#[test]
fn a_device_is_full() {
    let bytes = pattern(LEN);
    for from in SOURCES {
        every_case(&Victim::DevFull, from, 0, &bytes);
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
    for takes in PLACES {
        filler.set_len(fullest - takes as u64).unwrap();
        filler.sync_all().unwrap();
        for from in SOURCES {
            every_case(&Victim::File(root.dir()), from, takes, &bytes);
            every_case(&Victim::Append(root.dir()), from, takes, &bytes);
        }
    }
}

#[test]
fn a_file_reaches_the_limit_of_its_size() {
    if !is_own_process("sink_errors::a_file_reaches_the_limit_of_its_size", |_| ()) {
        return;
    }
    let bytes = pattern(LEN);
    // A file as a source is written before the limit is there.
    for from in [SourceKind::Pipe, SourceKind::UnixStream] {
        for takes in PLACES {
            limit_file_size(Some(takes as u64));
            every_case(&Victim::Limited, from, takes, &bytes);
            every_case(&Victim::LimitedAppend, from, takes, &bytes);
        }
    }
    limit_file_size(None);
}

/// The harness writes no files.
fn limit_file_size(bytes: Option<u64>) {
    let maximum = rustix::process::getrlimit(Resource::Fsize).maximum;
    let current = bytes.or(maximum);
    setrlimit(Resource::Fsize, Rlimit { current, maximum }).unwrap();
}

#[test]
fn no_sink_is_left() {
    let bytes = pattern(LEN);
    for from in SOURCES {
        for order in [
            [0, 700_000, 1_400_000],
            [1_400_000, 0, 700_000],
            [700_000; 3],
        ] {
            let victims = [Victim::Pipe, Victim::Tcp, Victim::Pipe];
            let doomed: Vec<_> = victims
                .iter()
                .zip(order)
                .map(|(it, takes)| it.prepare(takes))
                .collect();
            let fds: Vec<_> = doomed.iter().map(Doomed::fd).collect();
            let Some(source) = Source::new(from, &bytes) else {
                continue;
            };
            let report = to_all(&source.fd, &fds)
                .grow_pipes(false)
                .on_sink_error(OnSinkError::Detach)
                .run()
                .unwrap();
            let what = format!("{from:?}, {order:?}: {report}");
            assert_eq!(report.ended(), Ended::NoSink, "{what}");
            nothing_is_lost(source, &report, &bytes, &what);
            for ((doomed, sink), takes) in doomed.into_iter().zip(report.sinks()).zip(order) {
                assert!(sink.error().is_some(), "{what}");
                doomed.check(sink.bytes(), &bytes, takes, &what);
            }
        }
    }
}
