//! The numbers of files with each result.

use serde::Serialize;

use super::verdict::Verdict;

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

impl Counts {
    pub(super) fn add(&mut self, verdict: &Verdict) {
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
