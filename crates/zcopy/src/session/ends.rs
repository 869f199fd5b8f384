//! The ends of a transfer: what owns its descriptors while an engine uses them.

use std::iter::zip;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::classify::reopen_terminal;
use crate::fd_info::FdInfo;
use crate::options::Options;
use crate::side::Side;
use crate::sys::Kernel;

#[cfg(doc)]
use crate::{FanOut, Session};

/// The sinks of a [`FanOut`], as an end of its [`Session`]: see [`Session::sinks`].
pub struct Sinks<'a>(Vec<Box<dyn AsFd + Send + 'a>>);

impl<'a> Sinks<'a> {
    /// Returns a single sink.
    pub(crate) fn new(first: impl AsFd + Send + 'a) -> Self {
        Self(vec![Box::new(first)])
    }

    /// Adds a sink.
    pub(crate) fn push(&mut self, sink: impl AsFd + Send + 'a) {
        self.0.push(Box::new(sink));
    }

    /// Returns the descriptors of the sinks in their order.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(AsFd::as_fd)
    }
}

impl std::fmt::Debug for Sinks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The ends of a transfer, with the terminals that it has opened once more.
pub(crate) struct Ends<Source, Sink> {
    pub(super) source: Source,
    /// The only sink, or [`Sinks`].
    pub(super) sink: Sink,
    reopened_source: Option<OwnedFd>,
    /// With the indices of the sinks that they replace.
    reopened_sinks: Vec<(usize, OwnedFd)>,
}

impl<Source: AsFd, Sink> Ends<Source, Sink> {
    /// Returns the caller's ends.
    #[cfg(feature = "tokio")]
    pub(crate) fn ends(&self) -> (&Source, &Sink) {
        (&self.source, &self.sink)
    }

    pub(crate) fn source_fd(&self) -> BorrowedFd<'_> {
        let reopened = self.reopened_source.as_ref().map(AsFd::as_fd);
        reopened.unwrap_or_else(|| self.source.as_fd())
    }

    /// Returns the ends, without a sink that was opened once more.
    fn with_source<K: Kernel>(
        kernel: &K,
        source: Source,
        sink: Sink,
        from: &mut FdInfo,
        options: &Options,
    ) -> Self {
        let reopened = reopen_terminal(kernel, source.as_fd(), from, Side::Source, options);
        Self {
            source,
            sink,
            reopened_source: reopened,
            reopened_sinks: Vec::new(),
        }
    }

    /// Returns the descriptor to use for the sink with this index, which is open as `fd`.
    fn reopened_sink<'s>(&'s self, index: usize, fd: BorrowedFd<'s>) -> BorrowedFd<'s> {
        let mut reopened = self.reopened_sinks.iter();
        let found = reopened.find(|(replaced, _)| *replaced == index);
        found.map_or(fd, |(_, reopened)| reopened.as_fd())
    }
}

impl<Source: AsFd, Sink: AsFd> Ends<Source, Sink> {
    /// Opens terminals once more, if a call on them could sleep and may not.
    pub(crate) fn new<K: Kernel>(
        kernel: &K,
        source: Source,
        sink: Sink,
        (from, to): (&mut FdInfo, &mut FdInfo),
        options: &Options,
    ) -> Self {
        let mut ends = Self::with_source(kernel, source, sink, from, options);
        let reopened = reopen_terminal(kernel, ends.sink.as_fd(), to, Side::Sink, options);
        ends.reopened_sinks.extend(reopened.map(|fd| (0, fd)));
        ends
    }

    pub(crate) fn sink_fd(&self) -> BorrowedFd<'_> {
        self.reopened_sink(0, self.sink.as_fd())
    }
}

impl<'a, Source: AsFd> Ends<Source, Sinks<'a>> {
    /// Does what [`new`](Self::new) does, for several sinks.
    pub(crate) fn of_several<K: Kernel>(
        kernel: &K,
        source: Source,
        sinks: Sinks<'a>,
        (from, to): (&mut FdInfo, &mut [FdInfo]),
        options: &Options,
    ) -> Self {
        let mut ends = Self::with_source(kernel, source, sinks, from, options);
        for (index, (fd, info)) in zip(ends.sink.iter(), to).enumerate() {
            let reopened = reopen_terminal(kernel, fd, info, Side::Sink, options);
            ends.reopened_sinks.extend(reopened.map(|fd| (index, fd)));
        }
        ends
    }

    pub(crate) fn sink_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let sinks = self.sink.iter().enumerate();
        sinks.map(|(index, fd)| self.reopened_sink(index, fd))
    }
}
