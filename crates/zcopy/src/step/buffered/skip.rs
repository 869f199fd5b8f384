//! How read and write get past a bad place of the source.

use crate::bad_places::{Next, Probed};
use crate::buffer::ALIGNMENT;
use crate::end::End;
use crate::endpoint::Kind;
use crate::fault::Fault;
use crate::route::{Ask, Route};
use crate::side::Side;
use crate::step::Step;
use crate::sys::{Errno, Kernel, Patience, Result as Called, SeekFrom};

/// What was done instead of a read.
pub(super) enum Ahead {
    /// Nothing: at most so many bytes are to be read.
    Read(usize),
    /// The buffer has been filled with zeros.
    Filled,
    /// It was found out how far the bad place reaches, or a signal came.
    Again,
}

/// Does what has to be done before the next read, of at most `len` bytes.
pub(super) fn ahead<K: Kernel>(
    kernel: &K,
    route: &mut Route<'_>,
    len: usize,
) -> Result<Ahead, Fault> {
    match route.bad.next() {
        Next::Read(u64::MAX) => Ok(Ahead::Read(len)),
        Next::Read(bound) => {
            let position = place(kernel, &route.source).map_err(cannot_seek)?;
            let piece = route.bad.piece(position, bound);
            Ok(Ahead::Read((len as u64).min(piece).max(1) as usize))
        }
        Next::Zeros(zeros) => {
            let source = &mut route.source;
            let n = zeros.min(len as u64);
            let reserved = source.reserve_to_read(kernel, n).map_err(cannot_seek)?;
            let is_moved = source.position() != Some(route.bad.zeros_at());
            if source.goes_by_cursor() && is_moved && reserved > 0 {
                // What is reserved now is read instead.
                route.bad.forget();
                return Ok(Ahead::Again);
            }
            let room = route.buffer.spare_mut(n as usize);
            room.fill(0);
            let n = room.len();
            source.skip(kernel, n as u64).map_err(cannot_seek)?;
            route.buffer.fill(n);
            route.bad.filled(n as u64);
            Ok(Ahead::Filled)
        }
        Next::Probe(position) => probe(kernel, route, position).map(|()| Ahead::Again),
    }
}

/// Finds out whether a piece can be read at a position, and leaves the cursor alone.
fn probe<K: Kernel>(kernel: &K, route: &mut Route<'_>, position: u64) -> Result<(), Fault> {
    let grain = grain(kernel, route);
    let room = route.buffer.spare_mut(grain as usize);
    route.calls += 1;
    let source = &route.source;
    let read = if source.endpoint.direct {
        kernel.read(source.fd, Some(position), room, Patience::Block)
    } else {
        route
            .source_detour
            .look_at_pages(kernel, source, position, room)
    };
    let found = match read {
        Err(Errno::INVAL) if source.endpoint.direct && grain < ALIGNMENT as u64 => {
            route.bad.coarsen();
            return Ok(());
        }
        // What waits in the buffer ends at an odd place.
        Err(Errno::INVAL) if source.endpoint.direct => {
            route.source_detour.look(kernel, source, position, room)
        }
        found => found,
    };
    let found = match found {
        Ok(_) => Probed::Good,
        Err(Errno::INTR) => return Ok(()),
        Err(errno) if route.bad.skips(errno) => Probed::Bad,
        Err(errno) => return Err(Fault::new("read", Side::Source, errno)),
    };
    route.bad.waiting = route.in_flight();
    route.bad.probed(position, found);
    Ok(())
}

/// What a read of `len` bytes that failed means: that it is to be made again, or that the source has
/// ended, as it has no bad place behind its last byte.
///
/// # Errors
///
/// Any errno that does not speak of one place, or speaks of one in a source that has no positions or
/// does not say where it ends.
///
/// # Kernel notes
///
/// Of a source opened with `O_DIRECT` it is not known how small a piece may be; a disk says `EINVAL` to
/// one that is smaller than its blocks.
///
/// Kernels before 5.10 look into the last page of a file before they look at its size: if that page is
/// bad, what ends the file is not a read of 0 but the error.
pub(super) fn failed<K: Kernel>(
    kernel: &K,
    route: &mut Route<'_>,
    len: usize,
    errno: Errno,
    ask: &Ask,
) -> Result<Step, Fault> {
    let fault = Fault::new("read", Side::Source, errno);
    if errno == Errno::INVAL && may_be_too_small(route, len) {
        route.bad.coarsen();
        return Ok(Step::Interrupted);
    }
    let source = &route.source;
    if !route.bad.skips(errno) || !source.endpoint.is_seekable() {
        return Err(fault);
    }
    let (Ok(position), Some(size)) = (place(kernel, source), size(kernel, source)) else {
        return Err(fault);
    };
    if position >= size {
        let is_end = position == size;
        return if is_end { Ok(Step::Eof) } else { Err(fault) };
    }
    grain(kernel, route);
    let waiting = route.in_flight();
    let end = size.min(position.saturating_add(ask.remaining - waiting));
    route.bad.waiting = waiting;
    route.bad.could_not_read(position, len as u64, end, errno);
    Ok(Step::Interrupted)
}

/// Whether a careful read of `len` bytes from a source opened with `O_DIRECT` may be smaller than what its disk
/// reads.
pub(super) fn may_be_too_small(route: &Route<'_>, len: usize) -> bool {
    let is_careful = matches!(route.bad.next(), Next::Read(bound) if bound < ALIGNMENT as u64);
    is_careful && route.source.endpoint.direct && len < ALIGNMENT
}

/// Whether what is read next is a single piece, of which the page cache is to hold nothing else.
pub(super) fn is_single(route: &Route<'_>, len: usize) -> bool {
    !route.source.endpoint.direct && route.bad.is_single(len as u64)
}

/// Where the next byte is.
fn place<K: Kernel>(kernel: &K, source: &End<'_>) -> Called<u64> {
    match source.at() {
        (_, Some(offset)) => Ok(offset),
        (fd, None) => kernel.seek(fd, SeekFrom::Current(0)),
    }
}

/// Where the source ends, if that can be known. A file that claims to be empty is none that ends there.
fn size<K: Kernel>(kernel: &K, source: &End<'_>) -> Option<u64> {
    let size = match source.endpoint.kind {
        Kind::Block => kernel.device_size(source.fd),
        _ => kernel.fstat(source.fd).map(|status| status.size),
    };
    size.ok().filter(|size| *size > 0)
}

/// The smallest piece worth reading, in bytes. A sink opened with `O_DIRECT` takes no smaller one than a
/// block.
fn grain<K: Kernel>(kernel: &K, route: &mut Route<'_>) -> u64 {
    let (source, sink) = (&route.source, &route.sink.endpoint);
    route.bad.grain_or(|| {
        let grain = source.endpoint.grain(kernel, source.fd);
        if sink.direct {
            grain.max(ALIGNMENT as u64)
        } else {
            grain
        }
    })
}

fn cannot_seek(errno: Errno) -> Fault {
    Fault::new("lseek", Side::Source, errno)
}
