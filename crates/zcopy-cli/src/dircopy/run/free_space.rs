//! Finds out before a copy begins whether its files have room in the destination.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::anyhow;
use rustix::fs::{Mode, OFlags, Stat, StatVfs};
use zcopy::{Reflink, Transfer};

use crate::dircopy::forecast::{Action, Forecast, forecast};
use crate::dircopy::reporter::summary::size as size_in_words;
use crate::dircopy::settings::Settings;
use crate::dircopy::stat::{identity, is_regular, size};
use crate::dircopy::walk::Root;
use crate::dircopy::walk::scan::{Next, ScanOptions};
use crate::dircopy::write::atomic_file::AtomicFile;
use crate::dircopy::write::file_system::{self, Accounting};

/// Fails if the files that the run would copy take more than the destination has free. A quota is
/// not seen, nor are the manifest and the directories counted.
///
/// A file system of the source that holds less altogether than the destination has free is not
/// scanned. Otherwise all its files are examined, once as if the destination were empty, and once
/// more beside the files that it has, if they seem to have no room.
///
/// # Errors
///
/// The files have no room. Every other error is ignored: the copy meets it, and reports it.
///
/// A destination that shares its file system with others has what these leave of it, as `shared`
/// tells.
pub(crate) fn check(
    settings: &Settings,
    root: &Root,
    options: ScanOptions,
    shared: Option<&SharedSpace>,
) -> anyhow::Result<()> {
    let destination = root.destination().as_fd();
    let mut shared = shared.and_then(|shared| shared.of(destination));
    let (free, n_sharing) = match &shared {
        Some(share) => (share.free, share.n_sharing),
        None => (Free::of(destination), 1),
    };
    let Some(free) = free else {
        return Ok(());
    };
    if !settings.follows_symlinks && source_fits(root, settings, &free, n_sharing) {
        return Ok(());
    }
    let mut needed = Needed::of(settings, root, options, None, &free);
    // Files that a destination has already take no space from the others.
    if (needed.exceeds(&free) || shared.is_some()) && !root.is_new() {
        needed = Needed::of(settings, root, options, Some(destination), &free);
    }
    if !needed.exceeds(&free) {
        if let Some(share) = &mut shared {
            share.reserve(&needed);
        }
        return Ok(());
    }
    let go_on = "--no-space-check copies what fits";
    Err(if needed.peak > free.bytes {
        let (needed, free) = (size_in_words(needed.peak), size_in_words(free.bytes));
        anyhow!("not enough space: the copy takes {needed}, and {free} are free; {go_on}")
    } else {
        let (needed, free) = (needed.names, free.names.unwrap_or(0));
        anyhow!("not enough inodes: the copy takes {needed}, and {free} are free; {go_on}")
    })
}

/// The file systems that several destinations of a copy share.
#[derive(Debug, Default)]
pub(crate) struct SharedSpace(Mutex<HashMap<u64, SharedFileSystem>>);

/// A file system with several destinations.
#[derive(Debug)]
struct SharedFileSystem {
    n_sharing: u64,
    /// The free space before any of them is copied to. `None` if the file system does not tell.
    free: Option<Free>,
}

impl SharedSpace {
    /// Examines the destinations before any of them is copied to.
    pub(crate) fn new<'a>(destinations: impl Iterator<Item = BorrowedFd<'a>>) -> Self {
        let mut file_systems = HashMap::new();
        for destination in destinations {
            if let Ok(stat) = rustix::fs::fstat(destination) {
                let of_device =
                    file_systems
                        .entry(identity(&stat).0)
                        .or_insert_with(|| SharedFileSystem {
                            n_sharing: 0,
                            free: Free::of(destination),
                        });
                of_device.n_sharing += 1;
            }
        }
        file_systems.retain(|_, file_system| file_system.n_sharing > 1);
        Self(Mutex::new(file_systems))
    }

    /// The file system of this destination, if others share it. Their checks wait.
    fn of(&self, destination: BorrowedFd<'_>) -> Option<Share<'_>> {
        let device = identity(&rustix::fs::fstat(destination).ok()?).0;
        // A change is made by one assignment.
        let file_systems = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let SharedFileSystem { n_sharing, free } = file_systems.get(&device)?;
        Some(Share {
            n_sharing: *n_sharing,
            free: *free,
            device,
            file_systems,
        })
    }
}

