//! A kernel in memory: it does what Linux does, and what a script tells it to.
//!
//! Every descriptor is a real one, of `/dev/null`, and serves as a token for a simulated object.
//! Time is simulated too: nothing but waiting takes any. The kernel itself watches for what no
//! transfer may do: ask for nothing, sleep in a call although a tick was asked for, wait for ever,
//! wait without having been told to, shrink a pipe, or spin.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use super::interference::{EffectRecord, Interference};
use super::objects::Object;
use super::script::{Call, Injection, Script};
use crate::side::Side;
use crate::sys::{Errno, FdAt, OFlags, Result};

/// The simulated kernel. [`Kernel`] is implemented for a reference to it, so that a test can look
/// into it afterwards.
#[derive(Debug, Default)]
pub(crate) struct SimKernel {
    pub(crate) state: RefCell<State>,
}

/// When the simulated clock starts.
const START: Duration = Duration::from_secs(1000);

#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "whims, one by one")]
pub(crate) struct State {
    pub(crate) descriptors: HashMap<RawFd, Descriptor>,
    pub(crate) objects: Vec<Object>,
    pub(crate) script: Script,
    pub(crate) clock: Duration,
    /// Whether a call may sleep: not with a tick.
    pub(crate) may_sleep: bool,
    /// Whether `RWF_NOWAIT` is known to pipes and sockets.
    pub(crate) supports_nowait: bool,
    /// The capacity of a new pipe, and the largest that one may be given.
    pub(crate) pipe_capacity: usize,
    pub(crate) pipe_max: usize,
    /// Whether files can be opened once more.
    pub(crate) has_proc: bool,
    /// `EIO` when dirty pages are written out.
    pub(crate) disk_fails: bool,
    /// More calls than this are a spin.
    pub(crate) max_calls: usize,
    /// The calls that a script can inject into, and what they answered.
    pub(crate) log: Vec<(Call, Result<usize>)>,
    /// Failures that objects told, and the side that they stand on.
    pub(crate) errors_reported: Vec<(Side, Errno)>,
    /// The same, and the descriptors that were asked.
    pub(crate) errors_by_fd: Vec<(RawFd, Errno)>,
    /// Whether the source feeds several sinks. Then it is polled before it is asked, and nobody else
    /// reads from it: what it has it keeps until it is taken.
    pub(crate) has_several_sinks: bool,
    /// How often the buffer that is read into was another one than before.
    pub(crate) n_buffers: usize,
    pub(crate) last_buffer: usize,
    /// What peers have done.
    pub(crate) n_events: usize,
    /// How often nothing but time was waited for.
    pub(crate) n_sleeps: usize,
    /// The descriptors of both sides, in the order in which they were opened.
    pub(crate) sources: Vec<RawFd>,
    pub(crate) sinks: Vec<RawFd>,
    /// What others will do.
    pub(crate) interferences: Vec<Interference>,
    /// What they will do inside the call that is being made.
    pub(crate) inside: Vec<Interference>,
    /// What they have done.
    pub(crate) effects: Vec<EffectRecord>,
    /// Calls begun so far, of each kind and of all.
    pub(crate) n_calls_begun: HashMap<Option<Call>, usize>,
    /// The open file whose position the last call asked for.
    pub(crate) position_read_of: Option<RawFd>,
    /// What was dropped from the page cache: the descriptor, the offset, and the length.
    pub(crate) dropped: Vec<(RawFd, u64, u64)>,
    /// What the transfer stepped over last, by `lseek(2)` from where the position was.
    pub(crate) reserved: HashMap<RawFd, Range<u64>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptor {
    pub(crate) object: usize,
    pub(crate) cursor: u64,
    pub(crate) flags: OFlags,
    pub(crate) side: Side,
    /// Whether the transfer opened it, so that nobody else uses its cursor.
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

/// A token: a descriptor of its own.
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

    /// The simulated time that has passed.
    pub(crate) fn elapsed(&self) -> Duration {
        self.state.borrow().clock.saturating_sub(START)
    }

    /// Twists the next calls of one kind.
    pub(crate) fn inject(&self, call: Call, injections: &[Injection]) {
        self.state.borrow_mut().script.at(call, injections);
    }

    /// Has others do something at some call.
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

    /// The capacity of a pipe, or of the buffer of a socket; 0 for any other file.
    pub(crate) fn capacity(&self, fd: &OwnedFd) -> usize {
        self.with(fd, |object| match object {
            Object::Channel(channel) => channel.capacity,
            _ => 0,
        })
    }

    /// The answers to one kind of call.
    pub(crate) fn results(&self, call: Call) -> Vec<Result<usize>> {
        let state = self.state.borrow();
        let those = state.log.iter().filter(|(which, _)| *which == call);
        those.map(|(_, answer)| *answer).collect()
    }

    /// Whether no splice was to be had at some time, or no private pipe for one.
    pub(crate) fn has_refused_a_splice(&self) -> bool {
        let answers = [Call::Splice, Call::Pipe].map(|call| self.results(call));
        let mut answers = answers.iter().flatten();
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
        // The number may be that of a private pipe that has been closed.
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

    /// Whether `O_DIRECT` forbids to move these bytes to or from here.
    pub(crate) fn is_misaligned(&self, at: At, memory: &[u8], is_write: bool) -> bool {
        let address = memory.as_ptr().addr();
        if is_write {
            self.is_direct(at)
                && !is_sector_multiple(self.position(at) | memory.len() as u64 | address as u64)
        } else {
            self.is_misaligned_read(at, memory.len() | address)
        }
    }

    /// Whether `O_DIRECT` forbids to read so many bytes from here. At the end of a file nothing is forbidden.
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

    /// A message is moved whole.
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

    /// Whether a read takes one packet, or none.
    pub(crate) fn begins_with_packet(&self, at: At) -> bool {
        matches!(&self.objects[at.object],
            Object::Channel(channel) if channel.queue.begins_with_packet())
    }

    /// How many bytes come before an urgent one.
    pub(crate) fn until_urgent_mark(&self, at: At) -> Option<usize> {
        match &self.objects[at.object] {
            Object::Channel(channel) => channel.until_urgent_mark(),
            _ => None,
        }
    }

    /// Moves the call's own offset or the descriptor's cursor over `n` bytes.
    pub(crate) fn advance(&mut self, at: &mut At, position: u64, n: usize) {
        let next = position + n as u64;
        match &mut at.offset {
            Some(offset) => *offset = next,
            None => self.descriptor_mut(at.fd).cursor = next,
        }
    }

    /// Lets everything happen whose time has come.
    pub(crate) fn run_due_events(&mut self) {
        for object in &mut self.objects {
            let had = object.timing().and_then(|timing| timing.due);
            object.run_due_events(self.clock);
            let has = object.timing().and_then(|timing| timing.due);
            self.n_events += usize::from(had != has);
        }
    }
}

/// Whether what was joined by `|` are whole sectors, all of it.
fn is_sector_multiple(joined: u64) -> bool {
    joined.is_multiple_of(512)
}
