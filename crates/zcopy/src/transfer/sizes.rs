//! What a [`Transfer`] can be told about the sizes of buffers and pipes.

use super::Transfer;
use crate::buffer;

#[cfg(doc)]
use crate::{Report, Strategy};

/// A larger buffer or pipe does nobody any good, and a kernel makes no pipe beyond twice as much.
const LARGEST: usize = 1 << 30;

impl Transfer<'_> {
    /// Whether the caller's own pipes may be enlarged, the source as well as the sink. Default:
    /// true.
    ///
    /// A pipe of 1 MiB instead of 64 KiB makes a file several times as fast to pass through it, and
    /// so it is with two pipes if both are that large: what is saved are the turns between the
    /// processes. Each is enlarged once, when more than 32 KiB are known to come or have come,
    /// within the user's budget, and never shrunk; the [report](Report::grown_sink) says so.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::Transfer;
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let (_reader, sink) = std::io::pipe()?;
    /// let report = Transfer::new(&zeros, &sink).limit(40_000).grow_pipes(false).run()?;
    /// assert_eq!(report.grown_sink(), None);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn grow_pipes(mut self, grow: bool) -> Self {
        self.options.grow_pipes = grow;
        self
    }

    /// What the caller's own pipes are enlarged to, if they [may be](Self::grow_pipes), in bytes. Default:
    /// 1 MiB, and 1 GiB at the most.
    ///
    /// It is what is asked for: the kernel rounds it up to a power of two, and of what an unprivileged user may
    /// not have (`/proc/sys/fs/pipe-max-size`, 1 MiB as a rule) half is asked for, and half of that. A
    /// pipe that is as large already stays as it is.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::Transfer;
    ///
    /// let source = std::fs::File::open("/proc/self/exe")?;
    /// let (_reader, sink) = std::io::pipe()?;
    /// let transfer = Transfer::new(&source, &sink).limit(40_000);
    /// assert_eq!(transfer.pipe_size(256 << 10).run()?.grown_sink(), Some(256 << 10));
    ///
    /// let (_reader, sink) = std::io::pipe()?;
    /// let transfer = Transfer::new(&source, &sink).limit(40_000);
    /// assert_eq!(transfer.pipe_size(4096).run()?.grown_sink(), None, "it has 64 KiB");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn pipe_size(mut self, bytes: usize) -> Self {
        self.options.pipe_size = bytes.min(LARGEST);
        self
    }

    /// How much is taken from the source at once: the size of the buffer of
    /// [`Strategy::Buffered`], 256 KiB by default, and of the private pipe of
    /// [`Strategy::SplicePipe`], 1 MiB by default.
    ///
    /// It is rounded up to whole pages of 4 KiB: at least one, at most 1 GiB. As with
    /// [`pipe_size`](Self::pipe_size), the private pipe is made as large as the user's budget allows; a
    /// smaller one is not made, but given so much at a time. A larger buffer makes steps larger, so that an
    /// observer is told less often. The other strategies, which have neither, are left alone. With several sinks it
    /// is the size of each of the private pipes.
    ///
    /// A message of a datagram socket always finds room if it has 256 KiB or less, a record of a device if it has
    /// 8 KiB or less, and a packet of a pipe, which has no more than a page.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use zcopy::{Strategy, Transfer};
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let mut n_steps = 0;
    /// Transfer::new(&zeros, &sink)
    ///     .limit(1 << 20)
    ///     .buffer_size(8192)
    ///     .observe(|_| {
    ///         n_steps += 1;
    ///         ControlFlow::Continue(())
    ///     })
    ///     .run()?;
    /// assert_eq!(n_steps, 128);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn buffer_size(mut self, bytes: usize) -> Self {
        let bytes = bytes.clamp(1, LARGEST);
        self.options.buffer_size = Some(bytes.next_multiple_of(buffer::ALIGNMENT));
        self
    }
}