/// The share that one of several destinations has in its file system.
struct Share<'a> {
    n_sharing: u64,
    /// The space that the others leave.
    free: Option<Free>,
    device: u64,
    file_systems: MutexGuard<'a, HashMap<u64, SharedFileSystem>>,
}

impl Share<'_> {
    /// Takes what this destination needs from what the others may take.
    fn reserve(&mut self, needed: &Needed) {
        let shared = self.file_systems.get_mut(&self.device);
        if let Some(free) = shared.and_then(|shared| shared.free.as_mut()) {
            free.bytes = free.bytes.saturating_sub(needed.peak);
            free.names = free.names.map(|names| names.saturating_sub(needed.names));
        }
    }
}

/// What the file system of the destination has free.
#[derive(Clone, Copy, Debug)]
struct Free {
    bytes: u64,
    /// The number of files that can be made. `None` if the file system does not limit it.
    names: Option<u64>,
    /// The size of a block. Every file takes whole ones.
    block: u64,
    accounting: Accounting,
}

impl Free {
    /// `None` if the file system does not tell.
    fn of(destination: BorrowedFd<'_>) -> Option<Self> {
        let found = rustix::fs::fstatvfs(destination).ok()?;
        if found.f_blocks == 0 {
            return None;
        }
        // Some blocks are reserved for root. Whether root would get them is asked only where it
        // matters.
        let is_root = || std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
        let blocks = if found.f_bfree > found.f_bavail && is_root() {
            found.f_bfree
        } else {
            found.f_bavail
        };
        Some(Self {
            bytes: blocks.saturating_mul(found.f_frsize),
            names: (found.f_files > 0).then_some(found.f_ffree),
            block: found.f_frsize.max(1),
            accounting: file_system::accounting(destination),
        })
    }

    /// Whether so many bytes in so many files have room for certain.
    fn hold(&self, bytes: u64, names: u64) -> bool {
        let rounded = names.saturating_mul(self.block).saturating_add(bytes);
        rounded <= self.bytes && self.names.is_none_or(|free| names <= free)
    }
}

/// Whether all files of the source's file system have room in the destination, `n_sharing` times.
fn source_fits(root: &Root, settings: &Settings, free: &Free, n_sharing: u64) -> bool {
    let source = root.source();
    let Ok(found) = rustix::fs::fstatvfs(source) else {
        return false;
    };
    file_system::accounting(source) == Accounting::Exact
        && free.accounting != Accounting::Apparent
        && found.f_files > 0
        && free.hold(
            used_bytes(&found).saturating_mul(n_sharing),
            found
                .f_files
                .saturating_sub(found.f_ffree)
                .saturating_mul(n_sharing),
        )
        && (settings.one_file_system || has_no_mounts(source))
}

fn used_bytes(found: &StatVfs) -> u64 {
    let used = found.f_blocks.saturating_sub(found.f_bfree);
    used.saturating_mul(found.f_frsize)
}

/// Whether no file system is mounted in a tree, as far as the kernel tells.
fn has_no_mounts(tree: BorrowedFd<'_>) -> bool {
    let Ok(path) = rustix::fs::readlinkat(rustix::fs::CWD, fd_path(tree), Vec::new()) else {
        return false;
    };
    let Ok(mounts) = std::fs::read("/proc/self/mountinfo") else {
        return false;
    };
    let path = path.to_bytes();
    let below = |place: &[u8]| {
        let rest = place.strip_prefix(path);
        rest.is_some_and(|rest| !rest.is_empty() && (path == b"/" || rest[0] == b'/'))
    };
    // The fifth word of a line is the place of the mount. Spaces in it are written in octal, and a
    // path that has such characters is not compared.
    let is_plain = !path.iter().any(|byte| b" \t\n\\".contains(byte));
    let mut lines = mounts.split(|byte| *byte == b'\n');
    is_plain && !lines.any(|line| line.split(|byte| *byte == b' ').nth(4).is_some_and(below))
}

