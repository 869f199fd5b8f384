//! The peers at the other ends of a program's pipes and sockets. Each is a thread.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, anyhow};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::pipe::{PipeFlags, pipe_with};

use super::{STDOUT, Scenario, Stdout, TimeLimits, UPSTREAM};

/// How often a thread looks whether the program has ended, while it waits for it to open or
/// connect.
const LOOK: Duration = Duration::from_millis(1);

/// The bytes that a thread has received, by the name of the output.
type Received = Vec<(&'static str, Vec<u8>)>;

/// The threads at the other ends.
#[derive(Debug)]
pub(super) struct Peers {
    threads: Vec<JoinHandle<Received>>,
    /// Set when the program has ended.
    has_ended: Arc<AtomicBool>,
    upstream: Option<SocketAddr>,
    limits: TimeLimits,
}

impl Peers {
    /// Starts those that write to FIFOs, and the server behind a relay.
    pub(super) fn new(scenario: &Scenario, dir: &Path, limits: TimeLimits) -> anyhow::Result<Self> {
        let has_ended = Arc::new(AtomicBool::new(false));
        let mut peers = Self {
            threads: Vec::new(),
            has_ended,
            upstream: None,
            limits,
        };
        for (name, bytes) in &scenario.fifos {
            let path = dir.join(name);
            mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
            let (bytes, has_ended) = (bytes.clone(), Arc::clone(&peers.has_ended));
            peers.spawn(move || {
                if let Some(fifo) = open_fifo(&path, &has_ended) {
                    write_all(fifo, &bytes);
                }
                Vec::new()
            });
        }
        if let Stdout::BothWays { back, .. } = &scenario.stdout {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            peers.upstream = Some(listener.local_addr()?);
            listener.set_nonblocking(true)?;
            let (back, has_ended) = (back.clone(), Arc::clone(&peers.has_ended));
            peers.spawn(move || {
                let stream = accept(&listener, &has_ended, limits);
                let received = stream.map_or(Vec::new(), |stream| {
                    let received = read_all(&stream, usize::MAX);
                    write_all(stream, &back);
                    received
                });
                vec![(UPSTREAM, received)]
            });
        }
        Ok(peers)
    }

    /// The address of the server behind a relay.
    pub(super) fn upstream(&self) -> Option<String> {
        self.upstream.map(|address| address.to_string())
    }

    pub(super) fn feed_pipe(&mut self, bytes: &[u8]) -> anyhow::Result<OwnedFd> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        self.feed(File::from(write), bytes);
        Ok(read)
    }

    pub(super) fn feed_unix(&mut self, bytes: &[u8]) -> anyhow::Result<OwnedFd> {
        let (theirs, ours) = UnixStream::pair()?;
        self.feed(ours, bytes);
        Ok(theirs.into())
    }

    pub(super) fn feed_tcp(&mut self, bytes: &[u8]) -> anyhow::Result<OwnedFd> {
        let (theirs, ours) = tcp_pair()?;
        self.feed(ours, bytes);
        Ok(theirs.into())
    }

    pub(super) fn collect_pipe(&mut self, most: usize) -> anyhow::Result<OwnedFd> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        self.collect(File::from(read), most);
        Ok(write)
    }

    pub(super) fn collect_unix(&mut self) -> anyhow::Result<OwnedFd> {
        let (theirs, ours) = UnixStream::pair()?;
        self.collect(ours, usize::MAX);
        Ok(theirs.into())
    }

    pub(super) fn collect_tcp(&mut self) -> anyhow::Result<OwnedFd> {
        let (theirs, ours) = tcp_pair()?;
        self.collect(ours, usize::MAX);
        Ok(theirs.into())
    }

    /// Asks a server, which says where it listens, for the file `a`. The response's body counts as
    /// standard output.
    pub(super) fn ask_by_http(&mut self) -> anyhow::Result<OwnedFd> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        let limits = self.limits;
        self.spawn(move || {
            let response = connect(read, limits).map_or(Vec::new(), |stream| {
                let request = b"GET /a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
                write_all(&stream, request);
                read_all(&stream, usize::MAX)
            });
            let head = response.windows(4).position(|bytes| bytes == b"\r\n\r\n");
            let body = head.map_or(Vec::new(), |head| response[head + 4..].to_vec());
            vec![(STDOUT, body)]
        });
        Ok(write)
    }

    /// Sends `there` through a relay, which says where it listens, and receives `back`, which
    /// counts as standard output.
    pub(super) fn talk(&mut self, there: &[u8], back: &[u8]) -> anyhow::Result<OwnedFd> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        let (there, most, limits) = (there.to_vec(), back.len() + 1, self.limits);
        self.spawn(move || {
            let received = connect(read, limits).map_or(Vec::new(), |stream| {
                write_all(&stream, &there);
                let _ = stream.shutdown(Shutdown::Write);
                read_all(&stream, most)
            });
            vec![(STDOUT, received)]
        });
        Ok(write)
    }

    /// Waits for all of them, when the program has ended. What they have received, by the name of
    /// the output.
    pub(super) fn finish(self) -> anyhow::Result<BTreeMap<&'static str, Vec<u8>>> {
        self.has_ended.store(true, Ordering::Relaxed);
        let mut received = BTreeMap::new();
        for thread in self.threads {
            let some = thread.join().map_err(|_| anyhow!("a peer panicked"))?;
            received.extend(some);
        }
        Ok(received)
    }

    fn feed(&mut self, end: impl Write + Send + 'static, bytes: &[u8]) {
        let bytes = bytes.to_vec();
        self.spawn(move || {
            write_all(end, &bytes);
            Vec::new()
        });
    }

    fn collect(&mut self, end: impl Read + Send + 'static, most: usize) {
        self.spawn(move || vec![(STDOUT, read_all(end, most))]);
    }

    fn spawn(&mut self, body: impl FnOnce() -> Received + Send + 'static) {
        self.threads.push(thread::spawn(body));
    }
}

