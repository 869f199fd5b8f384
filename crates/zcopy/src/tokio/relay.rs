//! [`RelaySession::drive_async`] and [`Relay::run_async`].

use ::tokio::io::Interest as Events;

use super::end::AsyncEnd;
use super::ready::either_ready;
use super::timer::RuntimeTimer;
use super::turn::Turn;
use super::waiter::Waiter;
use super::watched::{Watched, blocked_sides};
use crate::error::Result;
use crate::relay::{Beliefs, Both, EndInterest, Relay, RelayProgressed, RelaySession};
use crate::report::{Ended, RelayReport};
use crate::session::Belief;
use crate::side::Side;
use crate::sys::{Linux, PollFlags};

impl<A: AsyncEnd, B: AsyncEnd> RelaySession<A, B> {
    /// Takes steps until the relay ends, and lets tokio wait between them.
    ///
    /// Choose it, rather than [`drive`](Self::drive), in a task of tokio. It is cancel-safe: all
    /// bytes in flight are in the session, so that none is lost or doubled if the future is
    /// dropped. Then call it again, or [`step`](Self::step), or [`finish`](Self::finish).
    ///
    /// # Errors
    ///
    /// Those of [`Relay::run`], those of `dup(2)` (`EMFILE` at the limit of open files), and those
    /// of `epoll_ctl(2)` (`ENOSPC` beyond `/proc/sys/fs/epoll/max_user_watches`).
    ///
    /// # Panics
    ///
    /// See [`zcopy::tokio`](crate::tokio#panics). A relay needs the runtime's timers.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// use std::os::unix::net::UnixStream;
    /// use std::time::Duration;
    /// use zcopy::Relay;
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// let (mut client, front) = UnixStream::pair()?;
    /// let (back, mut server) = UnixStream::pair()?;
    /// let mut session = Relay::new(front, back).start()?;
    /// client.write_all(b"hello")?;
    ///
    /// // Both peers are still there, so that the relay goes on waiting.
    /// let driven = tokio::time::timeout(Duration::from_millis(10), session.drive_async()).await;
    /// assert!(driven.is_err());
    /// assert_eq!(session.finish()?.a_to_b().bytes(), 5);
    /// let mut word = [0; 5];
    /// server.read_exact(&mut word)?;
    /// assert_eq!(&word, b"hello");
    /// # Ok::<(), std::io::Error>(())
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn drive_async(&mut self) -> Result<Ended> {
        let Some((both, ends)) = self.split_mut() else {
            return Ok(Ended::Failed);
        };
        let ended = drive(both, ends).await;
        ended.map_err(|error| self.fail(error))
    }
}

impl<A: AsyncEnd, B: AsyncEnd> Relay<A, B> {
    /// Relays as [`run`](Self::run) does, in a task of tokio.
    ///
    /// Choose it for servers: one thread serves any number of relays. If the future is dropped, the
    /// relay is stopped, and the bytes in flight are lost. Choose [`start`](Self::start) and
    /// [`drive_async`](RelaySession::drive_async) to keep them.
    ///
    /// # Errors
    ///
    /// Those of [`run`](Self::run) and [`drive_async`](RelaySession::drive_async).
    ///
    /// # Panics
    ///
    /// See [`zcopy::tokio`](crate::tokio#panics). A relay needs the runtime's timers.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Write;
    /// use std::os::unix::net::UnixStream;
    /// use zcopy::Relay;
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// let (mut client, front) = UnixStream::pair()?;
    /// let (back, server) = UnixStream::pair()?;
    /// let relay = tokio::spawn(Relay::new(front, back).run_async());
    /// client.write_all(b"question")?;
    /// drop(server);
    /// let error = relay.await.expect("the task does not panic").unwrap_err();
    /// assert!(error.is_disconnected(), "the server has gone without the question");
    /// # Ok::<(), std::io::Error>(())
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn run_async(self) -> Result<RelayReport> {
        let mut session = self.start()?;
        session.drive_async().await?;
        session.finish()
    }
}

