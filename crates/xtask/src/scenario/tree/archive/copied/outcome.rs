//! The outcomes of a run into an archive, and the old states of files that they explain.

use std::path::Path;

use crate::scenario::tree::reports::Reports;
use crate::scenario::{Observed, Scenario};

/// The calls that a run makes to remove files that it no longer needs.
const REMOVING_CALLS: [&str; 6] = [
    "unlinkat",
    "flock",
    "openat",
    "getdents64",
    "newfstatat",
    "fstat",
];

/// The outcome of a run.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The run ended as it does without faults.
    Succeeded,
    /// The run ended with messages about its failures.
    Failed {
        reports: Reports,
        /// Whether a call failed that is needed to remove files.
        may_leave_files: bool,
    },
    /// A signal or a panic ended the run.
    Killed,
}

impl Outcome {
    pub(super) fn new(scenario: &Scenario, observed: &Observed) -> Self {
        // If messages are lost, the run may have printed others than the usual ones.
        let is_known = scenario.usual_failure.is_none() || observed.is_heard();
        if scenario.has_succeeded(observed) && is_known {
            return Self::Succeeded;
        }
        match observed.status.and_then(|status| status.code()) {
            Some(0 | 1) => {
                let mut injected = observed.injected().into_iter();
                Self::Failed {
                    reports: Reports::new(&observed.stderr, observed.is_heard()),
                    may_leave_files: injected.any(|call| REMOVING_CALLS.contains(&&call.name[..])),
                }
            }
            _ => Self::Killed,
        }
    }

    /// Whether the outcome explains why a file still has its old record.
    pub(super) fn explains_old_record(&self, path: &Path) -> bool {
        match self {
            Self::Failed { reports, .. } if reports.name_lost_manifest() => true,
            outcome => outcome.explains(path),
        }
    }

    /// Whether the outcome explains why a file is not as it should be.
    pub(super) fn explains(&self, path: &Path) -> bool {
        match self {
            Self::Succeeded => false,
            Self::Failed { reports, .. } => {
                reports.name_failure_of(path) || reports.name_lost_records()
            }
            Self::Killed => true,
        }
    }
}
