//! Pages that a transfer handed over, and that can still change.

use std::fmt;

/// Whose pages a sink's reader is given. They change with the file that they belong to, until they have been read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PageSharing {
    /// Nobody's: the bytes were copied, or cannot change.
    #[default]
    None,
    /// Those of the source, a file.
    OfFile,
    /// Those that the source holds, a pipe or socket. Somebody may have spliced or sent them there from a file.
    PassedOn,
}

/// A line of its own, or nothing.
impl fmt::Display for PageSharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PageSharing::None => "",
            PageSharing::OfFile => {
                "\npages: shared with the source file until the sink's reader has taken them"
            }
            PageSharing::PassedOn => {
                "\npages: shared as the source holds them; those of a file can change until the sink's reader has taken them"
            }
        })
    }
}
