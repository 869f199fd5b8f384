//! Checks what the source and the sink hold after a transfer: with interference, what `read(2)` and
//! `write(2)` would have left.
//!
//! The bytes of every process must be present, in order and exactly once. The oracle removes the
//! bytes of other processes by their positions; the rest are those of the transfer.

use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};

use super::SimKernel;
use super::interference::{Effect, FAR};
use super::objects::{File, Object, lengthen};
use super::scenario::{Kind, SinkSpec, SourceSpec};
use super::script::Call;

use crate::sys::Errno;

mod accounting;

pub(crate) use accounting::{
    check_boundaries, check_calls, check_capacities, check_consumed, check_ticks,
};

/// The result of a check, with a description of the violation.
pub(crate) type Check<T> = Result<T, String>;

/// Whether a transfer may leave a gap in a sink or source that other processes use too.
///
/// A transfer reserves a range at a shared position by `lseek(2)`. If it cannot fill the range, it
/// can give it back only while the position is unchanged. Once another process has moved the
/// position, the rest of the last reservation remains as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Gap {
    /// The transfer succeeded.
    Never,
    /// The transfer failed.
    InLastReservation,
}

impl Gap {
    pub(crate) fn after<T, E>(result: &Result<T, E>) -> Self {
        match result {
            Ok(_) => Self::Never,
            Err(_) => Self::InLastReservation,
        }
    }
}

/// The positions and bytes that other processes wrote or read.
type Pieces = Vec<(u64, Vec<u8>)>;

/// Returns what other processes wrote to this object, sorted by position.
fn written(kernel: &SimKernel, fd: &OwnedFd) -> Pieces {
    pieces(kernel, fd, |effect| match effect {
        Effect::Wrote(place, bytes) => Some((*place, bytes.clone())),
        _ => None,
    })
}

/// Returns what other processes read, sorted by position.
pub(crate) fn read(kernel: &SimKernel, fd: &OwnedFd) -> Pieces {
    pieces(kernel, fd, |effect| match effect {
        Effect::Read(place, bytes) => Some((*place, bytes.clone())),
        _ => None,
    })
}

fn pieces(
    kernel: &SimKernel,
    fd: &OwnedFd,
    which: impl Fn(&Effect) -> Option<(u64, Vec<u8>)>,
) -> Pieces {
    let state = kernel.state.borrow();
    let object = state.descriptor(fd.as_raw_fd()).object;
    let effects = state
        .effects
        .iter()
        .filter(|record| record.object == object);
    let mut pieces: Vec<_> = effects.filter_map(|record| which(&record.effect)).collect();
    pieces.retain(|(_, bytes)| !bytes.is_empty());
    pieces.sort_by_key(|(place, _)| *place);
    pieces
}

/// Returns the positions of reads by other processes after the last logged call of the transfer.
/// The calls by which it gives bytes back are not logged.
fn read_at_last(kernel: &SimKernel, fd: &OwnedFd) -> Vec<u64> {
    let state = kernel.state.borrow();
    let object = state.descriptor(fd.as_raw_fd()).object;
    let effects = state
        .effects
        .iter()
        .filter(|record| record.object == object);
    let late = effects.filter(|record| record.n_calls == state.log.len());
    let places = late.filter_map(|record| match &record.effect {
        Effect::Read(place, _) => Some(*place),
        _ => None,
    });
    places.collect()
}

/// Returns the number of bytes that other processes read.
pub(crate) fn n_read(kernel: &SimKernel, fd: &OwnedFd) -> u64 {
    let read = read(kernel, fd);
    read.iter().map(|(_, bytes)| bytes.len() as u64).sum()
}

/// Returns the range that the transfer last reserved by `lseek(2)`.
fn reserved(kernel: &SimKernel, fd: &OwnedFd) -> Range<u64> {
    let state = kernel.state.borrow();
    let reserved = state.reserved.get(&fd.as_raw_fd());
    reserved.cloned().unwrap_or(0..0)
}

fn with_file<T>(kernel: &SimKernel, fd: &OwnedFd, look: impl FnOnce(&File) -> T) -> Option<T> {
    kernel.with(fd, |object| match object {
        Object::File(file) => Some(look(file)),
        _ => None,
    })
}

