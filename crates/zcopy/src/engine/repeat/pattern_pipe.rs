//! The pipe that is full of the pattern, and the private pipe that shares its pages with the sink.

use std::os::fd::AsFd;

use crate::call_error::{CallError, Cause};
use crate::endpoint::Endpoint;
use crate::pipe::{self, Pipe};
use crate::step::{Step, splice_pipe, tee};
use crate::sys::{Blocking, Errno, Kernel, Result, SpliceFlags, retried};

/// The largest fragment that a unix stream socket makes of one send (`SKB_FRAG_PAGE_ORDER`), and so
/// the largest slot of a pipe that is filled from it.
const FRAGMENT: usize = 32 << 10;

/// How many bytes shorter than [`FRAGMENT`] a send may be and still become one fragment. Of a
/// shorter send, the kernel puts the head into the buffer's linear part, which leaves this much of
/// a page free (`struct skb_shared_info`), and cuts the rest into smaller fragments.
const SLACK: usize = 320;

/// The most bytes that one call moves to the sink. A slot may hold eight pages, so that the private
/// pipe holds up to 8 MiB.
const MAX_CALL: u64 = 4 << 20;

/// The fewest bytes that one tee(2) shares: a page rounded down to whole repetitions, or one
/// repetition if that is longer. Sharing fewer would be slower than writing.
const MIN_SHARED: u64 = 4096;

/// A pipe that holds as many whole repetitions of the pattern as fit.
///
/// tee(2) always starts at the head of a pipe. So the bytes that it shares with the private pipe
/// start where the pattern starts, and end with a whole repetition. If the private pipe accepts
/// less, the caller writes the rest of the last repetition.
#[derive(Debug)]
pub(super) struct PatternPipe {
    /// Never drained. A part of a repetition may follow the last whole one.
    pattern: Pipe,
    /// The bytes on their way to the sink. Bytes that stay here at the end are dropped; the
    /// caller's pattern has them, too.
    private_pipe: Pipe,
    /// The number of bytes that one tee(2) shares, a multiple of the pattern's length.
    round_len: u64,
    pattern_len: u64,
}

