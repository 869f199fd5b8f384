//! `splice(2)`, `tee(2)`, `sendfile(2)` and `copy_file_range(2)`, with the injections of the
//! script.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::kernel::{At, State};
use super::objects::{Found, Object};
use super::script::Call;
use crate::sys::{Errno, FdAt, Result, SpliceFlags};

/// When a call without an offset stores the position of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StorePosition {
    Always,
    IfMoved,
}

impl State {
    pub(crate) fn splice(
        &mut self,
        ends: [FdAt<'_>; 2],
        len: usize,
        flags: SpliceFlags,
    ) -> Result<usize> {
        let [from, to] = ends.map(|(fd, _)| fd.as_raw_fd());
        let pipes = (self.is_pipe(from), self.is_pipe(to));
        // `do_splice`: the flag, or the mode of either pipe, applies to both pipes; every other
        // file has its own mode.
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
        // A pipe or socket returns 0 only at its end, but the destination of a pipe may accept
        // nothing.
        let is_file = matches!(self.objects[source.object], Object::File(_));
        let found = self.objects[source.object].readable(0, self.clock);
        let can_be_nothing = is_file || pipes == (true, false) && matches!(found, Found::Some(_));
        let short = self.inject(Call::Splice, len, &[source, sink], can_be_nothing)?;
        if pipes == (false, false) || self.appends(to) {
            return Err(Errno::INVAL);
        }
        let len = short.unwrap_or(len);
        // A call that sends to a blocking socket returns only when the pipe is empty.
        let since = self.clock;
        let is_to_socket = pipes.0 && !pipes.1 && len > 0;
        self.at_fixed_positions(
            [source, sink],
            StorePosition::Always,
            |state, source, sink| {
                let len = if is_to_socket {
                    let found = state.await_bytes(*source, since);
                    found
                        .map_err(|errno| state.report_error(*source, errno))?
                        .min(len)
                } else {
                    len
                };
                state.move_bytes(source, sink, len, is_to_socket)
            },
        )
    }

    /// Duplicates bytes, which stay in the source. A pipe whose slots are all used accepts no more
    /// even if they are nearly empty, so that a short count is normal.
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
        let short = self.inject(Call::Tee, len, &[source, sink], true)?;
        if !(self.is_pipe(from) && self.is_pipe(to)) || source.object == sink.object {
            return Err(Errno::INVAL);
        }
        let since = self.clock;
        let found = self.await_bytes(source, since);
        let found = found.map_err(|errno| self.report_error(source, errno))?;
        if found == 0 {
            return Ok(0);
        }
        let room = self.await_room(sink, since, true);
        let room = room.map_err(|errno| self.report_error(sink, errno))?;
        let n = found.min(room).min(short.unwrap_or(len));
        let Object::Channel(channel) = &self.objects[source.object] else {
            return Err(Errno::INVAL);
        };
        // The call stops at the end of a slot, and a packet occupies a slot of its own.
        let n = channel.queue.whole_packets(n).min(len);
        let parts = channel.queue.first(n);
        let position = self.position(sink);
        self.objects[sink.object].put(position, parts);
        self.advance(&mut sink, position, n);
        Ok(n)
    }

    pub(crate) fn sendfile(
        &mut self,
        sink: BorrowedFd<'_>,
        source: FdAt<'_>,
        len: usize,
    ) -> Result<usize> {
        let to = sink.as_raw_fd();
        let source = self.at(source, false);
        let sink = self.at((sink, None), !self.is_nonblocking(to));
        let is_random = matches!(self.objects[source.object], Object::Random(_));
        let is_file = is_random || matches!(self.objects[source.object], Object::File(_));
        let short = self.inject(Call::Sendfile, len, &[sink], !is_random)?;
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
        self.at_fixed_positions(
            [source, sink],
            StorePosition::IfMoved,
            |state, source, sink| state.move_bytes(source, sink, len, !is_to_pipe),
        )
    }

    pub(crate) fn copy_file_range(&mut self, source: At, sink: At, len: usize) -> Result<usize> {
        let short = self.inject(Call::CopyFileRange, len, &[], true)?;
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
        self.at_fixed_positions(
            [source, sink],
            StorePosition::IfMoved,
            |state, source, sink| state.move_bytes(source, sink, len, false),
        )
    }

    /// Makes a call that moves bytes inside the kernel, with the position read at its start.
    ///
    /// A call without an offset reads the position of an open file at its start and stores the new
    /// one at its end. Unlike `read`, `write` and `lseek` it does not lock the position in between.
    /// `splice` always stores it; the other calls do if they moved bytes.
    fn at_fixed_positions(
        &mut self,
        [mut source, mut sink]: [At; 2],
        store: StorePosition,
        call: impl FnOnce(&mut Self, &mut At, &mut At) -> Result<usize>,
    ) -> Result<usize> {
        let shared = [source, sink].map(|at| self.shared_position(at));
        source.offset = source.offset.or(shared[0]);
        sink.offset = sink.offset.or(shared[1]);
        self.act_inside_call();
        let moved = call(self, &mut source, &mut sink);
        if store == StorePosition::Always || moved.is_ok_and(|n| n > 0) {
            for (at, position) in [source, sink].into_iter().zip(shared) {
                if let (Some(_), Some(now)) = (position, at.offset) {
                    self.descriptor_mut(at.fd).cursor = now;
                }
            }
        }
        moved
    }

    /// Returns the position of the open file if the call uses it.
    fn shared_position(&self, at: At) -> Option<u64> {
        let is_file = matches!(self.objects[at.object], Object::File(_));
        (is_file && at.offset.is_none()).then(|| self.position(at))
    }

    /// Moves bytes inside the kernel: one piece, or pieces until `len` bytes are moved if
    /// `until_all`.
    fn move_bytes(
        &mut self,
        source: &mut At,
        sink: &mut At,
        len: usize,
        until_all: bool,
    ) -> Result<usize> {
        let since = self.clock;
        let mut moved = 0;
        while moved < len {
            if self.is_misaligned_read(*source, len - moved) {
                return if moved > 0 {
                    Ok(moved)
                } else {
                    Err(Errno::INVAL)
                };
            }
            if let Some(n) = self.result_at_urgent_mark(*source) {
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
                    let until_urgent_mark = self.until_urgent_mark(*source).filter(|n| *n > 0);
                    let n = n
                        .min(len - moved)
                        .min(until_urgent_mark.unwrap_or(usize::MAX));
                    let (from, to) = (self.position(*source), self.position(*sink));
                    let parts = self.objects[source.object].take(source.object, from, n);
                    self.objects[sink.object].put(to, parts);
                    self.refresh_pages(sink.object);
                    self.advance(source, from, n);
                    self.advance(sink, to, n);
                    moved += n;
                }
                Err((at, errno)) if moved == 0 => return Err(self.report_error(at, errno)),
                Err(_) => break,
            }
            if !until_all {
                break;
            }
        }
        Ok(moved)
    }

    /// Returns the result of a splice at an urgent byte: `tcp_splice_read` does not go past it, and
    /// does not wait because the byte is there.
    fn result_at_urgent_mark(&self, source: At) -> Option<Result<usize>> {
        let is_there = self.until_urgent_mark(source) == Some(0);
        is_there.then(|| {
            if self.is_nonblocking(source.fd) {
                Err(Errno::AGAIN)
            } else {
                Ok(0)
            }
        })
    }
}
