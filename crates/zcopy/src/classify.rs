//! Asks the kernel what the descriptors are, checks the input, and makes the plan.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::call_error::{CallError, Cause};
use crate::error::RunError;
use crate::fd_info::{FdInfo, Kind};
use crate::options::Options;
use crate::plan::{self, Plan};
use crate::preflight;
use crate::side::Side;
use crate::sys::{Blocking, Errno, Kernel, OFlags};

mod several;
mod shortcuts;

pub(crate) use several::{Unprepared, prepare_several};
pub(crate) use shortcuts::Shortcuts;

/// Classifies both descriptors, checks the input, and plans. Moves no byte and no cursor.
pub(crate) fn prepare<K: Kernel>(
    kernel: &K,
    source: BorrowedFd<'_>,
    sink: BorrowedFd<'_>,
    options: &Options,
) -> Result<(FdInfo, FdInfo, Plan), RunError> {
    let from = classify(kernel, Side::Source, source)?;
    let to = classify(kernel, Side::Sink, sink)?;
    prepare_classified(kernel, source, sink, from, to, options)
}

/// Checks the input and plans, for descriptors that have been classified.
pub(crate) fn prepare_classified<K: Kernel>(
    kernel: &K,
    source: BorrowedFd<'_>,
    sink: BorrowedFd<'_>,
    mut from: FdInfo,
    mut to: FdInfo,
    options: &Options,
) -> Result<(FdInfo, FdInfo, Plan), RunError> {
    if deserves_full_classification(&from, &to, options) {
        from.classify_fully(kernel, source);
        to.classify_fully(kernel, sink);
    }
    preflight::check(&from, &to, options)?;
    let plan = plan::plan(&from, &to, options)?;
    Ok((from, to, plan))
}

/// Classifies one descriptor.
pub(crate) fn classify<K: Kernel>(
    kernel: &K,
    side: Side,
    fd: BorrowedFd<'_>,
) -> Result<FdInfo, RunError> {
    FdInfo::of(kernel, fd).map_err(|error| unclassifiable(side, error))
}

/// Returns the error for a descriptor that could not be classified.
pub(crate) fn unclassifiable(side: Side, error: CallError) -> RunError {
    match error.cause {
        Cause::Errno(Errno::BADF) => RunError::refused(side, Errno::BADF, "it is not open"),
        _ => CallError { side, ..error }.into(),
    }
}

/// Opens a terminal once more, in non-blocking mode, so that no call on it sleeps.
///
/// No flag keeps a single call on a terminal from sleeping. A terminal that polls as writable has
/// room for an unknown part of a write, and the user may stop it in the middle of one. Returns
/// `None` if no second descriptor is needed, or if the terminal cannot be opened: without `/proc`,
/// or if another user owns it.
pub(crate) fn reopen_terminal<K: Kernel>(
    kernel: &K,
    fd: BorrowedFd<'_>,
    info: &mut FdInfo,
    side: Side,
    options: &Options,
) -> Option<OwnedFd> {
    if options.blocking() == Blocking::MaySleep || info.nonblocking || !info.can_be_reopened {
        return None;
    }
    let access = match side {
        Side::Source => OFlags::RDONLY,
        _ => OFlags::WRONLY,
    };
    let own = kernel.reopen(fd, access).ok()?;
    let found = FdInfo::of(kernel, own.as_fd()).ok()?;
    if !found.is_same(info) {
        return None;
    }
    info.nonblocking = found.nonblocking;
    Some(own)
}

/// Returns whether [`FdInfo::classify_fully`] is worth its calls: the transfer is long, or an
/// option or a descriptor needs the facts.
fn deserves_full_classification(source: &FdInfo, sink: &FdInfo, options: &Options) -> bool {
    let offload_above = plan::offload_above_anywhere(source.kind, sink.kind);
    let is_long = match source.kind {
        Kind::Regular => source.size.is_some(),
        kind => kind == Kind::Block,
    } && plan::remaining(source, options).is_none_or(|left| left > offload_above);
    is_long
        || source.is_same(sink)
        || source.direct
        || options.sparse.searches(source)
        || !Shortcuts::allowed_by(options).partial_classification
}
