//! The state of a transfer between two ends: the ends, and the bytes in flight between them.

use crate::bad_blocks::BadBlocks;
use crate::buffer::{self, Alignment, Buffer};
use crate::endpoint::Endpoint;
use crate::fd_info::{Kind, LARGEST_DEVICE_MESSAGE};
use crate::options::Options;
use crate::pipe::{self, Pipe};
use crate::records::Records;
use crate::reopened::Reopened;
use crate::sparse::Holes;
use crate::sys::{Blocking, Kernel, Result};

/// The caller's function that sees every byte of the transfer.
pub(crate) type Inspector<'a> = Box<dyn FnMut(&[u8]) + Send + 'a>;

/// The state that a step works on.
///
/// The bytes in flight, which have left the source and are not in the sink, are those in `buffer`,
/// followed by those in `pipe`.
pub(crate) struct CopyState<'a> {
    pub(crate) source: Endpoint<'a>,
    pub(crate) sink: Endpoint<'a>,
    pub(crate) buffer: Buffer,
    /// How many bytes of the caller's prefix the sink has not accepted. They come first in the
    /// buffer, and never were in the source.
    pub(crate) prefix_left: usize,
    pub(crate) pipe: Option<Pipe>,
    /// The capacity that the private pipe requests, in bytes: the caller's `buffer_size` [default:
    /// [`pipe::WANTED`]].
    pub(crate) private_pipe_size: usize,
    /// Whether the source cannot be spliced into the private pipe, so that a read under a small
    /// limit loses the rest of a packet.
    pub(crate) cannot_splice_source: bool,
    /// Whether no private pipe could be had for a read that needs it only for speed, so that no read
    /// tries again.
    pub(crate) gave_up_faster_reads: bool,
    /// The capacity in bytes that a source that is a pipe had before the last read.
    pub(crate) source_capacity: Option<usize>,
    /// Whether bytes go from a pipe through the private pipe into a pipe, which must not receive
    /// packets: its reader may expect a stream.
    pub(crate) searches_for_packets: bool,
    /// The second opening of the source, for reads that `O_DIRECT` forbids.
    pub(crate) source_reopened: Reopened,
    /// The second opening of the sink, for writes that `O_DIRECT` forbids.
    pub(crate) sink_reopened: Reopened,
    /// The state of gathering whole blocks, if the transfer gathers them.
    pub(crate) batch: Option<BlockBatch>,
    pub(crate) holes: Holes,
    pub(crate) bad: BadBlocks<'a>,
    pub(crate) records: Records,
    pub(crate) inspect: Option<Inspector<'a>>,
    /// The number of zeros that became a hole of the sink and that the inspector has not seen.
    pub(crate) uninspected_zeros: u64,
    /// The number of system calls made to move bytes.
    pub(crate) calls: u64,
}

/// The bounds that the engine sets for one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepBudget {
    /// The most bytes to take from the source, at least 1. If calls may not sleep, a drain of the
    /// private pipe passes no more to the sink. Four things are taken whole: a message, an `O_DIRECT`
    /// block, the least read of a device, and, without a private pipe, what a source pipe holds.
    pub(crate) max: u64,
    /// The bytes that the limit of the transfer leaves for the sink, those in flight included. A
    /// message that is longer must not be taken.
    pub(crate) until_limit: u64,
    pub(crate) blocking: Blocking,
}

/// The state of a transfer that gathers whole blocks before it writes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BlockBatch {
    /// Whether the pending bytes need more bytes to complete a block.
    pub(crate) is_short: bool,
    /// Whether the source has ended.
    pub(crate) has_ended: bool,
}

