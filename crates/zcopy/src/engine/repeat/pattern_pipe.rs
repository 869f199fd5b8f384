//! The pipe that is full of the pattern, and the private pipe that shares its pages with the sink.

use std::os::fd::AsFd;

use crate::call_error::{CallError, Cause};
use crate::endpoint::Endpoint;
use crate::pipe::{self, Pipe};
use crate::step::{Step, splice_pipe, tee};
use crate::sys::{Blocking, Errno, Kernel, Result, SpliceFlags, retried};

/// The largest fragment that a unix stream socket makes of one send (`SKB_FRAG_PAGE_ORDER`), and so the
/// most that one slot of a pipe can be given.
const FRAGMENT: usize = 32 << 10;

/// By so much may a send fall short of [`FRAGMENT`] and still be one fragment: beyond, its head goes to
/// the buffer's linear part, which leaves that much of a page free (`struct skb_shared_info`), and
/// the rest is cut into smaller fragments.
const SLACK: usize = 320;

/// The most that the sink is given in one call. A slot may hold eight pages, so that the private pipe
/// holds up to 8 MiB.
const BOUND: u64 = 4 << 20;

/// Least bytes per turn: a page rounded down to whole repetitions, or one repetition if longer.
/// Smaller turns would be slower than writing.
const LEAST: u64 = 4096;

/// Whole repetitions of the pattern, as many as a pipe holds.
///
/// What is shared with the private pipe begins where the pattern begins, because tee(2) always begins at
/// the head, and ends where it ends. If the private pipe takes less, the rest of that repetition is for
/// the caller to write.
#[derive(Debug)]
pub(super) struct PatternPipe {
    /// Never drained. Behind the last whole repetition there may be a part of one.
    pipe: Pipe,
    /// What is on its way to the sink. Nobody has lost it: what is left in the end is forgotten.
    private: Pipe,
    /// The length of all repetitions that are shared at a time.
    round_len: u64,
    pattern_len: u64,
}

impl PatternPipe {
    /// Fills a pipe with the pattern, given whole repetitions of it.
    ///
    /// The bytes are put in once. tee(2) then multiplies the slots, which all name the same memory: the
    /// fewer bytes there are, the more of the reader's copying comes out of its first cache.
    ///
    /// # Errors
    ///
    /// `EMFILE` or `ENFILE` when there are no descriptors, `ENOBUFS` when there is no budget for pipes or
    /// they do not hold the pattern, whatever tee(2) says where it is forbidden.
    ///
    /// # Kernel notes
    ///
    /// What tee(2), splice(2) and the reader cost, they cost for each slot. A pipe that is written to
    /// holds a page a slot; one that is spliced to from a unix stream socket holds the socket's
    /// fragments, of up to 32 KiB. Where there is no socket to be had (a sandbox), pages have to do.
    pub(super) fn fill<K: Kernel>(
        kernel: &K,
        repetitions: &[u8],
        pattern_len: usize,
    ) -> Result<Self> {
        let slot_bytes = slot_bytes(repetitions, pattern_len);
        let mut private = match in_fragments(kernel, slot_bytes) {
            Ok(pipe) => pipe,
            Err(_) => in_pages(kernel, slot_bytes)?,
        };
        let mut pipe = Pipe::open(kernel, pipe::WANTED)?;
        loop {
            // All that the one holds goes behind what the other holds; then they change places.
            let (held, flags) = (private.in_flight, SpliceFlags::NONBLOCK);
            let shared =
                retried(|| kernel.tee(private.reader(), pipe.writer(), held as usize, flags));
            match shared {
                Ok(n) => {
                    pipe.in_flight += n as u64;
                    if (n as u64) < held {
                        break;
                    }
                }
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno),
            }
            std::mem::swap(&mut private, &mut pipe);
        }
        // Both begin where the pattern begins. A short tee may have left less than it was given.
        if pipe.in_flight < private.in_flight {
            std::mem::swap(&mut private, &mut pipe);
        }
        let pattern_len = pattern_len as u64;
        let round_len = pipe.in_flight - pipe.in_flight % pattern_len;
        if round_len == 0 {
            return Err(Errno::NOBUFS);
        }
        Ok(Self {
            pipe,
            private,
            round_len,
            pattern_len,
        })
    }

    /// Whether something is on its way to the sink.
    pub(super) fn is_under_way(&self) -> bool {
        self.private.in_flight > 0
    }

    /// Gives the sink up to `max` bytes, after sharing more with the private pipe if that is empty. Returns how many
    /// calls it made, too.
    pub(super) fn pour<K: Kernel>(
        &mut self,
        kernel: &K,
        sink: &mut Endpoint<'_>,
        max: u64,
        blocking: Blocking,
    ) -> (std::result::Result<Step, CallError>, u64) {
        let mut calls = 1;
        if !self.is_under_way() {
            let answer = self.share(kernel);
            if !matches!(answer, Step::Filled) {
                return (Ok(answer), calls);
            }
            calls += 1;
        }
        let len = self.private.in_flight.min(max).min(BOUND);
        let step = splice_pipe::pour(kernel, self.private.reader(), sink, len, blocking);
        if let Ok(Step::Moved(n)) = step {
            self.private.in_flight -= n;
        }
        (step, calls)
    }

    /// Shares the whole repetitions with the empty private pipe.
    fn share<K: Kernel>(&mut self, kernel: &K) -> Step {
        let (from, to) = (self.pipe.reader(), self.private.writer());
        match tee::share(kernel, from, to, self.round_len, Blocking::Nonblocking) {
            Ok(Step::Moved(n)) => {
                self.private.in_flight = n;
                if n >= self.pattern_len {
                    // A private pipe with fewer slots stays so: from now on it is given what it holds.
                    // Pipes hold a page, so that a tee of less speaks of this turn alone.
                    let shared = n.max(LEAST.min(self.round_len));
                    self.round_len = shared - shared % self.pattern_len;
                }
                Step::Filled
            }
            Ok(Step::Interrupted) => Step::Interrupted,
            // It speaks of pipes that nobody else has: whatever it says, it is not the sink's doing.
            Err(CallError { cause, .. }) | Ok(Step::Unsupported(cause)) => Step::Unsupported(cause),
            Ok(Step::Blocked(_)) => Step::Unsupported(Errno::AGAIN.into()),
            Ok(_) => Step::Unsupported(Cause::WriteZero),
        }
    }
}