/// Checks a sink that has accepted the bytes `ours`: they and the bytes of other processes are
/// complete and in order, nothing else has changed, and the position of the open file is behind
/// them.
pub(crate) fn check_sink(
    kernel: &SimKernel,
    (fd, end): (&OwnedFd, &SinkSpec),
    ours: &[u8],
    gap: Gap,
) -> Check<()> {
    let mut image = if end.is_file() {
        end.bytes()
    } else {
        Vec::new()
    };
    let start = match end.kind {
        _ if end.appends => end.len as u64,
        Kind::File | Kind::Block => end.start,
        _ => 0,
    };
    let (far, theirs): (Vec<_>, Vec<_>) = written(kernel, fd)
        .into_iter()
        .partition(|(place, _)| *place >= FAR);
    let mut patches = far;
    let (mut place, mut left) = (start, ours);
    let mut unknown = Vec::new();
    for (at, bytes) in &theirs {
        let Some(room) = at.checked_sub(place) else {
            return Err(format!("others overwrote each other at {at}"));
        };
        let (own, rest) = left.split_at(left.len().min(room as usize));
        patches.push((place, own.to_vec()));
        (place, left) = (place + own.len() as u64, rest);
        if place < *at {
            let reserved = reserved(kernel, fd);
            let is_reserved = reserved.start <= place && *at <= reserved.end;
            if gap == Gap::Never || !is_reserved {
                return Err(format!("nobody wrote {place}..{at} before others' bytes"));
            }
            unknown.push(place..*at);
        }
        patches.push((*at, bytes.clone()));
        place = at + bytes.len() as u64;
    }
    patches.push((place, left.to_vec()));
    place += left.len() as u64;
    for (at, bytes) in patches.iter().filter(|(_, bytes)| !bytes.is_empty()) {
        let range = *at as usize..*at as usize + bytes.len();
        lengthen(&mut image, range.end);
        image[range].copy_from_slice(bytes);
    }
    lengthen(&mut image, extended(kernel, fd));
    // Bytes that another process truncated are gone.
    let cut = with_file(kernel, fd, |file| file.cut.clone());
    unknown.extend(cut.unwrap_or_default());
    agrees(&image, &kernel.contents(fd), &unknown, ours.len())?;
    if end.is_file() {
        let expected = match () {
            () if end.is_positional => 77,
            () if end.appends && !theirs.is_empty() => return Ok(()),
            () if ours.is_empty() && theirs.is_empty() => end.start,
            () => place,
        };
        let cursor = kernel.cursor(fd);
        if cursor != expected {
            return Err(format!("the sink's position is {cursor}, not {expected}"));
        }
    }
    Ok(())
}

/// Returns the greatest length that another process gave a file by `ftruncate(2)`.
fn extended(kernel: &SimKernel, fd: &OwnedFd) -> usize {
    with_file(kernel, fd, |file| file.extended).unwrap_or(0)
}

/// Compares the contents of a sink with the expected bytes, except in ranges whose contents are
/// unknown.
fn agrees(expected: &[u8], holds: &[u8], unknown: &[Range<u64>], n_bytes: usize) -> Check<()> {
    if holds.len() > expected.len() {
        let (len, expected) = (holds.len(), expected.len());
        return Err(format!(
            "the sink's length is {len}, not {expected}, for {n_bytes} bytes"
        ));
    }
    let differing = gaps(unknown, expected.len()).find_map(|known| {
        let [start, end] = [known.start, known.end].map(|place| place.min(holds.len()));
        let (expected, holds) = (&expected[known.clone()], &holds[start..end]);
        // One comparison of all bytes costs least, and most ranges are equal.
        let differs = expected != holds;
        let mut pairs = expected.iter().zip(holds);
        let mut first = || pairs.position(|(expected, held)| expected != held);
        differs.then(|| known.start + first().unwrap_or(holds.len()))
    });
    match differing {
        None => Ok(()),
        Some(place) if place >= holds.len() => Err(format!(
            "the sink's length is {}, not {}, for {n_bytes} bytes",
            holds.len(),
            expected.len()
        )),
        Some(place) => Err(format!(
            "the first wrong byte in the sink is {place}, for {n_bytes} bytes"
        )),
    }
}

