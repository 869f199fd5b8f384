//! The description of a random transfer: its two descriptors, its options and its faults.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use super::channel::{Channel, Messages, Peer};
use super::feasible::retain_feasible;
use super::interference::Interference;
use super::kernel::SimKernel;
use super::objects::{BLOCK, File, Object, patterned};
use super::script::{Injection, Script};
use crate::options::RecordOptions;
use crate::options::{Cache, Options, Reflink, SkipErrors, Sparse, SyncData};
use crate::strategy::Strategy;
use crate::sys::{Errno, OFlags};

/// One random transfer.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) source: SourceSpec,
    pub(crate) sink: SinkSpec,
    pub(crate) options: ScenarioOptions,
    pub(crate) faults: Faults,
    /// The calls of other processes.
    pub(crate) interferences: Vec<Interference>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Block,
    Pipe,
    Stream,
    Messages,
    /// `/dev/urandom` as a source, `/dev/null` as a sink.
    Device,
}

#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "drawn one by one")]
pub(crate) struct SourceSpec {
    pub(crate) kind: Kind,
    pub(crate) len: usize,
    /// The position in a file at which the transfer starts.
    pub(crate) start: u64,
    pub(crate) is_positional: bool,
    pub(crate) is_nonblocking: bool,
    pub(crate) is_direct: bool,
    /// The first block and the number of blocks of each range of zeros. They are holes if the file
    /// is sparse.
    pub(crate) zeros: Vec<(usize, usize)>,
    pub(crate) is_sparse: bool,
    /// The size that `fstat(2)` reports, in percent of the true size [default: the true size].
    pub(crate) claimed_size: Option<u64>,
    pub(crate) magic: u64,
    /// Whether a pipe holds packets.
    pub(crate) is_packet: bool,
    /// The number of bytes that come as a stream before them.
    pub(crate) packets_from: u64,
    /// Whether the peer of a pipe or socket sends pages of a file, as `splice(2)` does.
    pub(crate) sends_pages: bool,
    /// The positions before which the peer of a stream socket sends an urgent byte, in ascending
    /// order.
    pub(crate) urgent_marks: Vec<u64>,
    pub(crate) chunks: Vec<usize>,
    pub(crate) delays: Vec<u64>,
    pub(crate) timeout: Option<u64>,
}

#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "drawn one by one")]
pub(crate) struct SinkSpec {
    pub(crate) kind: Kind,
    /// The length of a file before the transfer.
    pub(crate) len: usize,
    pub(crate) start: u64,
    pub(crate) is_positional: bool,
    pub(crate) is_nonblocking: bool,
    pub(crate) appends: bool,
    pub(crate) is_direct: bool,
    pub(crate) is_on_other_device: bool,
    pub(crate) is_packet: bool,
    pub(crate) capacity: usize,
    pub(crate) chunks: Vec<usize>,
    pub(crate) delays: Vec<u64>,
    pub(crate) timeout: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct ScenarioOptions {
    pub(crate) limit: Option<u64>,
    pub(crate) stable: bool,
    pub(crate) strategy: Option<Strategy>,
    pub(crate) reflink: Reflink,
    pub(crate) sparse: Sparse,
    pub(crate) cache: Cache,
    pub(crate) skip_errors: SkipErrors,
    pub(crate) sync_data: SyncData,
    pub(crate) grow_pipes: bool,
    pub(crate) buffer_size: Option<usize>,
    /// The rate limit, in multiples of the greatest length of the source a second.
    pub(crate) rate: Option<u64>,
    pub(crate) tick: Option<u64>,
    pub(crate) driver: Driver,
    pub(crate) inspected: bool,
    pub(crate) records: RecordOptions,
    /// The number of calls after which the observer stops the transfer.
    pub(crate) stop_at: Option<usize>,
}

/// Who takes the steps of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Driver {
    /// `run`, in the blocking driver.
    #[default]
    Library,
    /// The caller of a session, each of at most this many bytes.
    Caller { max_step: u64 },
    /// A task of tokio, whose future is dropped each time that it has been polled this many times.
    /// Without the feature `tokio`, the caller of a session takes its place.
    Task { polls: usize },
}

impl Driver {
    /// Returns whether a session takes the steps. Then no call may sleep.
    pub(crate) fn is_session(self) -> bool {
        self != Self::Library
    }

