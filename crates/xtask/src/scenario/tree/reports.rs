//! The messages of `zc-dircopy`, by the path that they name.

use std::path::Path;

use super::{COPY, SOURCE};

/// The beginnings of messages about a directory whose entries were left out.
const LEFT_OUT: [&str; 4] = [
    "cannot stat",
    "cannot open directory",
    "cannot read directory",
    "cannot use destination directory",
];

/// The ends of messages that are about no failure: the run waits for the lock of its destination,
/// or the file system lacks a feature.
const REMARKS: [&str; 3] = [
    ": waiting for another run to end",
    " such names are copied as files of their own",
    " while its name is given to a copy may be replaced",
];

/// A message: `zc-dircopy: PATH: TEXT`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Message {
    path: String,
    text: String,
}

/// The messages of a run.
#[derive(Debug)]
pub(super) struct Reports {
    messages: Vec<Message>,
    /// Whether standard error took every message.
    is_complete: bool,
}

impl Reports {
    /// Reads the messages. If `is_complete` is false, a message may have been lost, and everything
    /// counts as reported.
    pub(super) fn new(stderr: &str, is_complete: bool) -> Self {
        let lines = stderr.lines();
        let messages = lines.filter_map(|line| line.strip_prefix("zc-dircopy: "));
        let is_remark = |message: &str| REMARKS.iter().any(|remark| message.ends_with(remark));
        let messages = messages.filter(|message| !is_remark(message));
        let messages = messages.map(|message| {
            let (path, text) = message.split_once(": ").unwrap_or(("", message));
            let (path, text) = (path.to_owned(), text.to_owned());
            Message { path, text }
        });
        Self {
            messages: messages.collect(),
            is_complete,
        }
    }

    /// How many messages there were before the summary, if that is known.
    pub(super) fn count(&self) -> Option<usize> {
        // The summary itself may meet a write error.
        let messages = self.messages.iter();
        let counted = messages.filter(|message| message.path != "write error");
        self.is_complete.then_some(counted.count())
    }

    /// Whether a message says that an attribute of this entry was not kept.
    pub(super) fn name_attribute_of(&self, name: &Path) -> bool {
        !self.is_complete
            || self
                .messages
                .iter()
                .any(|message| is_about(message, name) && message.text.starts_with("cannot keep "))
    }

    /// Whether a message says that this directory of the copy could not be filled, so that it stays
    /// as it was made.
    pub(super) fn name_unused_directory(&self, name: &Path) -> bool {
        !self.is_complete
            || self.messages.iter().any(|message| {
                let is_unused = message.text.starts_with("cannot use destination directory");
                is_about(message, name) && is_unused
                    || name == Path::new("") && is_whole_run(message)
            })
    }

    /// Whether a message says that there is no manifest.
    pub(super) fn name_lost_manifest(&self) -> bool {
        let texts = [
            "cannot write the manifest",
            "cannot bring the copy to the disk",
        ];
        !self.is_complete
            || self.messages.iter().any(|message| {
                is_about(message, Path::new(""))
                    && texts.iter().any(|text| message.text.starts_with(text))
            })
    }

    /// Whether messages say that both the manifest and the journal are lost.
    pub(super) fn name_lost_records(&self) -> bool {
        let mut messages = self.messages.iter();
        let is_journal_lost = messages.any(|message| {
            is_about(message, Path::new("")) && message.text.starts_with("cannot write the journal")
        });
        self.name_lost_manifest() && (!self.is_complete || is_journal_lost)
    }

    /// Whether a message says that this entry was not copied: it names the entry, or a directory
    /// above it whose entries were left out, or what kept the run from beginning.
    pub(super) fn name_failure_of(&self, name: &Path) -> bool {
        let is_left_out = |message: &Message| {
            let mut above = name.ancestors().skip(1);
            above.any(|above| is_about(message, above))
                && LEFT_OUT.iter().any(|text| message.text.starts_with(text))
        };
        let is_own = |message: &Message| {
            is_about(message, name) && !message.text.starts_with("cannot keep ")
        };
        !self.is_complete
            || self
                .messages
                .iter()
                .any(|message| is_own(message) || is_left_out(message) || is_whole_run(message))
    }
}

/// Whether a message tells what kept the run from beginning.
fn is_whole_run(message: &Message) -> bool {
    ["", SOURCE, COPY, "/dev/null"].contains(&&message.path[..])
        || message.text.contains("nothing is copied")
}

/// Whether a message names this entry and no other. The root is called `.`.
fn is_about(message: &Message, name: &Path) -> bool {
    let shown = if name == Path::new("") {
        Path::new(".")
    } else {
        name
    };
    shown.to_str() == Some(&message.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_about_an_entry_is_none_about_its_directory_or_neighbours() {
        let reports = Reports::new("zc-dircopy: sub/text: cannot keep the mode: EIO\n", true);
        assert!(reports.name_attribute_of("sub/text".as_ref()));
        for other in ["sub", "text", "sub/tex", "sub/text2", ""] {
            assert!(!reports.name_attribute_of(other.as_ref()), "{other}");
        }
        assert!(!reports.name_failure_of("sub/text".as_ref()));
    }

    #[test]
    fn a_directory_that_was_left_out_explains_what_is_missing_below() {
        let reports = Reports::new("zc-dircopy: sub: cannot open directory: EIO\n", true);
        assert!(reports.name_failure_of("sub/deep/secret".as_ref()));
        assert!(reports.name_failure_of("sub".as_ref()));
        assert!(!reports.name_failure_of("large".as_ref()));
        assert!(!reports.name_unused_directory("sub".as_ref()));
        let reports = Reports::new("zc-dircopy: sub: cannot keep the times: EIO\n", true);
        assert!(!reports.name_failure_of("sub/text".as_ref()));
        let reports = Reports::new("zc-dircopy: .: cannot write the manifest: EIO\n", true);
        assert!(!reports.name_failure_of("large".as_ref()));
    }

    #[test]
    fn lost_messages_prove_nothing() {
        let reports = Reports::new("", false);
        assert!(reports.name_failure_of("large".as_ref()));
        assert!(reports.name_attribute_of("large".as_ref()));
    }
}
