//! The questions that callers ask of an error.

use std::io;

use super::{Error, ErrorKind};
use crate::sys::Errno;

impl Error {
    /// Returns what failed, among the things that callers tell apart.
    ///
    /// [`io_error_kind`](Self::io_error_kind) returns the kind of the standard library.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{ErrorKind, Transfer};
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
    /// let error = Transfer::new(&zeros, &full).run().unwrap_err();
    /// let advice = match error.kind() {
    ///     ErrorKind::Refused => "correct the call",
    ///     ErrorKind::Unsuitable => "request no strategy",
    ///     _ => "try again later",
    /// };
    /// assert_eq!(advice, "try again later");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.details.kind()
    }

    /// Returns whether the input was rejected before anything moved: see [`ErrorKind::Refused`].
    ///
    /// Use it to distinguish a mistake of the caller from a failure of the system.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::Transfer;
    ///
    /// let (reader, _writer) = std::io::pipe()?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let error = Transfer::new(&reader, &sink).source_offset(1).run().unwrap_err();
    /// assert!(error.is_refused());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.kind() == ErrorKind::Refused
    }

    /// Returns whether the strategy that the caller requested cannot serve this pair: see
    /// [`ErrorKind::Unsuitable`].
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Strategy, Transfer};
    ///
    /// let source = std::fs::File::open("/proc/version")?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let error = Transfer::new(&source, &sink).strategy(Strategy::Reflink).run().unwrap_err();
    /// assert!(error.is_unsuitable());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn is_unsuitable(&self) -> bool {
        self.kind() == ErrorKind::Unsuitable
    }

    /// Returns whether a call failed because the peer has gone: the reader of a pipe, or the other
    /// end of a socket.
    ///
    /// Use it to end a connection without a message, as servers do when a client leaves.
    /// [`side`](Self::side) says which peer it was. A peer that closes a source in order ends the
    /// transfer with [`Ended::Eof`](crate::Ended::Eof), and not with an error.
    ///
    /// # Kernel notes
    ///
    /// These errnos mean that the peer has gone:
    ///
    /// | errno | meaning |
    /// |---|---|
    /// | `EPIPE` | no reader is left, or this end was shut down for writing (write(2), send(2)) |
    /// | `ECONNRESET` | the peer has reset the connection (send(2)) |
    /// | `ECONNABORTED` | the connection was destroyed on this machine (`ss --kill`) |
    /// | `ECONNREFUSED` | the socket that received the datagrams has closed (recv(2), udp(7)) |
    /// | `ENOTCONN` | the socket has no peer: it never had one, or the peer of a unix datagram socket has gone and an earlier call has said so (send(2)) |
    /// | `ESHUTDOWN` | the end was shut down (SCTP, USB gadgets; errno(3)) |
    ///
    /// A network that fails (`ENETDOWN`, `ENETUNREACH`, `EHOSTUNREACH`) says nothing about the
    /// peer. A peer that no longer answers leads to `ETIMEDOUT`: see
    /// [`is_timed_out`](Self::is_timed_out). The master of a pseudoterminal whose slaves are closed
    /// fails with `EIO`, which bad blocks of a disk have too.
    ///
    /// An error of a reader or writer of yours counts if its errno or, without one, its kind means
    /// the same, such as [`ConnectionReset`](std::io::ErrorKind::ConnectionReset).
    ///
    /// # Examples
    ///
    /// ```
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let (reader, writer) = std::io::pipe()?;
    /// drop(reader);
    /// let error = zcopy::copy(&zeros, &writer).unwrap_err();
    /// assert!(error.is_disconnected(), "EPIPE");
    ///
    /// let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
    /// let error = zcopy::copy(&zeros, &full).unwrap_err();
    /// assert!(!error.is_disconnected(), "ENOSPC");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        self.failed_with(
            &[
                Errno::PIPE,
                Errno::CONNRESET,
                Errno::CONNABORTED,
                Errno::CONNREFUSED,
                Errno::NOTCONN,
                Errno::SHUTDOWN,
            ],
            &[
                io::ErrorKind::BrokenPipe,
                io::ErrorKind::ConnectionReset,
                io::ErrorKind::ConnectionAborted,
                io::ErrorKind::ConnectionRefused,
                io::ErrorKind::NotConnected,
            ],
        )
    }

    /// Returns whether a call failed because a time-out expired.
    ///
    /// # Kernel notes
    ///
    /// Two errnos mean this:
    ///
    /// - `EAGAIN`: the socket's own `SO_RCVTIMEO` or `SO_SNDTIMEO` expired (socket(7)), as
    ///   [`TcpStream::set_read_timeout`](std::net::TcpStream::set_read_timeout) sets it. A transfer
    ///   waits for a descriptor in non-blocking mode and does not fail with its `EAGAIN`. The
    ///   connection still exists, and another transfer can continue.
    /// - `ETIMEDOUT`: the peer has not acknowledged data or keep-alive probes (tcp(7)). The
    ///   connection is lost. Devices and network file systems that do not answer have it, too. If
    ///   `sendfile(2)` or `splice(2)` slept in the call, as sockets in blocking mode let them, the
    ///   kernel forgets this errno, and the error [is `EPIPE`](Self::is_disconnected).
    ///
    /// An error of a reader or writer of yours counts if its errno or, without one, its kind means
    /// the same: [`WouldBlock`](std::io::ErrorKind::WouldBlock) or
    /// [`TimedOut`](std::io::ErrorKind::TimedOut).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::os::unix::net::UnixStream;
    /// use std::time::Duration;
    ///
    /// let (source, _silent_peer) = UnixStream::pair()?;
    /// source.set_read_timeout(Some(Duration::from_millis(1)))?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let error = zcopy::copy(&source, &sink).unwrap_err();
    /// assert!(error.is_timed_out());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn is_timed_out(&self) -> bool {
        self.failed_with(
            &[Errno::AGAIN, Errno::TIMEDOUT],
            &[io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut],
        )
    }

    /// Returns whether a call failed with one of these errnos, or a reader or writer of the
    /// caller's with an error that has one of these kinds and no errno. An errno that stands for
    /// the reason of a refusal, or for which a requested strategy gave up, does not count.
    fn failed_with(&self, errnos: &[Errno], kinds: &[io::ErrorKind]) -> bool {
        let is_among = match self.raw_os_error() {
            Some(errno) => errnos.contains(&Errno::from_raw_os_error(errno)),
            None => kinds.contains(&self.io_error_kind()),
        };
        self.kind() == ErrorKind::CallFailed && is_among
    }
}

