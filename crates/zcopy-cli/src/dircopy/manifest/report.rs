//! What is said of every file, and of all of them at the end, in `sha256sum`'s words.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use crate::exit;
use crate::quote::quoted;

/// What came of one line.
#[derive(Debug)]
pub(super) enum Verdict {
    /// The file has the digest.
    Matches,
    /// It has another one.
    Differs,
    /// It could not be opened, or not be read to its end.
    Unreadable(io::Error),
    /// The line is none.
    Malformed,
}

/// What came of one line, and whose line it was.
#[derive(Debug)]
pub(super) struct FileResult {
    pub(super) path: Vec<u8>,
    pub(super) verdict: Verdict,
}

impl FileResult {
    /// How many bytes of memory it takes.
    pub(super) fn weight(&self) -> usize {
        size_of::<Option<Self>>() + self.path.capacity()
    }
}

/// Where everything is said.
pub(super) struct Streams<'a> {
    pub(super) stdout: &'a mut (dyn Write + Send),
    pub(super) stderr: &'a mut (dyn Write + Send),
}

impl Streams<'_> {
    /// Says on standard error, after the program's name, what is the matter. Whoever closed it wants to hear nothing.
    pub(super) fn say(&mut self, message: &str) {
        let mut line = exit::program().into_vec();
        line.extend_from_slice(b": ");
        line.extend_from_slice(message.as_bytes());
        line.push(b'\n');
        let _ = self.stderr.write_all(&line);
    }

    /// Says what is wrong with a file.
    pub(super) fn complain(&mut self, file: &Path, error: &io::Error) {
        let file = quoted(file.as_os_str());
        self.say(&format!("{file}: {}", exit::worded(error)));
    }
}

/// Which files are spoken of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReportFilter {
    Everything,
    Failures,
}

/// Says what came of one sum file, and counts.
pub(super) struct Report<'a, 'v> {
    pub(super) streams: &'a mut Streams<'v>,
    /// The tree, as it stands before the files' names in complaints.
    pub(super) directory: &'a Path,
    pub(super) filter: ReportFilter,
    /// Whether it stands before the files' names everywhere, because there are several trees.
    pub(super) names_directory: bool,
    pub(super) counts: Counts,
    /// What is going to be said on standard output, all at once.
    pub(super) lines: Vec<u8>,
}

/// How many lines came to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    matching: u64,
    differing: u64,
    unreadable: u64,
    malformed: u64,
}

impl Report<'_, '_> {
    /// Takes what came of the next lines.
    ///
    /// # Errors
    ///
    /// Standard output takes nothing.
    pub(super) fn take(&mut self, all: &mut dyn Iterator<Item = FileResult>) -> io::Result<()> {
        for FileResult { path, verdict } in all {
            let path = Path::new(OsStr::from_bytes(&path));
            match verdict {
                Verdict::Matches => {
                    self.counts.matching += 1;
                    if self.filter == ReportFilter::Everything {
                        self.list(path, "OK");
                    }
                }
                Verdict::Differs => {
                    self.counts.differing += 1;
                    self.list(path, "FAILED");
                }
                Verdict::Unreadable(error) => {
                    self.counts.unreadable += 1;
                    self.flush()?;
                    self.complain(path, &error);
                    self.list(path, "FAILED open or read");
                }
                Verdict::Malformed => self.counts.malformed += 1,
            }
        }
        self.flush()
    }

    fn list(&mut self, path: &Path, verdict: &str) {
        let name = if self.names_directory {
            quoted(self.directory.join(path).as_os_str())
        } else {
            quoted(path.as_os_str())
        };
        for part in [&name, ": ", verdict, "\n"] {
            self.lines.extend_from_slice(part.as_bytes());
        }
    }

    fn complain(&mut self, path: &Path, error: &io::Error) {
        if self.directory == Path::new(".") {
            self.streams.complain(path, error);
        } else {
            self.streams.complain(&self.directory.join(path), error);
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

impl Counts {
    /// Whether some line was one.
    pub(super) fn has_lines(&self) -> bool {
        self.matching + self.differing + self.unreadable > 0
    }

    /// Whether all files have their digests, and there was one.
    pub(super) fn is_success(&self) -> bool {
        self.matching > 0 && self.differing == 0 && self.unreadable == 0
    }

    /// What there is to warn of at the end.
    pub(super) fn warnings(&self) -> Vec<String> {
        let malformed = match self.malformed {
            1 => "line is improperly formatted",
            _ => "lines are improperly formatted",
        };
        let unreadable = match self.unreadable {
            1 => "listed file could not be read",
            _ => "listed files could not be read",
        };
        let differing = match self.differing {
            1 => "computed checksum did NOT match",
            _ => "computed checksums did NOT match",
        };
        [
            (self.malformed, malformed),
            (self.unreadable, unreadable),
            (self.differing, differing),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("WARNING: {count} {what}"))
        .collect()
    }
}
