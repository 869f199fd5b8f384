//! The simulated kernel: it does what Linux does, and what a script injects.
//!
//! Every descriptor is a real one of `/dev/null` and stands for a simulated object. Time is
//! simulated: it passes only while the transfer waits. The kernel asserts that no transfer makes a
//! call for 0 bytes, sleeps in a call although a tick was requested, waits for ever, waits although
//! no call has returned `EAGAIN`, shrinks a pipe, or loops.

use std::collections::HashMap;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use super::interference::{EffectRecord, Interference};
use super::objects::Object;
use super::queue::PACKET;
use super::scenario::Driver;
use super::script::{Call, Injection, Script};
use super::shared::Shared;
use crate::side::Side;
use crate::sys::{Errno, FdAt, OFlags, Result};

/// The simulated kernel. [`Kernel`](crate::sys::Kernel) is implemented for a reference to it, so
/// that a test can inspect it afterwards.
#[derive(Debug, Default)]
pub(crate) struct SimKernel {
    pub(crate) state: Shared<State>,
}

/// The time at which the simulated clock starts.
const START: Duration = Duration::from_secs(1000);

#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "whims, one by one")]
pub(crate) struct State {
    pub(crate) descriptors: HashMap<RawFd, Descriptor>,
    pub(crate) objects: Vec<Object>,
    pub(crate) script: Script,
    pub(crate) clock: Duration,
    pub(crate) driver: Driver,
    /// Whether a call may sleep. With a tick it must not.
    pub(crate) may_sleep: bool,
    /// Whether pipes and sockets support `RWF_NOWAIT`.
    pub(crate) supports_nowait: bool,
    /// The capacity of a new pipe, and `/proc/sys/fs/pipe-max-size`, in bytes.
    pub(crate) pipe_capacity: usize,
    pub(crate) pipe_max: usize,
    /// Whether `/proc` is mounted, by which files are reopened.
    pub(crate) has_proc: bool,
    /// Whether writing dirty pages to the disk fails with `EIO`.
    pub(crate) disk_fails: bool,
    /// The number of calls that counts as a busy loop.
    pub(crate) max_calls: usize,
    /// The calls that a script can inject into, and their results.
    pub(crate) log: Vec<(Call, Result<usize>)>,
    /// The errors that objects have returned, with their sides.
    pub(crate) errors_reported: Vec<(Side, Errno)>,
    /// The same errors with the descriptors of the calls.
    pub(crate) errors_by_fd: Vec<(RawFd, Errno)>,
    /// Whether the source feeds several sinks. Then a transfer polls it before it reads, and no
    /// other process reads it: bytes stay until the transfer takes them.
    pub(crate) has_several_sinks: bool,
    /// The number of reads into another buffer than the read before.
    pub(crate) n_buffers: usize,
    pub(crate) last_buffer: usize,
    /// The number of actions of peers.
    pub(crate) n_events: usize,
    /// The number of sleeps: calls of `poll(2)` without descriptors.
    pub(crate) n_sleeps: usize,
    /// The descriptors of both sides, in the order of opening.
    pub(crate) sources: Vec<RawFd>,
    pub(crate) sinks: Vec<RawFd>,
    /// The interference of the test.
    pub(crate) interferences: Vec<Interference>,
    /// The interference inside the current call.
    pub(crate) inside: Vec<Interference>,
    /// The effects of interference so far.
    pub(crate) effects: Vec<EffectRecord>,
    /// The number of calls begun so far, of each kind and in all.
    pub(crate) n_calls_begun: HashMap<Option<Call>, usize>,
    /// The descriptor whose position the last call queried.
    pub(crate) position_read_of: Option<RawFd>,
    /// The ranges dropped from the page cache: descriptor, offset and length.
    pub(crate) dropped: Vec<(RawFd, u64, u64)>,
    /// The range that the transfer last reserved on each descriptor by `lseek(2)`.
    pub(crate) reserved: HashMap<RawFd, Range<u64>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptor {
    pub(crate) object: usize,
    pub(crate) cursor: u64,
    pub(crate) flags: OFlags,
    pub(crate) side: Side,
    /// Whether the transfer opened it, so that no other process uses its cursor.
    pub(crate) is_own: bool,
}

/// One end of a call that moves bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) fd: RawFd,
    pub(crate) object: usize,
    pub(crate) offset: Option<u64>,
    pub(crate) may_wait: bool,
}

