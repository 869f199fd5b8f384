//! The side of the process that serves requests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use super::directory::Directory;
use super::protocol::{MAX_LINE, Request, Snapshot};
use crate::common::threads;

/// The longest time that a caller takes to send its request.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The interval of snapshots.
const INTERVAL: Duration = Duration::from_millis(100);

/// A request, and the connection to its caller.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) request: Request,
    stream: UnixStream,
}

/// Reads the requests of all callers that wait for this process, in a new thread, and sends them to
/// the display.
///
/// Does nothing without callers, or if no thread can be started.
pub(crate) fn answer<E>(events: Sender<E>)
where
    E: From<Incoming> + Send + 'static,
{
    // A caller without an answer reports that.
    let _ = threads::spawn("remote", move || {
        let pid = std::process::id().cast_signed();
        for directory in Directory::all() {
            for stream in directory.callers(pid) {
                if let Some(incoming) = Incoming::read(stream) {
                    let _ = events.send(incoming.into());
                }
            }
        }
    });
}

impl Incoming {
    /// Reads the request of a caller. Returns `None` if the caller belongs to another user, or if
    /// the request is unknown.
    fn read(stream: UnixStream) -> Option<Self> {
        let peer = socket_peercred(&stream).ok()?;
        if peer.uid != geteuid() {
            return None;
        }
        stream.set_read_timeout(Some(TIMEOUT)).ok()?;
        let mut line = String::new();
        let mut reader = BufReader::new((&stream).take(MAX_LINE));
        reader.read_line(&mut line).ok()?;
        let request = serde_json::from_str(&line).ok()?;
        // The display does not wait for a caller.
        stream.set_nonblocking(true).ok()?;
        Some(Self { request, stream })
    }

    /// Confirms that the request has been carried out.
    pub(crate) fn acknowledge(mut self) {
        // The caller may have gone.
        let _ = self.stream.write_all(b"ok\n");
    }
}

/// The callers that receive snapshots.
#[derive(Debug)]
pub(crate) struct Watchers {
    streams: Vec<UnixStream>,
    due: Instant,
}

impl Watchers {
    /// Creates an empty list.
    pub(crate) fn new() -> Self {
        Self {
            streams: Vec::new(),
            due: Instant::now(),
        }
    }

    /// Adds a caller, which receives a snapshot at once.
    pub(crate) fn add(&mut self, incoming: Incoming) {
        self.streams.push(incoming.stream);
        self.due = Instant::now();
    }

    /// Returns the time of the next snapshot, if there are callers.
    pub(crate) fn due(&self) -> Option<Instant> {
        (!self.streams.is_empty()).then_some(self.due)
    }

    /// Sends a snapshot to all callers, and removes those that have gone.
    pub(crate) fn send(&mut self, snapshot: &Snapshot) {
        let line = crate::common::progress::json::line(snapshot) + "\n";
        self.streams.retain_mut(|stream| {
            match stream.write(line.as_bytes()) {
                Ok(n) => n == line.len(),
                // A stopped caller misses a snapshot. Less than a page is written completely or not
                // at all.
                Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
            }
        });
        self.due = Instant::now() + INTERVAL;
    }
}
