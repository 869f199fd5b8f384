//! [`AsyncEnd`]: the ends that tokio can wait for.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::process::{ChildStderr, ChildStdin, ChildStdout};
use std::sync::Arc;

use ::tokio::io::Interest;
use ::tokio::io::unix::AsyncFd;
use ::tokio::net;

/// An end of a transfer that [`drive_async`](crate::Session::drive_async) can wait for: see the
/// [list of ends](crate::tokio#ends).
///
/// The trait is sealed: only this crate implements it.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use zcopy::tokio::AsyncEnd;
///
/// fn is_an_end<End: AsyncEnd>() {}
/// is_an_end::<tokio::net::TcpStream>();
/// is_an_end::<Arc<tokio::net::UnixStream>>();
/// is_an_end::<&std::fs::File>();
/// ```
pub trait AsyncEnd: AsFd + Send + Sync + Waits {}

pub(crate) mod sealed {
    use std::task::{Context, Poll};

    use super::{Interest, io};

    /// How an end waits by a registration of its own.
    pub trait Waits {
        /// Whether the end is registered with the reactor. The other methods are called only if it
        /// is.
        fn is_registered(&self) -> bool {
            false
        }

        /// Waits until the reactor believes that one of these events has happened.
        fn ready(&self, _interest: Interest) -> impl Future<Output = io::Result<()>> + Send {
            std::future::pending()
        }

        /// Calls `f` if the reactor believes that one of these events has happened. If `f` returns
        /// `WouldBlock`, the reactor forgets it, unless it has happened again meanwhile.
        ///
        /// # Errors
        ///
        /// `WouldBlock` if `f` is not called, and the errors of `f`.
        fn try_io(
            &self,
            _interest: Interest,
            _f: impl FnOnce() -> io::Result<()>,
        ) -> io::Result<()> {
            Err(io::ErrorKind::WouldBlock.into())
        }

        /// Polls whether the reactor believes that this event has happened at a sink of a fan-out:
        /// that it is writable, or (`ERROR`) that its reader has closed.
        ///
        /// A fan-out registers a duplicate of each sink, so that only simulated ends are asked.
        ///
        /// # Errors
        ///
        /// The runtime shuts down.
        fn poll_ready(&self, _: Interest, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }
}

use sealed::Waits;

/// Implements the trait for types that wait by their own registration.
macro_rules! registered {
    ($($end:ty),*) => {$(
        impl AsyncEnd for $end {}

        impl Waits for $end {
            fn is_registered(&self) -> bool {
                true
            }

            async fn ready(&self, interest: Interest) -> io::Result<()> {
                <$end>::ready(self, interest).await.map(drop)
            }

            fn try_io(
                &self,
                interest: Interest,
                f: impl FnOnce() -> io::Result<()>,
            ) -> io::Result<()> {
                <$end>::try_io(self, interest, f)
            }
        }
    )*};
}

registered!(
    net::TcpStream,
    net::UnixStream,
    net::UdpSocket,
    net::UnixDatagram
);

/// Implements the trait for types of which a duplicate is registered.
macro_rules! unregistered {
    ($($end:ty),*) => {$(
        impl AsyncEnd for $end {}
        impl Waits for $end {}
    )*};
}

/// The registration may be for one direction, or for none that the transfer waits for.
impl<T: AsRawFd + Send + Sync> AsyncEnd for AsyncFd<T> {}

impl<T: AsRawFd + Send + Sync> Waits for AsyncFd<T> {}

unregistered!(
    // These two have no `try_io` in older versions of tokio.
    net::unix::pipe::Sender,
    net::unix::pipe::Receiver,
    ::tokio::fs::File,
    File,
    OwnedFd,
    BorrowedFd<'_>,
    PipeReader,
    PipeWriter,
    std::net::TcpStream,
    std::net::UdpSocket,
    std::os::unix::net::UnixStream,
    std::os::unix::net::UnixDatagram,
    io::Stdin,
    io::Stdout,
    io::Stderr,
    ChildStdin,
    ChildStdout,
    ChildStderr
);

/// Implements the trait for pointers to ends.
macro_rules! pointers {
    ($($pointer:ty),*) => {$(
        impl<End: AsyncEnd> AsyncEnd for $pointer {}

        impl<End: AsyncEnd> Waits for $pointer {
            fn is_registered(&self) -> bool {
                End::is_registered(self)
            }

            fn ready(&self, interest: Interest) -> impl Future<Output = io::Result<()>> + Send {
                <End as Waits>::ready(self, interest)
            }

            fn try_io(
                &self,
                interest: Interest,
                f: impl FnOnce() -> io::Result<()>,
            ) -> io::Result<()> {
                <End as Waits>::try_io(self, interest, f)
            }
        }
    )*};
}

pointers!(&End, &mut End, Arc<End>, Box<End>);
