//! The options that decide how a run changes an archive.

/// The arguments of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options<'a>(pub(super) &'a [&'static str]);

impl Options<'_> {
    fn has(&self, option: &str) -> bool {
        self.0.contains(&option)
    }

    /// Whether the run records this file as it is.
    pub(super) fn accepts(&self, path: &str) -> bool {
        let pairs = self.0.windows(2);
        let mut accepted = pairs.filter(|pair| pair[0] == "--accept");
        accepted.any(|pair| pair[1] == path)
    }

    /// Whether the run compares a file with its original if their sizes and times are equal, and
    /// replaces it if the bytes differ.
    pub(super) fn compares_originals(&self) -> bool {
        self.has("--overwrite-policy=update")
    }

    /// Whether the run computes digests of the files that it skips.
    pub(super) fn hashes_skipped(&self) -> bool {
        self.hashes() && !self.has("--no-hash-skipped")
    }

    /// Whether the run computes digests.
    pub(super) fn hashes(&self) -> bool {
        !self.has("--no-hash")
    }

    /// Whether the run drops the records of missing files.
    pub(super) fn forgets_missing(&self) -> bool {
        self.has("--forget-missing")
    }
}
