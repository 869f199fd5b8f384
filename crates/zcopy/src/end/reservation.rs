//! Reservations: how a transfer moves bytes at a cursor that others may move too.
//!
//! `read(2)`, `write(2)` and `lseek(2)` on one open file take turns at its cursor. `splice(2)`, `sendfile(2)` and
//! `copy_file_range(2)` do not: without an offset they read the cursor, sleep or copy, and store it afterwards, over
//! whatever others have done meanwhile. So a transfer reserves the bytes with one `lseek(fd, n, SEEK_CUR)`, whose answer
//! is the end of a range that no other user of the open file is given, and names that range in the call.

use super::{End, Positioning};
use crate::endpoint::Kind;
use crate::sys::{Errno, Kernel, Patience, Result, SeekFrom, retried};

impl End<'_> {
    /// Whether calls must name a range that was reserved: the bytes go by the cursor of a file.
    pub(crate) fn goes_by_cursor(&self) -> bool {
        self.positioning == Positioning::Cursor
    }

    /// Whether the cursor was found where this transfer had not left it. From then on `read(2)` and `write(2)` are exact,
    /// while a reservation that cannot be filled would leave a gap.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// The bytes that are reserved and not used.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Reserves up to `len` bytes of a source, and returns how many the next call may take from [`End::at`]: 0 at the end
    /// of the file.
    ///
    /// An end that does not go by a cursor needs no reservation. What is left of the last one is used first.
    ///
    /// Nothing is reserved beyond the end of the file as long as nobody else moves the cursor. Where somebody does, what
    /// lies beyond the end is given back at once.
    ///
    /// # Errors
    ///
    /// `EINVAL` or `EOVERFLOW` if the range ends beyond the largest offset.
    pub(crate) fn reserve_to_read<K: Kernel>(&mut self, kernel: &K, len: u64) -> Result<u64> {
        if !self.goes_by_cursor() {
            return Ok(len);
        }
        if self.reserved > 0 {
            return Ok(len.min(self.reserved));
        }
        let len = match self.position {
            Some(position) => self.held_from(kernel, position, len)?,
            None => len,
        };
        if len == 0 || !self.reserve(kernel, len)? {
            return Ok(len);
        }
        if self.is_shared
            && let Some(position) = self.position
        {
            let held = self.held_from(kernel, position, self.reserved)?;
            self.give_back(kernel, self.reserved - held)?;
        }
        Ok(self.reserved)
    }

    /// Reserves `len` bytes of a source whatever its size says. What a read does not bring has to be
    /// [given back](End::give_back).
    ///
    /// # Errors
    ///
    /// As [`End::reserve_to_read`].
    pub(crate) fn reserve_beyond_the_end<K: Kernel>(&mut self, kernel: &K, len: u64) -> Result<()> {
        self.reserve(kernel, len).map(|_| ())
    }

    /// Reserves `len` bytes of a sink, and returns how many the next call may put to [`End::at`]: fewer if something of the
    /// last reservation is left.
    ///
    /// # Errors
    ///
    /// As [`End::reserve_to_read`].
    pub(crate) fn reserve_to_write<K: Kernel>(&mut self, kernel: &K, len: u64) -> Result<u64> {
        if !self.goes_by_cursor() {
            return Ok(len);
        }
        if self.reserved == 0 {
            self.reserve(kernel, len)?;
        }
        Ok(match self.reserved {
            0 => len,
            reserved => len.min(reserved),
        })
    }

    /// Moves the cursor over `len` bytes, which belong to this transfer from then on. False if the file has no cursor.
    fn reserve<K: Kernel>(&mut self, kernel: &K, len: u64) -> Result<bool> {
        let step = i64::try_from(len).map_err(|_| Errno::OVERFLOW)?;
        let end = match kernel.seek(self.fd, SeekFrom::Current(step)) {
            Err(Errno::SPIPE) => {
                self.positioning = Positioning::None;
                return Ok(false);
            }
            end => end?,
        };
        let start = end.saturating_sub(len);
        self.is_shared |= self.position.is_some_and(|expected| expected != start);
        self.position = Some(start);
        self.reserved = len;
        Ok(true)
    }

    /// How many of `len` bytes from `position` on the file holds; all of them if it claims to be empty.
    fn held_from<K: Kernel>(&self, kernel: &K, position: u64, len: u64) -> Result<u64> {
        let known = self.endpoint.size.unwrap_or(0);
        if position.saturating_add(len) <= known && !self.is_shared {
            return Ok(len);
        }
        // It may have grown, or shrunk, since it was classified.
        let size = match self.endpoint.kind {
            Kind::Block => known,
            _ => kernel.fstat(self.fd)?.size,
        };
        Ok(match size {
            0 => len,
            size => len.min(size.saturating_sub(position)),
        })
    }

    /// Gives back the last `n` bytes of the reservation, if there is one, which do not exist: they lie beyond the end of the source.
    ///
    /// # Errors
    ///
    /// What `lseek(2)` says.
    ///
    /// # Kernel notes
    ///
    /// The cursor moves back whatever others have done to it, because moves add up in any order. Two readers that reserve
    /// beyond the end both give back what is not there, and the cursor ends where the file does.
    pub(crate) fn give_back<K: Kernel>(&mut self, kernel: &K, n: u64) -> Result<()> {
        let n = n.min(self.reserved);
        if n > 0 {
            let step = i64::try_from(n).map_err(|_| Errno::OVERFLOW)?;
            kernel.seek(self.fd, SeekFrom::Current(-step))?;
            self.reserved -= n;
        }
        Ok(())
    }

    /// Gives back what is reserved of a source that has ended before it.
    ///
    /// # Errors
    ///
    /// What `lseek(2)` says.
    pub(crate) fn give_back_rest<K: Kernel>(&mut self, kernel: &K) -> Result<()> {
        self.give_back(kernel, self.reserved)
    }

    /// Steps over `n` bytes that no call moves, as after a clone or over a hole.
    ///
    /// # Errors
    ///
    /// As [`End::reserve_to_read`].
    pub(crate) fn skip<K: Kernel>(&mut self, kernel: &K, n: u64) -> Result<()> {
        let held = n.min(self.reserved);
        self.advance(held);
        let rest = n - held;
        if rest > 0 && self.goes_by_cursor() && !self.reserve(kernel, rest)? {
            return Err(Errno::SPIPE);
        }
        self.advance(rest);
        Ok(())
    }

    /// Goes back over `n` bytes that were taken and could not be used, and over what is reserved. False if this end cannot
    /// go back, or somebody else has moved the cursor since: then those bytes stay taken.
    ///
    /// # Kernel notes
    ///
    /// No call moves a cursor only if it stands at a certain place. Between the question and the move, or the move and its
    /// undoing, one call of somebody else can slip in.
    pub(crate) fn rewind<K: Kernel>(&mut self, kernel: &K, n: u64) -> bool {
        let back = n + self.reserved;
        if back == 0 {
            return true;
        }
        if self.positioning == Positioning::Offset {
            self.position = self.position.map(|position| position.saturating_sub(n));
            return true;
        }
        let Ok(step) = i64::try_from(back) else {
            return false;
        };
        if !self.goes_by_cursor() {
            return false;
        }
        let seek = |step| kernel.seek(self.fd, SeekFrom::Current(step)).ok();
        let expected = self.position.map(|position| position + self.reserved);
        if expected.is_some() && seek(0) != expected {
            self.is_shared = true;
            return false;
        }
        let Some(found) = seek(-step) else {
            return false;
        };
        if expected.is_some_and(|expected| found != expected - back) {
            seek(step);
            self.is_shared = true;
            return false;
        }
        self.position = self.position.map(|_| found);
        self.reserved = 0;
        true
    }

    /// Goes back over bytes that were read and could not be used, and over what is reserved. False as for
    /// [`End::rewind`].
    ///
    /// Where the cursor was never asked for, the file is: if it holds these bytes right before the cursor, the next reader
    /// gets them again, and nobody gets others twice.
    pub(crate) fn rewind_over<K: Kernel>(&mut self, kernel: &K, bytes: &[u8]) -> bool {
        let is_unknown = self.goes_by_cursor() && self.position.is_none() && !bytes.is_empty();
        if is_unknown && !self.stands_behind(kernel, bytes) {
            return false;
        }
        self.rewind(kernel, bytes.len() as u64)
    }

    /// Whether the file holds these bytes right before the cursor.
    fn stands_behind<K: Kernel>(&self, kernel: &K, bytes: &[u8]) -> bool {
        let cursor = kernel.seek(self.fd, SeekFrom::Current(0)).ok();
        let Some(start) = cursor.and_then(|cursor| cursor.checked_sub(bytes.len() as u64)) else {
            return false;
        };
        let mut found = vec![0; bytes.len()];
        let mut filled = 0;
        while filled < found.len() {
            let (offset, room) = (Some(start + filled as u64), &mut found[filled..]);
            match retried(|| kernel.read(self.fd, offset, room, Patience::Block)) {
                Ok(0) | Err(_) => return false,
                Ok(n) => filled += n,
            }
        }
        found == bytes
    }

    /// Gives back what is reserved and not used. False if somebody else has moved the cursor since: then the range stays
    /// taken, and of a sink it stays a gap.
    pub(crate) fn release<K: Kernel>(&mut self, kernel: &K) -> bool {
        self.reserved == 0 || self.rewind(kernel, 0)
    }

    /// Reads what is reserved of a source and cannot be given back.
    pub(crate) fn read_reserved<K: Kernel>(&mut self, kernel: &K) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.reserved).unwrap_or(0)];
        let mut filled = 0;
        while let (fd, Some(offset)) = self.at()
            && self.reserved > 0
        {
            let room = &mut bytes[filled..];
            match retried(|| kernel.read(fd, Some(offset), room, Patience::Block)) {
                Ok(0) | Err(_) => break,
                Ok(n) => {
                    filled += n;
                    self.advance(n as u64);
                }
            }
        }
        self.reserved = 0;
        bytes.truncate(filled);
        bytes
    }
}
