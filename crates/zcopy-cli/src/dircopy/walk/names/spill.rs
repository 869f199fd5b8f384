//! Sorted names in a temporary file.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Seek as _, SeekFrom, Write as _};
use std::sync::Arc;

use rustix::io::Errno;

use super::run::Run;
use crate::dircopy::file_ranges::{FileRange, FileRanges, RangesReader};
use crate::dircopy::write::temporary_file::temporary_file;

/// How many bytes the reader of a run reads ahead. There may be hundreds of readers.
const READ_AHEAD: usize = 16 << 10;

/// From this number of levels on that a walk may keep open, a temporary file takes the place of
/// one. With fewer descriptors the names stay in memory.
const MIN_LEVELS: usize = 8;

/// The temporary file of a walk, which is made for the first run that is stored. Its readers share
/// its descriptor.
#[derive(Debug, Default)]
pub(in crate::dircopy::walk) struct Spill {
    file: Option<Arc<File>>,
    descriptors: Descriptors,
    /// The end of the last run.
    end: u64,
}

/// Whether there is a descriptor for the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Descriptors {
    #[default]
    Enough,
    TooFew,
}

impl Spill {
    /// The spill of a walk that may keep `most_open` levels open. Takes one of them if it is to
    /// store names.
    pub(in crate::dircopy::walk) fn in_place_of_level(most_open: &mut usize) -> Self {
        let descriptors = if *most_open < MIN_LEVELS {
            Descriptors::TooFew
        } else {
            *most_open -= 1;
            Descriptors::Enough
        };
        Self {
            descriptors,
            ..Self::default()
        }
    }

    /// A spill that stores runs in this file.
    #[cfg(test)]
    pub(super) fn to(file: File) -> Self {
        Self {
            file: Some(Arc::new(file)),
            ..Self::default()
        }
    }

    /// The length of the file.
    #[cfg(test)]
    pub(super) fn len(&self) -> u64 {
        let file = self.file.as_ref();
        file.map_or(0, |file| file.metadata().unwrap().len())
    }

    /// Stores a run.
    ///
    /// # Errors
    ///
    /// The file cannot be made or written, or there are too few descriptors.
    pub(super) fn store(&mut self, run: &Run) -> io::Result<StoredRun> {
        if self.descriptors == Descriptors::TooFew {
            return Err(Errno::MFILE.into());
        }
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => Arc::clone(self.file.insert(Arc::new(temporary_file()?))),
        };
        // This function and the spill have the file, and no run.
        if Arc::strong_count(&file) == 2 {
            self.end = 0;
        }
        let start = self.end;
        let end = write(run, &file, start).inspect_err(|_| {
            // A part of a run would only keep the disk full. If it stays, the next run takes its
            // place.
            let _ = file.set_len(start);
        })?;
        self.end = end;
        let contents = FileRanges::new(vec![FileRange { file, start, end }]);
        Ok(StoredRun {
            source: BufReader::with_capacity(READ_AHEAD, contents.reader()),
        })
    }
}

/// Writes a run at an offset. Returns its end. Readers have offsets of their own.
fn write(run: &Run, mut file: &File, start: u64) -> io::Result<u64> {
    file.seek(SeekFrom::Start(start))?;
    let mut writer = BufWriter::with_capacity(64 << 10, file);
    for key in run.keys() {
        writer.write_all(key)?;
        writer.write_all(&[0])?;
    }
    writer.flush()?;
    file.stream_position()
}

/// A run in the temporary file.
#[derive(Debug)]
pub(super) struct StoredRun {
    source: BufReader<RangesReader>,
}

impl StoredRun {
    /// The key of the next name.
    pub(super) fn next_key(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut key = Vec::new();
        self.source.read_until(0, &mut key)?;
        Ok(key.pop().map(|_| key))
    }
}
