//! `ioctl(FICLONE)` and `ioctl(FICLONERANGE)`: two files share their blocks.

use crate::fault::{Cause, Fault, Side};
use crate::route::{Ask, Route};
use crate::strategy::Step;
use crate::sys::{Errno, Kernel, Result as Called};

/// Cloning takes time by the extent, so that a range is cloned in pieces; only a whole file is
/// cloned at once.
const BOUND: u64 = 64 << 20;

/// The block size of most file systems, taken for that of one which does not tell. A range that does
/// not fit the real one is refused by the kernel with `EINVAL`.
const BLOCK: u64 = 4096;

/// Makes the sink share the source's blocks: the whole file in one call if the sink is empty and
/// nothing limits the transfer, up to 64 MiB of whole blocks otherwise.
///
/// # Errors
///
/// [`Step::Unsupported`], with nothing cloned, on
/// - `EOPNOTSUPP`, `ENOTTY`, `ENOSYS`: the file system cannot share blocks;
/// - `EXDEV`: two file systems;
/// - `EINVAL`: the range is not made of whole blocks, or the two files differ in a property of
///   their blocks (btrfs checksums);
/// - `EPERM`, `EBADF`, `ETXTBSY`: an immutable, appending or running sink, which `buffered` tells
///   apart.
///
/// `EIO`, `ENOMEM`, `ENOSPC`, `EDQUOT` and every other errno are final.
///
/// # Kernel notes
///
/// The ioctl moves no cursor and does not shorten a longer sink. One file system has reported
/// success for a truncated clone (openzfs#15728), so that the size of the sink is what counts;
/// another strategy goes on from there.
///
/// # References
/// - [ioctl_ficlonerange(2)](https://man7.org/linux/man-pages/man2/ioctl_ficlonerange.2.html)
pub(super) fn step<K: Kernel>(kernel: &K, route: &mut Route<'_>, ask: &Ask) -> Result<Step, Fault> {
    match clone(kernel, route, ask) {
        Ok(answer) => Ok(answer),
        Err(Errno::INTR) => Ok(Step::Interrupted),
        Err(errno) if is_unsupported(errno) => Ok(Step::Unsupported(errno.into())),
        Err(errno) => Err(Fault::new("ioctl_ficlonerange", Side::Neither, errno)),
    }
}

/// Clones what can be cloned now, and moves both cursors over it.
fn clone<K: Kernel>(kernel: &K, route: &mut Route<'_>, ask: &Ask) -> Called<Step> {
    let (Some(from), Some(to)) = (route.source.position(), route.sink.position()) else {
        return Err(Errno::INVAL);
    };
    let (source, sink) = (route.source.fd, route.sink.fd);
    let size = kernel.fstat(source)?.size;
    let left = size.saturating_sub(from);
    if left == 0 {
        return Ok(Step::Eof);
    }
    // What it has grown by may be reserved too.
    route.source.endpoint.size = Some(size);
    let is_whole = from == 0 && to == 0 && ask.max == u64::MAX && kernel.fstat(sink)?.size == 0;
    let cloned = if is_whole && !route.sink.goes_by_cursor() && !route.source.goes_by_cursor() {
        route.calls += 1;
        kernel.clone_file(source, sink)?;
        kernel.fstat(sink)?.size
    } else {
        let max = ask.max.min(BOUND);
        let block = route.source.endpoint.block_size.unwrap_or(BLOCK).max(1);
        let len = if left <= max { left } else { max - max % block };
        if len == 0 {
            // Less than a block is left.
            return Err(Errno::INVAL);
        }
        let is_reserved = route.source.reserve_to_read(kernel, len)? == len
            && route.sink.reserve_in_place(kernel, len)? == len;
        if (route.source.position(), route.sink.position()) != (Some(from), Some(to))
            || !is_reserved
        {
            // Somebody else has moved a cursor: what is reserved now may not begin with a block.
            return Err(Errno::INVAL);
        }
        route.calls += 1;
        kernel.clone_range((source, from), (sink, to), len)?;
        kernel.fstat(sink)?.size.saturating_sub(to).min(len)
    };
    if cloned == 0 {
        return Ok(Step::Unsupported(Cause::Nothing));
    }
    route.source.skip(kernel, cloned)?;
    route.sink.skip(kernel, cloned)?;
    Ok(Step::Moved(cloned))
}

fn is_unsupported(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::OPNOTSUPP
            | Errno::NOTTY
            | Errno::NOSYS
            | Errno::XDEV
            | Errno::INVAL
            | Errno::PERM
            | Errno::BADF
            | Errno::TXTBSY
    )
}