#[cfg(test)]
mod tests {
    use crate::call_error::CallError;
    use crate::context::requested_failed;
    use crate::error::{Error, RunError};
    use crate::side::Side;
    use crate::strategy::Strategy;
    use crate::sys::Errno;

    fn failed(errno: Errno) -> Error {
        RunError::from(CallError::new("write", Side::Sink, errno)).before_anything_moved()
    }

    #[test]
    fn a_peer_that_has_gone_is_no_time_out_and_a_full_disk_is_neither() {
        for (errno, disconnected, timed_out) in [
            (Errno::PIPE, true, false),
            (Errno::CONNRESET, true, false),
            (Errno::CONNABORTED, true, false),
            (Errno::CONNREFUSED, true, false),
            (Errno::NOTCONN, true, false),
            (Errno::SHUTDOWN, true, false),
            (Errno::AGAIN, false, true),
            (Errno::TIMEDOUT, false, true),
            (Errno::NOSPC, false, false),
            (Errno::IO, false, false),
            (Errno::HOSTUNREACH, false, false),
        ] {
            let error = failed(errno);
            let found = (error.is_disconnected(), error.is_timed_out());
            assert_eq!(found, (disconnected, timed_out), "{errno:?}");
        }
    }

    /// A requested strategy that blocks on ready descriptors gives up with `EAGAIN`.
    #[test]
    fn an_errno_for_which_a_requested_strategy_gave_up_is_no_time_out() {
        let error = requested_failed(Strategy::Splice, Errno::AGAIN.into()).before_anything_moved();
        assert!(error.is_unsuitable() && !error.is_timed_out());
    }
}