/// Writes until the program closes its end.
fn write_all(mut end: impl Write, bytes: &[u8]) {
    let _ = end.write_all(bytes);
}

/// Reads to the end, but at most `most` bytes. A program that fails may reset a connection.
fn read_all(end: impl Read, most: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let most = u64::try_from(most).unwrap_or(u64::MAX);
    let _ = end.take(most).read_to_end(&mut bytes);
    bytes
}

/// Opens a FIFO for writing as soon as somebody reads it.
fn open_fifo(path: &Path, has_ended: &AtomicBool) -> Option<File> {
    let mut options = File::options();
    let nonblock = i32::try_from(OFlags::NONBLOCK.bits()).ok()?;
    options.write(true).custom_flags(nonblock);
    while !has_ended.load(Ordering::Relaxed) {
        if let Ok(file) = options.open(path) {
            rustix::fs::fcntl_setfl(&file, OFlags::empty()).ok()?;
            return Some(file);
        }
        thread::sleep(LOOK);
    }
    None
}

fn accept(listener: &TcpListener, has_ended: &AtomicBool, limits: TimeLimits) -> Option<TcpStream> {
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).ok()?;
                stream.set_read_timeout(Some(limits.silence())).ok()?;
                return Some(stream);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
        if has_ended.load(Ordering::Relaxed) {
            return None;
        }
        thread::sleep(LOOK);
    }
}

/// Connects to the address in the first line that a server prints, which may end with a path:
/// `http://127.0.0.1:80/`.
fn connect(printed: OwnedFd, limits: TimeLimits) -> Option<TcpStream> {
    let mut line = String::new();
    let mut printed = BufReader::new(File::from(printed));
    printed.read_line(&mut line).ok()?;
    // The server must be able to print more: without a reader it would get EPIPE.
    thread::spawn(move || read_all(printed, usize::MAX));
    let address = line.trim().trim_start_matches("http://");
    let address = address.split('/').next()?.to_owned();
    let stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(limits.silence())).ok()?;
    Some(stream)
}

fn tcp_pair() -> anyhow::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let theirs = TcpStream::connect(listener.local_addr()?)?;
    let (ours, _) = listener.accept().context("a socket of the test's own")?;
    Ok((theirs, ours))
}
