//! The options of a run, as far as they change what becomes of an archive.

/// The arguments of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options<'a>(pub(super) &'a [&'static str]);

impl Options<'_> {
    fn has(&self, option: &str) -> bool {
        self.0.contains(&option)
    }

    /// Whether a file is recorded as it is.
    pub(super) fn accepts(&self, path: &str) -> bool {
        let pairs = self.0.windows(2);
        let mut accepted = pairs.filter(|pair| pair[0] == "--accept");
        accepted.any(|pair| pair[1] == path)
    }

    /// Whether a file that seems to be the same is compared with the original, and replaced if it
    /// differs.
    pub(super) fn compares_originals(&self) -> bool {
        self.has("--overwrite-policy=update")
    }

    /// Whether files that are left are read.
    pub(super) fn hashes_skipped(&self) -> bool {
        self.hashes() && !self.has("--no-hash-skipped")
    }

    /// Whether digests are made.
    pub(super) fn hashes(&self) -> bool {
        !self.has("--no-hash")
    }

    pub(super) fn forgets_missing(&self) -> bool {
        self.has("--forget-missing")
    }
}
