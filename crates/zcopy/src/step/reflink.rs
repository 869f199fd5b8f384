//! `ioctl(FICLONE)` and `ioctl(FICLONERANGE)`: two files share their blocks.
//!
//! A step clones the whole source with `FICLONE` if the sink is empty, both ends have offsets that
//! are 0, and nothing limits the transfer. Otherwise it clones up to 64 MiB of whole blocks with
//! `FICLONERANGE`.
//!
//! | errno | meaning | next |
//! |---|---|---|
//! | `EOPNOTSUPP`, `ENOTTY`, `ENOSYS` | the file system cannot share blocks | refused |
//! | `EXDEV` | the files are on two file systems | refused |
//! | `EINVAL` | the range has no whole blocks, or the files' blocks differ (checksums) | refused |
//! | `EPERM`, `EBADF`, `ETXTBSY` | an immutable, appending or running sink | refused |
//! | `EINTR` | a signal arrived | repeated |
//! | any other, as `EIO`, `ENOMEM`, `ENOSPC`, `EDQUOT` | an error of either side | fails |
//!
//! A step is also refused, without the call, if the limit leaves less than a block, if an end has
//! no position, or if another process has moved a cursor. `buffered` tells `EPERM`, `EBADF` and
//! `ETXTBSY` apart: its write fails with the sink's own errno.
//!
//! # Kernel notes
//!
//! - The ioctl moves no cursor and does not shorten a longer sink.
//! - btrfs returns `EINVAL` for a file with checksums and one without.
//! - `OpenZFS` has reported success for a truncated clone
//!   ([openzfs#15728](https://github.com/openzfs/zfs/issues/15728)). A step therefore counts what
//!   the size of the sink shows, and another strategy moves the rest.
//!
//! Manual:
//! [ioctl_ficlonerange(2)](https://man7.org/linux/man-pages/man2/ioctl_ficlonerange.2.html).

use crate::call_error::{CallError, Cause};
use crate::copy_state::{CopyState, StepBudget};
use crate::side::Side;
use crate::step::Step;
use crate::sys::{Errno, Kernel};

/// The longest range in bytes: a clone takes time for each extent. Only a whole file is cloned at
/// once.
const MAX_CALL: u64 = 64 << 20;

/// The block size in bytes of a file system that does not report one. The kernel refuses a range
/// with `EINVAL` if the real block is larger.
const BLOCK: u64 = 4096;

/// Clones the whole source, or up to 64 MiB of whole blocks.
pub(super) fn step<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
) -> Result<Step, CallError> {
    clone(kernel, state, budget).or_else(|error| match error.cause {
        Cause::Errno(Errno::INTR) => Ok(Step::Repeat),
        Cause::Errno(
            Errno::OPNOTSUPP
            | Errno::NOTTY
            | Errno::NOSYS
            | Errno::XDEV
            | Errno::INVAL
            | Errno::PERM
            | Errno::BADF
            | Errno::TXTBSY,
        ) => Ok(Step::Unsupported(error.cause)),
        _ => Err(error),
    })
}

/// Clones what can be cloned now, and moves both cursors behind it.
fn clone<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    budget: &StepBudget,
) -> Result<Step, CallError> {
    let refused = CallError::of_call("ioctl_ficlonerange", Side::Neither);
    let (Some(from), Some(to)) = (state.source.position(), state.sink.position()) else {
        return Err(refused(Errno::INVAL));
    };
    let (source, sink) = (state.source.fd, state.sink.fd);
    let size = kernel.file_size(source);
    let size = size.map_err(CallError::of_call("fstat", Side::Source))?;
    let stat_error = CallError::of_call("fstat", Side::Sink);
    let size_of_sink = || kernel.file_size(sink).map_err(stat_error);
    let left = size.saturating_sub(from);
    if left == 0 {
        return Ok(Step::Eof);
    }
    // The source may have grown, and a reservation ends at the known size.
    state.source.info.size = Some(size);
    let has_cursor = state.sink.goes_by_cursor() || state.source.goes_by_cursor();
    let may_be_whole = from == 0 && to == 0 && budget.max == u64::MAX && !has_cursor;
    let cloned = if may_be_whole && size_of_sink()? == 0 {
        state.calls += 1;
        kernel.clone_file(source, sink).map_err(refused)?;
        size_of_sink()?
    } else {
        let max = budget.max.min(MAX_CALL);
        let block = state.source.info.block_size.unwrap_or(BLOCK).max(1);
        let len = if left <= max { left } else { max - max % block };
        if len == 0 {
            // The limit leaves less than a block.
            return Err(refused(Errno::INVAL));
        }
        let readable = state.source.reserve_to_read(kernel, len);
        let is_reserved = readable.map_err(CallError::of_call("lseek", Side::Source))? == len && {
            let writable = state.sink.reserve_ignoring_free_space(kernel, len);
            writable.map_err(CallError::of_call("lseek", Side::Sink))? == len
        };
        let positions = (state.source.position(), state.sink.position());
        if positions != (Some(from), Some(to)) || !is_reserved {
            // Another process has moved a cursor: the reserved range may not begin at a block.
            return Err(refused(Errno::INVAL));
        }
        state.calls += 1;
        let cloned = kernel.clone_range(source, from, sink, to, len);
        cloned.map_err(refused)?;
        size_of_sink()?.saturating_sub(to).min(len)
    };
    if cloned == 0 {
        return Ok(Step::Unsupported(Cause::ReturnedZero));
    }
    let skipped = state.source.skip(kernel, cloned);
    skipped.map_err(CallError::of_call("lseek", Side::Source))?;
    let skipped = state.sink.skip(kernel, cloned);
    skipped.map_err(CallError::of_call("lseek", Side::Sink))?;
    Ok(Step::Moved(cloned))
}