/// The repetitions to put into the pipe once: those that one fragment holds, if they fill it, and all
/// otherwise.
fn slot_bytes(repetitions: &[u8], pattern_len: usize) -> &[u8] {
    let in_one = FRAGMENT - FRAGMENT % pattern_len;
    if in_one > FRAGMENT - SLACK && in_one <= repetitions.len() {
        &repetitions[..in_one]
    } else {
        repetitions
    }
}

/// A pipe with these bytes in slots of up to 32 KiB each, which come from a socket.
fn in_fragments<K: Kernel>(kernel: &K, bytes: &[u8]) -> Result<Pipe> {
    let mut pipe = Pipe::open(kernel, pipe::WANTED)?;
    let (from, to) = kernel.socket_pair()?;
    for fragment in bytes.chunks(FRAGMENT) {
        let mut rest = fragment;
        while !rest.is_empty() {
            let sent = write(kernel, &to, rest)?;
            rest = &rest[sent..];
            // The socket is emptied at once, because its buffer may hold little.
            let mut left = sent;
            while left > 0 {
                let ends = ((from.as_fd(), None), (pipe.writer(), None));
                let moved = retried(|| kernel.splice(ends.0, ends.1, left, SpliceFlags::NONBLOCK))?;
                if moved == 0 {
                    return Err(Errno::NOBUFS);
                }
                left -= moved;
                pipe.in_flight += moved as u64;
            }
        }
    }
    Ok(pipe)
}

/// A pipe with these bytes in pages.
fn in_pages<K: Kernel>(kernel: &K, bytes: &[u8]) -> Result<Pipe> {
    let mut pipe = Pipe::open(kernel, pipe::WANTED)?;
    if bytes.len() > pipe.capacity {
        return Err(Errno::NOBUFS);
    }
    let mut rest = bytes;
    while !rest.is_empty() {
        // There is room, so that it does not sleep.
        let written = write(kernel, &pipe.writer(), rest)?;
        rest = &rest[written..];
        pipe.in_flight += written as u64;
    }
    Ok(pipe)
}

fn write<K: Kernel>(kernel: &K, to: &impl AsFd, bytes: &[u8]) -> Result<usize> {
    match retried(|| kernel.write(to.as_fd(), None, bytes, Blocking::MaySleep))? {
        0 => Err(Errno::NOBUFS),
        n => Ok(n),
    }
}