    pub(crate) fn max_step(self) -> u64 {
        match self {
            Self::Caller { max_step } => max_step,
            Self::Library | Self::Task { .. } => u64::MAX,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Faults {
    pub(crate) injections: Vec<Injection>,
    /// The distance from the start of the transfer at which the source fails, and the errno.
    pub(crate) source: Option<(u64, Errno)>,
    pub(crate) sink: Option<(u64, Errno)>,
    pub(crate) disk_fails: bool,
    pub(crate) supports_nowait: bool,
    /// Whether `/proc` is mounted, by which files are reopened. A file with `O_DIRECT` can always
    /// be reopened.
    pub(crate) has_proc: bool,
    pub(crate) pipe_capacity: usize,
    pub(crate) pipe_max: usize,
}

impl ScenarioOptions {
    /// Returns whether a call may sleep.
    fn may_sleep(&self) -> bool {
        self.tick.is_none() && !self.driver.is_session()
    }
}

impl SourceSpec {
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.kind, Kind::File | Kind::Block)
    }

    /// Returns all its bytes, including those before the start.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = patterned(self.len);
        for (first, n) in &self.zeros {
            let range = first * BLOCK..(first + n) * BLOCK;
            let range = range.start.min(self.len)..range.end.min(self.len);
            if self.kind != Kind::Device {
                bytes[range].fill(0);
            }
        }
        bytes
    }

    /// Returns the ranges of its holes.
    pub(crate) fn holes(&self) -> impl Iterator<Item = Range<u64>> {
        let is_sparse = self.is_sparse && self.kind == Kind::File;
        let holes = self.zeros.iter().filter(move |_| is_sparse);
        holes.map(|(first, n)| (first * BLOCK) as u64..((first + n) * BLOCK) as u64)
    }

    /// Returns the messages that a datagram socket receives.
    pub(crate) fn messages(&self) -> Vec<Vec<u8>> {
        let bytes = self.bytes();
        let (mut rest, mut messages) = (&bytes[..], Vec::new());
        let mut sizes = self.chunks.iter().copied();
        while !rest.is_empty() {
            let n = sizes.next().unwrap_or(32 << 10).min(rest.len());
            messages.push(rest[..n].to_vec());
            rest = &rest[n..];
        }
        messages
    }

    pub(crate) fn object(&self, faults: &Faults) -> Object {
        let bytes = self.bytes();
        match self.kind {
            Kind::File | Kind::Block => {
                let mut file = if self.is_sparse {
                    File::sparse(&bytes)
                } else {
                    File::holding(&bytes)
                };
                file.magic = self.magic;
                file.is_block_device = self.kind == Kind::Block;
                // A block fails as a whole.
                let granularity = if self.is_direct { BLOCK as u64 } else { 1 };
                let bad = |at: u64| (self.start + at) / granularity * granularity;
                file.bad = faults.source.map(|(at, errno)| (bad(at), errno));
                if self.kind == Kind::File {
                    // A hole beyond the true end could be copied like any other.
                    let most = if self.is_sparse { 100 } else { 120 };
                    let claimed_size = self.claimed_size.map(|percent| percent.min(most));
                    file.claimed_size = claimed_size.map(|percent| self.len as u64 * percent / 100);
                }
                Object::File(file)
            }
            Kind::Pipe | Kind::Stream => {
                let peer = Peer::Writes {
                    rest: bytes,
                    chunks: self.chunks.iter().copied().collect(),
                    has_closed: false,
                };
                let is_stream = self.kind == Kind::Stream;
                let mut channel = Channel::new(64 << 10, is_stream, peer);
                channel.timing.delays = millis(&self.delays);
                channel.is_packet = self.is_packet && !is_stream;
                channel.packets_from = self.packets_from;
                if is_stream {
                    channel.urgent_marks = self.urgent_marks.iter().copied().collect();
                    channel.timing.timeout = self.timeout.map(Duration::from_millis);
                    channel.fails_after =
                        faults.source.map(|(at, errno)| (at, socket_errno(errno)));
                }
                Object::Channel(channel)
            }
            Kind::Messages => {
                let mut messages = Messages::written_by_peer(&self.messages());
                messages.timing.delays = millis(&self.delays);
                messages.timing.timeout = self.timeout.map(Duration::from_millis);
                Object::Messages(messages)
            }
            Kind::Device => Object::Random(0),
        }
    }
}

impl SourceSpec {
    /// Makes the peer of an open source send pages of a file, if the description says so.
    pub(crate) fn send_pages(&self, kernel: &SimKernel, source: &OwnedFd) {
        if !self.sends_pages {
            return;
        }
        let mut state = kernel.state.borrow_mut();
        let lent = state.objects.len();
        state
            .objects
            .push(Object::File(File::holding(&self.bytes())));
        let object = state.descriptor(source.as_raw_fd()).object;
        if let Object::Channel(channel) = &mut state.objects[object] {
            channel.pages_of = Some(lent);
        }
    }
}

/// Replaces an errno that no socket returns.
fn socket_errno(errno: Errno) -> Errno {
    match errno {
        Errno::IO | Errno::INVAL => Errno::CONNRESET,
        Errno::STALE => Errno::HOSTUNREACH,
        _ => Errno::TIMEDOUT,
    }
}