/// The parts of `0..len` that lie in none of the ranges.
fn gaps(ranges: &[Range<u64>], len: usize) -> impl Iterator<Item = Range<usize>> {
    let mut ranges: Vec<_> = ranges
        .iter()
        .map(|range| range.start as usize..range.end as usize)
        .chain(std::iter::once(len..len))
        .collect();
    ranges.sort_unstable_by_key(|range| range.start);
    let mut from = 0;
    ranges.into_iter().filter_map(move |range| {
        let gap = from..range.start.min(len);
        from = from.max(range.end);
        (!gap.is_empty()).then_some(gap)
    })
}

/// The bytes that a source offered, and the least number of them that a transfer to the end of the
/// file must deliver.
#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) bytes: Vec<u8>,
    pub(crate) least: usize,
}

/// Returns the bytes that a source offered to the transfer. It excludes what other processes read.
/// If another process changed the file, every byte is one that the file held there at some time.
/// `sink` has accepted `n` bytes, which an inspector was shown if they were `inspected`. If the
/// transfer gives bytes back to the source at its end, other processes may have read them
/// afterwards.
///
/// # Errors
///
/// Fails if other processes read a byte twice, because the position of the open file went back.
pub(crate) fn data(
    kernel: &SimKernel,
    (fd, end): (&OwnedFd, &SourceSpec),
    bytes: &[u8],
    (sink, sink_end, n): (&OwnedFd, &SinkSpec, usize),
    inspected: Option<&[u8]>,
    is_given_back: bool,
) -> Check<Data> {
    let start = if end.is_file() { end.start } else { 0 };
    let versions = versions(kernel, fd);
    if !versions.is_empty() {
        let delivered = match inspected {
            // `/dev/null` stores no holes, and has them only if there is an inspector.
            Some(inspected) if sink_end.kind == Kind::Device => inspected.to_vec(),
            _ => delivered(kernel, (sink, sink_end), n),
        };
        return Ok(changed(kernel, &versions, start as usize, &delivered));
    }
    let start = (start as usize).min(bytes.len());
    let mut data = bytes[start..].to_vec();
    let mut next = u64::MAX;
    if !end.is_positional {
        let late = read_at_last(kernel, fd);
        for (place, piece) in read(kernel, fd).iter().rev() {
            let to = place + piece.len() as u64;
            if to > next {
                return Err(format!("others read {next} twice"));
            }
            if !(is_given_back && late.contains(place)) {
                data.drain(*place as usize - start..to as usize - start);
            }
            next = *place;
        }
    }
    let least = data.len();
    Ok(Data { bytes: data, least })
}

/// Returns each content that the file has had, with the number of calls after which it changed, or
/// nothing if it never did.
fn versions(kernel: &SimKernel, fd: &OwnedFd) -> Vec<(usize, Vec<u8>)> {
    let state = kernel.state.borrow();
    let object = state.descriptor(fd.as_raw_fd()).object;
    let effects = state
        .effects
        .iter()
        .filter(|record| record.object == object);
    let before = effects.filter_map(|record| match &record.effect {
        Effect::Changed(before) => Some((record.n_calls, before.clone())),
        _ => None,
    });
    let mut versions: Vec<_> = before.collect();
    if !versions.is_empty() {
        versions.push((usize::MAX, state.objects[object].contents()));
    }
    versions
}

/// Returns the first `n` bytes that a sink has received. No other process has written to it.
fn delivered(kernel: &SimKernel, (fd, end): (&OwnedFd, &SinkSpec), n: usize) -> Vec<u8> {
    let start = match end.kind {
        _ if end.appends => end.len,
        Kind::File | Kind::Block => end.start as usize,
        _ => 0,
    };
    let holds = kernel.contents(fd);
    let start = start.min(holds.len());
    holds[start..holds.len().min(start + n)].to_vec()
}

