//! Reads files back after they were copied (`--verify`).

use std::fs::File;
use std::io;

use anyhow::{Context as _, bail};
use rustix::fs::{Advice, Stat};

use super::Copier;
use super::file::{AtomicFile, PendingCopy};
use crate::common::digest::Digest;
use crate::dircopy::hash::read_from::ReadFrom;
use crate::dircopy::policy::Verify;
use crate::dircopy::stat::size;

impl Copier<'_> {
    /// Reads the copy or the original back from the disk, as the settings say, and compares it with
    /// what was copied.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or has other bytes.
    pub(super) fn read_back(
        &mut self,
        copy: &PendingCopy<'_>,
        digest: Option<Digest>,
    ) -> anyhow::Result<()> {
        let PendingCopy {
            source,
            stat,
            new_file,
            damage,
            ..
        } = copy;
        let Some(verify) = self.settings.verify else {
            return Ok(());
        };
        if matches!(verify, Verify::Copy | Verify::Both) && (digest.is_some() || damage.is_empty())
        {
            self.read_copy_back(new_file, stat, digest)?;
        }
        // A file in /proc has no size, and may have other bytes each time. Of a damaged original
        // some bytes cannot be read.
        let can_be_read = size(stat) > 0 && damage.is_empty();
        if matches!(verify, Verify::Source | Verify::Both) && can_be_read {
            let read = self.read_from_disk(source, stat);
            if Some(read.context("cannot read a second time")?) != digest {
                bail!("it has other bytes when it is read a second time");
            }
        }
        Ok(())
    }

    fn read_copy_back(
        &mut self,
        new_file: &AtomicFile,
        stat: &Stat,
        digest: Option<Digest>,
    ) -> anyhow::Result<()> {
        // Dirty pages cannot be dropped.
        rustix::fs::fdatasync(new_file)
            .map_err(io::Error::from)
            .context("cannot write its copy")?;
        let read = self.read_from_disk(new_file.file(), stat);
        if Some(read.context("cannot read its copy")?) != digest {
            bail!("its copy does not read as it was written");
        }
        Ok(())
    }

    /// Reads a file whose pages are clean, past the page cache if possible, and counts from where
    /// it was read.
    fn read_from_disk(&mut self, file: &File, stat: &Stat) -> anyhow::Result<Digest> {
        let size = size(stat);
        // A file system without a disk, such as tmpfs, keeps its pages.
        let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
        let from = ReadFrom::of(file, size);
        let read = self.reader.read_past_cache(file, size, None)?;
        let counter = match from {
            ReadFrom::Disk => &self.counts.read_past_cache,
            ReadFrom::EmptiedCache => &self.counts.read_after_drop,
            ReadFrom::Memory => &self.counts.read_from_memory,
            ReadFrom::Elsewhere => &self.counts.read_from_elsewhere,
        };
        if size > 0 {
            counter.add(1);
        }
        Ok(self.reader.client.digest_of(&read))
    }
}
