//! The way between two ends: the ends themselves, and what is in flight between them.

use crate::bad_blocks::BadBlocks;
use crate::buffer::{self, Buffer};
use crate::endpoint::Endpoint;
use crate::fd_info::{Kind, RECORD};
use crate::options::Options;
use crate::pipe::{self, Pipe};
use crate::records::Records;
use crate::reopened::Reopened;
use crate::sparse::Holes;
use crate::sys::{Blocking, Kernel, Result};

/// What sees every byte on its way.
pub(crate) type Inspector<'a> = Box<dyn FnMut(&[u8]) + 'a>;

/// Everything that a step works on.
///
/// At any moment the bytes that have left the source and are not in the sink are those in `buffer`,
/// then those in `pipe`, in that order.
pub(crate) struct CopyState<'a> {
    pub(crate) source: Endpoint<'a>,
    pub(crate) sink: Endpoint<'a>,
    pub(crate) buffer: Buffer,
    pub(crate) pipe: Option<Pipe>,
    /// What the private pipe is to hold, in bytes.
    pub(crate) pipe_size: usize,
    /// Whether nothing can be spliced into the private pipe, so that a packet is cut where a limit or a rate cuts it.
    pub(crate) refuses_part: bool,
    /// Where what `O_DIRECT` forbids goes.
    pub(crate) source_reopened: Reopened,
    pub(crate) sink_reopened: Reopened,
    /// Whether whole blocks are gathered before they are written, and how that stands.
    pub(crate) batch: Option<BlockBatch>,
    pub(crate) holes: Holes,
    pub(crate) bad: BadBlocks<'a>,
    pub(crate) records: Records,
    pub(crate) inspect: Option<Inspector<'a>>,
    /// Zeros that the sink has as a hole and that were not shown yet.
    pub(crate) uninspected_zeros: u64,
    /// System calls made to move bytes.
    pub(crate) calls: u64,
}

/// What the engine asks of one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepBudget {
    /// The most to take from the source, at least 1.
    pub(crate) max: u64,
    /// What the limit leaves of the whole transfer: a message that is longer may not be taken.
    pub(crate) remaining: u64,
    pub(crate) blocking: Blocking,
}

/// How far a transfer has come that gathers whole blocks before it writes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BlockBatch {
    /// Whether what is in the buffer waits for more, to complete a block.
    pub(crate) is_short: bool,
    /// Whether nothing more will come.
    pub(crate) has_ended: bool,
}

impl<'a> CopyState<'a> {
    /// A way on which nothing is under way, and nobody looks on.
    pub(crate) fn new(source: Endpoint<'a>, sink: Endpoint<'a>) -> Self {
        Self {
            source,
            sink,
            buffer: Buffer::default(),
            pipe: None,
            pipe_size: pipe::WANTED,
            refuses_part: false,
            source_reopened: Reopened::default(),
            sink_reopened: Reopened::default(),
            batch: None,
            holes: Holes::default(),
            bad: BadBlocks::default(),
            records: Records::default(),
            inspect: None,
            uninspected_zeros: 0,
            calls: 0,
        }
    }

    /// The same, with a buffer and a private pipe of the size that the caller asks for. A message must fit the
    /// buffer all the same.
    pub(crate) fn sized(self, options: &Options) -> Self {
        let Some(size) = options.buffer_size else {
            return self;
        };
        let least = match self.source.info.kind {
            Kind::Datagram => buffer::FULL,
            // A packet must find room, also behind what waits for a whole block.
            Kind::Pipe if self.sink.info.direct => 2 * pipe::LARGEST_PACKET,
            Kind::Pipe => pipe::LARGEST_PACKET,
            Kind::Other => RECORD,
            _ => 0,
        };
        Self {
            buffer: Buffer::with_max_capacity(size.max(least)),
            pipe_size: size,
            ..self
        }
    }

    /// The private pipe, opened if it is not yet.
    ///
    /// # Errors
    ///
    /// As [`Pipe::open`].
    pub(crate) fn take_pipe<K: Kernel>(&mut self, kernel: &K) -> Result<Pipe> {
        match self.pipe.take() {
            Some(pipe) if pipe.is_worth_having || pipe.in_flight > 0 => Ok(pipe),
            _ => Pipe::open(kernel, self.pipe_size),
        }
    }

    /// Shows the first `n` of the zeros that were not shown yet, or all if there are fewer.
    pub(crate) fn inspect_zeros(&mut self, n: u64) {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        let mut left = std::mem::take(&mut self.uninspected_zeros).min(n);
        let Some(inspect) = &mut self.inspect else {
            return;
        };
        while left > 0 {
            let len = left.min(ZEROS.len() as u64);
            inspect(&ZEROS[..len as usize]);
            left -= len;
        }
    }

    /// Bytes in the private pipe.
    pub(crate) fn in_pipe(&self) -> u64 {
        self.pipe.as_ref().map_or(0, |pipe| pipe.in_flight)
    }

    /// The same, with whole blocks gathered for a sink that is open with `O_DIRECT`. A message is written as it
    /// came: behind another it might find no room.
    pub(crate) fn with_block_batch(self) -> Self {
        let gathers = self.sink.info.direct && self.source.info.kind != Kind::Datagram;
        Self {
            batch: gathers.then(BlockBatch::default),
            ..self
        }
    }

    /// Whether the next step takes more from the source.
    pub(crate) fn wants_more(&self) -> bool {
        let is_short = self.batch.is_some_and(|batch| batch.is_short);
        is_short && self.in_pipe() == 0 || self.in_flight() == 0
    }

    /// Bytes that have left the source and are not in the sink.
    pub(crate) fn in_flight(&self) -> u64 {
        self.buffer.pending().len() as u64 + self.in_pipe()
    }
}

impl StepBudget {
    /// Whether the sink is waited for only when there is something to give it: an end of the source
    /// must not wait for a sink that is full.
    pub(crate) fn waits_between(&self, state: &CopyState<'_>) -> bool {
        self.blocking == Blocking::Nonblocking && state.sink.info.can_block()
    }

    /// The most to take from the source in one call of at most `bound` bytes, given where both ends
    /// stand.
    pub(crate) fn len(&self, state: &CopyState<'_>, bound: u64) -> usize {
        let len = state.sink.clamp(state.source.clamp(self.max.min(bound)));
        // At the largest offset there is, one byte is asked for all the same: the kernel says what
        // is wrong.
        len.max(1) as usize
    }
}