fn fd_path(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// What the files of the source take in the destination.
#[derive(Debug, Default)]
struct Needed {
    /// The most bytes that are taken beside what is there now. A file that replaces another takes
    /// its space before the other one is gone.
    peak: u64,
    /// The number of new files and directories.
    names: u64,
}

impl Needed {
    /// Without a destination, none of the files is taken to exist there.
    fn of(
        settings: &Settings,
        root: &Root,
        options: ScanOptions,
        destination: Option<BorrowedFd<'_>>,
        free: &Free,
    ) -> Self {
        let mut needed = Self::default();
        let mut clones = Clones::new(root.destination().as_fd());
        let (mut taken, mut given_back) = (0_u64, 0_u64);
        forecast(root.source(), destination, settings, options, |shown| {
            let Ok(shown) = shown else {
                return Next::Enter;
            };
            match shown.action {
                Action::Skip | Action::Compare | Action::EnterDirectory => return Next::Enter,
                Action::Link if free.accounting != Accounting::Apparent => return Next::Enter,
                Action::Copy | Action::Link | Action::MakeDirectory => needed.names += 1,
                Action::Replace => {}
            }
            if is_regular(&shown.stat) && !clones.can_clone(&shown) {
                // The bytes of an earlier run are there, or are removed before they are written anew.
                let begun = shown
                    .begun
                    .map_or(0, |begun| file_system::allocated(&begun.stat));
                let bytes = free.accounting.bytes(&shown.stat, free.block);
                taken = taken.saturating_add(bytes.saturating_sub(begun));
                needed.peak = needed.peak.max(taken.saturating_sub(given_back));
                given_back += freed(shown.existing.as_ref());
            }
            Next::Enter
        });
        needed
    }

    fn exceeds(&self, free: &Free) -> bool {
        self.peak > free.bytes || free.names.is_some_and(|names| self.names > names)
    }
}

/// The bytes that the destination gets back when another file replaces this one.
fn freed(existing: Option<&Stat>) -> u64 {
    existing
        .filter(|existing| is_regular(existing) && existing.st_nlink == 1)
        .map_or(0, file_system::allocated)
}

/// Which file systems of the source share blocks with the destination.
struct Clones<'a> {
    destination: BorrowedFd<'a>,
    /// By device. Each is tried with one file.
    shares: HashMap<u64, bool>,
}

impl<'a> Clones<'a> {
    fn new(destination: BorrowedFd<'a>) -> Self {
        Self {
            destination,
            shares: HashMap::new(),
        }
    }

    fn can_clone(&mut self, shown: &Forecast<'_>) -> bool {
        if size(&shown.stat) == 0 {
            return false;
        }
        let device = identity(&shown.stat).0;
        if let Some(shares) = self.shares.get(&device) {
            return *shares;
        }
        let shares = if file_system::never_shares_blocks(self.destination) {
            false
        } else if let Ok(source) = open(shown) {
            self.clone_file(&source).unwrap_or(false)
        } else {
            // A file that cannot be opened tells nothing.
            return false;
        };
        self.shares.insert(device, shares);
        shares
    }

    /// Clones a file to one without a name, which is dropped.
    fn clone_file(&self, source: &File) -> io::Result<bool> {
        let new_file = AtomicFile::with_mode(self.destination, Mode::RUSR | Mode::WUSR)?;
        let transfer = Transfer::new(source, &new_file)
            .source_offset(0)
            .sink_offset(0)
            .reflink(Reflink::Always);
        Ok(transfer.run().is_ok())
    }
}

fn open(shown: &Forecast<'_>) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(
        shown.found.directory,
        shown.found.name,
        flags,
        Mode::empty(),
    )?;
    let file = File::from(opened);
    if !is_regular(&rustix::fs::fstat(&file)?) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(file)
}
