//! Transfers whose waits are tokio's: a blocked one is a task that waits for the reactor.
//!
//! [`Transfer::run_async`] and [`Session::drive_async`] do what `run` and `drive` do, with the same
//! strategies, options, counts and errors. One thread serves any number of them, and no thread is held by one that
//! waits.
//!
//! # Ends
//!
//! An end is an [`AsyncEnd`]:
//!
//! - tokio's `TcpStream`, `UnixStream`, `UdpSocket`, `UnixDatagram` and `AsyncFd`, which wait by
//!   the registration that they have. Their owned halves do by way of [`OwnedHalf`].
//! - The pipes of tokio and of std, std's sockets, `OwnedFd`, `BorrowedFd`, and files that are
//!   terminals, pipes or devices. For these the transfer registers a duplicate of the descriptor
//!   when it first waits for it. They may be in blocking or non-blocking mode.
//! - References, `Box` and `Arc` of all these.
//!
//! A buffer of the end is not part of the transfer: bytes that `tokio::io::BufReader` or
//! `tokio::fs::File` has read ahead stay there, and what they have not written yet has to be
//! flushed before.
//!
//! # Dropping a future
//!
//! [`Session::drive_async`] is cancel-safe. All bytes in flight are in the session, and none is lost
//! or doubled if the future is dropped, in `select!` for example: drive the session again, or finish
//! it. [`Transfer::run_async`] owns the session, so that dropping its future drops what is in flight
//! and cannot be given back to the source.
//!
//! # The runtime
//!
//! A runtime with `enable_io` is needed, and one with `enable_time` if a transfer has a tick, a
//! rate limit or a time limit, if a socket has a time-out of its own, or if a call keeps blocking
//! on ends that poll as ready. A transfer that is never blocked yields to other tasks after
//! about 1 MiB or 64 steps.
//!
//! # Panics
//!
//! The futures panic when they are polled outside of a tokio runtime, or in one that lacks what
//! they need.

mod end;
mod half;
mod session;
mod turn;
mod wait;
mod watched;

pub use end::AsyncEnd;
pub use half::OwnedHalf;

#[cfg(doc)]
use crate::{Session, Transfer};
