//! The files, pipes, sockets and devices behind the descriptors of the simulated kernel.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::OnceLock;
use std::time::Duration;

use super::channel::{Channel, Messages, Peer, Timing};
use super::queue::{Part, joined};
use crate::sys::Errno;

/// The granularity of holes and the size of a pipe's slot, in bytes.
pub(crate) const BLOCK: usize = 4096;

/// The number of FUSE in `<linux/magic.h>`.
pub(crate) const FUSE: u64 = 0x6573_5546;

/// A file, pipe, socket or device.
#[derive(Debug)]
pub(crate) enum Object {
    File(File),
    Channel(Channel),
    Messages(Messages),
    Null(Vec<u8>),
    /// `/dev/urandom`, which has no end and cannot be rewound. Its bytes are those of [`pattern`].
    /// Counts the bytes read.
    Random(u64),
}

/// The readiness of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The number of bytes that can be read or written.
    Some(usize),
    End,
    /// Nothing until an event.
    Later,
    Failed(Errno),
}

/// A regular file or block device.
#[derive(Debug, Default)]
pub(crate) struct File {
    pub(crate) bytes: Vec<u8>,
    /// Whether each block holds data; the others are holes.
    pub(crate) has_data: Vec<bool>,
    /// The size that `fstat(2)` reports [default: the true size].
    pub(crate) claimed_size: Option<u64>,
    pub(crate) is_block_device: bool,
    pub(crate) device: u64,
    pub(crate) magic: u64,
    /// The position from which reads and writes fail, and the errno.
    pub(crate) bad: Option<(u64, Errno)>,
    /// The logical block size of a device, in bytes.
    pub(crate) granularity: u64,
    /// Ranges that cannot be read, and their errnos.
    pub(crate) bad_blocks: Vec<(Range<u64>, Errno)>,
    /// Whether a read that meets a bad block fails as a whole, instead of returning the bytes
    /// before it.
    pub(crate) fails_whole: bool,
    /// The number of bytes that another process appends when the file is cloned.
    pub(crate) grows_when_cloned: usize,
    /// The length to which another process truncates the file just before it is first cloned.
    pub(crate) cut_when_cloned: Option<usize>,
    /// The length to which another process extends or truncates the file right after a search found
    /// no more data.
    pub(crate) resized_when_searched: Option<usize>,
    /// The ranges that other processes truncated or punched, and that have not been written since.
    pub(crate) cut: Vec<Range<u64>>,
    /// The greatest length that another process gave the file by `ftruncate(2)`.
    pub(crate) extended: usize,
}

/// Returns the byte at a position of every source. It is never 0, so that a hole differs from data.
pub(crate) fn pattern(place: u64) -> u8 {
    let mixed = place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (mixed % 255) as u8 + 1
}

/// Returns the first `len` bytes of the pattern.
pub(crate) fn patterned(len: usize) -> Vec<u8> {
    static PATTERN: OnceLock<Vec<u8>> = OnceLock::new();
    let all = PATTERN.get_or_init(|| (0..1 << 20).map(pattern).collect());
    all[..len].to_vec()
}

/// Appends zeros up to a length. Unoptimised, this is faster than `Vec::resize`, which writes each
/// byte by itself.
pub(crate) fn lengthen(bytes: &mut Vec<u8>, len: usize) {
    bytes.append(&mut vec![0; len.saturating_sub(bytes.len())]);
}

