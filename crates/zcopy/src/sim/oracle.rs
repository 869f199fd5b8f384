//! What two ends must hold after a transfer in company: what `read(2)` and `write(2)` would have kept.
//!
//! Everybody's bytes are there whole, in order and once. Others' bytes are taken out by their places; what is left is
//! the transfer's own.

use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};

use super::SimKernel;
use super::interference::{Effect, FAR};
use super::objects::{File, Object};
use super::scenario::{Kind, SinkSpec, SourceSpec};
use super::script::Call;
use crate::report::{Attempt, Report};
use crate::sys::Errno;

/// What a judge finds wrong.
pub(crate) type Check<T> = Result<T, String>;

/// Whether a transfer may have left a gap in a sink or source that others use too.
///
/// A transfer that reserves bytes at a shared position by `lseek(2)`, and then cannot fill them, can give them back only
/// while the position is where it left it. Once somebody else has gone on from there the rest of the last reservation
/// stays as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Gap {
    /// The transfer went well.
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

/// Pieces that others wrote or read, at their places.
type Pieces = Vec<(u64, Vec<u8>)>;

/// What others wrote to the object of this descriptor, by place.
fn written(kernel: &SimKernel, fd: &OwnedFd) -> Pieces {
    pieces(kernel, fd, |effect| match effect {
        Effect::Wrote(place, bytes) => Some((*place, bytes.clone())),
        _ => None,
    })
}

/// What others read, by place.
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

/// Where others read after the last call that the transfer made, but for those that give something back.
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

/// Bytes that others read, in all.
pub(crate) fn n_read(kernel: &SimKernel, fd: &OwnedFd) -> u64 {
    let read = read(kernel, fd);
    read.iter().map(|(_, bytes)| bytes.len() as u64).sum()
}

/// The last range that the transfer stepped over by `lseek(2)`.
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

/// Judges a sink that has accepted the bytes `ours`: they and the bytes of others are whole and in order, nothing else has
/// changed, and the position of the open file is behind them.
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
        image.resize(image.len().max(range.end), 0);
        image[range].copy_from_slice(bytes);
    }
    image.resize(image.len().max(extended(kernel, fd)), 0);
    // What others cut off is gone.
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

/// How long others made a file by truncation, at least.
fn extended(kernel: &SimKernel, fd: &OwnedFd) -> usize {
    with_file(kernel, fd, |file| file.extended).unwrap_or(0)
}

/// Whether a sink holds what it should, but for places where that is unknown.
fn agrees(expected: &[u8], holds: &[u8], unknown: &[Range<u64>], n_bytes: usize) -> Check<()> {
    let is_known = |place: usize| !unknown.iter().any(|range| range.contains(&(place as u64)));
    if holds.len() > expected.len() {
        let (len, expected) = (holds.len(), expected.len());
        return Err(format!(
            "the sink's length is {len}, not {expected}, for {n_bytes} bytes"
        ));
    }
    if unknown.is_empty() && holds == expected {
        return Ok(());
    }
    let wrong = |place: &usize| is_known(*place) && holds.get(*place) != expected.get(*place);
    match (0..expected.len()).find(wrong) {
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

/// What there is to move, and how much of it an end of file must have delivered.
#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) bytes: Vec<u8>,
    pub(crate) least: usize,
}

/// What there was to move from a source that holds `bytes`: what others read is not, and of a file that others changed
/// every byte is one that the file had there at some time. `sink` holds `n` bytes. If bytes are given back to the source in the end,
/// others may have read them since, which the transfer had read before.
///
/// # Errors
///
/// If others read a byte twice: the position of the open file went back.
pub(crate) fn data(
    kernel: &SimKernel,
    (fd, end): (&OwnedFd, &SourceSpec),
    bytes: &[u8],
    (sink, sink_end, n): (&OwnedFd, &SinkSpec, usize),
    is_given_back: bool,
) -> Check<Data> {
    let start = if end.is_file() { end.start } else { 0 };
    let versions = versions(kernel, fd);
    if !versions.is_empty() {
        let delivered = delivered(kernel, (sink, sink_end), n);
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

/// Every content that the file has had, with the number of calls after which it changed. None if it never did.
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

/// The first `n` bytes that a sink has of the transfer; nobody else has written to it.
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

/// The places that a file had before a search for data, and after it, and not at the time. If it found none there, that is
/// taken for a hole: the size of a file and where its data is are two questions, and nobody can help what others do
/// between them.
fn cut_while_searched(kernel: &SimKernel, versions: &[(usize, Vec<u8>)]) -> Vec<Range<usize>> {
    let state = kernel.state.borrow();
    let log = state.log.iter().enumerate();
    let searches = log.filter(|(_, entry)| **entry == (Call::SeekExtent, Err(Errno::NXIO)));
    let mut places = Vec::new();
    for (nth, _) in searches {
        // What others do inside a call is noted before it, and what they do behind it before the next.
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

/// Judges the position of a source's open file, after a transfer that has delivered or handed back `n` bytes.
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

/// Judges whether the sink got pages of a file that a later write to the file can change.
pub(crate) fn check_pages(
    kernel: &SimKernel,
    sink: &OwnedFd,
    (is_stable, source_is_file, is_reported): (bool, bool, bool),
) -> Check<()> {
    let n = kernel.with(sink, |object| match object {
        Object::Channel(channel) => channel.shared_page_bytes,
        _ => 0,
    });
    match n {
        0 => Ok(()),
        n if is_stable => Err(format!("the sink shares {n} bytes with a file")),
        n if source_is_file && !is_reported => {
            Err(format!("{n} bytes are shared, and the report is silent"))
        }
        _ => Ok(()),
    }
}

/// How many reads a transfer makes at most to confirm an end.
const MOST_LOOKS: u64 = 3;

/// Judges the number of calls that the reports of successful transfers count: each call that moved bytes, and none that was
/// not made. Reads that only confirm an end are not counted, and may bring bytes beside others.
pub(crate) fn check_calls(kernel: &SimKernel, reports: &[Report]) -> Check<()> {
    let state = kernel.state.borrow();
    let moves = state.log.iter().filter(|(call, _)| call.moves_bytes());
    let n_moved = moves.clone().filter(|(_, n)| matches!(n, Ok(1..))).count() as u64;
    // A look at the next message counts, if it finds none.
    let looks = state
        .log
        .iter()
        .filter(|(call, _)| *call == Call::NextDatagram);
    let n_made = (moves.count() + looks.count()) as u64;
    let attempts = reports.iter().flat_map(Report::attempts);
    let n_counted: u64 = attempts.map(Attempt::calls).sum();
    let n_looks = MOST_LOOKS * reports.len() as u64;
    if (n_moved.saturating_sub(n_looks)..=n_made).contains(&n_counted) {
        return Ok(());
    }
    Err(format!(
        "{n_counted} calls are counted; {n_made} were made, of which {n_moved} moved bytes"
    ))
}