fn changed(
    kernel: &SimKernel,
    versions: &[(usize, Vec<u8>)],
    start: usize,
    delivered: &[u8],
) -> Data {
    let unseen = cut_while_searched(kernel, versions);
    let is_version = |place: usize, byte: u8| {
        let mut unseen = unseen.iter();
        let is_unseen = byte == 0 && unseen.any(|range| range.contains(&place));
        let mut versions = versions.iter();
        is_unseen || versions.any(|(_, version)| version.get(place) == Some(&byte))
    };
    let mut bytes = Vec::with_capacity(delivered.len());
    for (nth, byte) in delivered.iter().enumerate() {
        if !is_version(start + nth, *byte) {
            break;
        }
        bytes.push(*byte);
    }
    let now = &versions[versions.len() - 1].1;
    let from = (start + bytes.len()).min(now.len());
    bytes.extend_from_slice(&now[from..]);
    let state = kernel.state.borrow();
    let is_zero = |(call, answer): &&(Call, _)| {
        matches!(
            call,
            Call::Read | Call::Splice | Call::Sendfile | Call::CopyFileRange
        ) && *answer == Ok(0)
    };
    let end = state.log.iter().rposition(|entry| is_zero(&entry));
    let mut at_end = versions
        .iter()
        .filter(|(until, _)| end.is_some_and(|end| *until > end));
    let least = match at_end.next() {
        Some((_, version)) => version.len(),
        None => versions.iter().map(|(_, v)| v.len()).min().unwrap_or(0),
    };
    let least = least.saturating_sub(start).min(bytes.len());
    Data { bytes, least }
}

/// Returns the ranges that a file had before and after a search for data, and not during it. The
/// transfer takes such a range for a hole if the search found no data there: it queries the size of
/// a file and the position of its data by two calls, and cannot exclude a change between them.
fn cut_while_searched(kernel: &SimKernel, versions: &[(usize, Vec<u8>)]) -> Vec<Range<usize>> {
    let state = kernel.state.borrow();
    let log = state.log.iter().enumerate();
    let searches = log.filter(|(_, entry)| **entry == (Call::SeekExtent, Err(Errno::NXIO)));
    let mut places = Vec::new();
    for (nth, _) in searches {
        // Interference inside a call is recorded before the call, and interference after it is
        // recorded before the next one.
        let is_near = |(until, _): &&(usize, Vec<u8>)| *until == nth || *until == nth + 1;
        let Some(first) = versions.iter().position(|version| is_near(&version)) else {
            continue;
        };
        let n_near = versions.iter().filter(is_near).count();
        let near = versions[first..].iter().take(n_near + 1);
        let lens: Vec<usize> = near.map(|(_, version)| version.len()).collect();
        for (index, len) in lens.iter().enumerate() {
            let longest = |lens: &[usize]| lens.iter().copied().max().unwrap_or(0);
            let (before, after) = (longest(&lens[..index]), longest(&lens[index + 1..]));
            places.push(*len..before.min(after));
        }
    }
    places
}

/// Checks the position of a source's open file after a transfer that has delivered or handed back
/// `n` bytes.
pub(crate) fn check_source_position(
    kernel: &SimKernel,
    (fd, end): (&OwnedFd, &SourceSpec),
    n: u64,
    gap: Gap,
) -> Check<()> {
    let position = kernel.cursor(fd);
    let n_theirs = n_read(kernel, fd);
    let expected = if end.is_positional {
        77 + n_theirs
    } else {
        end.start + n + n_theirs
    };
    let last = read(kernel, fd)
        .last()
        .map(|(place, piece)| place + piece.len() as u64);
    if !end.is_positional && last.is_some_and(|last| position < last) {
        return Err(format!(
            "bytes from {position} on, which others have read, are left"
        ));
    }
    if position == expected {
        return Ok(());
    }
    let reserved = reserved(kernel, fd);
    let most = reserved.end - reserved.start;
    let is_gap = n_theirs > 0 && position > expected && position - expected <= most;
    if gap == Gap::InLastReservation && is_gap && !end.is_positional {
        return Ok(());
    }
    Err(format!(
        "the source's position is {position}, not {expected}"
    ))
}

/// What a transfer promised and reported about pages of a file that its sink shares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageSharing {
    /// Whether the transfer was requested to be stable.
    pub(crate) is_forbidden: bool,
    pub(crate) source_is_file: bool,
    pub(crate) is_reported: bool,
}

/// Checks whether the sink shares pages of a file, which a later write to the file would change.
pub(crate) fn check_pages(kernel: &SimKernel, sink: &OwnedFd, sharing: PageSharing) -> Check<()> {
    let n = kernel.with(sink, |object| match object {
        Object::Channel(channel) => channel.shared_page_bytes,
        _ => 0,
    });
    match n {
        0 => Ok(()),
        n if sharing.is_forbidden => Err(format!("the sink shares {n} bytes with a file")),
        n if sharing.source_is_file && !sharing.is_reported => {
            Err(format!("{n} bytes are shared, and the report is silent"))
        }
        _ => Ok(()),
    }
}
