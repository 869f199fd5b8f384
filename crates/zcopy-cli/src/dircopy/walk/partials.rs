//! Partial files that earlier runs have left in a directory of the destination.

use std::ffi::{CStr, CString};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::options::{Options, PartialFiles};
use crate::dircopy::write::atomic_file::temp_name::Leftovers;
use crate::dircopy::write::partial_file::LeftPartial;

/// The partial files in a directory that no copy has taken.
#[derive(Debug)]
pub(super) struct Partials {
    left: Mutex<Vec<Offer>>,
    /// Other temporary names that may belong to one, as they could not be examined.
    unexamined: Vec<CString>,
    /// The flag that ends the walk early.
    stop: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Offer {
    partial: LeftPartial,
    /// Whether it stays for another run.
    is_kept: bool,
}

impl Partials {
    /// Finds the partial files in a directory of the destination whose originals, in the directory
    /// of the source, have not changed. A recorded file is none. Returns `None` if partial files
    /// are removed.
    pub(super) fn of(
        options: &Options,
        [source, directory]: [BorrowedFd<'_>; 2],
        leftovers: &Leftovers,
        is_recorded: impl Fn(&CStr) -> bool,
    ) -> Option<Self> {
        if options.partial_files == PartialFiles::Removed {
            return None;
        }
        let flags = if options.follows_symlinks {
            AtFlags::empty()
        } else {
            AtFlags::SYMLINK_NOFOLLOW
        };
        let names = leftovers.files().iter();
        let names: Vec<_> = names.filter(|name| !is_recorded(name)).cloned().collect();
        let (mut found, unexamined) = match LeftPartial::find(directory, &names) {
            Ok(found) => (found, Vec::new()),
            // They stay for another run.
            Err(_) => (Vec::new(), names),
        };
        found.retain(|partial| {
            let name = partial.name();
            name.is_some_and(|name| match rustix::fs::statat(source, &name, flags) {
                Ok(stat) => partial.has_version(&stat),
                Err(Errno::NOENT) => false,
                // Another run may examine it.
                Err(_) => true,
            })
        });
        let offer = |partial| Offer {
            partial,
            is_kept: false,
        };
        Some(Self {
            left: Mutex::new(found.into_iter().map(offer).collect()),
            unexamined,
            stop: Arc::clone(options.stop_flag()),
        })
    }

    /// Whether a temporary name belongs to one of them, or may do so.
    pub(super) fn have_name(&self, temp_name: &CStr) -> bool {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.iter().any(|offer| offer.partial.has_name(temp_name))
            || self.unexamined.iter().any(|name| **name == *temp_name)
    }

    /// Takes the partial file for the copy of this name.
    pub(super) fn take(&self, name: &CStr) -> Option<LeftPartial> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let at = left.iter().position(|offer| offer.partial.is_of(name))?;
        Some(left.swap_remove(at).partial)
    }

    /// Leaves the partial file for the copy of this name to another run.
    pub(super) fn keep(&self, name: &CStr) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        for offer in left.iter_mut().filter(|offer| offer.partial.is_of(name)) {
            offer.is_kept = true;
        }
    }

    /// Leaves all to another run: their names in the source are not known.
    pub(super) fn keep_all(&self) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        for offer in left.iter_mut() {
            offer.is_kept = true;
        }
    }

    /// Removes those that no copy has taken and that are not kept: their copies were made or left
    /// otherwise. If the walk has ended early, they stay, and so do those of originals that cannot
    /// be examined.
    pub(super) fn end(&self, source: BorrowedFd<'_>, directory: BorrowedFd<'_>) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if self.stop.load(Ordering::Relaxed) {
            return;
        }
        for Offer { partial, is_kept } in left.drain(..) {
            let is_unreadable = |name: CString| {
                let found = rustix::fs::statat(source, &name, AtFlags::SYMLINK_NOFOLLOW);
                found.is_err_and(|errno| errno != Errno::NOENT)
            };
            if !is_kept && !partial.name().is_some_and(is_unreadable) {
                partial.remove(directory);
            }
        }
    }
}