impl Default for State {
    fn default() -> Self {
        Self {
            descriptors: HashMap::new(),
            objects: Vec::new(),
            script: Script::default(),
            clock: START,
            driver: Driver::Library,
            may_sleep: true,
            supports_nowait: true,
            pipe_capacity: 64 << 10,
            pipe_max: 1 << 20,
            has_proc: true,
            disk_fails: false,
            max_calls: 100_000,
            log: Vec::new(),
            errors_reported: Vec::new(),
            errors_by_fd: Vec::new(),
            has_several_sinks: false,
            n_buffers: 0,
            last_buffer: 0,
            n_events: 0,
            n_sleeps: 0,
            sources: Vec::new(),
            sinks: Vec::new(),
            interferences: Vec::new(),
            inside: Vec::new(),
            effects: Vec::new(),
            n_calls_begun: HashMap::new(),
            position_read_of: None,
            dropped: Vec::new(),
            reserved: HashMap::new(),
        }
    }
}

/// Opens a descriptor that stands for a simulated object.
pub(crate) fn token() -> OwnedFd {
    let null = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null");
    null.expect("every Linux has it").into()
}

impl SimKernel {
    pub(crate) fn source(&self, object: Object, flags: OFlags) -> OwnedFd {
        let mut state = self.state.borrow_mut();
        let fd = state.open(object, flags | OFlags::RDONLY, Side::Source);
        state.sources.push(fd.as_raw_fd());
        fd
    }

    pub(crate) fn sink(&self, object: Object, flags: OFlags) -> OwnedFd {
        let mut state = self.state.borrow_mut();
        let fd = state.open(object, flags | OFlags::WRONLY, Side::Sink);
        state.sinks.push(fd.as_raw_fd());
        fd
    }

    /// Returns the simulated time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.state.borrow().clock.saturating_sub(START)
    }

    /// Injects into the next calls of one kind.
    pub(crate) fn inject(&self, call: Call, injections: &[Injection]) {
        self.state.borrow_mut().script.at(call, injections);
    }

    /// Schedules interference.
    pub(crate) fn schedule(&self, interference: Interference) {
        self.state.borrow_mut().interferences.push(interference);
    }

    pub(crate) fn set_cursor(&self, fd: &OwnedFd, to: u64) {
        self.state
            .borrow_mut()
            .descriptor_mut(fd.as_raw_fd())
            .cursor = to;
    }

    pub(crate) fn cursor(&self, fd: &OwnedFd) -> u64 {
        self.state.borrow().descriptor(fd.as_raw_fd()).cursor
    }

    pub(crate) fn with<T>(&self, fd: &OwnedFd, look: impl FnOnce(&Object) -> T) -> T {
        let state = self.state.borrow();
        look(&state.objects[state.descriptor(fd.as_raw_fd()).object])
    }

    pub(crate) fn contents(&self, fd: &OwnedFd) -> Vec<u8> {
        self.with(fd, Object::contents)
    }

    /// Returns the capacity of a pipe or of the buffer of a socket, in bytes, and 0 for other
    /// files.
    pub(crate) fn capacity(&self, fd: &OwnedFd) -> usize {
        self.with(fd, |object| match object {
            Object::Channel(channel) => channel.capacity,
            _ => 0,
        })
    }

    /// Returns the results of all calls of one kind.
    pub(crate) fn results(&self, call: Call) -> Vec<Result<usize>> {
        let state = self.state.borrow();
        let those = state.log.iter().filter(|(which, _)| *which == call);
        those.map(|(_, answer)| *answer).collect()
    }

    /// Returns whether a splice, or a private pipe for one, has been refused.
    pub(crate) fn has_refused_a_splice(&self) -> bool {
        self.has_refused(Call::Splice) || self.has_refused(Call::Pipe)
    }

    /// Returns how many bytes a transfer out of a pipe may be ahead of its rate: all that the pipe
    /// could hold at first if a pipe was refused, and a packet if a splice was.
    pub(crate) fn longest_overdraft(&self, first_capacity: usize) -> u64 {
        let len = if self.has_refused(Call::Pipe) {
            first_capacity
        } else if self.has_refused(Call::Splice) {
            PACKET
        } else {
            0
        };
        len as u64
    }

    /// Returns whether a tee has been refused.
    pub(crate) fn has_refused_a_tee(&self) -> bool {
        self.has_refused(Call::Tee)
    }

    fn has_refused(&self, call: Call) -> bool {
        let answers = self.results(call);
        let mut answers = answers.iter();
        answers.any(|answer| !matches!(answer, Ok(_) | Err(Errno::AGAIN | Errno::INTR)))
    }
}

impl State {
    pub(crate) fn open(&mut self, object: Object, flags: OFlags, side: Side) -> OwnedFd {
        self.objects.push(object);
        self.name(self.objects.len() - 1, flags, side)
    }