async fn drive<A: AsyncEnd, B: AsyncEnd>(
    both: &mut Both<'static, Linux>,
    (a, b): &(A, B),
) -> Result<Ended> {
    let mut waiter = Waiter::new(both.stop(), RuntimeTimer::default());
    let (a_fd, b_fd) = both.fds();
    let events = Events::READABLE | Events::WRITABLE;
    let mut a = Watched::new(Linux, a, a_fd, Side::Neither, events);
    let mut b = Watched::new(Linux, b, b_fd, Side::Neither, events);
    loop {
        match take_steps(both, &a, &b, &mut waiter.turn)? {
            RelayProgressed::Moved { .. } => waiter.note_moved(),
            RelayProgressed::Ended(ended) => return Ok(ended),
            RelayProgressed::Blocked(interest) => {
                forget_error(&a, interest.a());
                forget_error(&b, interest.b());
                let a_awaited = (&mut a, events_of(interest.a()));
                let b_awaited = (&mut b, events_of(interest.b()));
                let ready = either_ready(a_awaited, b_awaited);
                let stale = waiter.wait(ready, interest.timeout()).await;
                if stale.map_err(|error| both.fail_by(error))? {
                    a.unregister_if_stale();
                    b.unregister_if_stale();
                }
            }
        }
        waiter.pass_on().await;
    }
}

/// Takes steps until both directions are blocked, the relay ends, or the turn is over.
///
/// Each of the four beliefs of the reactor is taken before the first step, and cleared by what a
/// step finds.
fn take_steps<A: AsyncEnd, B: AsyncEnd>(
    both: &mut Both<'static, Linux>,
    a: &Watched<'_, Linux, A>,
    b: &Watched<'_, Linux, B>,
    turn: &mut Turn,
) -> Result<RelayProgressed> {
    // The (source, sink) of each direction that the reactor has to forget.
    let (mut forth_blocked, mut back_blocked) = ((false, false), (false, false));
    a.observe(Events::READABLE, |a_readable| {
        let progressed = b.observe(Events::WRITABLE, |b_writable| {
            let progressed = b.observe(Events::READABLE, |b_readable| {
                let progressed = a.observe(Events::WRITABLE, |a_writable| {
                    let beliefs = |readable, writable| Beliefs { readable, writable };
                    both.note_beliefs(
                        beliefs(a_readable, a_writable),
                        beliefs(b_readable, b_writable),
                    );
                    let progressed = take_noted_steps(both, turn);
                    let (forth, back) = both.interests();
                    forth_blocked = blocked_sides(forth, (a, a_readable), (b, b_writable));
                    back_blocked = blocked_sides(back, (b, b_readable), (a, a_writable));
                    (progressed, back_blocked.1)
                });
                (progressed, back_blocked.0)
            });
            (progressed, forth_blocked.1)
        });
        (progressed, forth_blocked.0)
    })
}

fn take_noted_steps(both: &mut Both<'static, Linux>, turn: &mut Turn) -> Result<RelayProgressed> {
    loop {
        let progressed = both.step(turn.bytes())?;
        let n_bytes = match progressed {
            RelayProgressed::Moved { a_to_b, b_to_a } => a_to_b + b_to_a,
            _ => 0,
        };
        turn.spend(n_bytes);
        if n_bytes == 0 || turn.is_over() {
            return Ok(progressed);
        }
        both.stay_blocked();
    }
}

/// Returns the events that are waited for at one end.
fn events_of(interest: EndInterest) -> Option<Events> {
    match (interest.readable(), interest.writable()) {
        (true, true) => Some(Events::READABLE | Events::WRITABLE),
        (true, false) => Some(Events::READABLE),
        (false, true) => Some(Events::WRITABLE),
        (false, false) => interest.hang_up().then_some(Events::ERROR),
    }
}

/// Lets the reactor forget an error of an end that the last step has not found hung up: completions
/// of `MSG_ZEROCOPY` in its error queue, for example.
fn forget_error<End: AsyncEnd>(end: &Watched<'_, Linux, End>, interest: EndInterest) {
    if interest.hang_up() {
        end.observe(Events::ERROR, |belief| {
            let is_old = belief == Belief::Ready && !end.polls_as(PollFlags::HUP);
            ((), is_old)
        });
    }
}
