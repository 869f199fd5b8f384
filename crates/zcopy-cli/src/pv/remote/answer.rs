//! The side of the process that is asked.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use super::directory::Directory;
use super::message::{MAX_LINE, Request, Snapshot};
use crate::pv::display::Event;

/// How long a caller may take to send its request.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The time between two snapshots.
const INTERVAL: Duration = Duration::from_millis(100);

/// A request, and the connection to who has sent it.
#[derive(Debug)]
pub(in crate::pv) struct Incoming {
    pub(in crate::pv) request: Request,
    stream: UnixStream,
}

/// Reads the requests of all callers that wait for this process, in a thread of its own, and sends them to the display.
///
/// Without callers, or if no thread can be started, nothing happens.
pub(in crate::pv) fn answer(events: Sender<Event>) {
    // A caller that gets no answer reports that.
    let _ = thread::Builder::new().name("remote".into()).spawn(move || {
        let pid = std::process::id().cast_signed();
        for directory in Directory::all() {
            for stream in directory.callers(pid) {
                if let Some(incoming) = Incoming::read(stream) {
                    let _ = events.send(Event::Remote(incoming));
                }
            }
        }
    });
}

impl Incoming {
    /// Reads the request of a caller. None if it is another user's, or says nothing that this program understands.
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

    /// Says that the request has been carried out.
    pub(in crate::pv) fn acknowledge(mut self) {
        // A caller that has gone does not need it.
        let _ = self.stream.write_all(b"ok\n");
    }
}

/// The callers that are told the progress.
#[derive(Debug)]
pub(in crate::pv) struct Watchers {
    streams: Vec<UnixStream>,
    due: Instant,
}

impl Watchers {
    /// Nobody watches yet.
    pub(in crate::pv) fn new() -> Self {
        Self {
            streams: Vec::new(),
            due: Instant::now(),
        }
    }

    /// One more caller wants to be told, at once.
    pub(in crate::pv) fn add(&mut self, incoming: Incoming) {
        self.streams.push(incoming.stream);
        self.due = Instant::now();
    }

    /// When the next snapshot is due, if anybody watches.
    pub(in crate::pv) fn due(&self) -> Option<Instant> {
        (!self.streams.is_empty()).then_some(self.due)
    }

    /// Tells a snapshot to all, and forgets those that have gone.
    pub(in crate::pv) fn tell(&mut self, snapshot: &Snapshot) {
        let line = crate::json::line(snapshot) + "\n";
        self.streams.retain_mut(|stream| {
            match stream.write(line.as_bytes()) {
                Ok(n) => n == line.len(),
                // A caller that is stopped misses one. What is less than a page is written whole or not at all.
                Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
            }
        });
        self.due = Instant::now() + INTERVAL;
    }
}
