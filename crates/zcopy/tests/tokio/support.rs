//! Shared by the tests: runtimes, connected ends, peers in threads, and futures that are dropped.

use std::fs::File;
use std::future::poll_fn;
use std::io::{Read, Seek, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;

/// Runs a future in a runtime of one thread. A hang fails.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let limit = Duration::from_secs(120);
        let outcome = tokio::time::timeout(limit, future).await;
        outcome.expect("the future hangs")
    })
}

/// Polls a future at most this many times, and drops it where it then waits.
pub(crate) async fn polled_at_most<F: Future>(times: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = times;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Returns two connected TCP sockets in blocking mode.
pub(crate) fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    (client, server)
}

/// Registers a socket with the runtime.
pub(crate) fn tokio_tcp(stream: TcpStream) -> tokio::net::TcpStream {
    stream.set_nonblocking(true).unwrap();
    tokio::net::TcpStream::from_std(stream).unwrap()
}

/// Registers a socket with the runtime.
pub(crate) fn tokio_unix(stream: UnixStream) -> tokio::net::UnixStream {
    stream.set_nonblocking(true).unwrap();
    tokio::net::UnixStream::from_std(stream).unwrap()
}

/// Returns bytes without a period that a block could hide.
pub(crate) fn bytes(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[1]
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// Writes the bytes from a thread, in pieces of varying length, and closes the end.
pub(crate) fn feed(mut end: impl Write + Send + 'static, bytes: Vec<u8>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let (mut left, mut len) = (&bytes[..], 1);
        while !left.is_empty() {
            let (piece, rest) = left.split_at(len.min(left.len()));
            end.write_all(piece).unwrap();
            left = rest;
            len = len * 7 % 100_003;
        }
    })
}

/// Reads everything in a thread.
pub(crate) fn drain(mut end: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut found = Vec::new();
        end.read_to_end(&mut found).unwrap();
        found
    })
}

/// Returns a file with these bytes, at its start.
pub(crate) fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    file
}

/// Counts the threads of this process that have this name.
pub(crate) fn threads_named(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok())
        .filter(|found| found.trim_end() == name)
        .count()
}
