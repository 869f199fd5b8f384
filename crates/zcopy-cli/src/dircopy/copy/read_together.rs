//! Reads a long file once for the copies of several destinations.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use rustix::fs::SeekFrom;
use zcopy::{Ended, FanOut, OnSinkError, Side, SinkReport, Strategy};

use super::Copier;
use super::file::{PendingCopy, transfer_error};
use crate::common::sys;
use crate::dircopy::hash::pool::Contents;
use crate::dircopy::hash::reader::no_digest;
use crate::dircopy::hash::transfers::read_limit;
use crate::dircopy::interrupt::Interrupted;
use crate::dircopy::shared_reads::{Guests, Offered, SharedResult, Version};
use crate::dircopy::stat::{identity, size};
use crate::dircopy::walk::Entry;

/// Whether a copy was written together with those of other destinations.
pub(super) enum Together {
    /// No. The file is to be read alone.
    No,
    /// Yes. The contents, if the settings want digests.
    Written(Option<Contents>),
}

impl Copier<'_> {
    /// Writes the copy together with those of other destinations, if their runs read the file at
    /// the same time.
    ///
    /// A file with holes is read alone, because the fan-out would write zeros, and so is one with
    /// bad blocks that are to be skipped.
    pub(super) fn write_together(
        &mut self,
        entry: &Entry,
        copy: &mut PendingCopy<'_>,
    ) -> anyhow::Result<Together> {
        let size = size(&copy.stat);
        let member = self.shared_reads.filter(|member| member.shares(size));
        let Some(member) = member else {
            return Ok(Together::No);
        };
        if has_holes(&copy.source, size).context("cannot read")? {
            return Ok(Together::No);
        }
        let Ok(sink) = rustix::io::fcntl_dupfd_cloexec(&copy.new_file, 3) else {
            return Ok(Together::No);
        };
        let sink = Arc::new(sink);
        let algorithm = self.settings.wants_digests();
        let algorithm = algorithm.then_some(self.reader.algorithm);
        let version = Version::new(&copy.stat, algorithm);
        let mut write_back = self.write_back.follow(entry, &copy.new_file);
        let counter = copy.counter;
        let mut pass = |n| {
            write_back.add(n);
            if let Some(counter) = counter {
                counter.add(n);
            }
        };
        let read = match member.offer(&version, &sink, self.interrupt, &mut pass) {
            Offered::Alone => return Ok(Together::No),
            Offered::Host(guests) => {
                let result = self.read_for(guests, copy, &sink, &mut pass);
                result.map(|result| (result, 0))
            }
            Offered::Read(result, index) => Some((result, index)),
            Offered::Abandoned => None,
        };
        // Over a network, closing the second descriptor reports writes that failed.
        let closed = Arc::into_inner(sink).map_or(Ok(()), sys::close_file);
        let Some((result, index)) = read else {
            begin_again(copy)?;
            return Ok(Together::No);
        };
        let report = result.read.as_ref().map_err(transfer_error)?;
        let sink = report.sinks().get(index);
        if let Some(error) = sink.and_then(SinkReport::error) {
            return Err(anyhow!(error).context("cannot write its copy"));
        }
        if report.ended() == Ended::Stopped {
            bail!(Interrupted);
        }
        closed.context("cannot write its copy")?;
        if algorithm.is_some() && result.digest.is_none() {
            return Err(no_digest());
        }
        write_back.finish(size);
        self.end_write(entry, copy, report)?;
        Ok(Together::Written(result.digest.map(Contents::Digest)))
    }

    /// Tells the runs of other destinations that this one does not read a file with them, or no
    /// more.
    pub(super) fn pass_by(&self, entry: &Entry) {
        let member = self.shared_reads;
        if let Some(member) = member.filter(|member| member.shares(size(entry.stat()))) {
            member.pass(identity(entry.stat()));
        }
    }

    /// Reads the file for all who wait. `None` if each has to read it alone.
    fn read_for(
        &mut self,
        mut guests: Guests,
        copy: &PendingCopy<'_>,
        sink: &Arc<OwnedFd>,
        mut pass: impl FnMut(u64) + Send,
    ) -> Option<Arc<SharedResult>> {
        let size = size(&copy.stat);
        let fan_out = FanOut::new(&copy.source, Arc::clone(sink));
        let fan_out = guests
            .sinks()
            .fold(fan_out, FanOut::also_to)
            .limit(read_limit(size))
            .buffer_size(self.reader.block_size)
            // Other strategies take a pipe for each sink, which is not among the descriptors.
            .strategy(Strategy::Buffered)
            .on_sink_error(OnSinkError::Detach);
        let mut n_before = 0;
        let (read, digest) = {
            let wants_digest = self.settings.wants_digests();
            let observe = |n_bytes: u64| {
                pass(n_bytes - n_before);
                n_before = n_bytes;
                guests.pass(n_bytes);
            };
            self.reader
                .run_for_all(fan_out, size, wants_digest, observe)
        };
        if let Err(error) = &read {
            let is_skipped = self.settings.skips_errors && error.side() == Side::Source;
            if is_skipped || error.is_refused() || error.is_unsuitable() {
                return None;
            }
        }
        let result = Arc::new(SharedResult { read, digest });
        guests.end(&result);
        Some(result)
    }
}

/// Whether a file has holes, or blocks that were allocated and never written. Its cursor is at its
/// beginning, and stays there.
///
/// # Errors
///
/// The cursor could not be set back.
fn has_holes(source: &File, size: u64) -> io::Result<bool> {
    // Where holes cannot be found, a file is taken to have none.
    let hole = rustix::fs::seek(source, SeekFrom::Hole(0));
    rustix::fs::seek(source, SeekFrom::Start(0))?;
    Ok(hole.is_ok_and(|hole| hole < size))
}

/// Empties a copy, so that it can be written from the beginning.
fn begin_again(copy: &mut PendingCopy<'_>) -> anyhow::Result<()> {
    let (source, new_file) = (&copy.source, copy.new_file.file());
    // The bytes have been counted.
    copy.counter = None;
    new_file.set_len(0).context("cannot write its copy")?;
    let rewound = rustix::fs::seek(new_file, SeekFrom::Start(0));
    rewound.context("cannot write its copy")?;
    rustix::fs::seek(source, SeekFrom::Start(0)).context("cannot read")?;
    Ok(())
}
