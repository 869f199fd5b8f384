//! The calls that move bytes, as Linux makes them, with the twists of the script.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use super::channel::{Channel, Peer};
use super::kernel::{At, State};
use super::objects::{BLOCK, Found, Object, pattern};
use super::script::{Call, Twist};
use crate::sys::{Errno, OFlags, Result, SpliceFlags};

/// When a call without an offset stores the position of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stores {
    Always,
    IfMoved,
}

impl State {
    /// Sleeps in a call that began at `since`, until something happens at this end.
    fn sleep(&mut self, at: At, since: Duration) -> Result<()> {
        assert!(at.may_wait, "a call that may not wait waits");
        assert!(self.may_sleep, "a call sleeps, though there is a tick");
        let object = &mut self.objects[at.object];
        let event = object.next_event(self.clock);
        let event = event.expect("a call sleeps for ever");
        let timeout = object.timing().and_then(|timing| timing.timeout);
        match timeout.map(|timeout| since + timeout) {
            Some(deadline) if deadline < event => {
                self.clock = deadline;
                self.settle();
                return Err(Errno::AGAIN);
            }
            _ => self.clock = event,
        }
        self.settle();
        Ok(())
    }

    /// Notes that the caller hears of a failure. One that comes after some bytes waits for the next
    /// call.
    pub(crate) fn tell(&mut self, at: At, errno: Errno) -> Errno {
        let is_bad_place = matches!(&self.objects[at.object],
            Object::File(file) if !file.bad_places.is_empty());
        if matches!(errno, Errno::AGAIN | Errno::INTR) || is_bad_place {
            return errno;
        }
        self.told.push((self.descriptor(at.fd).side, errno));
        self.told_at.push((at.fd, errno));
        self.objects[at.object].told();
        errno
    }

    /// Waits until bytes can be taken from here; 0 is the end.
    pub(crate) fn await_bytes(&mut self, at: At, since: Duration) -> Result<usize> {
        loop {
            let position = self.position(at);
            match self.objects[at.object].readable(position, self.clock) {
                Found::Some(n) => return Ok(n),
                Found::End => return Ok(0),
                Found::Failed(errno) => return Err(errno),
                Found::Later if at.may_wait => self.sleep(at, since)?,
                Found::Later => return Err(Errno::AGAIN),
            }
        }
    }

    /// Waits until there is room here.
    fn await_room(&mut self, at: At, since: Duration, pages: bool) -> Result<usize> {
        loop {
            let position = self.position(at);
            let object = &self.objects[at.object];
            let found = if pages {
                object.spliceable(position, self.clock)
            } else {
                object.writable(position, self.clock)
            };
            match found {
                Found::Some(n) => return Ok(n),
                Found::End => return Err(Errno::FBIG),
                Found::Failed(errno) => return Err(errno),
                Found::Later if at.may_wait => self.sleep(at, since)?,
                Found::Later => return Err(Errno::AGAIN),
            }
        }
    }

    /// Makes a call that moves bytes inside the kernel, at offsets of its own.
    ///
    /// A call without an offset reads the position of an open file at its start and stores the new one at its end.
    /// Unlike `read`, `write` and `lseek` it keeps nobody else from the position in between. `splice` stores it in
    /// any case, the other calls if something moved.
    fn pinned(
        &mut self,
        [mut source, mut sink]: [At; 2],
        stores: Stores,
        call: impl FnOnce(&mut Self, &mut At, &mut At) -> Result<usize>,
    ) -> Result<usize> {
        let shared = [source, sink].map(|at| self.shared_position(at));
        source.offset = source.offset.or(shared[0]);
        sink.offset = sink.offset.or(shared[1]);
        self.interfere();
        let moved = call(self, &mut source, &mut sink);
        if stores == Stores::Always || moved.is_ok_and(|n| n > 0) {
            for (at, position) in [source, sink].into_iter().zip(shared) {
                if let (Some(_), Some(now)) = (position, at.offset) {
                    self.descriptor_mut(at.fd).cursor = now;
                }
            }
        }
        moved
    }

