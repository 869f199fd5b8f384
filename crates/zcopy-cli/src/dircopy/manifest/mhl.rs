//! Histories of ASC MHL 2.0: each run adds a generation, a list of files with their digests.
//!
//! - `c4`: digests of SHA-512 in base 58.
//! - `format`: the names of digests.
//! - `history`: finds and verifies the generations of a tree; `chain`: the list of them.
//! - `generation`: reads one generation; `files`: its files by their present names; `xml`: elements
//!   and their text.
//! - `renames`: the names that files had before; `nested`: histories below the root of a tree.
//! - `ignore`: which files a history leaves out.
//! - `directories`: the digests of directories.
//! - `write`: writes a generation; `knowledge`: how a run knows a digest.

pub(crate) mod history;
pub(crate) mod knowledge;
pub(crate) mod nested;
pub(crate) mod write;

mod c4;
mod chain;
mod directories;
mod files;
mod format;
mod generation;
mod ignore;
mod renames;
mod xml;

pub(crate) use format::text_of;
pub(crate) use xml::can_have;

/// The directory of a history, in the root of the tree.
pub(crate) const DIRECTORY: &str = "ascmhl";

/// The list of all generations.
const CHAIN: &str = "ascmhl_chain.xml";

/// The name of this program in a generation.
const TOOL: &str = "zc-dircopy";
