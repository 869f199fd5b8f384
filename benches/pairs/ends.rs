//! The two ends of a transfer, with whoever writes into the one and reads from the other.

use std::fs::File;
use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt;

use super::MIB;
use super::files::{Files, Peers};
use super::mounts::Fs;
use super::peers::{read_all, splice_all, tee_all, wait_for_end, write_all};

#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    File(Fs),
    /// A pipe that is written to in blocks of 128 KiB.
    WrittenPipe,
    /// A pipe that is tee'd into.
    TeedPipe,
    Tcp,
    Unix,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Sink {
    Null,
    File(Fs),
    /// A pipe that is spliced from.
    SplicedPipe,
    /// A pipe that is read in blocks of 256 KiB.
    ReadPipe,
    Tcp,
    Unix,
}

type Feeder = thread::JoinHandle<()>;
type Drainer = thread::JoinHandle<Option<u64>>;

impl Source {
    pub(super) fn is_possible(self, files: &Files) -> bool {
        !matches!(self, Self::File(fs) if !files.has(fs))
    }

    pub(super) fn open(self, files: &Files, bytes: u64) -> (Stream, Feeder) {
        match self {
            Self::File(fs) => {
                let source = files.source(fs, bytes);
                (Stream::File(source), thread::spawn(|| ()))
            }
            Self::WrittenPipe => {
                let (near, far) = io::pipe().expect("a pipe");
                files.peers.widen_pipe(&near, bytes);
                let feeder = thread::spawn(move || write_all(far, bytes));
                (Stream::PipeReader(near), files.peers.begin(feeder))
            }
            Self::TeedPipe => {
                let (near, far) = io::pipe().expect("a pipe");
                files.peers.widen_pipe(&near, bytes);
                let feeder = thread::spawn(move || tee_all(&far, bytes));
                (Stream::PipeReader(near), files.peers.begin(feeder))
            }
            Self::Tcp => {
                let (near, far) = tcp_pair();
                files.peers.widen_socket(&far);
                let feeder = thread::spawn(move || write_all(far, bytes));
                (Stream::Tcp(near), files.peers.begin(feeder))
            }
            Self::Unix => {
                let (near, far) = UnixStream::pair().expect("a pair");
                files.peers.widen_socket(&far);
                let feeder = thread::spawn(move || write_all(far, bytes));
                (Stream::Unix(near), files.peers.begin(feeder))
            }
        }
    }
}

impl Sink {
    pub(super) fn is_possible(self, files: &Files) -> bool {
        !matches!(self, Self::File(fs) if !files.has(fs))
    }

    pub(super) fn open(self, files: &Files) -> (Stream, Drainer) {
        let peers = files.peers;
        match self {
            Self::Null => {
                let null = File::create("/dev/null").expect("a sink");
                (Stream::File(null), thread::spawn(|| None))
            }
            Self::File(fs) => (Stream::File(files.target(fs)), thread::spawn(|| None)),
            Self::SplicedPipe => {
                let (far, near) = io::pipe().expect("a pipe");
                peers.widen_pipe(&near, files.bytes);
                let drainer = thread::spawn(move || {
                    peers.wait(&far);
                    Some(splice_all(&far))
                });
                (Stream::PipeWriter(near), drainer)
            }
            Self::ReadPipe => {
                let (far, near) = io::pipe().expect("a pipe");
                peers.widen_pipe(&near, files.bytes);
                let drainer = thread::spawn(move || {
                    peers.wait(&far);
                    Some(read_all(far))
                });
                (Stream::PipeWriter(near), drainer)
            }
            Self::Tcp => {
                let (near, far) = tcp_pair();
                peers.widen_socket(&near);
                let drainer = thread::spawn(move || {
                    peers.wait(&far);
                    Some(read_all(far))
                });
                (Stream::Tcp(near), drainer)
            }
            Self::Unix => {
                let (near, far) = UnixStream::pair().expect("a pair");
                peers.widen_socket(&near);
                let drainer = thread::spawn(move || {
                    peers.wait(&far);
                    Some(read_all(far))
                });
                (Stream::Unix(near), drainer)
            }
        }
    }
}

impl Peers {
    /// Returns the thread that feeds a source, or waits until it has fed all.
    fn begin(self, feeder: Feeder) -> Feeder {
        if self == Self::Apart {
            feeder.join().expect("the writer");
            return thread::spawn(|| ());
        }
        feeder
    }

    /// Waits until the source of a stream holds the first bytes, up to the capacity of a pipe: its
    /// writer is at work or blocked, as in a pipeline, and no transfer begins with a sleep whose
    /// length the scheduler chooses.
    pub(super) fn wait_for_source(source: &Stream, bytes: u64) {
        const TIMEOUT: Duration = Duration::from_millis(10);
        if matches!(source, Stream::File(_)) {
            return;
        }
        let start = Instant::now();
        let wanted = bytes.min(64 << 10);
        while rustix::io::ioctl_fionread(source).is_ok_and(|n| n < wanted)
            && start.elapsed() < TIMEOUT
        {
            thread::yield_now();
        }
    }

    /// Waits until the other end is closed, if the peers work apart.
    fn wait(self, far: &impl AsFd) {
        if self == Self::Apart {
            wait_for_end(far);
        }
    }

    /// Makes room for twice the bytes in a pipe, if the peers work apart: its slots need not be
    /// full.
    fn widen_pipe(self, end: &impl AsFd, bytes: u64) {
        if self == Self::Apart && bytes > 32 << 10 {
            let bytes = (2 * bytes).next_power_of_two() as usize;
            rustix::pipe::fcntl_setpipe_size(end, bytes).expect("a large pipe");
        }
    }

    /// Makes room for all bytes in a socket, if the peers work apart.
    fn widen_socket(self, end: &impl AsFd) {
        if self == Self::Apart {
            sockopt::set_socket_send_buffer_size_force(end, 8 * MIB).expect("a send buffer");
        }
    }
}

/// A descriptor that keeps its type, because `std::io::copy` chooses by type.
pub(super) enum Stream {
    File(File),
    PipeReader(io::PipeReader),
    PipeWriter(io::PipeWriter),
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
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
    pub(super) fn copy_to(&mut self, sink: &mut Self) -> u64 {
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

/// A connection over loopback that loses nothing.
///
/// Pacing (`bbr`) and a receive buffer that overflows and has half the bytes sent twice (`ss -ti`)
/// would be measured otherwise, and hide the sender.
fn tcp_pair() -> (TcpStream, TcpStream) {
    // Tens of thousands of short connections with listeners of their own would leave no free port: a
    // port that has listened is not used again for a minute.
    static LISTENER: LazyLock<TcpListener> = LazyLock::new(|| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        sockopt::set_socket_recv_buffer_size(&listener, 8 * MIB).expect("a receive buffer");
        listener
    });
    let listener = &*LISTENER;
    let address = listener.local_addr().expect("an address");
    let near = TcpStream::connect(address).expect("a connection");
    let (far, _) = listener.accept().expect("a connection");
    for end in [&near, &far] {
        sockopt::set_tcp_congestion(end, "reno").expect("a congestion control without pacing");
    }
    (near, far)
}