    /// The position of the open file, if this end of a call goes by it.
    fn shared_position(&self, at: At) -> Option<u64> {
        let is_file = matches!(self.objects[at.object], Object::File(_));
        (is_file && at.offset.is_none()).then(|| self.position(at))
    }

    /// Moves bytes inside the kernel: once, or until `len` are moved if the call does not return
    /// before.
    fn carry(
        &mut self,
        source: &mut At,
        sink: &mut At,
        len: usize,
        until_all: bool,
    ) -> Result<usize> {
        let since = self.clock;
        let mut moved = 0;
        while moved < len {
            if self.is_out_of_step(*source, len - moved) {
                return if moved > 0 {
                    Ok(moved)
                } else {
                    Err(Errno::INVAL)
                };
            }
            if let Some(n) = self.stops_at_mark(*source) {
                return if moved > 0 { Ok(moved) } else { n };
            }
            let position = self.position(*source);
            let whole = self.objects[source.object].fails_as_a_whole(position, len - moved);
            let found = whole.map_or_else(|| self.await_bytes(*source, since), Err);
            let n = match found {
                Ok(0) => break,
                Ok(n) => {
                    let room = self.await_room(*sink, since, true);
                    room.map(|room| n.min(room)).map_err(|errno| (*sink, errno))
                }
                Err(errno) => Err((*source, errno)),
            };
            match n {
                Ok(n) => {
                    let until_mark = self.until_mark(*source).filter(|n| *n > 0);
                    let n = n.min(len - moved).min(until_mark.unwrap_or(usize::MAX));
                    let (from, to) = (self.position(*source), self.position(*sink));
                    let parts = self.objects[source.object].take(source.object, from, n);
                    self.objects[sink.object].put(to, parts);
                    self.refresh_pages(sink.object);
                    self.passed(source, from, n);
                    self.passed(sink, to, n);
                    moved += n;
                }
                Err((at, errno)) if moved == 0 => return Err(self.tell(at, errno)),
                Err(_) => break,
            }
            if !until_all {
                break;
            }
        }
        Ok(moved)
    }

    /// What a splice answers at an urgent byte: `tcp_splice_read` does not go past it, and waits for nothing that is there.
    fn stops_at_mark(&self, source: At) -> Option<Result<usize>> {
        let is_there = self.until_mark(source) == Some(0);
        is_there.then(|| {
            if self.is_nonblocking(source.fd) {
                Err(Errno::AGAIN)
            } else {
                Ok(0)
            }
        })
    }

    /// What the script has for this call: an answer, or the most that it may move.
    pub(crate) fn twist(
        &mut self,
        call: Call,
        len: usize,
        ends: &[At],
        zero: bool,
    ) -> Result<Option<usize>> {
        assert!(len > 0, "{call:?} asks for nothing");
        self.arrive(call);
        match self.script.next(call) {
            Twist::Short(n) => Ok(Some(n.clamp(1, len))),
            Twist::Interrupted => Err(Errno::INTR),
            twist @ (Twist::Stalled(_) | Twist::FalseStart) => {
                let clock = self.clock;
                let is_peered = |at: &&At| {
                    let keeps_its_bytes = |channel: &Channel| match channel.peer {
                        Peer::Nobody => true,
                        Peer::Feeds { .. } => {
                            self.is_shared && !channel.is_stream && !channel.queue.is_empty()
                        }
                        Peer::Takes { .. } => false,
                    };
                    // What has gone is known at once.
                    !at.may_wait
                        && !self.objects[at.object].is_broken()
                        && !matches!(&self.objects[at.object], Object::Channel(channel)
                            if keeps_its_bytes(channel))
                };
                let Some(at) = ends.iter().find(is_peered).copied() else {
                    return Ok(None);
                };
                let Some(timing) = self.objects[at.object].timing_mut() else {
                    return Ok(None);
                };
                if let Twist::Stalled(millis) = twist {
                    timing.stalled_until = clock + Duration::from_millis(millis);
                }
                Err(Errno::AGAIN)
            }
            Twist::Nothing if zero => Ok(Some(0)),
            Twist::Straight | Twist::Nothing => Ok(None),
            Twist::Refused(n) => call.refusal(n).map_or(Ok(None), Err),
            Twist::Fails(errno) => Err(errno),
        }
    }