impl File {
    pub(crate) fn holding(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.to_vec(),
            has_data: vec![true; bytes.len().div_ceil(BLOCK)],
            device: 1,
            magic: 0xef53,
            granularity: 4096,
            ..Self::default()
        }
    }

    /// Returns a file in which every block of zeros is a hole.
    pub(crate) fn sparse(bytes: &[u8]) -> Self {
        let mut file = Self::holding(bytes);
        for (block, has_data) in bytes.chunks(BLOCK).zip(&mut file.has_data) {
            *has_data = block.iter().any(|byte| *byte != 0);
        }
        file
    }

    pub(crate) fn size(&self) -> u64 {
        self.claimed_size.unwrap_or(self.bytes.len() as u64)
    }

    pub(crate) fn allocated(&self) -> u64 {
        (self.has_data.iter().filter(|has| **has).count() * BLOCK) as u64
    }

    pub(crate) fn found(&self, position: u64, end: u64) -> Found {
        let bad_blocks = self.bad_blocks.iter();
        let end = bad_blocks.fold(end, |end, (place, _)| {
            if place.start >= position {
                end.min(place.start)
            } else {
                end
            }
        });
        if let Some(errno) = self.fails_at(position..position + 1) {
            return Found::Failed(errno);
        }
        let end = match self.bad {
            Some((bad, errno)) if position >= bad && position < end => return Found::Failed(errno),
            Some((bad, _)) => end.min(bad.max(position)),
            None => end,
        };
        match end.saturating_sub(position) {
            0 => Found::End,
            n => Found::Some(usize::try_from(n).unwrap_or(usize::MAX)),
        }
    }

    /// Returns the errno of the first bad block within this range.
    fn fails_at(&self, range: Range<u64>) -> Option<Errno> {
        let mut bad_blocks = self.bad_blocks.iter();
        let found = bad_blocks.find(|(bad, _)| bad.start < range.end && range.start < bad.end);
        found.map(|(_, errno)| *errno)
    }

    pub(crate) fn put(&mut self, position: u64, bytes: &[u8]) {
        let range = position as usize..position as usize + bytes.len();
        let written = position..position + bytes.len() as u64;
        let pieces = |cut: &Range<u64>| {
            let before = cut.start..cut.end.min(written.start);
            [before, cut.start.max(written.end)..cut.end]
        };
        let pieces = self.cut.iter().flat_map(pieces);
        self.cut = pieces.filter(|piece| !piece.is_empty()).collect();
        self.resize(self.bytes.len().max(range.end));
        self.bytes[range.clone()].copy_from_slice(bytes);
        for block in range.start / BLOCK..range.end.div_ceil(BLOCK) {
            self.has_data[block] = true;
        }
    }

    pub(crate) fn resize(&mut self, len: usize) {
        self.bytes.truncate(len);
        lengthen(&mut self.bytes, len);
        self.has_data.resize(len.div_ceil(BLOCK), false);
    }

    /// Extends or truncates the file to `resized_when_searched`. Appended bytes are those of the
    /// pattern.
    pub(crate) fn resize_after_search(&mut self) {
        let Some(len) = self.resized_when_searched.take() else {
            return;
        };
        let size = self.bytes.len();
        if len < size {
            return self.resize(len);
        }
        let appended: Vec<u8> = (size..len).map(|place| pattern(place as u64)).collect();
        self.put(size as u64, &appended);
    }

    pub(crate) fn punch(&mut self, position: usize, len: usize) {
        let is_within_a_block = position.is_multiple_of(BLOCK) && len < BLOCK;
        if self.magic == FUSE && is_within_a_block {
            // fuse2fs 1.47 leaves the old bytes.
            return;
        }
        let end = (position + len).min(self.bytes.len());
        self.bytes[position.min(end)..end].fill(0);
        for block in position.div_ceil(BLOCK)..end / BLOCK {
            self.has_data[block] = false;
        }
    }

    /// Returns the first position at or after `position` that holds data, or that is in a hole.
    pub(crate) fn seek_extent(&self, position: u64, data: bool) -> Result<u64, Errno> {
        let size = self.size();
        if position >= size {
            return Err(Errno::NXIO);
        }
        let first = position as usize / BLOCK;
        let blocks = first..(size as usize).div_ceil(BLOCK);
        let found = blocks
            .into_iter()
            // A range beyond the true size is no hole.
            .find(|block| self.has_data.get(*block).copied().unwrap_or(true) == data);
        match found {
            Some(block) => Ok(position.max((block * BLOCK) as u64)),
            None if data => Err(Errno::NXIO),
            None => Ok(size),
        }
    }
}

impl Object {
    /// Returns a regular file on ext4.
    pub(crate) fn file(bytes: &[u8]) -> Self {
        Object::File(File::holding(bytes))
    }

    /// Returns the read end of a pipe, or a stream socket, whose peer writes these bytes in chunks.
    pub(crate) fn written_by_peer(is_stream: bool, bytes: &[u8], chunks: &[usize]) -> Self {
        let peer = Peer::Writes {
            rest: bytes.to_vec(),
            chunks: chunks.iter().copied().collect(),
            has_closed: false,
        };
        Object::Channel(Channel::new(64 << 10, is_stream, peer))
    }

