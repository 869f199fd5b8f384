//! [`Relay`]: both directions between two sockets.

use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::options::Options;
use crate::rate::RateLimiter;
use crate::report::RelayReport;
use crate::stop::Stop;
use crate::sys::{Linux, WithOwners};

mod both;
mod direction;
mod interest;
mod session;

#[cfg(feature = "tokio")]
pub(crate) use both::Beliefs;
pub(crate) use both::Both;
use both::Prefixes;
pub use interest::{EndInterest, RelayInterest, RelayProgress, RelayProgressed};
pub use session::RelaySession;

#[cfg(doc)]
use crate::{Ended, Transfer};

/// The buffer of each direction in bytes. A relay is seldom alone.
const BUFFER_SIZE: usize = 64 << 10;

/// Moves bytes between two sockets in both directions, in one thread, until both have ended.
///
/// The relay sends the bytes of each socket to the other one. When one direction ends, the relay
/// shuts down the writing side of its sink (`shutdown(SHUT_WR)`), so that the peer sees the end
/// too, and the other direction goes on. [`run`](Self::run) returns when both have ended, or when
/// one fails.
///
/// Choose it for proxies and tunnels. [`Transfer`] moves one direction, with all options.
///
/// # Memory and descriptors
///
/// A relay that is idle holds neither a pipe nor a buffer. Each direction reads and writes through
/// a buffer of at most 64 KiB until bytes come in bulk, then splices through a private pipe of 64
/// KiB, which it enlarges to 1 MiB if bytes go on to come. After a second without bytes it gives
/// the pipe back. All relays of a thread use one buffer. (A direction whose sink does not accept
/// all bytes at once keeps the buffer until they have left, and the others use another one.)
///
/// A direction that gets no pipe reads and writes, and its report says why: above the user's budget
/// for pipes (`/proc/sys/fs/pipe-user-pages-soft`), or if the descriptors of the process come
/// within a quarter of their limit (`RLIMIT_NOFILE`), so that no `accept(2)` fails because of a
/// relay.
///
/// # Equal parts
///
/// One thread that serves many relays, by [`step`](RelaySession::step) or `run_async`, moves what
/// the receive buffers hold. The kernel enlarges those of some connections more than others, which
/// then get more bytes (of 256 at full speed the slowest got 0.09 of what the fastest got). Set
/// `SO_RCVBUF` of all sockets to one size if the parts have to be equal, before they listen or
/// connect: 512 KiB measured 0.98, with no less throughput. The kernel takes no more than
/// `net.core.rmem_max`.
///
/// # Graceful ends
///
/// A [`Stop`] ends a relay within one step, and what is in flight comes back in the report. To
/// deliver what is under way instead, shut down the reading side of the end from which questions
/// come, `front.shutdown(Shutdown::Read)` for example. The relay takes that for the end of the
/// questions, and passes it on; the answer still comes, and then the relay ends. Set a
/// [`deadline`](Self::deadline) for peers that never answer.
///
/// An end may still be connecting (`EINPROGRESS`). If that fails, the relay does, with no byte
/// moved.
///
/// # Examples
///
/// ```
/// use std::io::{Read, Write};
/// use std::net::Shutdown;
/// use std::os::unix::net::UnixStream;
/// use zcopy::Relay;
///
/// let (mut client, front) = UnixStream::pair()?;
/// let (back, mut server) = UnixStream::pair()?;
/// let relay = std::thread::spawn(|| Relay::new(front, back).run());
///
/// client.write_all(b"question")?;
/// client.shutdown(Shutdown::Write)?;
/// let mut question = String::new();
/// server.read_to_string(&mut question)?;
/// assert_eq!(question, "question");
/// server.write_all(b"answer")?;
/// drop(server);
/// let mut answer = String::new();
/// client.read_to_string(&mut answer)?;
/// assert_eq!(answer, "answer");
///
/// let report = relay.join().expect("the thread does not panic")?;
/// assert_eq!((report.a_to_b().bytes(), report.b_to_a().bytes()), (8, 6));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Kernel notes
///
/// Writing to a socket whose peer has gone raises `SIGPIPE`, as for a [`Transfer`]. Both ends have
/// to be readable and writable. An end that is no socket cannot be shut down; its peer then sees
/// the end when the caller closes it.
///
/// Sockets in non-blocking mode take a tenth less processor time: in blocking mode each call
/// follows a `poll(2)`. The relay never changes the mode.
#[must_use = "a relay does nothing until it is run"]
pub struct Relay<A, B> {
    a: A,
    b: B,
    options: Options,
    rate_limiter: Option<RateLimiter>,
    stop: Option<Stop>,
    prefixes: Prefixes,
}

