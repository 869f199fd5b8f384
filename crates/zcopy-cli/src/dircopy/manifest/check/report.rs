//! The report of a verification, in `sha256sum`'s words.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use super::counts::Counts;
use super::event::{Event, FileEvent};
use super::verdict::{AlgorithmSource, FileResult, Verdict};
use crate::common::cli::message;
use crate::common::cli::quote::quoted;
use crate::dircopy::manifest::checksum::ChecksumAlgorithm;

/// Standard output and standard error, or their substitutes.
pub(crate) struct Streams<'a> {
    pub(crate) stdout: &'a mut (dyn Write + Send),
    pub(crate) stderr: &'a mut (dyn Write + Send),
}

impl Streams<'_> {
    /// Writes a message to standard error, after the program's name. Errors are ignored: if
    /// standard error is closed, nobody reads it.
    pub(crate) fn write_message(&mut self, message: &str) {
        let mut line = message::program().into_vec();
        line.extend_from_slice(b": ");
        line.extend_from_slice(message.as_bytes());
        line.push(b'\n');
        let _ = self.stderr.write_all(&line);
    }

    /// Writes the error of a file to standard error.
    pub(crate) fn report_error(&mut self, file: &Path, error: &io::Error) {
        let file = quoted(file.as_os_str());
        self.write_message(&format!("{file}: {}", message::worded(error)));
    }
}

/// Which files are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportFilter {
    Everything,
    Failures,
}

/// How results are written to standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportFormat {
    /// In `sha256sum`'s words.
    Text,
    /// The same, with how each file was read.
    Verbose,
    /// As objects in JSON.
    Json,
}

/// Reports and counts the results of one tree.
pub(crate) struct Report<'a, 'v> {
    pub(crate) streams: &'a mut Streams<'v>,
    /// The tree. Error messages name it before the path.
    pub(crate) directory: &'a Path,
    pub(crate) filter: ReportFilter,
    pub(crate) format: ReportFormat,
    /// Whether every line names the tree before the path, because there are several trees.
    pub(crate) names_directory: bool,
    pub(crate) counts: Counts,
    /// The last implied algorithm of a checksum that did not match.
    pub(crate) suspected: Option<ChecksumAlgorithm>,
    /// The lines that are not written to standard output yet.
    pub(crate) lines: Vec<u8>,
}

impl Report<'_, '_> {
    /// Writes and counts the next results.
    ///
    /// # Errors
    ///
    /// Standard output cannot be written to.
    pub(crate) fn take(&mut self, all: &mut dyn Iterator<Item = FileResult>) -> io::Result<()> {
        for FileResult { path, verdict } in all {
            let path = Path::new(OsStr::from_bytes(&path));
            self.counts.add(&verdict);
            if let Verdict::Differs(hashed) = &verdict
                && hashed.source == AlgorithmSource::Implied
            {
                self.suspected = Some(hashed.algorithm);
            }
            match &verdict {
                Verdict::Malformed | Verdict::Interrupted => continue,
                Verdict::Matches(_) if self.filter == ReportFilter::Failures => continue,
                Verdict::Missing(error) | Verdict::Unreadable(error) => {
                    self.flush()?;
                    self.report_error(path, error);
                }
                Verdict::Matches(_)
                | Verdict::Differs(_)
                | Verdict::Unlisted
                | Verdict::Damaged => {}
            }
            self.list(path, &verdict);
        }
        self.flush()
    }

    /// Adds the line of a file.
    fn list(&mut self, path: &Path, verdict: &Verdict) {
        let line = match self.format {
            ReportFormat::Text => self.text(path, verdict, ""),
            ReportFormat::Verbose => self.text(path, verdict, &verdict.details()),
            ReportFormat::Json => Event::File(FileEvent::of(verdict, self.directory, path)).line(),
        };
        self.lines.extend_from_slice(line.as_bytes());
    }

    fn text(&self, path: &Path, verdict: &Verdict, details: &str) -> String {
        let name = if self.names_directory {
            quoted(self.directory.join(path).as_os_str())
        } else {
            quoted(path.as_os_str())
        };
        format!("{name}: {}{details}\n", verdict.words())
    }

    fn report_error(&mut self, path: &Path, error: &io::Error) {
        if self.directory == Path::new(".") {
            self.streams.report_error(path, error);
        } else {
            self.streams.report_error(&self.directory.join(path), error);
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.lines.is_empty() {
            self.streams.stdout.write_all(&self.lines)?;
            self.lines.clear();
        }
        Ok(())
    }
}
