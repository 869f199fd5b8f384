//! Failures that another run may have caused, which changes the tree during the verification.

use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::AtFlags;

use super::verdict::{FileResult, Verdict};
use crate::dircopy::manifest::name::Name;
use crate::dircopy::manifest::open_beneath;
use crate::dircopy::manifest::read::root_names::{journals_in, names_in};

/// The most bytes of memory that kept failures take. Further failures are reported at once.
const MOST_KEPT: usize = 4 << 20;

/// How long the names in a root whose times stay the same are taken to be the same. Times may be
/// rounded to two seconds.
const SHORT: Duration = Duration::from_secs(1);

/// Failures that are verified once more at the end of the tree, against the records of that moment.
///
/// A run that replaces a file records the new digest in its journal first, and in a new manifest at
/// its end. So a file may be right and differ from the record that was read when the verification
/// began.
#[derive(Debug)]
pub(super) struct Suspects {
    before: RootState,
    /// Whether another run has changed the root, or may be at work.
    has_run: bool,
    /// When the root was listed last, and its times then.
    listed: Option<(Instant, Changed)>,
    results: Vec<FileResult>,
    n_bytes: usize,
}

/// The root of a tree when the verification began.
#[derive(Debug)]
pub(super) struct RootState {
    started: Moment,
    manifests: Vec<Name>,
    journals: Vec<Journal>,
}

/// Seconds and nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Moment(i64, u64);

/// The times of modification and of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Changed([Moment; 2]);

#[derive(Debug, PartialEq, Eq)]
struct Journal {
    name: CString,
    size: Option<u64>,
}

impl RootState {
    /// Call this before the manifests are read.
    ///
    /// # Errors
    ///
    /// The root cannot be listed.
    pub(super) fn read(root: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self {
            started: Moment::now(),
            manifests: names_in(root)?,
            journals: journals(root)?,
        })
    }

    /// Whether the root has another manifest or other journals now, or a journal has grown.
    fn has_changed(&self, root: BorrowedFd<'_>) -> io::Result<bool> {
        let journals = journals(root)?;
        let is_new = |journal: &Journal| !self.journals.contains(journal);
        if journals.len() != self.journals.len() || journals.iter().any(is_new) {
            return Ok(true);
        }
        let is_new = |name: &Name| !self.manifests.contains(name);
        Ok(names_in(root)?.iter().any(is_new))
    }
}

impl Suspects {
    pub(super) fn new(before: RootState) -> Self {
        Self {
            before,
            has_run: false,
            listed: None,
            results: Vec::new(),
            n_bytes: 0,
        }
    }

    /// Keeps a failure that another run may have caused. Returns every other result.
    pub(super) fn keep(&mut self, root: BorrowedFd<'_>, result: FileResult) -> Option<FileResult> {
        let may_be_outdated = match result.verdict {
            Verdict::Differs(_)
            | Verdict::Missing(_)
            | Verdict::Unreadable(_)
            | Verdict::Unlisted
            | Verdict::Damaged => true,
            Verdict::Matches(_) | Verdict::Malformed | Verdict::Interrupted => false,
        };
        let is_suspect = may_be_outdated
            && self.n_bytes < MOST_KEPT
            && (self.has_run(root) || self.has_changed(root, &result.path));
        if !is_suspect {
            return Some(result);
        }
        self.n_bytes += result.weight();
        self.results.push(result);
        None
    }

    /// Whether failures are kept.
    pub(super) fn has_results(&self) -> bool {
        !self.results.is_empty()
    }

    /// The kept failures in the order of their paths.
    pub(super) fn take(&mut self) -> Vec<FileResult> {
        self.n_bytes = 0;
        let mut results = std::mem::take(&mut self.results);
        results.sort_by(|a, b| a.path.cmp(&b.path));
        results
    }

    /// Whether the file has changed since the verification began.
    pub(super) fn has_changed(&self, root: BorrowedFd<'_>, path: &[u8]) -> bool {
        let changed = open_beneath::changed(root, path);
        changed
            .is_ok_and(|(seconds, nanoseconds)| Moment(seconds, nanoseconds) > self.before.started)
    }

    /// Whether another run has changed the root since the verification began, or may be at work.
    fn has_run(&mut self, root: BorrowedFd<'_>) -> bool {
        let Ok(now) = Changed::of(root) else {
            return self.has_run;
        };
        // A journal that grows does not change its directory.
        let is_known = self.before.journals.is_empty()
            && self
                .listed
                .is_some_and(|(at, listed)| listed == now && at.elapsed() < SHORT);
        if !self.has_run && !is_known {
            // A root that cannot be listed proves nothing.
            self.has_run = self.before.has_changed(root).unwrap_or(false);
            self.listed = Some((Instant::now(), now));
        }
        self.has_run
    }
}

