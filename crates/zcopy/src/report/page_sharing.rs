//! Pages that the transfer passed on without copying them.

use std::fmt;

/// Which pages the sink's reader receives without a copy. A write to the file that they belong to
/// changes them until they have been read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PageSharing {
    /// No pages: the bytes were copied, or cannot change.
    #[default]
    None,
    /// The pages of the source file.
    OfFile,
    /// The pages that the source pipe or socket holds. Another process may have spliced or sent
    /// them there from a file.
    PassedOn,
}

/// Writes a line that starts with a line feed, or nothing.
impl fmt::Display for PageSharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PageSharing::None => "",
            PageSharing::OfFile => {
                "\npages: shared with the source file until the sink's reader has read them"
            }
            PageSharing::PassedOn => {
                "\npages: shared with the source pipe or socket; a write to a file can change them \
                 until the sink's reader has read them"
            }
        })
    }
}
