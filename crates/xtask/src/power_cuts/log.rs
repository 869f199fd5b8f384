//! What a disk was told, in order, and what it may hold if its power fails.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// The bytes that a disk writes whole or not at all.
const BLOCK: usize = 4096;

/// The writes and flushes of a disk, and its contents.
#[derive(Debug, Default)]
pub(super) struct Log {
    events: Vec<Event>,
    blocks: BTreeMap<u64, [u8; BLOCK]>,
}

#[derive(Debug)]
enum Event {
    Write {
        offset: u64,
        bytes: Vec<u8>,
    },
    /// What was written before is on the disk.
    Flush,
}

/// The state of a disk whose power has failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// The number of events before it.
    pub(super) at: usize,
    /// The events before it that have reached the disk for certain: those up to the last flush.
    n_certain: usize,
    /// The writes behind these that have reached the disk as well, by the index of their event, with
    /// the number of their bytes.
    kept: Vec<(usize, usize)>,
}

impl Log {
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.events.push(Event::Write {
            offset,
            bytes: bytes.to_owned(),
        });
        let mut at = offset;
        let mut left = bytes;
        while !left.is_empty() {
            let (index, within) = (at / BLOCK as u64, (at % BLOCK as u64) as usize);
            let len = left.len().min(BLOCK - within);
            let block = self.blocks.entry(index).or_insert([0; BLOCK]);
            block[within..within + len].copy_from_slice(&left[..len]);
            left = &left[len..];
            at += len as u64;
        }
    }

    pub(super) fn flush(&mut self) {
        self.events.push(Event::Flush);
    }

    pub(super) fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let at = offset + bytes.len() as u64;
            let (index, within) = (at / BLOCK as u64, (at % BLOCK as u64) as usize);
            let n = (len - bytes.len()).min(BLOCK - within);
            match self.blocks.get(&index) {
                Some(block) => bytes.extend_from_slice(&block[within..within + n]),
                None => bytes.resize(bytes.len() + n, 0),
            }
        }
        bytes
    }

    /// The number of writes and flushes so far.
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// A cut after `at` events. Of the writes since the last flush, none has reached the disk, or
    /// all have, or any, and of some only the first blocks.
    pub(super) fn cut(&self, at: usize, random: &mut fastrand::Rng) -> Cut {
        let before = &self.events[..at];
        let is_flush = |event: &Event| matches!(event, Event::Flush);
        let n_certain = before.iter().rposition(is_flush).map_or(0, |last| last + 1);
        let chance = *random.choice(&[0.0, 0.5, 0.5, 1.0]).unwrap_or(&0.5);
        let mut kept = Vec::new();
        for (index, event) in before.iter().enumerate().skip(n_certain) {
            let Event::Write { bytes, .. } = event else {
                continue;
            };
            if random.f64() >= chance {
                continue;
            }
            let n_blocks = bytes.len().div_ceil(BLOCK);
            let is_torn = chance < 1.0 && n_blocks > 1 && random.u8(..) < 64;
            let len = if is_torn {
                random.usize(1..n_blocks) * BLOCK
            } else {
                bytes.len()
            };
            kept.push((index, len));
        }
        Cut {
            at,
            n_certain,
            kept,
        }
    }

    /// Writes into an image what is on the disk for certain at this cut. It has what was certain
    /// after `n_applied` events. Returns the number of events that it has now.
    ///
    /// # Errors
    ///
    /// The image cannot be written.
    pub(super) fn apply_certain(
        &self,
        cut: &Cut,
        n_applied: usize,
        image: &File,
    ) -> io::Result<usize> {
        for event in &self.events[n_applied..cut.n_certain] {
            if let Event::Write { offset, bytes } = event {
                image.write_all_at(bytes, *offset)?;
            }
        }
        Ok(cut.n_certain)
    }

    /// Writes into an image, which has what is certain, the rest of what is on the disk.
    ///
    /// # Errors
    ///
    /// The image cannot be written.
    pub(super) fn apply_kept(&self, cut: &Cut, image: &File) -> io::Result<()> {
        for (index, len) in &cut.kept {
            if let Event::Write { offset, bytes } = &self.events[*index] {
                image.write_all_at(&bytes[..*len], *offset)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_the_rest_is_zeros() {
        let mut log = Log::default();
        log.write(4090, &[7; 10]);
        assert_eq!(
            log.read(4088, 14),
            [[0; 2].as_slice(), &[7; 10], &[0; 2]].concat()
        );
        assert_eq!(log.read(1 << 40, 3), [0; 3]);
    }

    #[test]
    fn a_cut_keeps_what_was_flushed_and_any_of_the_rest() {
        let mut log = Log::default();
        log.write(0, b"flushed");
        log.flush();
        log.write(8192, &[1; 2 * BLOCK]);
        log.write(0, b"FLUSHED");
        let mut random = fastrand::Rng::with_seed(1);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..500 {
            let cut = log.cut(log.len(), &mut random);
            let image = tempfile::tempfile().unwrap();
            image.set_len(1 << 20).unwrap();
            assert_eq!(log.apply_certain(&cut, 0, &image).unwrap(), 2);
            log.apply_kept(&cut, &image).unwrap();
            let byte = |offset| {
                let mut byte = [0];
                image.read_exact_at(&mut byte, offset).unwrap();
                byte[0]
            };
            seen.insert([byte(0), byte(8192), byte(8192 + BLOCK as u64)]);
        }
        let states = [b'f', b'F'].map(|first| [[first, 0, 0], [first, 1, 0], [first, 1, 1]]);
        assert_eq!(seen, states.concat().into_iter().collect());
        // Before the flush nothing is certain.
        assert_eq!(log.cut(1, &mut random).n_certain, 0);
    }
}