    /// Returns the write end of a pipe, or a stream socket, of 64 KiB, whose peer reads everything.
    pub(crate) fn read_by_peer(is_stream: bool) -> Self {
        let peer = Peer::Reads {
            taken: Vec::new(),
            chunks: VecDeque::new(),
        };
        Object::Channel(Channel::new(64 << 10, is_stream, peer))
    }

    /// Returns a pseudo-terminal whose reader reads everything.
    pub(crate) fn terminal() -> Self {
        let Object::Channel(mut channel) = Self::read_by_peer(false) else {
            unreachable!("`taking` makes a channel")
        };
        channel.is_terminal = true;
        Object::Channel(channel)
    }

    /// Makes the peer wait this long before each action.
    pub(crate) fn with_delay(mut self, delay: Duration) -> Self {
        if let Some(timing) = self.timing_mut() {
            timing.delays = std::iter::repeat_n(delay, 1000).collect();
        }
        self
    }

    /// Sets `SO_RCVTIMEO` or `SO_SNDTIMEO`.
    pub(crate) fn with_timeout(mut self, after: Duration) -> Self {
        if let Some(timing) = self.timing_mut() {
            timing.timeout = Some(after);
        }
        self
    }
}

impl Object {
    /// Returns the errno of a read of `len` bytes that fails as a whole.
    pub(crate) fn fails_as_a_whole(&self, position: u64, len: usize) -> Option<Errno> {
        match self {
            Object::File(file) if file.fails_whole => {
                file.fails_at(position..position + len as u64)
            }
            _ => None,
        }
    }

    pub(crate) fn readable(&self, position: u64, now: Duration) -> Found {
        if self
            .timing()
            .is_some_and(|timing| timing.stalled_until > now)
        {
            return Found::Later;
        }
        match self {
            Object::File(file) => file.found(position, file.bytes.len() as u64),
            Object::Channel(channel) => channel.readable(),
            Object::Messages(messages) => messages.readable(),
            Object::Null(_) => Found::End,
            Object::Random(_) => Found::Some(usize::MAX),
        }
    }

    pub(crate) fn writable(&self, position: u64, now: Duration) -> Found {
        if self
            .timing()
            .is_some_and(|timing| timing.stalled_until > now)
        {
            return Found::Later;
        }
        match self {
            Object::File(file) => file.found(position, i64::MAX as u64),
            Object::Channel(channel) => channel.writable(),
            // Two messages fill the socket.
            Object::Messages(messages) if messages.queue.len() >= 2 => Found::Later,
            Object::Messages(_) | Object::Null(_) | Object::Random(_) => Found::Some(usize::MAX),
        }
    }

    /// Returns the readiness for a call that hands over pages, each of which needs a slot.
    pub(crate) fn spliceable(&self, position: u64, now: Duration) -> Found {
        match self {
            Object::Channel(channel) if !channel.has_slot() => Found::Later,
            _ => self.writable(position, now),
        }
    }

    /// Returns whether the peer has closed its end.
    pub(crate) fn has_failed(&self) -> bool {
        match self {
            Object::Channel(channel) => channel.failure().is_some(),
            _ => false,
        }
    }

    pub(crate) fn polls_as_writable(&self, now: Duration) -> bool {
        match self {
            Object::Channel(channel) => {
                channel.timing.stalled_until <= now && channel.polls_as_writable()
            }
            _ => self.writable(0, now) != Found::Later,
        }
    }

    /// Removes up to `n` bytes, as `read(2)` does.
    pub(crate) fn read(&mut self, position: u64, n: usize) -> Vec<u8> {
        match self {
            Object::File(file) => file.bytes[position as usize..][..n].to_vec(),
            Object::Channel(channel) => {
                let bytes = channel.read(n);
                channel.n_transferred += bytes.len() as u64;
                bytes
            }
            Object::Messages(messages) => {
                let mut message = messages.queue.pop_front().expect("it was found");
                message.truncate(n);
                message
            }
            Object::Random(taken) => {
                let (from, to) = (*taken as usize, *taken as usize + n);
                *taken = to as u64;
                patterned(to).split_off(from)
            }
            Object::Null(_) => Vec::new(),
        }
    }

