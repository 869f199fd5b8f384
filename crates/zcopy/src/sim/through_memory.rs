//! `read(2)`, `write(2)` and the clone ioctls, and what all calls share: waiting, injections and
//! the log.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use super::channel::{Channel, Peer};
use super::kernel::{At, State};
use super::objects::{BLOCK, Found, Object, pattern};
use super::script::{Call, Injection};
use crate::sys::{Errno, OFlags, Result};

impl State {
    /// Sleeps in a call that began at `since` until an event of this object, or its time-out.
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
                self.run_due_events();
                return Err(Errno::AGAIN);
            }
            _ => self.clock = event,
        }
        self.run_due_events();
        Ok(())
    }

    /// Records an error that a call returns. An error after some bytes is returned by the next
    /// call.
    pub(crate) fn report_error(&mut self, at: At, errno: Errno) -> Errno {
        let is_bad_block = matches!(&self.objects[at.object],
            Object::File(file) if !file.bad_blocks.is_empty());
        if matches!(errno, Errno::AGAIN | Errno::INTR) || is_bad_block {
            return errno;
        }
        self.errors_reported
            .push((self.descriptor(at.fd).side, errno));
        self.errors_by_fd.push((at.fd, errno));
        self.objects[at.object].mark_error_reported();
        errno
    }

    /// Waits until bytes can be read, and returns their number; 0 is the end of the file.
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

    /// Waits until bytes can be written, and returns their number. `pages` says whether the call
    /// hands over pages.
    pub(crate) fn await_room(&mut self, at: At, since: Duration, pages: bool) -> Result<usize> {
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

    /// Applies the next injection to this call. Returns its error, or the most bytes that the call
    /// may move.
    pub(crate) fn inject(
        &mut self,
        call: Call,
        len: usize,
        ends: &[At],
        zero: bool,
    ) -> Result<Option<usize>> {
        assert!(len > 0, "{call:?} asks for nothing");
        self.begin_call(call);
        match self.script.next(call) {
            Injection::Short(n) => Ok(Some(n.clamp(1, len))),
            Injection::Interrupted => Err(Errno::INTR),
            injection @ (Injection::Stalled(_) | Injection::SpuriousWakeup) => {
                let clock = self.clock;
                let is_peered = |at: &&At| {
                    let keeps_its_bytes = |channel: &Channel| match channel.peer {
                        Peer::None => true,
                        Peer::Writes { .. } => {
                            self.has_several_sinks
                                && !channel.is_stream
                                && !channel.queue.is_empty()
                        }
                        Peer::Reads { .. } => false,
                    };
                    // A closed peer is known at once.
                    !at.may_wait
                        && !self.objects[at.object].has_failed()
                        && !matches!(&self.objects[at.object], Object::Channel(channel)
                            if keeps_its_bytes(channel))
                };
                let Some(at) = ends.iter().find(is_peered).copied() else {
                    return Ok(None);
                };
                let Some(timing) = self.objects[at.object].timing_mut() else {
                    return Ok(None);
                };
                if let Injection::Stalled(millis) = injection {
                    timing.stalled_until = clock + Duration::from_millis(millis);
                }
                Err(Errno::AGAIN)
            }
            Injection::ReturnsZero if zero => Ok(Some(0)),
            Injection::Normal | Injection::ReturnsZero => Ok(None),
            Injection::Refused(n) => call.refusal(n).map_or(Ok(None), Err),
            Injection::Fails(errno) => Err(errno),
        }
    }

    /// Logs the result of a call.
    pub(crate) fn log_call<T: Copy>(
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
        let short = self.inject(Call::Read, buffer.len(), &[at], false)?;
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
            && !(position.is_multiple_of(file.granularity)
                && (buffer.len() as u64).is_multiple_of(file.granularity))
        {
            return Err(Errno::INVAL);
        }
        let whole = self.objects[at.object].fails_as_a_whole(position, buffer.len());
        let found = whole.map_or_else(|| self.await_bytes(at, self.clock), Err);
        let found = found.map_err(|errno| self.report_error(at, errno))?;
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
        self.advance(&mut at, position, bytes.len());
        Ok(bytes.len())
    }

    pub(crate) fn write(&mut self, mut at: At, bytes: &[u8]) -> Result<usize> {
        let short = self.inject(Call::Write, bytes.len(), &[at], true)?;
        if short == Some(0) {
            return Ok(0);
        }
        let short = short.filter(|_| !self.is_message(at));
        let bytes = &bytes[..short.unwrap_or(bytes.len())];
        let (since, mut written) = (self.clock, 0);
        while written < bytes.len() {
            let rest = &bytes[written..];
            let n = match self.await_room(at, since, false) {
                // A write of at most `PIPE_BUF` is atomic.
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
                    self.advance(&mut at, position, n);
                    written += n;
                }
                Err(errno) if written == 0 => return Err(self.report_error(at, errno)),
                Err(_) => break,
            }
        }
        Ok(written)
    }

    /// Clones a range, or the whole file if `range` is `None`.
    pub(crate) fn clone(
        &mut self,
        call: Call,
        ends: [BorrowedFd<'_>; 2],
        range: Option<[u64; 3]>,
    ) -> Result<()> {
        const BTRFS: u64 = 0x9123_683e;
        let short = self.inject(call, usize::MAX, &[], true)?;
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
        if source.magic != BTRFS || sink.magic != BTRFS || source.claimed_size.is_some() {
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
        // A truncated clone that succeeds (openzfs#15728). It shows only behind the end of the
        // sink.
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
