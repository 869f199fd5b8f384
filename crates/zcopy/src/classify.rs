//! Before the first step: both descriptors are looked at, and the plan is made.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::endpoint::{Endpoint, Kind};
use crate::error::Failure;
use crate::fault::{Cause, Fault};
use crate::options::{Cache, Options, Sparse};
use crate::plan::{self, Plan};
use crate::preflight;
use crate::side::Side;
use crate::sys::{Errno, Kernel, OFlags};

mod several;

pub(crate) use several::prepare_several;

/// Classifies both descriptors, refuses what cannot work, and plans. Touches nothing.
pub(crate) fn prepare<K: Kernel>(
    kernel: &K,
    source: BorrowedFd<'_>,
    sink: BorrowedFd<'_>,
    options: &Options,
) -> Result<(Endpoint, Endpoint, Plan), Failure> {
    let from = examine(kernel, Side::Source, source)?;
    let to = examine(kernel, Side::Sink, sink)?;
    prepare_examined(kernel, source, sink, from, to, options)
}

/// The same, where both have been classified.
pub(crate) fn prepare_examined<K: Kernel>(
    kernel: &K,
    source: BorrowedFd<'_>,
    sink: BorrowedFd<'_>,
    mut from: Endpoint,
    mut to: Endpoint,
    options: &Options,
) -> Result<(Endpoint, Endpoint, Plan), Failure> {
    if deserves_survey(&from, &to, options) {
        from.survey(kernel, source);
        to.survey(kernel, sink);
    }
    preflight::check(&from, &to, options)?;
    let plan = plan::plan(&from, &to, options)?;
    Ok((from, to, plan))
}

/// Classifies one descriptor.
pub(crate) fn examine<K: Kernel>(
    kernel: &K,
    side: Side,
    fd: BorrowedFd<'_>,
) -> Result<Endpoint, Failure> {
    Endpoint::of(kernel, fd).map_err(|fault| unexaminable(side, fault))
}

/// Refuses a descriptor that is not open, and otherwise names the call that failed on it.
pub(crate) fn unexaminable(side: Side, fault: Fault) -> Failure {
    match fault.cause {
        Cause::Errno(Errno::BADF) => Failure::refused(side, Errno::BADF, "it is not open"),
        _ => Fault { side, ..fault }.into(),
    }
}

/// A descriptor of the transfer's own, in non-blocking mode, for a terminal that a tick must not be held
/// up by.
///
/// No single call on a terminal can be told not to sleep, and one that polls as writable has room for
/// an unknown part of what it is given, or is stopped in the middle of it. None if it needs no such
/// descriptor, or cannot have one: without `/proc`, or where another user owns the terminal.
pub(crate) fn open_again<K: Kernel>(
    kernel: &K,
    fd: BorrowedFd<'_>,
    endpoint: &mut Endpoint,
    side: Side,
    options: &Options,
) -> Option<OwnedFd> {
    let may_sleep = options.tick.is_none() && !options.watch_readers;
    if may_sleep || endpoint.nonblocking || !endpoint.can_be_opened_again {
        return None;
    }
    let access = match side {
        Side::Source => OFlags::RDONLY,
        _ => OFlags::WRONLY,
    };
    let own = kernel.open_again(fd, access).ok()?;
    let found = Endpoint::of(kernel, own.as_fd()).ok()?;
    if !found.is_same(endpoint) {
        return None;
    }
    endpoint.nonblocking = found.nonblocking;
    Some(own)
}

/// Whether the transfer is long enough, or particular enough, to repay a closer look at its ends.
fn deserves_survey(source: &Endpoint, sink: &Endpoint, options: &Options) -> bool {
    let is_long = match source.kind {
        Kind::Regular => source.size.is_some(),
        kind => kind == Kind::Block,
    } && plan::remaining(source, options).is_none_or(|left| left > plan::SMALL);
    is_long || is_particular_enough(source, sink, options)
}

/// Whether an option needs facts that only a closer look at both ends gives. It names every option, so that a new one
/// does not compile until it is decided here.
pub(crate) fn is_particular_enough(source: &Endpoint, sink: &Endpoint, options: &Options) -> bool {
    let Options {
        stable,
        sparse,
        cache,
        observed,
        // `plan::forced` decides these.
        strategy: _,
        reflink: _,
        // How much is moved, and how, needs no closer look.
        limit: _,
        source_offset: _,
        sink_offset: _,
        skip_errors: _,
        sync_data: _,
        grow_pipes: _,
        pipe_size: _,
        buffer_size: _,
        rate_limit: _,
        tick: _,
        records: _,
        watch_readers: _,
        inspected: _,
    } = options;
    source.is_same(sink)
        || source.direct
        || *stable
        || *observed
        || *cache == Cache::DropBehind
        || *sparse == Sparse::Detect
        || plan::forced(options).is_some()
}
