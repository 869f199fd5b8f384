//! What is told to programs: an object in JSON, a line each.

use std::borrow::Cow;

use serde::Serialize;

use crate::dircopy::damage_map::BadRange;
use crate::dircopy::progress::Progress;
use crate::dircopy::summary::Summary;
use crate::json;

/// Something to be told. Each object has an `event`, which says what the others are.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(super) enum Event<'a> {
    /// How far the copy is.
    Progress(&'a Progress),
    /// What is wrong with something, and its path from the root.
    Error {
        path: Cow<'a, str>,
        message: &'a str,
    },
    /// Something to know about the run or something in it, with which nothing is wrong.
    Remark {
        path: Cow<'a, str>,
        message: &'a str,
    },
    /// Which bytes of a file are missing, because its original could not be read.
    Damaged {
        path: Cow<'a, str>,
        lost_bytes: u64,
        ranges: &'a [BadRange],
        /// Whether a copy of the rest was made now. If not, what was there was kept.
        is_copied: bool,
    },
    /// What became of the tree.
    Summary(&'a Summary<'a>),
}

impl Event<'_> {
    /// The object, with the end of its line.
    pub(super) fn line(&self) -> String {
        let mut line = json::line(self);
        line.push('\n');
        line
    }
}
