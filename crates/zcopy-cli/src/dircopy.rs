//! `zc-dircopy`: copies a tree, file by file, and records the digests of all files.
//!
//! Every file is opened by its name in an open directory, never by a path. So nothing outside of
//! the two trees is read or written, even if another process renames or replaces directories during
//! the run. Names are bytes.
//!
//! One thread at a time walks the source. `--jobs` threads copy files, and others hash them. The
//! finisher takes the results in the order of the tree. So the manifest is sorted, and a hard link
//! is made after the file that it links to.
//!
//! - `run`: copies a tree, or verifies trees with `--check`.
//! - `args` and `settings`: the command line.
//! - `finisher`: writes lines of the manifest and makes hard links, in the order of the tree.
//! - `copy`: copies or leaves one entry.
//! - `forecast`: what a run would do with each entry.
//! - `schedule`: divides the tree into jobs, and the descriptors among the threads.
//! - `reporter`: writes messages, the progress and the summary.
//! - `folded_names`: names that the destination does not tell apart.
//! - `manifest`: reads, writes and verifies lists of digests.
//! - `walk`: walks the source and mirrors its directories.
//! - `hash`: reads and hashes files; `shared_reads`: files that several destinations read together.
//! - `write`: creates files, and sets their metadata.
//! - `damage_map`: which bytes of a damaged file are missing.
//! - `interrupt`: signals that end a run early; `stop_flag`: stops the threads beside the copy.
//! - `policy`: decides which files are copied.
//! - `counts`: the counters of a run; `file_ranges`: reads parts of files.
//! - `stat` and `mtime`: facts of `stat(2)`, and times of modification.

pub use args::Args;
pub use run::{MISUSE, Outcome, run};

pub mod manifest;
pub mod write;

mod args;
mod changes;
mod copy;
mod counts;
mod damage_map;
mod file_ranges;
mod finisher;
mod folded_names;
mod forecast;
mod hash;
mod interrupt;
mod mtime;
mod policy;
mod reporter;
mod run;
mod schedule;
mod settings;
mod shared_reads;
mod stat;
mod stop_flag;
mod walk;

#[cfg(test)]
mod test_support;