impl<'a> CopyState<'a> {
    /// Returns a state without bytes in flight and without an inspector.
    pub(crate) fn new(source: Endpoint<'a>, sink: Endpoint<'a>) -> Self {
        Self {
            searches_for_packets: source.info.kind == Kind::Pipe && sink.info.kind == Kind::Pipe,
            source,
            sink,
            source_capacity: None,
            buffer: Buffer::default(),
            prefix_left: 0,
            pipe: None,
            private_pipe_size: pipe::WANTED,
            cannot_splice_source: false,
            gave_up_faster_reads: false,
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

    /// Sets the sizes of the buffer and of the private pipe that the caller asks for. The buffer is
    /// never smaller than a message or packet of the source.
    pub(crate) fn with_sizes(self, options: &Options) -> Self {
        let Some(size) = options.buffer_size else {
            return self;
        };
        let least = match self.source.info.kind {
            Kind::Datagram => buffer::DEFAULT_CAPACITY,
            // A packet must fit behind the bytes that wait for a whole block.
            Kind::Pipe if self.sink.info.direct => 2 * pipe::LARGEST_PACKET,
            Kind::Pipe => pipe::LARGEST_PACKET,
            Kind::Other => LARGEST_DEVICE_MESSAGE,
            _ => 0,
        };
        Self {
            buffer: Buffer::with_max_capacity(size.max(least)),
            private_pipe_size: size,
            ..self
        }
    }

    /// Returns whether the source may be enlarged. Short reads of a larger source need the private
    /// pipe, which this opens if steps may be short. Without it the answer is no: each read would
    /// take all that the source holds, and exceed the rate or the step by more.
    pub(crate) fn may_enlarge_source<K: Kernel>(&mut self, kernel: &K, may_be_short: bool) -> bool {
        if !may_be_short || self.source.info.kind != Kind::Pipe || self.cannot_splice_source {
            return true;
        }
        if self.pipe.is_none() {
            self.pipe = Pipe::open(kernel, self.private_pipe_size).ok();
        }
        self.pipe.is_some()
    }

    /// Takes the private pipe out of the state, or opens it if there is none or it is too small.
    ///
    /// # Errors
    ///
    /// `EMFILE`, `ENFILE` or `ENOBUFS`, as [`Pipe::open`].
    pub(crate) fn take_pipe<K: Kernel>(&mut self, kernel: &K) -> Result<Pipe> {
        match self.pipe.take() {
            Some(pipe) if pipe.is_worth_having || pipe.in_flight > 0 => Ok(pipe),
            _ => Pipe::open(kernel, self.private_pipe_size),
        }
    }

    /// Shows the inspector at most `n` of the zeros that it has not seen, and forgets the others.
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

    /// Returns the alignment that writes to the sink need of their memory.
    pub(crate) fn sink_alignment(&self) -> Alignment {
        if self.sink.info.direct {
            Alignment::Page
        } else {
            Alignment::CacheLine
        }
    }

    /// Returns the number of bytes in the private pipe.
    pub(crate) fn in_pipe(&self) -> u64 {
        self.pipe.as_ref().map_or(0, |pipe| pipe.in_flight)
    }

    /// Gathers whole blocks if the sink is open with `O_DIRECT`. Messages are not gathered: the
    /// buffer might have no room for one behind another.
    pub(crate) fn with_block_batch(self) -> Self {
        let gathers = self.sink.info.direct && self.source.info.kind != Kind::Datagram;
        Self {
            batch: gathers.then(BlockBatch::default),
            ..self
        }
    }

    /// Returns whether the next step takes bytes from the source.
    pub(crate) fn needs_input(&self) -> bool {
        let is_short = self.batch.is_some_and(|batch| batch.is_short);
        is_short && self.in_pipe() == 0 || self.in_flight() == 0
    }

    /// Returns the number of bytes that have left the source and are not in the sink, with what is
    /// left of the prefix.
    pub(crate) fn in_flight(&self) -> u64 {
        self.buffer.pending().len() as u64 + self.in_pipe()
    }

    /// Returns the number of those bytes that do not belong to the prefix.
    pub(crate) fn in_flight_from_source(&self) -> u64 {
        self.in_flight() - self.prefix_left as u64
    }

    /// Seeks the source back over the bytes in flight. Returns them, and those that are reserved in
    /// the source, if that fails. What is left of the prefix is returned in any case.
    pub(crate) fn return_in_flight<K: Kernel>(&mut self, kernel: &K) -> Vec<u8> {
        let in_buffer = &self.buffer.pending()[self.prefix_left..];
        let is_rewound = match self.in_pipe() {
            0 => self.source.rewind_over(kernel, in_buffer),
            in_pipe => {
                let in_flight = in_buffer.len() as u64 + in_pipe;
                self.source.rewind(kernel, in_flight)
            }
        };
        if is_rewound {
            self.buffer.truncate(self.prefix_left);
            return self.buffer.take_pending();
        }
        let mut bytes = self.buffer.take_pending();
        let is_whole = match &mut self.pipe {
            Some(pipe) => pipe.read_to_end(kernel, &mut bytes),
            None => true,
        };
        if is_whole {
            self.source.read_reserved(kernel, &mut bytes);
        }
        bytes
    }
}

impl StepBudget {
    /// Returns whether the step returns after the fill, so that the engine may wait for the sink
    /// before the write; a pipe that is spliced into needs no wait. Nobody waits for the sink
    /// before the fill: the end of the source must not wait for a sink that is full.
    pub(crate) fn ends_after_fill(&self, state: &CopyState<'_>) -> bool {
        self.blocking == Blocking::Nonblocking && state.sink.info.can_block()
    }

    /// Returns the length of the next call: at most `bound` bytes, within the budget, and within
    /// the reservations and the largest offset of both ends.
    pub(crate) fn len(&self, state: &CopyState<'_>, bound: u64) -> usize {
        let len = state.sink.clamp(state.source.clamp(self.max.min(bound)));
        // At the largest offset the call still asks for one byte, and the kernel returns the error.
        len.max(1) as usize
    }
}
