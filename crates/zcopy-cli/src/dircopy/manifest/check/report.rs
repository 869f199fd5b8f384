//! The report of a verification, in `sha256sum`'s words.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::event::{Event, FileEvent, HashedEvent};
use crate::common::cli::message;
use crate::common::cli::quote::quoted;
use crate::common::progress::json::rounded;
use crate::dircopy::manifest::checksum::ChecksumAlgorithm;
use crate::dircopy::reporter::summary::{per_second, rate};

/// The result for one file or line.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The file has the digest.
    Matches(Hashed),
    /// The file has another digest.
    Differs(Hashed),
    /// The file does not exist.
    Missing(io::Error),
    /// The file could not be opened, or not be read to its end.
    Unreadable(io::Error),
    /// No manifest lists the file.
    Unlisted,
    /// No manifest lists the file, and a map beside it says that bytes are missing.
    Damaged,
    /// The line is malformed.
    Malformed,
    /// A signal came before the end of the file.
    Interrupted,
}

/// How a file was read to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hashed {
    pub(crate) algorithm: ChecksumAlgorithm,
    pub(crate) bytes: u64,
    pub(crate) elapsed: Duration,
    pub(crate) source: AlgorithmSource,
}

/// How the algorithm of a checksum is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AlgorithmSource {
    /// A record, the line or an option names it.
    Named,
    /// The name of the list or the number of digits implies it.
    Implied,
}

/// The result for one file. The path is empty if the line is malformed.
#[derive(Debug)]
pub(crate) struct FileResult {
    pub(crate) path: Vec<u8>,
    pub(crate) verdict: Verdict,
}

impl FileResult {
    /// The bytes of memory that this takes.
    pub(crate) fn weight(&self) -> usize {
        size_of::<Option<Self>>() + self.path.capacity()
    }

    /// The bytes of the file, if it was read to its end.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.verdict {
            Verdict::Matches(hashed) | Verdict::Differs(hashed) => hashed.bytes,
            _ => 0,
        }
    }
}

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

/// The number of lines with each result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    matching: u64,
    differing: u64,
    missing: u64,
    unreadable: u64,
    unlisted: u64,
    damaged: u64,
    malformed: u64,
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
            ReportFormat::Json => Event::File(verdict.event(self.directory, path)).line(),
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

impl Verdict {
    /// The result in `sha256sum`'s words.
    fn words(&self) -> &'static str {
        match self {
            Self::Matches(_) => "OK",
            Self::Differs(_) => "FAILED",
            Self::Missing(_) | Self::Unreadable(_) => "FAILED open or read",
            Self::Unlisted => "FAILED not listed",
            Self::Damaged => "FAILED damaged",
            // They have no line.
            Self::Malformed | Self::Interrupted => "",
        }
    }

    /// The algorithm, the size and the rate of a file that was read to its end.
    fn details(&self) -> String {
        let (Self::Matches(hashed) | Self::Differs(hashed)) = self else {
            return String::new();
        };
        let Hashed {
            algorithm,
            bytes,
            elapsed,
            ..
        } = hashed;
        let rate = rate(per_second(*bytes, *elapsed));
        let plural = if *bytes == 1 { "" } else { "s" };
        format!(" ({}, {bytes} byte{plural}, {rate})", algorithm.name())
    }

    fn event<'a>(&self, tree: &'a Path, path: &'a Path) -> FileEvent<'a> {
        let (result, hashed, error) = match self {
            Self::Matches(hashed) => ("ok", Some(hashed), None),
            Self::Differs(hashed) => ("differs", Some(hashed), None),
            Self::Missing(error) => ("missing", None, Some(error)),
            Self::Unreadable(error) => ("unreadable", None, Some(error)),
            Self::Unlisted => ("unlisted", None, None),
            Self::Damaged => ("damaged", None, None),
            // They have no event.
            Self::Malformed | Self::Interrupted => ("", None, None),
        };
        FileEvent {
            tree: tree.to_string_lossy(),
            path: path.to_string_lossy(),
            result,
            hashed: hashed.map(|hashed| HashedEvent {
                algorithm: hashed.algorithm.name(),
                bytes: hashed.bytes,
                seconds: rounded(hashed.elapsed.as_secs_f64()),
            }),
            message: error.map(|error| message::worded(error)),
        }
    }
}

impl Counts {
    fn add(&mut self, verdict: &Verdict) {
        *match verdict {
            Verdict::Matches(_) => &mut self.matching,
            Verdict::Differs(_) => &mut self.differing,
            Verdict::Missing(_) => &mut self.missing,
            Verdict::Unreadable(_) => &mut self.unreadable,
            Verdict::Unlisted => &mut self.unlisted,
            Verdict::Damaged => &mut self.damaged,
            Verdict::Malformed => &mut self.malformed,
            Verdict::Interrupted => return,
        } += 1;
    }

    /// Adds the counts of another tree.
    pub(crate) fn add_all(&mut self, other: &Self) {
        self.matching += other.matching;
        self.differing += other.differing;
        self.missing += other.missing;
        self.unreadable += other.unreadable;
        self.unlisted += other.unlisted;
        self.damaged += other.damaged;
        self.malformed += other.malformed;
    }

    /// The files with a result.
    pub(crate) fn files(&self) -> u64 {
        self.matching + self.failed()
    }

    /// The files without the listed digest, or without any.
    pub(crate) fn failed(&self) -> u64 {
        self.differing + self.missing + self.unreadable + self.unlisted + self.damaged
    }

    /// Whether several files differ, and none matches.
    pub(crate) fn has_no_match(&self) -> bool {
        self.matching == 0 && self.differing > 1
    }

    /// Whether lines were improperly formatted.
    pub(crate) fn has_malformed(&self) -> bool {
        self.malformed > 0
    }

    /// Whether all files have their digests, and there was one.
    pub(crate) fn is_success(&self) -> bool {
        self.matching > 0 && self.failed() == 0
    }

    /// The number of files with each result.
    pub(crate) fn words(&self) -> String {
        let Self {
            matching,
            differing,
            missing,
            unreadable,
            unlisted,
            damaged,
            ..
        } = self;
        let unlisted = match unlisted {
            0 => String::new(),
            n => format!(", {n} not listed"),
        };
        let damaged = match damaged {
            0 => String::new(),
            n => format!(", {n} damaged"),
        };
        format!(
            "{matching} matching, {differing} differing, {missing} missing, {unreadable} unreadable{unlisted}{damaged}"
        )
    }

    /// The warnings at the end.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let malformed = match self.malformed {
            1 => "line is improperly formatted",
            _ => "lines are improperly formatted",
        };
        let n_unreadable = self.missing + self.unreadable;
        let unreadable = match n_unreadable {
            1 => "listed file could not be read",
            _ => "listed files could not be read",
        };
        let differing = match self.differing {
            1 => "computed checksum did NOT match",
            _ => "computed checksums did NOT match",
        };
        [
            (self.malformed, malformed),
            (n_unreadable, unreadable),
            (self.differing, differing),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("WARNING: {count} {what}"))
        .collect()
    }

    #[cfg(test)]
    pub(crate) fn example([matching, differing, missing, unreadable, malformed]: [u64; 5]) -> Self {
        Self {
            matching,
            differing,
            missing,
            unreadable,
            unlisted: 0,
            damaged: 0,
            malformed,
        }
    }
}
