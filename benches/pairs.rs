//! The pairs of descriptors that the benchmarks move bytes between, and the ways to move them.
//!
//! Sources are warm in the page cache, targets are fresh. Peers (the writer of a source pipe, the
//! reader of a sink) are threads of this process. What is timed is the transfer alone: from the
//! call until it returns.

#![allow(
    clippy::expect_used,
    reason = "a benchmark that cannot run says why and ends"
)]
#![allow(
    clippy::cast_precision_loss,
    reason = "throughput is shown with three digits"
)]

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use rustix::pipe::{SpliceFlags, splice, tee};
use zcopy::{Strategy, Transfer};

const MIB: usize = 1 << 20;

/// A way to move bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mover {
    /// `Transfer` as the plan decides.
    Plan,
    /// `Transfer` with one strategy forced.
    Forced(Strategy),
    /// `std::io::copy`.
    Std,
}

/// A pair of descriptors to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) name: &'static str,
    /// The strategies that can serve it.
    pub(crate) strategies: &'static [Strategy],
    source: Source,
    sink: Sink,
}

#[derive(Clone, Copy, Debug)]
enum Source {
    Ext4,
    Tmpfs,
    /// A pipe that is written to in blocks of 128 KiB.
    WrittenPipe,
    /// A pipe that is tee'd into.
    TeedPipe,
    Tcp,
    Unix,
}

#[derive(Clone, Copy, Debug)]
enum Sink {
    Null,
    Ext4,
    Tmpfs,
    /// A pipe that is spliced from.
    SplicedPipe,
    /// A pipe that is read in blocks of 256 KiB.
    ReadPipe,
    Tcp,
    Unix,
}

/// Every pair of `KERNEL.md` §2 that a machine without special file systems has.
pub(crate) const PAIRS: &[Pair] = {
    use Strategy::{Buffered, CopyFileRange, Sendfile, Splice, SplicePipe};
    const FILE_TO_FILE: &[Strategy] = &[CopyFileRange, Sendfile, SplicePipe, Buffered];
    const ACROSS: &[Strategy] = &[Sendfile, SplicePipe, Buffered];
    const WITH_PIPE: &[Strategy] = &[Sendfile, Splice, SplicePipe, Buffered];
    const FROM_PIPE: &[Strategy] = &[Splice, SplicePipe, Buffered];
    const FROM_SOCKET: &[Strategy] = &[SplicePipe, Buffered];
    &[
        pair("file_to_null", Source::Ext4, Sink::Null, ACROSS),
        pair("file_to_pipe", Source::Ext4, Sink::SplicedPipe, WITH_PIPE),
        pair("file_to_pipe_read", Source::Ext4, Sink::ReadPipe, WITH_PIPE),
        pair("tmpfs_to_pipe", Source::Tmpfs, Sink::SplicedPipe, WITH_PIPE),
        pair("file_to_tcp", Source::Ext4, Sink::Tcp, ACROSS),
        pair("tmpfs_to_tcp", Source::Tmpfs, Sink::Tcp, ACROSS),
        pair("file_to_unix", Source::Ext4, Sink::Unix, ACROSS),
        pair("file_to_file_ext4", Source::Ext4, Sink::Ext4, FILE_TO_FILE),
        pair(
            "file_to_file_tmpfs",
            Source::Tmpfs,
            Sink::Tmpfs,
            FILE_TO_FILE,
        ),
        pair("ext4_to_tmpfs", Source::Ext4, Sink::Tmpfs, ACROSS),
        pair("tmpfs_to_ext4", Source::Tmpfs, Sink::Ext4, ACROSS),
        pair(
            "pipe_to_pipe",
            Source::WrittenPipe,
            Sink::ReadPipe,
            FROM_PIPE,
        ),
        pair(
            "pipe_to_pipe_teed",
            Source::TeedPipe,
            Sink::SplicedPipe,
            FROM_PIPE,
        ),
        pair("pipe_to_null", Source::WrittenPipe, Sink::Null, FROM_PIPE),
        pair("pipe_to_null_teed", Source::TeedPipe, Sink::Null, FROM_PIPE),
        pair("pipe_to_file", Source::WrittenPipe, Sink::Tmpfs, FROM_PIPE),
        pair("pipe_to_tcp", Source::WrittenPipe, Sink::Tcp, FROM_PIPE),
        pair("tcp_to_tcp", Source::Tcp, Sink::Tcp, FROM_SOCKET),
        pair("tcp_to_null", Source::Tcp, Sink::Null, FROM_SOCKET),
        pair("tcp_to_file", Source::Tcp, Sink::Tmpfs, FROM_SOCKET),
        pair(
            "tcp_to_pipe",
            Source::Tcp,
            Sink::ReadPipe,
            &[Splice, SplicePipe, Buffered],
        ),
        pair("unix_to_unix", Source::Unix, Sink::Unix, FROM_SOCKET),
    ]
};

const fn pair(
    name: &'static str,
    source: Source,
    sink: Sink,
    strategies: &'static [Strategy],
) -> Pair {
    Pair {
        name,
        strategies,
        source,
        sink,
    }
}