impl Moment {
    fn now() -> Self {
        // A clock before 1970 makes every file a suspect, which costs a second look.
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let since = since.unwrap_or_default();
        let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        Self(seconds, since.subsec_nanos().into())
    }
}

impl Changed {
    fn of(root: BorrowedFd<'_>) -> io::Result<Self> {
        let stat = rustix::fs::fstat(root)?;
        let modified = Moment(stat.st_mtime, stat.st_mtime_nsec);
        Ok(Self([modified, Moment(stat.st_ctime, stat.st_ctime_nsec)]))
    }
}

/// The journals in a root, and their sizes.
fn journals(root: BorrowedFd<'_>) -> io::Result<Vec<Journal>> {
    let names = journals_in(root)?.into_iter();
    let journal = |name: CString| {
        let stat = rustix::fs::statat(root, &*name, AtFlags::SYMLINK_NOFOLLOW);
        Journal {
            size: stat.ok().map(|stat| crate::dircopy::stat::size(&stat)),
            name,
        }
    };
    Ok(names.map(journal).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd as _;
    use std::path::Path;

    use super::*;
    use crate::dircopy::test_support::{open, scratch};

    /// Whether the failure of a file is kept.
    fn keeps(suspects: &mut Suspects, root: &Path, path: &str) -> bool {
        let result = FileResult {
            path: path.into(),
            verdict: Verdict::Unlisted,
        };
        suspects.keep(open(root).as_fd(), result).is_none()
    }

    fn begin(root: &Path) -> Suspects {
        Suspects::new(RootState::read(open(root).as_fd()).unwrap())
    }

    /// Waits until files get a later time of change.
    fn let_the_clock_tick(root: &Path, after: &Suspects) {
        loop {
            fs::write(root.join("clock"), "").unwrap();
            if after.has_changed(open(root).as_fd(), b"clock") {
                return;
            }
        }
    }

    #[test]
    fn a_failure_in_a_tree_that_nothing_changes_is_not_kept() {
        let scratch = scratch();
        fs::write(scratch.path().join("file"), "").unwrap();
        fs::write(scratch.path().join(".zc-dircopy-journal-AAAAAAAA"), "").unwrap();
        let mut suspects = begin(scratch.path());
        assert!(!keeps(&mut suspects, scratch.path(), "file"));
        assert!(!keeps(&mut suspects, scratch.path(), "missing"));
        fs::write(scratch.path().join("unrelated"), "").unwrap();
        assert!(!keeps(&mut suspects, scratch.path(), "file"));
    }

    #[test]
    fn the_failure_of_a_file_that_was_changed_meanwhile_is_kept() {
        let scratch = scratch();
        for name in ["changed", "rotten"] {
            fs::write(scratch.path().join(name), "").unwrap();
        }
        let mut suspects = begin(scratch.path());
        let_the_clock_tick(scratch.path(), &suspects);
        fs::write(scratch.path().join("changed"), "x").unwrap();
        assert!(keeps(&mut suspects, scratch.path(), "changed"));
        assert!(!keeps(&mut suspects, scratch.path(), "rotten"));
        assert_eq!(suspects.take().len(), 1);
        assert!(suspects.take().is_empty());
    }

    #[test]
    fn every_failure_is_kept_once_there_is_a_manifest_or_a_journal_that_was_not_there() {
        let journal = ".zc-dircopy-journal-AAAAAAAA";
        for name in ["shasum.2026-11-21.18.14.38.txt", journal] {
            let scratch = scratch();
            let mut suspects = begin(scratch.path());
            assert!(!keeps(&mut suspects, scratch.path(), "missing"));
            fs::write(scratch.path().join(name), "").unwrap();
            assert!(keeps(&mut suspects, scratch.path(), "missing"), "{name}");
        }
        let scratch = scratch();
        fs::write(scratch.path().join(journal), "").unwrap();
        let mut suspects = begin(scratch.path());
        fs::write(scratch.path().join(journal), "grown").unwrap();
        assert!(keeps(&mut suspects, scratch.path(), "missing"));
    }

    #[test]
    fn failures_that_would_take_more_memory_are_not_kept() {
        let scratch = scratch();
        let mut suspects = begin(scratch.path());
        suspects.has_run = true;
        let path = "x".repeat(1 << 20);
        let kept = (0..8).filter(|_| keeps(&mut suspects, scratch.path(), &path));
        assert_eq!(kept.count(), 4);
    }
}