fn millis(delays: &[u64]) -> VecDeque<Duration> {
    delays.iter().copied().map(Duration::from_millis).collect()
}

impl SinkSpec {
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.kind, Kind::File | Kind::Block)
    }

    /// Returns the contents of a file before the transfer.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![b'x'; self.len];
        bytes.iter_mut().step_by(7).for_each(|byte| *byte = b'y');
        bytes
    }

    pub(crate) fn object(&self, source: &SourceSpec, faults: &Faults) -> Object {
        match self.kind {
            Kind::File | Kind::Block => {
                let mut file = File::holding(&self.bytes());
                file.magic = source.magic;
                file.is_block_device = self.kind == Kind::Block;
                file.device += u64::from(self.is_on_other_device);
                let start = if self.appends {
                    self.len as u64
                } else {
                    self.start
                };
                file.bad = faults.sink.map(|(at, errno)| (start + at, errno));
                Object::File(file)
            }
            Kind::Pipe | Kind::Stream => {
                let peer = Peer::Reads {
                    taken: Vec::new(),
                    chunks: self.chunks.iter().copied().collect(),
                };
                let is_stream = self.kind == Kind::Stream;
                let mut channel = Channel::new(self.capacity, is_stream, peer);
                channel.timing.delays = millis(&self.delays);
                channel.is_packet = self.is_packet && !is_stream;
                channel.expects_packets = channel.is_packet;
                channel.fails_after = faults.sink.map(|(at, errno)| match errno {
                    _ if !is_stream => (at, Errno::PIPE),
                    Errno::NOSPC | Errno::IO => (at, Errno::PIPE),
                    errno => (at, socket_errno(errno)),
                });
                if is_stream {
                    channel.timing.timeout = self.timeout.map(Duration::from_millis);
                }
                Object::Channel(channel)
            }
            Kind::Messages => {
                let mut messages = Messages::default();
                messages.timing.delays = millis(&self.delays);
                Object::Messages(messages)
            }
            Kind::Device => Object::Null(Vec::new()),
        }
    }
}

impl Scenario {
    /// Returns a transfer of `len` bytes without options, faults and interference, which a test of
    /// one scenario changes.
    pub(crate) fn plain(source: Kind, len: usize, sink: Kind) -> Self {
        Self {
            source: SourceSpec {
                kind: source,
                len,
                start: 0,
                is_positional: false,
                is_nonblocking: false,
                is_direct: false,
                zeros: Vec::new(),
                is_sparse: false,
                claimed_size: None,
                magic: 0xef53,
                is_packet: false,
                packets_from: 0,
                sends_pages: false,
                urgent_marks: Vec::new(),
                chunks: Vec::new(),
                delays: Vec::new(),
                timeout: None,
            },
            sink: SinkSpec {
                kind: sink,
                // A block device cannot grow, so that it must be large enough.
                len: if sink == Kind::Block { 800_000 } else { 0 },
                start: 0,
                is_positional: false,
                is_nonblocking: false,
                appends: false,
                is_direct: false,
                is_on_other_device: false,
                is_packet: false,
                capacity: 64 << 10,
                chunks: Vec::new(),
                delays: Vec::new(),
                timeout: None,
            },
            options: ScenarioOptions {
                limit: None,
                stable: false,
                strategy: None,
                reflink: Reflink::Auto,
                sparse: Sparse::Keep,
                cache: Cache::Keep,
                skip_errors: SkipErrors::Never,
                sync_data: SyncData::Never,
                grow_pipes: false,
                buffer_size: None,
                rate: None,
                tick: None,
                inspected: false,
                records: RecordOptions::default(),
                stop_at: None,
                driver: Driver::Library,
            },
            faults: Faults {
                injections: Vec::new(),
                source: None,
                sink: None,
                disk_fails: false,
                supports_nowait: false,
                has_proc: false,
                pipe_capacity: 64 << 10,
                pipe_max: 1 << 20,
            },
            interferences: Vec::new(),
        }
    }

