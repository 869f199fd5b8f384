//! A whole file, cloned by one call before there is a plan or an engine.

use std::os::fd::BorrowedFd;

use crate::options::{Cache, Options, Reflink, SkipErrors, Sparse, SyncData};
use crate::report::{Attempt, Report};
use crate::strategy::Strategy;
use crate::sys::{FileType, Kernel};

/// Clones a whole file into an empty one, if that is all that is wanted: [`Reflink::Always`], and both from their beginnings.
///
/// None if more is wanted, or the kernel refuses. Then nothing has been done, or what an engine finds done.
///
/// # Kernel notes
///
/// Of the flags nothing needs to be known: `FICLONE` refuses what is open the wrong way, or to append to, with `EBADF`. The sink has to
/// be empty: of a source that has become shorter, or of a clone that was cut off (openzfs#15728), a longer sink shows nothing.
///
/// # References
/// - [ioctl_ficlone(2)](https://man7.org/linux/man-pages/man2/ioctl_ficlone.2.html)
pub(super) fn clone_whole_file<K: Kernel>(
    kernel: &K,
    source: BorrowedFd<'_>,
    sink: BorrowedFd<'_>,
    options: &Options,
) -> Option<Report> {
    if !is_all(options) {
        return None;
    }
    let (from, to) = (kernel.fstat(source).ok()?, kernel.fstat(sink).ok()?);
    let are_files = [from, to].map(|status| status.file_type) == [FileType::RegularFile; 2];
    // A source that claims to be empty may hold anything.
    if !are_files || from.size == 0 || to.size > 0 {
        return None;
    }
    kernel.clone_file(source, sink).ok()?;
    let cloned = kernel.fstat(sink).ok()?.size;
    // The source may have changed since it was looked at, and then an engine tells what there is to tell.
    (cloned == from.size).then(|| {
        Report::of(Attempt {
            bytes: cloned,
            calls: 1,
            ..Attempt::new(Strategy::Reflink)
        })
    })
}

/// Whether nothing is asked for but blocks to be shared. It names every option, so that a new one does not compile until
/// it is decided here.
fn is_all(options: &Options) -> bool {
    let Options {
        limit,
        source_offset,
        sink_offset,
        strategy,
        reflink,
        sparse,
        cache,
        skip_errors,
        sync_data,
        rate_limit,
        tick,
        records,
        inspected,
        observed,
        // A clone hands over no pages that can still change.
        stable: _,
        // It has neither pipes nor a buffer, and both ends are files, which have no readers.
        grow_pipes: _,
        pipe_size: _,
        buffer_size: _,
        watch_readers: _,
    } = options;
    let is_whole = *source_offset == Some(0) && *sink_offset == Some(0) && limit.is_none();
    let is_watched = tick.is_some() || *observed || *inspected || records.is_wanted();
    let is_asked_for_more = rate_limit.is_some()
        || *cache != Cache::Keep
        || *skip_errors != SkipErrors::Never
        || *sync_data != SyncData::Never
        || !matches!(sparse, Sparse::Keep | Sparse::KeepUnwritten)
        || strategy.is_some();
    *reflink == Reflink::Always && is_whole && !(is_watched || is_asked_for_more)
}