    pub(crate) fn name(&mut self, object: usize, flags: OFlags, side: Side) -> OwnedFd {
        let fd = token();
        let descriptor = Descriptor {
            object,
            cursor: 0,
            flags,
            side,
            is_own: false,
        };
        // The descriptor may have the number of a private pipe that has been closed.
        self.descriptors.insert(fd.as_raw_fd(), descriptor);
        fd
    }

    pub(crate) fn descriptor(&self, fd: RawFd) -> &Descriptor {
        self.descriptors
            .get(&fd)
            .expect("a descriptor of this kernel")
    }

    pub(crate) fn descriptor_mut(&mut self, fd: RawFd) -> &mut Descriptor {
        let found = self.descriptors.get_mut(&fd);
        found.expect("a descriptor of this kernel")
    }

    pub(crate) fn object(&mut self, fd: BorrowedFd<'_>) -> &mut Object {
        let object = self.descriptor(fd.as_raw_fd()).object;
        &mut self.objects[object]
    }

    pub(crate) fn is_nonblocking(&self, fd: RawFd) -> bool {
        self.descriptor(fd).flags.contains(OFlags::NONBLOCK)
    }

    /// Returns whether `O_DIRECT` forbids to move these bytes to or from here.
    pub(crate) fn is_misaligned(&self, at: At, memory: &[u8], is_write: bool) -> bool {
        let address = memory.as_ptr().addr();
        if is_write {
            self.is_direct(at)
                && !is_sector_multiple(self.position(at) | memory.len() as u64 | address as u64)
        } else {
            self.is_misaligned_read(at, memory.len() | address)
        }
    }

    /// Returns whether `O_DIRECT` forbids to read this many bytes from here. At the end of a file
    /// it forbids nothing.
    pub(crate) fn is_misaligned_read(&self, at: At, len: usize) -> bool {
        let place = self.position(at);
        match &self.objects[at.object] {
            Object::File(file) if place < file.bytes.len() as u64 => {
                self.is_direct(at) && !is_sector_multiple(place | len as u64)
            }
            _ => false,
        }
    }

    fn is_direct(&self, at: At) -> bool {
        let is_file = matches!(self.objects[at.object], Object::File(_));
        is_file && self.descriptor(at.fd).flags.contains(OFlags::DIRECT)
    }

    pub(crate) fn is_pipe(&self, fd: RawFd) -> bool {
        match &self.objects[self.descriptor(fd).object] {
            Object::Channel(channel) => !(channel.is_stream || channel.is_terminal),
            _ => false,
        }
    }

    /// Returns whether the object moves whole messages.
    pub(crate) fn is_message(&self, at: At) -> bool {
        matches!(self.objects[at.object], Object::Messages(_))
    }

    pub(crate) fn appends(&self, fd: RawFd) -> bool {
        self.descriptor(fd).flags.contains(OFlags::APPEND)
    }

    pub(crate) fn at(&self, (fd, offset): FdAt<'_>, may_wait: bool) -> At {
        let fd = fd.as_raw_fd();
        At {
            fd,
            object: self.descriptor(fd).object,
            offset,
            may_wait,
        }
    }

    pub(crate) fn position(&self, at: At) -> u64 {
        if self.appends(at.fd) {
            return match &self.objects[at.object] {
                Object::File(file) => file.bytes.len() as u64,
                _ => 0,
            };
        }
        at.offset.unwrap_or_else(|| self.descriptor(at.fd).cursor)
    }

    /// Returns whether a read takes exactly one packet.
    pub(crate) fn begins_with_packet(&self, at: At) -> bool {
        matches!(&self.objects[at.object],
            Object::Channel(channel) if channel.queue.begins_with_packet())
    }

    /// Returns the number of bytes before the next urgent byte.
    pub(crate) fn until_urgent_mark(&self, at: At) -> Option<usize> {
        match &self.objects[at.object] {
            Object::Channel(channel) => channel.until_urgent_mark(),
            _ => None,
        }
    }

    /// Advances the offset of the call or the cursor of the descriptor by `n` bytes.
    pub(crate) fn advance(&mut self, at: &mut At, position: u64, n: usize) {
        let next = position + n as u64;
        match &mut at.offset {
            Some(offset) => *offset = next,
            None => self.descriptor_mut(at.fd).cursor = next,
        }
    }

    /// Lets all peers act whose time has come.
    pub(crate) fn run_due_events(&mut self) {
        for object in &mut self.objects {
            let had = object.timing().and_then(|timing| timing.due);
            object.run_due_events(self.clock);
            let has = object.timing().and_then(|timing| timing.due);
            self.n_events += usize::from(had != has);
        }
    }
}

/// Returns whether all values that were combined by `|` are multiples of the sector size.
fn is_sector_multiple(joined: u64) -> bool {
    joined.is_multiple_of(512)
}
