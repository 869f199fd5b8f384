//! The bytes in a pipe or socket: copies, pages of a file, and packets.

use std::collections::VecDeque;

/// The longest packet: `PIPE_BUF`, one page.
pub(crate) const PACKET: usize = 4096;

/// Bytes that one call put into a pipe or socket.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) bytes: Vec<u8>,
    /// The file whose pages these are. A later write to the file changes them.
    pub(crate) page: Option<Page>,
    /// Whether a read with less room discards the rest (`PIPE_BUF_FLAG_PACKET`).
    pub(crate) is_packet: bool,
}

/// A position in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) object: usize,
    pub(crate) position: u64,
}

/// The contents of a pipe or socket.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    parts: VecDeque<Part>,
    len: usize,
}

impl Part {
    /// Returns a copy of bytes.
    pub(crate) fn copied(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            page: None,
            is_packet: false,
        }
    }

    /// Returns pages of a file from this position on.
    pub(crate) fn of_file(object: usize, position: u64, bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            page: Some(Page { object, position }),
            is_packet: false,
        }
    }

    /// Splits off the first `n` bytes. Both pieces keep the page and the flag of a packet.
    fn split_front(&mut self, n: usize) -> Self {
        let rest = self.bytes.split_off(n);
        let front = Self {
            bytes: std::mem::replace(&mut self.bytes, rest),
            ..*self
        };
        if let Some(page) = &mut self.page {
            page.position += n as u64;
        }
        front
    }
}

/// Returns the bytes of all parts.
pub(crate) fn joined(parts: &[Part]) -> Vec<u8> {
    let bytes: Vec<&[u8]> = parts.iter().map(|part| &part.bytes[..]).collect();
    bytes.concat()
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let (front, back) = self.parts.as_slices();
        [joined(front), joined(back)].concat()
    }

    pub(crate) fn push(&mut self, part: Part) {
        if part.bytes.is_empty() {
            return;
        }
        self.len += part.bytes.len();
        let is_plain = |part: &Part| part.page.is_none() && !part.is_packet;
        match self.parts.back_mut() {
            Some(last) if is_plain(last) && is_plain(&part) => last.bytes.extend(part.bytes),
            _ => self.parts.push_back(part),
        }
    }

    /// Adds each 4 KiB as a packet of its own, as `write(2)` does in packet mode.
    pub(crate) fn push_packets(&mut self, part: &Part) {
        let mut page = part.page;
        for packet in part.bytes.chunks(PACKET) {
            self.push(Part {
                bytes: packet.to_vec(),
                page,
                is_packet: true,
            });
            if let Some(page) = &mut page {
                page.position += packet.len() as u64;
            }
        }
    }

    /// Returns whether the next byte belongs to a packet.
    pub(crate) fn begins_with_packet(&self) -> bool {
        self.parts.front().is_some_and(|part| part.is_packet)
    }

    /// Removes up to `n` bytes as `splice(2)` does, which splits a packet without loss.
    pub(crate) fn take(&mut self, n: usize) -> Vec<Part> {
        let (mut taken, mut left) = (Vec::new(), n.min(self.len));
        self.len -= left;
        while left > 0 {
            let Some(front) = self.parts.front_mut() else {
                break;
            };
            if front.bytes.len() > left {
                taken.push(front.split_front(left));
                break;
            }
            left -= front.bytes.len();
            taken.extend(self.parts.pop_front());
        }
        taken
    }

    /// Removes up to `n` bytes as `read(2)` does: a packet ends the read, and the part of it that
    /// does not fit is discarded.
    pub(crate) fn read(&mut self, n: usize) -> Read {
        let mut read = Read::default();
        while read.bytes.len() < n
            && let Some(front) = self.parts.front_mut()
        {
            let most = (n - read.bytes.len()).min(front.bytes.len());
            let is_packet = front.is_packet;
            read.bytes.extend(front.split_front(most).bytes);
            self.len -= most;
            if is_packet {
                read.destroyed = front.bytes.len();
                self.len -= read.destroyed;
                self.parts.pop_front();
                break;
            }
            if front.bytes.is_empty() {
                self.parts.pop_front();
            }
        }
        read
    }

    /// Returns `n`, rounded up to the end of a packet.
    pub(crate) fn whole_packets(&self, n: usize) -> usize {
        let mut end = 0;
        for part in &self.parts {
            end += part.bytes.len();
            if end >= n {
                return if part.is_packet { end } else { n };
            }
        }
        n
    }

    /// Returns references to the first `n` bytes, which stay in the queue, as `tee(2)` does.
    pub(crate) fn first(&self, n: usize) -> Vec<Part> {
        self.clone().take(n)
    }

    /// Updates the pages of a file after a write to it.
    pub(crate) fn refresh(&mut self, object: usize, contents: &[u8]) {
        let parts = self.parts.iter_mut();
        for (part, page) in parts.filter_map(|part| part.page.map(|page| (part, page))) {
            if page.object != object {
                continue;
            }
            let from = (page.position as usize).min(contents.len());
            let to = (from + part.bytes.len()).min(contents.len());
            part.bytes[..to - from].copy_from_slice(&contents[from..to]);
        }
    }

    /// Detaches pages from a file, whose later writes no longer change them.
    pub(crate) fn detach(&mut self, object: usize) {
        for part in &mut self.parts {
            part.page = part.page.filter(|page| page.object != object);
        }
    }
}

/// The result of [`Queue::read`].
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) bytes: Vec<u8>,
    /// The number of bytes of a packet that did not fit.
    pub(crate) destroyed: usize,
}
