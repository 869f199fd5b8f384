//! Runs transfers, fan-outs and relays as tasks of tokio. A blocked task waits for the reactor.
//!
//! [`Transfer::run_async`], [`FanOut::run_async`], [`Relay::run_async`], [`Session::drive_async`]
//! and [`RelaySession::drive_async`] do what `run` and `drive` do, with the same strategies,
//! options, counts and errors. One thread serves any number of them, and no thread is held by one
//! that waits.
//!
//! # Examples
//!
//! Two tokio streams, and a relay between them:
//!
//! ```
//! use std::io::{Read, Write};
//! use std::net::Shutdown;
//! use tokio::net::UnixStream;
//! use zcopy::Relay;
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let (mut client, front) = std::os::unix::net::UnixStream::pair()?;
//! let (back, mut server) = std::os::unix::net::UnixStream::pair()?;
//! # front.set_nonblocking(true)?;
//! # back.set_nonblocking(true)?;
//! let (front, back) = (UnixStream::from_std(front)?, UnixStream::from_std(back)?);
//! let relay = tokio::spawn(Relay::new(front, back).run_async());
//!
//! client.write_all(b"question")?;
//! client.shutdown(Shutdown::Write)?;
//! server.write_all(b"answer")?;
//! server.shutdown(Shutdown::Write)?;
//! let report = relay.await??;
//! assert_eq!((report.a_to_b().bytes(), report.b_to_a().bytes()), (8, 6));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Ends
//!
//! An end is an [`AsyncEnd`]:
//!
//! - tokio's `TcpStream`, `UnixStream`, `UdpSocket` and `UnixDatagram`, which wait by the
//!   registration that they have. Wrap an owned half in [`OwnedHalf`].
//! - `AsyncFd`, the pipes of tokio and of std, std's sockets, `OwnedFd`, `BorrowedFd`, and files
//!   that are terminals, pipes or devices. For these the transfer registers a duplicate of the
//!   descriptor when it first waits for it. They may be in blocking or non-blocking mode.
//! - References, `Box` and `Arc` of all these.
//!
//! The transfer does not see buffers in front of the descriptor: bytes that `tokio::io::BufReader`
//! or `tokio::fs::File` has read ahead stay there, and what they have not written yet has to be
//! flushed before.
//!
//! # Files
//!
//! Calls on regular files and block devices may wait for a disk. If an end is one, threads of the
//! runtime's blocking pool take the steps, up to 16 MiB at a time, and call the callbacks; a
//! transfer that waits for its other end holds no thread. The steps use duplicates of both
//! descriptors, because such a step outlives a dropped future, and perhaps the session and its
//! ends:
//!
//! - The next call on the session waits for the step, which a disk bounds. If the step fails, that
//!   call returns the failure.
//! - Dropping the session waits for no step: the thread ends the transfer behind the step. Until
//!   then the peer of a socket does not see the end. If no step runs, the drop ends the transfer,
//!   and a [last sync](crate::SyncData::AtEnd) waits for the disk: `finish_async` leaves that to
//!   the pool.
//! - When the duplicates close, the record locks (`F_SETLK`) that the process holds on the file are
//!   released, as by closing any descriptor of the file.
//!
//! # Dropping a future
//!
//! [`Session::drive_async`] and [`RelaySession::drive_async`] are cancel-safe. All bytes in flight
//! are in the session, and none is lost or doubled if the future is dropped, in `select!` for
//! example: drive the session again, or finish it. [`Transfer::run_async`], [`FanOut::run_async`]
//! and [`Relay::run_async`] own the session, so that dropping their futures drops what is in flight
//! and cannot be given back to the source.
//!
//! # The runtime
//!
//! A runtime with `enable_io` is needed, and one with `enable_time` if a transfer has a tick, a
//! rate limit or a time limit, if a socket has a time-out of its own, if readers are watched, or if
//! a call keeps blocking on ends that poll as ready. A relay needs `enable_time` always: a relay
//! that is idle for a second gives back its pipes. A transfer that is never blocked yields to other
//! tasks after about 1 MiB or 64 steps, and so does a relay, per direction.
//!
//! Rates, ticks and time limits are on `CLOCK_MONOTONIC`. The clock that `tokio::time::pause` stops
//! is another one: in a runtime that runs ahead of time, a future that waits for them polls again
//! and again, without a pause, until they have really passed. So test them without a paused clock.
//!
//! # Panics
//!
//! A future that has to wait panics outside of a tokio runtime, or in one that lacks what it needs.
//! One that never waits may end without any.
//!
//! # Imports
//!
//! `use zcopy::*` makes `tokio` ambiguous between this module and the crate. Import items by name,
//! or write `::tokio`.

mod end;
mod fan_out;
mod half;
mod pool;
mod ready;
mod relay;
mod session;
mod timer;
mod turn;
mod waiter;
mod watched;

pub use end::AsyncEnd;
#[cfg(test)]
pub(crate) use end::sealed;
#[cfg(test)]
pub(crate) use fan_out::{WatchedEnds, drive_several};
pub use half::OwnedHalf;
#[cfg(test)]
pub(crate) use session::drive;
#[cfg(test)]
pub(crate) use timer::Timer;

#[cfg(doc)]
use crate::{FanOut, Relay, RelaySession, Session, Transfer};