impl Mover {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Plan => "plan".to_owned(),
            Self::Forced(strategy) => strategy.to_string(),
            Self::Std => "std_io_copy".to_owned(),
        }
    }
}

impl Pair {
    /// The plan, each strategy by itself, and the standard library.
    pub(crate) fn movers(&self) -> impl Iterator<Item = Mover> {
        let forced = self.strategies.iter().copied().map(Mover::Forced);
        [Mover::Plan].into_iter().chain(forced).chain([Mover::Std])
    }

    /// Moves `bytes` bytes once and returns how long that took.
    ///
    /// # Panics
    ///
    /// If anything fails, or not exactly `bytes` bytes arrive.
    pub(crate) fn time(&self, files: &Files, bytes: u64, mover: Mover) -> Duration {
        let (mut source, feeder) = self.source.open(files, bytes);
        let (mut sink, drainer) = self.sink.open(files);
        let start = Instant::now();
        let n_bytes = match mover {
            Mover::Plan => Transfer::new(&source, &sink)
                .run()
                .expect("the transfer")
                .bytes(),
            Mover::Forced(strategy) => {
                let report = Transfer::new(&source, &sink).strategy(strategy).run();
                report.expect("the forced strategy").bytes()
            }
            Mover::Std => source.copy_to(&mut sink),
        };
        let elapsed = start.elapsed();
        assert_eq!(n_bytes, bytes, "{} by {mover:?}", self.name);
        drop((source, sink));
        feeder.join().expect("the writer");
        let arrived = drainer.join().expect("the reader");
        assert!(arrived.is_none_or(|n| n == bytes), "{}", self.name);
        elapsed
    }
}

/// The files that are moved.
pub(crate) struct Files {
    ext4: PathBuf,
    tmpfs: PathBuf,
    bytes: u64,
}

impl Files {
    /// Makes a source of `bytes` bytes on each file system.
    ///
    /// # Panics
    ///
    /// If there is no room.
    pub(crate) fn new(bytes: u64) -> Self {
        let id = std::process::id();
        let ext4 = std::env::temp_dir().join(format!("zcopy-bench-{id}"));
        let tmpfs = Path::new("/dev/shm").join(format!("zcopy-bench-{id}"));
        for dir in [&ext4, &tmpfs] {
            std::fs::create_dir_all(dir).expect("a directory");
            let mut file = File::create(dir.join("source")).expect("a source");
            let block: Vec<u8> = (0..MIB).map(|i| ((i * 31) >> 3) as u8).collect();
            let mut left = bytes;
            while left > 0 {
                let n = left.min(MIB as u64) as usize;
                file.write_all(&block[..n]).expect("room for the source");
                left -= n as u64;
            }
            // What is still dirty would be written back in the middle of a measurement.
            file.sync_all().expect("a disk");
        }
        Self { ext4, tmpfs, bytes }
    }

    fn open(dir: &Path) -> Stream {
        Stream::File(File::open(dir.join("source")).expect("the source"))
    }

    fn create(dir: &Path) -> Stream {
        let path = dir.join("target");
        let _ = std::fs::remove_file(&path);
        Stream::File(File::create(path).expect("a target"))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.ext4);
        let _ = std::fs::remove_dir_all(&self.tmpfs);
    }
}

/// A descriptor that keeps its type, because `std::io::copy` chooses by type.
enum Stream {
    File(File),
    PipeReader(io::PipeReader),
    PipeWriter(io::PipeWriter),
    Tcp(TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

impl AsFd for Stream {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        match self {
            Self::File(end) => end.as_fd(),
            Self::PipeReader(end) => end.as_fd(),
            Self::PipeWriter(end) => end.as_fd(),
            Self::Tcp(end) => end.as_fd(),
            Self::Unix(end) => end.as_fd(),
        }
    }
}

impl Stream {
    fn copy_to(&mut self, sink: &mut Self) -> u64 {
        match self {
            Self::File(source) => sink.copy_from(source),
            Self::PipeReader(source) => sink.copy_from(source),
            Self::Tcp(source) => sink.copy_from(source),
            Self::Unix(source) => sink.copy_from(source),
            Self::PipeWriter(_) => unreachable!("no pair reads from a writer"),
        }
    }

