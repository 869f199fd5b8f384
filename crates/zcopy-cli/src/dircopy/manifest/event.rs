//! What `--check --json` writes: an object in JSON on each line.

use std::borrow::Cow;

use serde::Serialize;

use super::total::Total;
use crate::json;

/// An object. Its `event` says what the other fields are.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(in crate::dircopy) enum Event<'a> {
    /// The result for one file.
    File(FileEvent<'a>),
    /// A tree or a list that could not be read.
    Error { path: Cow<'a, str>, message: String },
    /// How far the verification is.
    Progress {
        files: u64,
        bytes: u64,
        bytes_per_second: f64,
        /// 0, if it is not known how much there is.
        total_bytes: u64,
        total_files: u64,
        /// Whether no more will be found.
        total_is_final: bool,
        seconds: f64,
        failed: u64,
    },
    /// What all files came to.
    Summary(&'a Total),
}

/// The result for one file. Bytes of names that are not UTF-8 become U+FFFD.
#[derive(Debug, Serialize)]
pub(in crate::dircopy) struct FileEvent<'a> {
    pub(super) tree: Cow<'a, str>,
    /// As the list has it, without its escapes.
    pub(super) path: Cow<'a, str>,
    /// `ok`, `differs`, `missing`, `unreadable`, `unlisted` or `damaged`.
    pub(super) result: &'static str,
    /// Of a file that was read to its end.
    #[serde(flatten)]
    pub(super) hashed: Option<HashedEvent>,
    /// Why the file could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
}

/// What is known of a file that was read to its end.
#[derive(Debug, Serialize)]
pub(in crate::dircopy) struct HashedEvent {
    pub(super) algorithm: &'static str,
    pub(super) bytes: u64,
    pub(super) seconds: f64,
}

impl Event<'_> {
    /// The object with the newline behind it.
    pub(in crate::dircopy) fn line(&self) -> String {
        let mut line = json::line(self);
        line.push('\n');
        line
    }
}