    /// Writes down what a call answered.
    pub(crate) fn answered<T: Copy>(
        &mut self,
        call: Call,
        answer: Result<T>,
        n: fn(T) -> usize,
    ) -> Result<T> {
        self.log.push((call, answer.map(n)));
        let n_calls = self.log.len();
        assert!(n_calls <= self.max_calls, "{n_calls} calls: it spins");
        answer
    }

    pub(crate) fn read(&mut self, mut at: At, buffer: &mut [u8]) -> Result<usize> {
        let short = self.twist(Call::Read, buffer.len(), &[at], false)?;
        let position = self.position(at);
        let flags = self.descriptor(at.fd).flags;
        let is_file = matches!(self.objects[at.object], Object::File(_));
        let direct = is_file && flags.contains(OFlags::DIRECT);
        if flags & OFlags::RWMODE == OFlags::WRONLY
            && matches!(self.objects[at.object], Object::File(_))
        {
            return Err(Errno::BADF);
        }
        if let Object::File(file) = &self.objects[at.object]
            && direct
            && position < file.bytes.len() as u64
            && !(position.is_multiple_of(file.grain)
                && (buffer.len() as u64).is_multiple_of(file.grain))
        {
            return Err(Errno::INVAL);
        }
        let whole = self.objects[at.object].fails_as_a_whole(position, buffer.len());
        let found = whole.map_or_else(|| self.await_bytes(at, self.clock), Err);
        let found = found.map_err(|errno| self.tell(at, errno))?;
        let short = short.filter(|_| !self.is_message(at) && !self.begins_with_packet(at));
        let short = short.map(|short| {
            if direct {
                short.next_multiple_of(BLOCK)
            } else {
                short
            }
        });
        let n = found.min(short.unwrap_or(usize::MAX)).min(buffer.len());
        if n == 0 {
            return Ok(0);
        }
        let bytes = self.objects[at.object].read(position, n);
        buffer[..bytes.len()].copy_from_slice(&bytes);
        self.passed(&mut at, position, bytes.len());
        Ok(bytes.len())
    }

    pub(crate) fn write(&mut self, mut at: At, bytes: &[u8]) -> Result<usize> {
        let short = self.twist(Call::Write, bytes.len(), &[at], true)?;
        if short == Some(0) {
            return Ok(0);
        }
        let short = short.filter(|_| !self.is_message(at));
        let bytes = &bytes[..short.unwrap_or(bytes.len())];
        let (since, mut written) = (self.clock, 0);
        while written < bytes.len() {
            let rest = &bytes[written..];
            let n = match self.await_room(at, since, false) {
                // At most `PIPE_BUF` go into a pipe at once or not at all.
                Ok(n) if n < rest.len().min(BLOCK) && self.is_pipe(at.fd) && !at.may_wait => {
                    Err(Errno::AGAIN)
                }
                found => found,
            };
            match n {
                Ok(n) => {
                    let n = n.min(rest.len());
                    let position = self.position(at);
                    self.objects[at.object].write(position, &rest[..n]);
                    self.refresh_pages(at.object);
                    self.passed(&mut at, position, n);
                    written += n;
                }
                Err(errno) if written == 0 => return Err(self.tell(at, errno)),
                Err(_) => break,
            }
        }
        Ok(written)
    }

