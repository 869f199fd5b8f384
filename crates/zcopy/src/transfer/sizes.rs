//! Sizes of the buffer, the private pipe and the caller's pipes.

use super::Transfer;
use crate::buffer::{self, LARGEST};

#[cfg(doc)]
use crate::{Report, Strategy};

impl<Source, Sink> Transfer<'_, Source, Sink> {
    /// Allows the transfer to enlarge the caller's own pipes, source and sink [default: true].
    ///
    /// A file passes through a pipe of 1 MiB several times as fast as through one of 64 KiB, and so
    /// do bytes between two pipes if both have 1 MiB, because the processes at both ends wait for
    /// each other less often. The transfer enlarges each pipe once, when more than 64 KiB are known
    /// to come or have come, as far as the user's budget allows, and never shrinks it.
    /// [`Report::grown_source`] and [`Report::grown_sink`] return the new size.
    ///
    /// Choose `false` if the user's budget (`/proc/sys/fs/pipe-user-pages-soft`) is needed for
    /// other pipes, or if the pipe must stay small so that its writer is not far ahead of its
    /// reader. [`pipe_size`](Self::pipe_size) sets the size instead.
    /// [`buffer_size`](Self::buffer_size) concerns memory of the transfer's own.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::Transfer;
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let (mut reader, sink) = std::io::pipe()?;
    /// let reading = std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
    /// let report = Transfer::new(&zeros, &sink).limit(100_000).grow_pipes(false).run()?;
    /// assert_eq!(report.grown_sink(), None);
    /// drop(sink);
    /// assert_eq!(reading.join().expect("the reader does not panic")?, 100_000);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn grow_pipes(mut self, grow: bool) -> Self {
        self.settings.options.grow_pipes = grow;
        self
    }

    /// Sets the size in bytes to which the transfer enlarges the caller's own pipes, if it
    /// [may](Self::grow_pipes) [default: 1 MiB; at most 1 GiB].
    ///
    /// No size is too small: a pipe that already has at least this size keeps its own, so that a
    /// size of at most 64 KiB, the kernel's default, usually has no effect. The kernel rounds the
    /// size up to a power of two of at least one page. If it refuses the size to an unprivileged
    /// user (beyond `/proc/sys/fs/pipe-max-size`, usually 1 MiB), the transfer asks for half, and
    /// half again. A refusal is no error.
    ///
    /// Choose a smaller size for many pipes within one user's budget. A larger one needs
    /// privileges. [`buffer_size`](Self::buffer_size) sets the size of the private pipe.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::Transfer;
    ///
    /// let source = std::fs::File::open("/proc/self/exe")?;
    /// let (_reader, sink) = std::io::pipe()?;
    /// let transfer = Transfer::new(&source, &sink).limit(100_000);
    /// assert_eq!(transfer.pipe_size(256 << 10).run()?.grown_sink(), Some(256 << 10));
    ///
    /// let (_reader, sink) = std::io::pipe()?;
    /// let transfer = Transfer::new(&source, &sink).limit(40_000);
    /// assert_eq!(transfer.pipe_size(4096).run()?.grown_sink(), None, "it has 64 KiB");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn pipe_size(mut self, bytes: usize) -> Self {
        self.settings.options.pipe_size = bytes.min(LARGEST);
        self
    }

    /// Sets the size in bytes of the transfer's own memory: of the buffer of [`Strategy::Buffered`]
    /// [default: 256 KiB] and of the private pipe of [`Strategy::SplicePipe`] [default: 1 MiB].
    ///
    /// Choose a smaller size for many transfers at once, or for an observer that is called more
    /// often: a step moves at most this much. 256 KiB is the best block on the machines that GNU
    /// coreutils measured; a larger buffer seldom helps. Strategies without a buffer or private
    /// pipe ignore the size. [`grow_pipes`](Self::grow_pipes) and [`pipe_size`](Self::pipe_size)
    /// concern the pipes of the caller.
    ///
    /// The size is rounded up to whole pages of 4 KiB, to at least one and at most 1 GiB. The
    /// private pipe is as large as the user's budget allows, as with `pipe_size`. No pipe is
    /// smaller than the kernel's default, but the transfer fills it with at most this many bytes.
    /// With several sinks it is the size of each private pipe.
    ///
    /// The buffer always has room for a message of 256 KiB from a datagram socket, for a message of
    /// 8 KiB from a device, and for a packet of a pipe, which has at most a page. If no private pipe
    /// can be had, because no descriptor or only the last quarter of them is free or the user has no
    /// memory for pipes, it is as large as a source pipe.
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
        self.settings.options.buffer_size = Some(buffer::whole_pages(bytes));
        self
    }
}
