//! The descriptors under test: every kind of source, fed with known bytes, and every kind of sink,
//! with the thread that reads from it.

mod sink;
mod source;

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::pty::OpenptFlags;
use tempfile::TempDir;

use crate::files::pattern;

pub(crate) use sink::{Sink, SinkKind};
pub(crate) use source::{Source, SourceKind};

/// `/dev/null`, open for writing.
pub(crate) fn null() -> OwnedFd {
    writable("/dev/null")
}

/// `/dev/full`, open for writing: each write fails with `ENOSPC`.
pub(crate) fn full() -> OwnedFd {
    writable("/dev/full")
}

fn writable(device: &str) -> OwnedFd {
    rustix::fs::open(device, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).unwrap()
}

/// Reader and writer of a pipe of 64 KiB.
pub(crate) fn pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = std::io::pipe().unwrap();
    (reader.into(), writer.into())
}

/// Reader and writer of a pipe in packet mode.
pub(crate) fn packet_pipe() -> (OwnedFd, OwnedFd) {
    pipe_with(PipeFlags::DIRECT | PipeFlags::CLOEXEC).unwrap()
}

/// Reader of a pipe that holds packets of these lengths and has no writer, and the bytes of all
/// packets.
pub(crate) fn packets(lens: &[usize]) -> (OwnedFd, Vec<u8>) {
    let (reader, writer) = packet_pipe();
    let bytes = pattern(lens.iter().sum());
    let mut rest = &bytes[..];
    for len in lens {
        let (packet, later) = rest.split_at(*len);
        assert_eq!(rustix::io::write(&writer, packet), Ok(*len));
        rest = later;
    }
    (reader, bytes)
}

/// A directory for named pipes and sockets. It is in memory: some file systems have none of them, and
/// on file systems in user space `fstat` of one without a name fails with `ENOENT`.
pub(crate) fn dir_in_memory() -> TempDir {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    dir.unwrap()
}

/// A named pipe, and its directory.
pub(crate) fn named_pipe() -> (TempDir, PathBuf) {
    let dir = dir_in_memory();
    let path = dir.path().join("fifo");
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
    (dir, path)
}

/// Reader and writer of a named pipe, which has no name any more.
pub(crate) fn fifo() -> (OwnedFd, OwnedFd) {
    let (_dir, path) = named_pipe();
    let open = |flags| rustix::fs::open(&path, flags | OFlags::CLOEXEC, Mode::empty()).unwrap();
    // Opening one side waits for the other.
    let reader = open(OFlags::RDONLY | OFlags::NONBLOCK);
    let writer = open(OFlags::WRONLY);
    rustix::fs::fcntl_setfl(&reader, OFlags::empty()).unwrap();
    (reader, writer)
}

/// Both sockets of a TCP connection over the loopback device.
pub(crate) fn tcp() -> (OwnedFd, OwnedFd) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let here = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (there, _) = listener.accept().unwrap();
    (here.into(), there.into())
}

/// Two connected unix sockets.
pub(crate) fn unix(socket_type: SocketType) -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC;
    rustix::net::socketpair(AddressFamily::UNIX, socket_type, flags, None).unwrap()
}

/// Master and slave of a pseudo-terminal in raw mode.
pub(crate) fn terminal() -> (OwnedFd, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags).unwrap();
    rustix::pty::unlockpt(&master).unwrap();
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags).unwrap();
    let mut termios = rustix::termios::tcgetattr(&slave).unwrap();
    termios.make_raw();
    let now = rustix::termios::OptionalActions::Now;
    rustix::termios::tcsetattr(&slave, now, &termios).unwrap();
    (master, slave)
}
