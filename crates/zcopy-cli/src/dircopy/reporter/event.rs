//! The events of `--json`: one JSON object on each line.

use std::borrow::Cow;
use std::path::Path;

use serde::Serialize;

use super::file_result::FileResult;
use super::plan::{Plan, PlannedEntry};
use super::progress::Progress;
use super::summary::Summary;
use crate::common::progress::json;
use crate::dircopy::damage_map::BadRange;

/// An event. The field `event` names the variant.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(super) enum Event<'a> {
    /// The progress of the copy.
    Progress(&'a Progress),
    /// An error, and the path from the root of the entry that failed.
    Error {
        path: Cow<'a, str>,
        message: &'a str,
    },
    /// A message that is no error.
    Remark {
        path: Cow<'a, str>,
        message: &'a str,
    },
    /// Attributes of an entry that could not be kept. The entry itself was copied.
    Attributes {
        path: Cow<'a, str>,
        message: &'a str,
    },
    /// The result of an entry.
    File {
        path: Cow<'a, str>,
        #[serde(flatten)]
        result: &'a FileResult,
        attributes_not_kept: Option<String>,
    },
    /// An entry of the destination that was moved, as the source lacks it.
    Moved {
        path: Cow<'a, str>,
        to: Cow<'a, str>,
    },
    /// The bytes of a file that could not be read from its original.
    Damaged {
        path: Cow<'a, str>,
        lost_bytes: u64,
        ranges: &'a [BadRange],
        /// Whether the rest was copied. If not, an existing copy was kept.
        is_copied: bool,
    },
    /// The action of a run for an entry.
    Planned(&'a PlannedEntry<'a>),
    /// What a run would do in all.
    Plan(&'a Plan),
    /// The summary of the run.
    Summary(&'a Summary<'a>),
}

/// An event of the run to one of several destinations.
#[derive(Serialize)]
struct Addressed<'a> {
    #[serde(flatten)]
    event: &'a Event<'a>,
    destination: Cow<'a, str>,
}

impl Event<'_> {
    /// The object and a newline. It names the `destination`, if there are several.
    pub(super) fn line(&self, destination: Option<&Path>) -> String {
        let mut line = match destination {
            None => json::line(self),
            Some(destination) => json::line(&Addressed {
                event: self,
                destination: destination.to_string_lossy(),
            }),
        };
        line.push('\n');
        line
    }
}