    pub(crate) fn splice(
        &mut self,
        ends: [(BorrowedFd<'_>, Option<u64>); 2],
        len: usize,
        flags: SpliceFlags,
    ) -> Result<usize> {
        let [from, to] = ends.map(|(fd, _)| fd.as_raw_fd());
        let pipes = (self.is_pipe(from), self.is_pipe(to));
        // `do_splice`: the flag, or a pipe's own mode, speaks for both pipes; everything else has
        // its own mode.
        let flagged = flags.contains(SpliceFlags::NONBLOCK)
            || pipes.0 && self.is_nonblocking(from)
            || pipes.1 && self.is_nonblocking(to);
        let waits = |is_pipe: bool, fd| {
            if is_pipe {
                !flagged
            } else {
                !self.is_nonblocking(fd)
            }
        };
        let source = self.at(ends[0], waits(pipes.0, from));
        let sink = self.at(ends[1], waits(pipes.1, to));
        // A pipe or socket gives 0 at its end alone; but what a pipe is spliced to may take
        // nothing.
        let is_file = matches!(self.objects[source.object], Object::File(_));
        let found = self.objects[source.object].readable(0, self.clock);
        let can_be_nothing = is_file || pipes == (true, false) && matches!(found, Found::Some(_));
        let short = self.twist(Call::Splice, len, &[source, sink], can_be_nothing)?;
        if pipes == (false, false) || self.appends(to) {
            return Err(Errno::INVAL);
        }
        let len = short.unwrap_or(len);
        // A blocking socket takes all that the pipe holds before the call returns.
        let since = self.clock;
        let is_to_socket = pipes.0 && !pipes.1 && len > 0;
        self.pinned([source, sink], Stores::Always, |state, source, sink| {
            let len = if is_to_socket {
                let found = state.await_bytes(*source, since);
                found.map_err(|errno| state.tell(*source, errno))?.min(len)
            } else {
                len
            };
            state.carry(source, sink, len, is_to_socket)
        })
    }

    /// The bytes stay where they are. A pipe that is full of little refuses more, so that a short
    /// count is normal.
    pub(crate) fn tee(
        &mut self,
        ends: [BorrowedFd<'_>; 2],
        len: usize,
        flags: SpliceFlags,
    ) -> Result<usize> {
        let [from, to] = ends.map(|fd| fd.as_raw_fd());
        let waits = !(flags.contains(SpliceFlags::NONBLOCK)
            || self.is_nonblocking(from)
            || self.is_nonblocking(to));
        let source = self.at((ends[0], None), waits);
        let mut sink = self.at((ends[1], None), waits);
        let short = self.twist(Call::Tee, len, &[source, sink], false)?;
        if !(self.is_pipe(from) && self.is_pipe(to)) || source.object == sink.object {
            return Err(Errno::INVAL);
        }
        let since = self.clock;
        let found = self.await_bytes(source, since);
        let found = found.map_err(|errno| self.tell(source, errno))?;
        if found == 0 {
            return Ok(0);
        }
        let room = self.await_room(sink, since, true);
        let room = room.map_err(|errno| self.tell(sink, errno))?;
        let n = found.min(room).min(short.unwrap_or(len));
        let Object::Channel(channel) = &self.objects[source.object] else {
            return Err(Errno::INVAL);
        };
        let parts = channel.queue.first(n);
        let position = self.position(sink);
        self.objects[sink.object].put(position, parts);
        self.passed(&mut sink, position, n);
        Ok(n)
    }

    pub(crate) fn sendfile(
        &mut self,
        sink: BorrowedFd<'_>,
        source: (BorrowedFd<'_>, Option<u64>),
        len: usize,
    ) -> Result<usize> {
        let to = sink.as_raw_fd();
        let source = self.at(source, false);
        let sink = self.at((sink, None), !self.is_nonblocking(to));
        let is_random = matches!(self.objects[source.object], Object::Random(_));
        let is_file = is_random || matches!(self.objects[source.object], Object::File(_));
        let short = self.twist(Call::Sendfile, len, &[sink], !is_random)?;
        if !is_file || self.appends(to) {
            return Err(Errno::INVAL);
        }
        let left = match &self.objects[source.object] {
            Object::File(file) => file.size().saturating_sub(self.position(source)),
            _ => u64::MAX,
        };
        let len = short
            .unwrap_or(len)
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let is_to_pipe = self.is_pipe(to);
        self.pinned([source, sink], Stores::IfMoved, |state, source, sink| {
            state.carry(source, sink, len, !is_to_pipe)
        })
    }

    pub(crate) fn copy_file_range(&mut self, source: At, sink: At, len: usize) -> Result<usize> {
        let short = self.twist(Call::CopyFileRange, len, &[], true)?;
        let (Object::File(from), Object::File(to)) =
            (&self.objects[source.object], &self.objects[sink.object])
        else {
            return Err(Errno::INVAL);
        };
        if self.appends(sink.fd) {
            return Err(Errno::BADF);
        }
        if from.device != to.device {
            return Err(Errno::XDEV);
        }
        let left = from.size().saturating_sub(self.position(source));
        let len = short
            .unwrap_or(len)
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        self.pinned([source, sink], Stores::IfMoved, |state, source, sink| {
            state.carry(source, sink, len, false)
        })
    }

    /// Clones a range, or (without one) the whole file.
    pub(crate) fn clone(
        &mut self,
        call: Call,
        ends: [BorrowedFd<'_>; 2],
        range: Option<[u64; 3]>,
    ) -> Result<()> {
        const BTRFS: u64 = 0x9123_683e;
        let short = self.twist(call, usize::MAX, &[], true)?;
        let [source, sink] = ends.map(|fd| *self.descriptor(fd.as_raw_fd()));
        let access = |flags: OFlags| flags & OFlags::RWMODE;
        let is_append = sink.flags.contains(OFlags::APPEND);
        if access(source.flags) == OFlags::WRONLY
            || access(sink.flags) == OFlags::RDONLY
            || is_append
        {
            return Err(Errno::BADF);
        }
        let [from, to] = [source.object, sink.object];
        let Ok([Object::File(source), Object::File(sink)]) =
            self.objects.get_disjoint_mut([from, to])
        else {
            return Err(Errno::INVAL);
        };
        if source.magic != BTRFS || sink.magic != BTRFS || source.claims.is_some() {
            return Err(Errno::OPNOTSUPP);
        }
        if source.device != sink.device {
            return Err(Errno::XDEV);
        }
        if let Some(len) = source.cut_when_cloned.take() {
            source.resize(len);
        }
        let grown = source.bytes.len() + std::mem::take(&mut source.grows_when_cloned);
        let tail: Vec<u8> = (source.bytes.len()..grown)
            .map(|place| pattern(place as u64))
            .collect();
        source.put(source.bytes.len() as u64, &tail);
        let size = source.bytes.len() as u64;
        let [at, to, len] = range.unwrap_or([0, 0, size]);
        let block = BLOCK as u64;
        let is_ragged = !len.is_multiple_of(block);
        let fits = at.is_multiple_of(block) && to.is_multiple_of(block) && at + len <= size;
        if !fits || is_ragged && (at + len != size || to + len < sink.bytes.len() as u64) {
            return Err(Errno::INVAL);
        }
        // A truncated clone that claims success (openzfs#15728), where it shows: past the sink's
        // end.
        let len = match short {
            Some(short) if sink.bytes.len() as u64 <= to => len.min(short as u64),
            _ => len,
        } as usize;
        if len == 0 {
            return Ok(());
        }
        if sink.bytes.len() < to as usize {
            sink.resize(to as usize);
        }
        let (at, to) = (at as usize, to as usize);
        sink.put(to as u64, &source.bytes[at..at + len]);
        let blocks = at / BLOCK..(at + len).div_ceil(BLOCK);
        for (nth, block) in blocks.enumerate() {
            sink.has_data[to / BLOCK + nth] = source.has_data[block];
        }
        Ok(())
    }
}