impl PatternPipe {
    /// Fills a pipe with the pattern, given whole repetitions of it.
    ///
    /// The bytes enter the pipe once. tee(2) then multiplies the slots, which all refer to the same
    /// memory. The fewer bytes there are, the more of them the reader copies from its first-level
    /// cache.
    ///
    /// # Errors
    ///
    /// - `EMFILE` or `ENFILE` if no descriptor is free,
    /// - `ENOBUFS` if the limit for pipe buffers is reached, or a pipe does not hold the pattern,
    /// - every errno of tee(2).
    ///
    /// # Kernel notes
    ///
    /// The cost of tee(2), of splice(2) and of the reader grows with the number of slots. write(2)
    /// fills a slot with one page. splice(2) from a unix stream socket fills a slot with one of the
    /// socket's fragments, of up to 32 KiB. Where sockets are forbidden (in a sandbox), the pipe
    /// holds pages.
    pub(super) fn fill<K: Kernel>(
        kernel: &K,
        repetitions: &[u8],
        pattern_len: usize,
    ) -> Result<Self> {
        let slot_bytes = slot_bytes(repetitions, pattern_len);
        let mut private_pipe = match in_fragments(kernel, slot_bytes) {
            Ok(pipe) => pipe,
            Err(_) => in_pages(kernel, slot_bytes)?,
        };
        let mut pattern = Pipe::open(kernel, pipe::WANTED)?;
        loop {
            // Appends the contents of one pipe to the other, then exchanges them: the contents
            // double.
            let held = private_pipe.in_flight;
            let (from, to, flags) = (
                private_pipe.reader(),
                pattern.writer(),
                SpliceFlags::NONBLOCK,
            );
            match retried(|| kernel.tee(from, to, held as usize, flags)) {
                Ok(n) => {
                    pattern.in_flight += n as u64;
                    if (n as u64) < held {
                        break;
                    }
                }
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno),
            }
            std::mem::swap(&mut private_pipe, &mut pattern);
        }
        // Both start where the pattern starts. After a short tee, the destination may hold less.
        if pattern.in_flight < private_pipe.in_flight {
            std::mem::swap(&mut private_pipe, &mut pattern);
        }
        let pattern_len = pattern_len as u64;
        let round_len = pattern.in_flight - pattern.in_flight % pattern_len;
        if round_len == 0 {
            return Err(Errno::NOBUFS);
        }
        Ok(Self {
            pattern,
            private_pipe,
            round_len,
            pattern_len,
        })
    }

    /// Whether bytes are on their way to the sink.
    pub(super) fn is_under_way(&self) -> bool {
        self.private_pipe.in_flight > 0
    }

    /// Moves up to `max` bytes to the sink, and first refills the private pipe if it is empty. Adds
    /// to `calls`.
    pub(super) fn splice_to<K: Kernel>(
        &mut self,
        kernel: &K,
        sink: &mut Endpoint<'_>,
        max: u64,
        blocking: Blocking,
        calls: &mut u64,
    ) -> std::result::Result<Step, CallError> {
        if !self.is_under_way() {
            *calls += 1;
            let shared = self.refill(kernel);
            if shared != Step::Filled {
                return Ok(shared);
            }
        }
        *calls += 1;
        let len = self.private_pipe.in_flight.min(max).min(MAX_CALL);
        let step = splice_pipe::splice_out(kernel, self.private_pipe.reader(), sink, len, blocking);
        if let Ok(Step::Moved(n)) = step {
            self.private_pipe.in_flight -= n;
        }
        step
    }

    /// Shares whole repetitions with the empty private pipe.
    fn refill<K: Kernel>(&mut self, kernel: &K) -> Step {
        let (from, to) = (self.pattern.reader(), self.private_pipe.writer());
        match tee::duplicate(kernel, from, to, self.round_len, Blocking::Nonblocking) {
            Ok(Step::Moved(n)) => {
                self.private_pipe.in_flight = n;
                if n >= self.pattern_len {
                    // A private pipe with fewer slots keeps them, so that later calls share only
                    // what it accepted. A pipe always holds a page, so that a tee of less than a
                    // page says nothing about later ones.
                    let shared = n.max(MIN_SHARED.min(self.round_len));
                    self.round_len = shared - shared % self.pattern_len;
                }
                Step::Filled
            }
            Ok(Step::Repeat) => Step::Repeat,
            // No other process has these pipes, so that the sink is not the cause of any error
            // here.
            Err(CallError { cause, .. }) | Ok(Step::Unsupported(cause)) => Step::Unsupported(cause),
            Ok(Step::Blocked(_)) => Step::Unsupported(Errno::AGAIN.into()),
            Ok(_) => Step::Unsupported(Cause::ReturnedZero),
        }
    }
}

/// Returns the repetitions that enter the pipe once: those that fit one fragment if they fill it,
/// and otherwise all.
fn slot_bytes(repetitions: &[u8], pattern_len: usize) -> &[u8] {
    let in_one = FRAGMENT - FRAGMENT % pattern_len;
    if in_one > FRAGMENT - SLACK && in_one <= repetitions.len() {
        &repetitions[..in_one]
    } else {
        repetitions
    }
}

/// Returns a pipe that holds `bytes` in slots of up to 32 KiB, filled from a socket.
fn in_fragments<K: Kernel>(kernel: &K, bytes: &[u8]) -> Result<Pipe> {
    let mut pipe = Pipe::open(kernel, pipe::WANTED)?;
    let (from, to) = kernel.socket_pair()?;
    for fragment in bytes.chunks(FRAGMENT) {
        let mut rest = fragment;
        while !rest.is_empty() {
            let sent = write(kernel, &to, rest)?;
            rest = &rest[sent..];
            // Drain the socket after each send, because its buffer may be small.
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

/// Returns a pipe that holds `bytes` in pages.
fn in_pages<K: Kernel>(kernel: &K, bytes: &[u8]) -> Result<Pipe> {
    let mut pipe = Pipe::open(kernel, pipe::WANTED)?;
    if bytes.len() > pipe.capacity {
        return Err(Errno::NOBUFS);
    }
    let mut rest = bytes;
    while !rest.is_empty() {
        // The pipe has space, so that the write does not sleep.
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
