//! The side of the caller, which finds the process, wakes it up, and sends the request.

use std::fs;
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, PidfdFlags, Signal, geteuid};

use super::directory::{Directory, Listening};
use super::protocol::{MAX_LINE, Request};
use crate::common::cli::message;
use crate::common::cli::quote::quoted;
use crate::pv::display::signals::THREAD;

/// The longest time that the other process takes to connect. It takes milliseconds unless it is
/// stopped.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A connection to a process that has been sent a request.
#[derive(Debug)]
pub(super) struct Call {
    stream: BufReader<UnixStream>,
}

impl Call {
    /// Sends a request to a process of this user.
    ///
    /// # Errors
    ///
    /// Returns the error as a message for the user.
    pub(super) fn to(pid: i32, request: &Request) -> Result<Self, String> {
        let of_process = |error: io::Error| format!("pid {pid}: {}", message::worded(&error));
        let target = Target::find(pid).map_err(of_process)?;
        if !target.has_thread(THREAD).map_err(of_process)? {
            return Err(format!("pid {pid}: not a running zc-pv"));
        }
        let directory = Directory::first().map_err(|(path, error)| {
            let cause = message::worded(&error);
            format!("{}: {cause}", quoted(path.as_os_str()))
        })?;
        directory.clean();
        let listening = directory.listen(pid).map_err(of_process)?;
        target.wake().map_err(of_process)?;
        let stream = target.accept(&listening).ok_or_else(|| not_received(pid))?;
        drop(listening);
        let line = crate::common::progress::json::line(request) + "\n";
        (&stream)
            .write_all(line.as_bytes())
            .map_err(|_| not_received(pid))?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// Reads a line of the answer. Reads nothing at the end.
    pub(super) fn read_line(&mut self, line: &mut String) -> io::Result<usize> {
        line.clear();
        self.stream.by_ref().take(MAX_LINE).read_line(line)
    }
}

/// Returns pv's message if the other process does not answer.
pub(super) fn not_received(pid: i32) -> String {
    format!("{pid}: message not received")
}

/// A process of this user.
struct Target {
    pid: Pid,
    /// A descriptor of the process, which stays valid for it even if its number is reused. `None`
    /// if the kernel has no pidfds.
    fd: Option<OwnedFd>,
}

impl Target {
    /// Finds a process of this user.
    ///
    /// # Errors
    ///
    /// Returns `ESRCH` if there is no such process, and `EPERM` if it belongs to another user.
    fn find(pid: i32) -> io::Result<Self> {
        let pid = Pid::from_raw(pid).filter(|_| pid > 0).ok_or(Errno::SRCH)?;
        rustix::process::test_kill_process(pid)?;
        // This comes first, so that all checks concern the same process.
        let fd = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => Some(fd),
            // Linux before 5.3, and filters.
            Err(Errno::NOSYS | Errno::PERM) => None,
            Err(error) => return Err(error.into()),
        };
        let target = Self { pid, fd };
        if target.user()? != geteuid().as_raw() {
            return Err(Errno::PERM.into());
        }
        Ok(target)
    }

    /// Returns the effective user of the process.
    fn user(&self) -> io::Result<u32> {
        let path = format!("/proc/{}/status", self.pid);
        let status = fs::read(path).map_err(|_| Errno::SRCH)?;
        let status = String::from_utf8_lossy(&status);
        let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        let effective = users.and_then(|users| users.split_whitespace().nth(1)?.parse().ok());
        effective.ok_or_else(|| Errno::SRCH.into())
    }

    /// Returns whether the process has a thread of this name.
    fn has_thread(&self, name: &str) -> io::Result<bool> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid)).map_err(|_| Errno::SRCH)?;
        Ok(threads.flatten().any(|thread| {
            let comm = fs::read(thread.path().join("comm")).unwrap_or_default();
            comm.strip_suffix(b"\n") == Some(name.as_bytes())
        }))
    }

    /// Sends the signal that makes the process look for callers.
    fn wake(&self) -> io::Result<()> {
        let sent = match &self.fd {
            Some(fd) => rustix::process::pidfd_send_signal(fd, Signal::USR2),
            None => rustix::process::kill_process(self.pid, Signal::USR2),
        };
        Ok(sent?)
    }

    /// Accepts the connection of the process, and closes all others. Returns `None` if the process
    /// does not connect in time, or has ended.
    fn accept(&self, listening: &Listening) -> Option<UnixStream> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).ok()?;
            let mut fds = vec![PollFd::new(&listening.listener, PollFlags::IN)];
            fds.extend(self.fd.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
            match rustix::event::poll(&mut fds, Some(&left)) {
                Err(Errno::INTR) => continue,
                Ok(n) if n > 0 && !fds[0].revents().is_empty() => {}
                // Too late, or the process has ended.
                _ => return None,
            }
            let (stream, _) = listening.listener.accept().ok()?;
            let peer = socket_peercred(&stream);
            if peer.is_ok_and(|peer| peer.pid == self.pid && peer.uid == geteuid()) {
                return Some(stream);
            }
        }
    }
}