    fn copy_from<R: Read>(&mut self, source: &mut R) -> u64 {
        let copied = match self {
            Self::File(sink) => io::copy(source, sink),
            Self::PipeWriter(sink) => io::copy(source, sink),
            Self::Tcp(sink) => io::copy(source, sink),
            Self::Unix(sink) => io::copy(source, sink),
            Self::PipeReader(_) => unreachable!("no pair writes to a reader"),
        };
        copied.expect("std::io::copy")
    }
}

type Feeder = thread::JoinHandle<()>;
type Drainer = thread::JoinHandle<Option<u64>>;

impl Source {
    fn open(self, files: &Files, bytes: u64) -> (Stream, Feeder) {
        let nothing = || thread::spawn(|| ());
        match self {
            Self::Ext4 | Self::Tmpfs => {
                assert_eq!(files.bytes, bytes, "the sources have the size to be moved");
                let dir = if matches!(self, Self::Ext4) {
                    &files.ext4
                } else {
                    &files.tmpfs
                };
                (Files::open(dir), nothing())
            }
            Self::WrittenPipe => {
                let (reader, writer) = io::pipe().expect("a pipe");
                (
                    Stream::PipeReader(reader),
                    thread::spawn(move || write_all(writer, bytes)),
                )
            }
            Self::TeedPipe => {
                let (reader, writer) = io::pipe().expect("a pipe");
                (
                    Stream::PipeReader(reader),
                    thread::spawn(move || tee_all(&writer, bytes)),
                )
            }
            Self::Tcp => {
                let (near, far) = tcp_pair();
                (
                    Stream::Tcp(near),
                    thread::spawn(move || write_all(far, bytes)),
                )
            }
            Self::Unix => {
                let (near, far) = std::os::unix::net::UnixStream::pair().expect("a pair");
                (
                    Stream::Unix(near),
                    thread::spawn(move || write_all(far, bytes)),
                )
            }
        }
    }
}

impl Sink {
    fn open(self, files: &Files) -> (Stream, Drainer) {
        let nothing = || thread::spawn(|| None);
        match self {
            Self::Null => (
                Stream::File(File::create("/dev/null").expect("a sink")),
                nothing(),
            ),
            Self::Ext4 => (Files::create(&files.ext4), nothing()),
            Self::Tmpfs => (Files::create(&files.tmpfs), nothing()),
            Self::SplicedPipe => {
                let (reader, writer) = io::pipe().expect("a pipe");
                (
                    Stream::PipeWriter(writer),
                    thread::spawn(move || Some(splice_all(&reader))),
                )
            }
            Self::ReadPipe => {
                let (reader, writer) = io::pipe().expect("a pipe");
                (
                    Stream::PipeWriter(writer),
                    thread::spawn(move || Some(read_all(reader))),
                )
            }
            Self::Tcp => {
                let (near, far) = tcp_pair();
                (
                    Stream::Tcp(near),
                    thread::spawn(move || Some(read_all(far))),
                )
            }
            Self::Unix => {
                let (near, far) = std::os::unix::net::UnixStream::pair().expect("a pair");
                (
                    Stream::Unix(near),
                    thread::spawn(move || Some(read_all(far))),
                )
            }
        }
    }
}

/// A connection over loopback that loses nothing.
///
/// Pacing (`bbr`) and a receive buffer that overflows and has half the bytes sent twice (`ss -ti`)
/// would be measured otherwise, and hide the sender.
fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    sockopt::set_socket_recv_buffer_size(&listener, 8 * MIB).expect("a receive buffer");
    let address = listener.local_addr().expect("an address");
    let near = TcpStream::connect(address).expect("a connection");
    let (far, _) = listener.accept().expect("a connection");
    for end in [&near, &far] {
        sockopt::set_tcp_congestion(end, "reno").expect("a congestion control without pacing");
    }
    (near, far)
}

fn write_all<W: Write>(mut to: W, bytes: u64) {
    let block = vec![7; 128 << 10];
    let mut left = bytes;
    while left > 0 {
        let n = left.min(block.len() as u64) as usize;
        to.write_all(&block[..n]).expect("somebody who reads");
        left -= n as u64;
    }
}

/// Fills a pipe once and gives out its pages for ever, as `yes` might.
fn tee_all(to: &impl AsFd, bytes: u64) {
    let (head, mut filler) = io::pipe().expect("a pipe");
    let capacity = rustix::pipe::fcntl_setpipe_size(&head, MIB).expect("a large pipe");
    filler
        .write_all(&vec![7; capacity])
        .expect("room in the pipe");
    let mut left = bytes;
    while left > 0 {
        let n = left.min(capacity as u64) as usize;
        left -= tee(&head, to, n, SpliceFlags::empty()).expect("tee") as u64;
    }
}

fn read_all<R: Read>(mut from: R) -> u64 {
    let mut block = vec![0; 256 << 10];
    let mut total = 0;
    loop {
        match from.read(&mut block).expect("read") {
            0 => return total,
            n => total += n as u64,
        }
    }
}

fn splice_all(from: &impl AsFd) -> u64 {
    let null: OwnedFd = File::create("/dev/null").expect("a sink").into();
    let mut total = 0;
    loop {
        match splice(from, None, &null, None, MIB, SpliceFlags::empty()).expect("splice") {
            0 => return total,
            n => total += n as u64,
        }
    }
}

/// The sizes to measure: 64 KiB, 1 MiB, 64 MiB and 1 GiB, or those in `ZCOPY_BENCH_SIZES`
/// (`64KiB,1MiB`).
///
/// # Panics
///
/// If the variable holds anything else than sizes.
pub(crate) fn sizes() -> Vec<(String, u64)> {
    let asked = std::env::var("ZCOPY_BENCH_SIZES");
    let sizes = asked.as_deref().unwrap_or("64KiB,1MiB,64MiB,1GiB");
    let parse = |name: &str| {
        let size: byte_unit::Byte = name.parse().expect("a size");
        (name.to_owned(), size.as_u64())
    };
    sizes.split(',').map(parse).collect()
}
