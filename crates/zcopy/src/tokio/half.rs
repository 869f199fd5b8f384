//! [`OwnedHalf`]: tokio's owned halves as ends of a transfer.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use ::tokio::io::Interest;
use ::tokio::net::{tcp, unix};

use super::end::AsyncEnd;
use super::end::sealed::Waits;

/// An owned half of a tokio stream as the end of a transfer: `into_split()` gives two halves, which
/// have no descriptor of their own ([`AsFd`]).
///
/// Choose it to read from one half by a transfer, and to use the other half in another task.
/// `TcpStream::split` needs none: pass `half.as_ref()`. An end of this type closes as the half
/// does: a half that writes shuts down the writing side when it is dropped.
///
/// # Examples
///
/// ```
/// use std::io::Read;
/// use tokio::net::UnixStream;
/// use zcopy::Transfer;
/// use zcopy::tokio::OwnedHalf;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
/// # runtime.block_on(async {
/// let (stream, mut peer) = std::os::unix::net::UnixStream::pair()?;
/// # stream.set_nonblocking(true)?;
/// let (_read_half, write_half) = UnixStream::from_std(stream)?.into_split();
/// let source = std::fs::File::open("/dev/zero")?;
/// let sink = OwnedHalf::new(write_half);
/// let report = Transfer::new(source, sink).limit(1000).run_async().await?;
/// assert_eq!(report.bytes(), 1000);
///
/// let mut bytes = Vec::new();
/// peer.read_to_end(&mut bytes)?;
/// assert_eq!(bytes, [0; 1000]);
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct OwnedHalf<Half>(Half);

impl<Half> OwnedHalf<Half> {
    /// Wraps a half.
    pub fn new(half: Half) -> Self {
        Self(half)
    }

    /// Returns the half.
    pub fn get_ref(&self) -> &Half {
        &self.0
    }

    /// Gives back the half, to reunite it with the other one for example.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio::net::UnixStream;
    /// use zcopy::tokio::OwnedHalf;
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    /// # runtime.block_on(async {
    /// let (stream, _peer) = UnixStream::pair()?;
    /// let (read_half, write_half) = stream.into_split();
    /// let sink = OwnedHalf::new(write_half);
    /// let stream = read_half.reunite(sink.into_inner()).expect("both are of one stream");
    /// assert!(stream.peer_addr()?.is_unnamed());
    /// # Ok::<(), std::io::Error>(())
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn into_inner(self) -> Half {
        self.0
    }
}

macro_rules! halves {
    ($($half:ty),*) => {$(
        impl AsFd for OwnedHalf<$half> {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.0.as_ref().as_fd()
            }
        }

        impl AsyncEnd for OwnedHalf<$half> {}

        impl Waits for OwnedHalf<$half> {
            fn is_registered(&self) -> bool {
                true
            }

            fn ready(&self, interest: Interest) -> impl Future<Output = io::Result<()>> + Send {
                Waits::ready(self.0.as_ref(), interest)
            }

            fn try_io(
                &self,
                interest: Interest,
                f: impl FnOnce() -> io::Result<()>,
            ) -> io::Result<()> {
                Waits::try_io(self.0.as_ref(), interest, f)
            }
        }
    )*};
}

halves!(
    tcp::OwnedReadHalf,
    tcp::OwnedWriteHalf,
    unix::OwnedReadHalf,
    unix::OwnedWriteHalf
);
