//! A whole file, cloned by one call before there is a plan or an engine.

use std::os::fd::BorrowedFd;

use crate::endpoint::{Endpoint, Kind};
use crate::options::{Cache, Options, Reflink, SkipErrors, Sparse, SyncData};
use crate::report::{Attempt, Report};
use crate::strategy::Strategy;
use crate::sys::Kernel;

/// Clones a whole file into an empty one, if that is all that is wanted: [`Reflink::Always`], and both from their beginnings.
///
/// None if more is wanted, or the kernel refuses. Then nothing has been done, or what an engine finds done.
pub(super) fn clone<K: Kernel>(
    kernel: &K,
    (source, sink): (BorrowedFd<'_>, BorrowedFd<'_>),
    (from, to): (&Endpoint, &Endpoint),
    options: &Options,
) -> Option<Report> {
    let size = from.size?;
    if !is_all(options) || !are_whole(from, to) {
        return None;
    }
    kernel.clone_file(source, sink).ok()?;
    let cloned = kernel.fstat(sink).ok()?.size;
    // The source may have changed since it was looked at, and then an engine tells what there is to tell.
    (cloned == size).then(|| {
        Report::of(Attempt {
            bytes: size,
            calls: 1,
            ..Attempt::new(Strategy::Reflink)
        })
    })
}

/// Whether nothing is asked for but blocks to be shared.
fn is_all(options: &Options) -> bool {
    let is_whole = options.source_offset == Some(0)
        && options.sink_offset == Some(0)
        && options.limit.is_none();
    let is_watched = options.tick.is_some() || options.observed || options.looks_at_bytes();
    let is_asked_for_more = options.rate_limit.is_some()
        || options.cache != Cache::Keep
        || options.skip_errors != SkipErrors::Never
        || options.sync_data != SyncData::Never
        || options.sparse != Sparse::Keep
        || options.strategy.is_some();
    options.reflink == Reflink::Always && is_whole && !(is_watched || is_asked_for_more)
}

/// Whether one is a file and the other an empty one.
fn are_whole(from: &Endpoint, to: &Endpoint) -> bool {
    from.kind == Kind::Regular
        && to.kind == Kind::Regular
        && to.size.is_none()
        && !to.append
        && !from.is_same(to)
}