    /// Returns a simulated kernel with this scenario, and descriptors of the source and the sink.
    pub(crate) fn kernel(&self) -> (SimKernel, OwnedFd, OwnedFd) {
        let kernel = SimKernel::default();
        let flags = |is_nonblocking, is_direct, appends| {
            let mut flags = OFlags::empty();
            flags.set(OFlags::NONBLOCK, is_nonblocking);
            flags.set(OFlags::DIRECT, is_direct);
            flags.set(OFlags::APPEND, appends);
            flags
        };
        let (from, to) = (&self.source, &self.sink);
        let source = kernel.source(
            from.object(&self.faults),
            flags(
                from.is_nonblocking,
                from.is_direct || from.is_packet && from.kind == Kind::Pipe,
                false,
            ),
        );
        let mut object = to.object(from, &self.faults);
        if let Object::Channel(pipe) = &mut object {
            // A splice that the caller requests passes packets on.
            pipe.expects_packets |= self.options.strategy == Some(Strategy::Splice);
        }
        let sink = kernel.sink(
            object,
            flags(
                to.is_nonblocking,
                to.is_direct || to.is_packet && to.kind == Kind::Pipe,
                to.appends,
            ),
        );
        from.send_pages(&kernel, &source);
        // A cursor that the transfer must not use is set to 77.
        kernel.set_cursor(
            &source,
            if self.source.is_positional {
                77
            } else {
                self.source_start()
            },
        );
        kernel.set_cursor(
            &sink,
            if self.sink.is_positional {
                77
            } else {
                self.sink.start
            },
        );
        let mut state = kernel.state.borrow_mut();
        state.script = Script::of(&self.faults.injections);
        state.has_proc = self.faults.has_proc || self.source.is_direct || self.sink.is_direct;
        state.may_sleep = self.options.may_sleep();
        state.driver = self.options.driver;
        state.supports_nowait = self.faults.supports_nowait;
        state.pipe_capacity = self.faults.pipe_capacity;
        state.pipe_max = self.faults.pipe_max;
        state.disk_fails = self.faults.disk_fails;
        state.max_calls = self.max_calls();
        state.interferences.clone_from(&self.interferences);
        drop(state);
        (kernel, source, sink)
    }

    pub(crate) fn source_start(&self) -> u64 {
        if self.source.is_file() {
            self.source.start
        } else {
            0
        }
    }

    /// Removes interference that is impossible here.
    pub(crate) fn drop_infeasible_interferences(&mut self) {
        let may_sleep = self.options.may_sleep();
        let sinks = [&self.sink];
        retain_feasible(
            &mut self.interferences,
            &self.source,
            &sinks,
            &self.faults,
            may_sleep,
        );
        if self
            .interferences
            .iter()
            .any(Interference::changes_sink_size)
        {
            // Only the size of the sink shows that a clone was truncated although it succeeded.
            self.source.magic = 0xef53;
        }
    }

    /// Returns the bytes from the start of the source.
    pub(crate) fn data(&self) -> Vec<u8> {
        let mut bytes = self.source.bytes();
        bytes.split_off((self.source_start() as usize).min(bytes.len()))
    }

    /// Returns the rate limit, in bytes a second. The whole source takes at most one second.
    pub(crate) fn rate(&self) -> Option<u64> {
        let len = (self.source.most_len(&self.interferences) as u64).max(1);
        self.options.rate.map(|times| times * len)
    }

    /// Returns a bound on the number of calls that only a busy loop exceeds: a few for each page,
    /// injection, write of a peer, tick, and quantum of the rate.
    fn max_calls(&self) -> usize {
        let piece = self.options.driver.max_step().min(BLOCK as u64) as usize;
        let n_pages = self.source.len / piece;
        let n_chunks = self.source.chunks.len() + self.sink.chunks.len();
        let stalls = self
            .faults
            .injections
            .iter()
            .map(|injection| match injection {
                Injection::Stalled(millis) => *millis,
                _ => 1,
            });
        let delays = self.source.delays.iter().chain(&self.sink.delays);
        let waits = stalls.chain(delays.copied()).sum::<u64>() as usize;
        let is_rate_limited = [
            self.options.rate.is_some(),
            self.options.records.rate.is_some(),
        ];
        let rate_waits = 1100 * is_rate_limited.into_iter().filter(|is| *is).count();
        let n_ticks = if self.options.tick.is_some() {
            waits + rate_waits
        } else {
            0
        };
        // Each may add as many bytes as there were, which other calls may move.
        let n_others = self.interferences.len() * (100 + 8 * 150);
        let n_turns =
            n_pages + n_chunks + self.source.urgent_marks.len() + self.faults.injections.len();
        100 + 8 * n_turns + n_others + n_ticks + 2 * rate_waits
    }

    pub(crate) fn options(&self) -> Options {
        let options = &self.options;
        Options {
            limit: options.limit,
            source_offset: self.source.is_positional.then_some(self.source.start),
            sink_offset: self.sink.is_positional.then_some(self.sink.start),
            stable: options.stable,
            strategy: options.strategy,
            reflink: options.reflink,
            sparse: options.sparse,
            cache: options.cache,
            skip_errors: options.skip_errors,
            sync_data: options.sync_data,
            grow_pipes: options.grow_pipes,
            buffer_size: options.buffer_size,
            rate_limit: self.rate().and_then(NonZeroU64::new),
            tick: options.tick.map(Duration::from_millis),
            stepped: options.driver.is_session(),
            records: options.records,
            watch_readers: false,
            inspected: options.inspected,
            observed: true,
            ..Options::default()
        }
    }
}