    /// Removes `n` bytes, as `splice(2)` does: as pages, if this is a file, whose index is `own`.
    pub(crate) fn take(&mut self, own: usize, position: u64, n: usize) -> Vec<Part> {
        match self {
            Object::File(_) => vec![Part::of_file(own, position, self.read(position, n))],
            Object::Channel(channel) => {
                channel.n_transferred += n as u64;
                channel.take(n)
            }
            _ => vec![Part::copied(self.read(position, n))],
        }
    }

    /// Adds the bytes of a `write(2)`.
    pub(crate) fn write(&mut self, position: u64, bytes: &[u8]) {
        match self {
            Object::File(file) => file.put(position, bytes),
            Object::Channel(channel) => {
                channel.n_transferred += bytes.len() as u64;
                channel.write(bytes);
            }
            Object::Messages(messages) => messages.queue.push_back(bytes.to_vec()),
            Object::Null(taken) => taken.extend_from_slice(bytes),
            Object::Random(_) => {}
        }
    }

    /// Adds the pages of a `splice(2)` or `tee(2)`.
    pub(crate) fn put(&mut self, position: u64, parts: Vec<Part>) {
        match self {
            Object::Channel(channel) => {
                channel.n_transferred += parts
                    .iter()
                    .map(|part| part.bytes.len() as u64)
                    .sum::<u64>();
                channel.share(parts);
            }
            _ => self.write(position, &joined(&parts)),
        }
    }

    /// Records that a call has returned the error of this object.
    pub(crate) fn mark_error_reported(&mut self) {
        if let Object::Channel(channel) = self {
            channel.has_reported_error = true;
        }
    }

    pub(crate) fn timing(&self) -> Option<&Timing> {
        match self {
            Object::Channel(channel) => Some(&channel.timing),
            Object::Messages(messages) => Some(&messages.timing),
            _ => None,
        }
    }

    pub(crate) fn timing_mut(&mut self) -> Option<&mut Timing> {
        match self {
            Object::Channel(channel) => Some(&mut channel.timing),
            Object::Messages(messages) => Some(&mut messages.timing),
            _ => None,
        }
    }

    /// Returns the time of the next event, which a waiting caller makes the peer schedule.
    pub(crate) fn next_event(&mut self, now: Duration) -> Option<Duration> {
        let is_private = matches!(
            self,
            Object::Channel(Channel {
                peer: Peer::None,
                ..
            })
        );
        let timing = self.timing_mut()?;
        if timing.stalled_until > now {
            return Some(timing.stalled_until);
        }
        if is_private {
            return None;
        }
        let delays = &mut timing.delays;
        let due = *timing
            .due
            .get_or_insert_with(|| now + delays.pop_front().unwrap_or(Duration::from_millis(1)));
        Some(due)
    }

    /// Lets the peer act if its time has come.
    pub(crate) fn run_due_events(&mut self, now: Duration) {
        let Some(timing) = self
            .timing_mut()
            .filter(|t| t.due.is_some_and(|due| due <= now))
        else {
            return;
        };
        timing.due = None;
        match self {
            Object::Channel(channel) => channel.advance_peer(),
            Object::Messages(messages) => messages.advance_peer(),
            _ => {}
        }
    }

    /// Returns all bytes that have arrived, including those that a peer has read.
    pub(crate) fn contents(&self) -> Vec<u8> {
        match self {
            Object::File(file) => file.bytes.clone(),
            Object::Channel(channel) => match &channel.peer {
                Peer::Reads { taken, .. } => [&taken[..], &channel.queue.bytes()].concat(),
                Peer::Writes { rest, .. } => [&channel.queue.bytes()[..], rest].concat(),
                Peer::None => channel.queue.bytes(),
            },
            Object::Messages(messages) => {
                let rest = messages.rest.iter().flatten();
                let taken = messages.taken.iter().chain(&messages.queue);
                taken.chain(rest).cloned().collect::<Vec<_>>().concat()
            }
            Object::Null(taken) => taken.clone(),
            Object::Random(_) => Vec::new(),
        }
    }
}