impl<A: AsFd, B: AsFd> Relay<A, B> {
    /// Creates a relay between two ends, by value or by reference, as for a [`Transfer`]. Nothing
    /// moves until [`run`](Self::run).
    pub fn new(a: A, b: B) -> Self {
        Self {
            a,
            b,
            options: Options {
                buffer_size: Some(BUFFER_SIZE),
                stepped: true,
                relayed: true,
                ..Options::default()
            },
            rate_limiter: None,
            stop: None,
            prefixes: Prefixes::default(),
        }
    }

    /// Sends these bytes to `b` before those of `a` [default: none].
    ///
    /// Choose it for what has been read from `a` already: the bytes in a `BufReader` around it, for
    /// example, behind the request line that named the other end. They count as if they came from
    /// `a`, as those of [`Transfer::prefix`] do.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::{BufRead, BufReader, Read, Write};
    /// use std::net::Shutdown;
    /// use std::os::unix::net::UnixStream;
    /// use zcopy::Relay;
    ///
    /// let (mut client, front) = UnixStream::pair()?;
    /// let (back, mut server) = UnixStream::pair()?;
    /// client.write_all(b"CONNECT server\nquestion")?;
    /// client.shutdown(Shutdown::Write)?;
    /// server.shutdown(Shutdown::Write)?;
    ///
    /// let mut reader = BufReader::new(&front);
    /// let mut line = String::new();
    /// reader.read_line(&mut line)?;
    /// let read_ahead = reader.buffer().to_vec();
    ///
    /// let report = Relay::new(&front, &back).prefix_from_a(read_ahead).run()?;
    /// assert_eq!(report.a_to_b().bytes(), 8);
    /// let mut question = [0; 8];
    /// server.read_exact(&mut question)?;
    /// assert_eq!(&question, b"question");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn prefix_from_a(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.prefixes.from_a = bytes.into();
        self
    }

    /// Sends these bytes to `a` before those of `b` [default: none], as
    /// [`prefix_from_a`](Self::prefix_from_a) does in the other direction.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Read;
    /// use std::net::Shutdown;
    /// use std::os::unix::net::UnixStream;
    /// use zcopy::Relay;
    ///
    /// let (mut client, front) = UnixStream::pair()?;
    /// let (back, server) = UnixStream::pair()?;
    /// client.shutdown(Shutdown::Write)?;
    /// server.shutdown(Shutdown::Write)?;
    /// Relay::new(front, &back).prefix_from_b("connected\n").run()?;
    /// let mut answer = String::new();
    /// client.read_to_string(&mut answer)?;
    /// assert_eq!(answer, "connected\n");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn prefix_from_b(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.prefixes.from_b = bytes.into();
        self
    }

    /// Ends the relay with [`Ended::TimedOut`] when no byte has moved in either direction for
    /// `timeout` [default: it waits for ever].
    ///
    /// Choose it for every relay whose peers you do not control: a peer that has vanished without a
    /// reset is never noticed otherwise. The time that a direction waits for its rate is not idle.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::os::unix::net::UnixStream;
    /// use std::time::Duration;
    /// use zcopy::{Ended, Relay};
    ///
    /// let (_client, front) = UnixStream::pair()?;
    /// let (back, _server) = UnixStream::pair()?;
    /// let report = Relay::new(&front, &back).idle_timeout(Duration::from_millis(10)).run()?;
    /// assert_eq!(report.ended(), Ended::TimedOut);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.options.idle_timeout = Some(timeout);
        self
    }

    /// Ends the relay with [`Ended::TimedOut`] at this time, whatever has moved [default: no
    /// deadline].
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.options.deadline = Some(deadline);
        self
    }

    /// Moves at most this many bytes per second in both directions together [default: no limit]: a
    /// number, or a [`RateLimiter`] that other relays and transfers share.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Write;
    /// use std::os::unix::net::UnixStream;
    /// use std::time::{Duration, Instant};
    /// use zcopy::Relay;
    ///
    /// let (mut client, front) = UnixStream::pair()?;
    /// let (back, _server) = UnixStream::pair()?;
    /// client.write_all(&[7; 10_000])?;
    /// let start = Instant::now();
    /// let mut session = Relay::new(&front, &back).rate_limit(100_000).start()?;
    /// # use zcopy::RelayProgressed;
    /// # let mut moved = 0;
    /// # while moved < 10_000 {
    /// #     match session.step(u64::MAX)? {
    /// #         RelayProgressed::Moved { a_to_b, .. } => moved += a_to_b,
    /// #         RelayProgressed::Blocked(interest) => {
    /// #             std::thread::sleep(interest.timeout().expect("it waits for its rate"));
    /// #         }
    /// #         other => panic!("{other:?}"),
    /// #     }
    /// # }
    /// assert!(start.elapsed() >= Duration::from_millis(90));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn rate_limit(mut self, limit: impl Into<RateLimiter>) -> Self {
        let rate_limiter = limit.into();
        self.options.rate_limit = NonZeroU64::new(rate_limiter.rate());
        self.rate_limiter = Some(rate_limiter);
        self
    }

    /// Lets `stop` end the relay, from any thread, with [`Ended::Stopped`] [default: only its ends
    /// end it].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::os::unix::net::UnixStream;
    /// use zcopy::{Ended, Relay, Stop};
    ///
    /// let (_client, front) = UnixStream::pair()?;
    /// let (back, _server) = UnixStream::pair()?;
    /// let stop = Stop::new()?;
    /// let relay = Relay::new(front, back).stop_with(&stop);
    /// let relay = std::thread::spawn(|| relay.run());
    /// stop.stop();
    /// let report = relay.join().expect("the thread does not panic")?;
    /// assert_eq!(report.ended(), Ended::Stopped);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn stop_with(mut self, stop: &Stop) -> Self {
        self.stop = Some(stop.clone());
        self
    }

    /// Moves bytes until both directions have ended, the relay is stopped, its time is over, or one
    /// direction fails.
    ///
    /// # Errors
    ///
    /// Returns the error of the direction that failed first. Its [`report`](crate::Error::report)
    /// counts that direction, and [`relay_report`](crate::Error::relay_report) both. A peer that
    /// has gone makes an error that [`is_disconnected`](crate::Error::is_disconnected).
    ///
    /// If one end accepts no more bytes because its peer has gone, the other direction goes on
    /// until it ends, so that an answer which the peer sent before reaches the other end. Any other
    /// failure ends both directions.
    pub fn run(self) -> Result<RelayReport> {
        let mut session = self.start()?;
        session.drive()?;
        session.finish()
    }

    /// Begins the relay, and returns the session whose steps the caller takes. Nothing moves before
    /// the first [`step`](RelaySession::step).
    ///
    /// Choose it to serve many relays in one thread.
    ///
    /// # Errors
    ///
    /// The errors of [`run`](Self::run) that are known before a byte moves: an end that is not open
    /// for reading and writing (`EBADF`), or that is a file or a block device (`EINVAL`). The
    /// [reports](crate::Error::relay_report) hand the prefixes back.
    pub fn start(self) -> Result<RelaySession<A, B>> {
        let (a, b) = (self.a.as_fd(), self.b.as_fd());
        let prepared = Both::prepare(&Linux, a, b, &self.options, self.prefixes)?;
        let (options, rate_limiter, stop) = (self.options, self.rate_limiter, self.stop);
        let parts = WithOwners::new((self.a, self.b), |(a, b), lender| {
            let (a, b) = (lender.lend(a.as_fd()), lender.lend(b.as_fd()));
            Both::new(Linux, a, b, prepared, options, rate_limiter.as_ref(), stop)
        });
        Ok(RelaySession::new(parts))
    }
}

impl<A: AsFd, B: AsFd> std::fmt::Debug for Relay<A, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay")
            .field("a", &self.a.as_fd())
            .field("b", &self.b.as_fd())
            .finish_non_exhaustive()
    }
}
