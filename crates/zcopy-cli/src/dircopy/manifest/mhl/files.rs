//! The files that a generation lists, by the names that they have now.

use std::fs::File;
use std::io::BufReader;

use super::generation::{Generation, Listed};
use super::ignore::Ignore;
use super::renames::{Renames, Reused};
use crate::common::digest::Algorithm;
use crate::dircopy::hash::FileDigest;
use crate::dircopy::manifest::journal::is_journal;
use crate::dircopy::manifest::read::damage::Damage;
use crate::dircopy::write::atomic_file::temp_name;

/// The files of a generation.
pub(crate) struct Files<'a> {
    pub(super) generation: Generation<BufReader<File>>,
    /// Its place among the generations.
    pub(super) index: usize,
    pub(super) ignore: &'a Ignore,
    pub(super) renames: &'a Renames,
    pub(super) reused: &'a mut Reused,
    /// The algorithm of the last file.
    pub(super) algorithm: Option<Algorithm>,
    pub(super) damage: Option<Damage>,
}

impl Files<'_> {
    /// The next path and its digest. `None` at the end, or where the generation is malformed.
    pub(crate) fn next(&mut self) -> Option<(Vec<u8>, FileDigest)> {
        loop {
            let listed = match self.generation.next() {
                Ok(listed) => listed?,
                Err(error) => {
                    self.damage = Some(Damage::Unreadable(error));
                    return None;
                }
            };
            let Listed {
                path,
                is_directory,
                file,
                failed,
                ..
            } = listed;
            if is_directory {
                continue;
            }
            let path = path.into_bytes();
            let is_first = self.reused.is_first(self.renames, &path, self.index);
            let Some(file) = file.or(failed.filter(|_| is_first)) else {
                continue;
            };
            self.algorithm = Some(file.algorithm);
            let is_left_out = |path: &[u8]| is_hidden(path) || self.ignore.matches_listed(path);
            let path = self.renames.current(path, self.index);
            if let Some(path) = path.filter(|path| !is_left_out(path)) {
                return Some((path, file));
            }
        }
    }
}

/// Whether an entry is a file under construction, or a journal, which another program may have
/// listed.
pub(super) fn is_hidden(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    temp_name::is_temp_name(name) || is_journal(path)
}
