//! The counts that `zc-dircopy` prints at its end.

/// The counts of a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Summary {
    /// Names of regular files.
    pub(super) files: usize,
    /// The bytes of these files. Those of a file with several names count once.
    pub(super) bytes: usize,
    /// How many of the files were copied, cloned, linked or skipped.
    pub(super) copied: usize,
    /// Messages on standard error.
    pub(super) failed: usize,
}

impl Summary {
    /// Reads the lines `3 files, 305000 bytes …` and `2 copied, …, 0 failed, 1 without all
    /// attributes`. `None` if they are not there.
    pub(super) fn read(stdout: &str) -> Option<Self> {
        let mut lines = stdout.lines();
        let (files, bytes) = lines.find_map(amounts)?;
        let line = lines.next()?;
        let count = |of: &str| {
            let (before, _) = line.split_once(&format!(" {of}"))?;
            before.rsplit(' ').next()?.parse::<usize>().ok()
        };
        Some(Self {
            files,
            bytes,
            copied: count("copied")? + count("cloned")? + count("linked")? + count("skipped")?,
            failed: count("failed")? + count("without all attributes").unwrap_or(0),
        })
    }

    /// Lists the false counts of a run. `most` is what a success counts.
    pub(super) fn mistakes(self, most: Self, is_success: bool) -> Vec<String> {
        let mut wrong = Vec::new();
        for (what, found, most) in [
            ("files", self.files, most.files),
            ("bytes", self.bytes, most.bytes),
            ("files by what was done", self.copied, self.files),
        ] {
            if found > most || is_success && found != most {
                wrong.push(format!("the summary has {found} {what} instead of {most}"));
            }
        }
        if self.failed != most.failed {
            let (found, n_told) = (self.failed, most.failed);
            wrong.push(format!(
                "the summary counts {found} failures, and there are {n_told} messages"
            ));
        }
        wrong
    }
}

/// The files and bytes of a line `3 files, 305000 bytes …`.
fn amounts(line: &str) -> Option<(usize, usize)> {
    let (files, rest) = line.split_once(" file")?;
    let (bytes, _) = rest.split_once(", ")?.1.split_once(" byte")?;
    Some((files.parse().ok()?, bytes.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "3 files, 305000 bytes (297KiB) in 0.002 s, 146MiB/s\n\
                        2 copied, 0 cloned, 1 linked, 0 skipped, 1 failed\n";
    const TRUE: Summary = Summary {
        files: 3,
        bytes: 305_000,
        copied: 3,
        failed: 1,
    };

    #[test]
    fn the_counts_are_read() {
        assert_eq!(Summary::read(TEXT), Some(TRUE));
        let text = TEXT.replace("failed", "failed, 2 without all attributes");
        assert_eq!(Summary::read(&text).map(|summary| summary.failed), Some(3));
        assert_eq!(Summary::read(""), None);
        let one = "1 file, 1 byte in 0.002 s, 5B/s\n1 copied, 0 cloned, 0 linked, 0 skipped, 0 failed; and 1 symbolic links";
        assert_eq!(Summary::read(one).unwrap().bytes, 1);
    }

    #[test]
    fn a_failure_may_count_less_and_never_more() {
        let less = Summary {
            files: 2,
            copied: 2,
            ..TRUE
        };
        assert_eq!(TRUE.mistakes(TRUE, true).len(), 0);
        assert_eq!(less.mistakes(TRUE, false).len(), 0);
        assert_eq!(less.mistakes(TRUE, true).len(), 1);
        assert_eq!(TRUE.mistakes(less, false).len(), 1);
        let miscounted = Summary { copied: 4, ..TRUE };
        assert_eq!(miscounted.mistakes(TRUE, false).len(), 1);
        let more_failures = Summary { failed: 2, ..TRUE };
        assert_eq!(more_failures.mistakes(TRUE, false).len(), 1);
    }
}
