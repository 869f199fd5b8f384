//! The output of `--check --json`: a JSON object on each line.

use std::borrow::Cow;
use std::path::Path;

use serde::Serialize;

use super::total::Total;
use super::verdict::Verdict;
use crate::common::cli::message;
use crate::common::progress::json;

/// An object. Its field `event` names the variant.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(crate) enum Event<'a> {
    /// The result for one file.
    File(FileEvent<'a>),
    /// A tree or a list that could not be read.
    Error { path: Cow<'a, str>, message: String },
    /// A record that was changed as the command line asks.
    Remark {
        tree: Cow<'a, str>,
        path: Cow<'a, str>,
        message: String,
    },
    /// The progress of the verification.
    Progress {
        files: u64,
        bytes: u64,
        bytes_per_second: f64,
        /// 0 if the total is unknown.
        total_bytes: u64,
        total_files: u64,
        /// Whether all files have been counted.
        total_is_final: bool,
        seconds: f64,
        failed: u64,
    },
    /// The total at the end.
    Summary(&'a Total),
}

/// The result for one file. Bytes of names that are not UTF-8 become U+FFFD.
#[derive(Debug, Serialize)]
pub(crate) struct FileEvent<'a> {
    pub(crate) tree: Cow<'a, str>,
    /// The path as the list has it, unescaped.
    pub(crate) path: Cow<'a, str>,
    /// `ok`, `differs`, `missing`, `unreadable`, `unlisted` or `damaged`.
    pub(crate) result: &'static str,
    /// `None` unless the file was read to its end.
    #[serde(flatten)]
    pub(crate) hashed: Option<HashedEvent>,
    /// Why the file could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
}

/// How a file was read to its end.
#[derive(Debug, Serialize)]
pub(crate) struct HashedEvent {
    pub(crate) algorithm: &'static str,
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
}

impl Event<'_> {
    /// The object, with a newline.
    pub(crate) fn line(&self) -> String {
        let mut line = json::line(self);
        line.push('\n');
        line
    }
}

impl<'a> FileEvent<'a> {
    pub(super) fn of(verdict: &Verdict, tree: &'a Path, path: &'a Path) -> Self {
        let (result, hashed, error) = match verdict {
            Verdict::Matches(hashed) => ("ok", Some(hashed), None),
            Verdict::Differs(hashed) => ("differs", Some(hashed), None),
            Verdict::Missing(error) => ("missing", None, Some(error)),
            Verdict::Unreadable(error) => ("unreadable", None, Some(error)),
            Verdict::Unlisted => ("unlisted", None, None),
            Verdict::Damaged => ("damaged", None, None),
            // They have no event.
            Verdict::Malformed | Verdict::Interrupted => ("", None, None),
        };
        Self {
            tree: tree.to_string_lossy(),
            path: path.to_string_lossy(),
            result,
            hashed: hashed.map(|hashed| HashedEvent {
                algorithm: hashed.algorithm.name(),
                bytes: hashed.bytes,
                seconds: json::rounded(hashed.elapsed.as_secs_f64()),
            }),
            message: error.map(|error| message::worded(error)),
        }
    }
}
