//! Files and disks with bad blocks.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Advice, fadvise};
use tempfile::TempDir;

use crate::files::file_in;
use crate::mounts::{Root, device_over, image, mount_image};
use crate::skip::{is_root, skip};

/// The size of a block, for which btrfs has a checksum.
pub(super) const BLOCK: usize = 4096;

/// A disk whose blocks can be made bad and good again: a btrfs in an image. A block that is changed
/// in the image does not match its checksum, so that reads of it fail with `EIO`.
pub(super) struct BadDisk {
    image: File,
    root: Root,
}

/// New bytes: none of their words has been returned before.
pub(super) fn words(len: usize) -> Vec<u8> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let n = len.div_ceil(8) as u64;
    let first = NEXT.fetch_add(n, Ordering::Relaxed);
    let words = (first..first + n).map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
    bytes.truncate(len);
    bytes
}

/// The bytes with these blocks zeroed.
pub(super) fn zeroed(bytes: &[u8], blocks: &[usize]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let end = bytes.len();
    for block in blocks {
        bytes[(block * BLOCK).min(end)..((block + 1) * BLOCK).min(end)].fill(0);
    }
    bytes
}

/// A file with these bytes, of which some blocks cannot be read.
pub(super) fn damaged(bytes: &[u8], bad: &[usize]) -> Option<File> {
    let disk = shared_disk()?;
    let file = file_in(&disk.dir(), bytes);
    disk.flip(&file, bytes, bad);
    Some(file)
}

/// An empty file that could share blocks with such a file.
pub(super) fn beside_damaged() -> Option<File> {
    Some(file_in(&shared_disk()?.dir(), b""))
}

/// A disk with these bytes, a whole number of blocks.
pub(super) fn damaged_device(bytes: &[u8], bad: &[usize]) -> Option<File> {
    let disk = shared_disk()?;
    let (backing, device) = disk.device(bytes.len())?;
    device.0.write_all_at(bytes, 0).unwrap();
    device.0.sync_all().unwrap();
    disk.flip(&backing, bytes, bad);
    drop_cached(&device.0);
    Some(device.0)
}

/// A file on an ext4 that is on such a disk.
pub(super) fn damaged_on_ext4(bytes: &[u8], bad: &[usize]) -> Option<File> {
    let disk = shared_disk()?;
    let (backing, (_device, path)) = disk.device(16 << 20)?;
    let root = mount_image("ext4", &path)?;
    let file = file_in(&root.dir(), bytes);
    file.sync_all().unwrap();
    disk.flip(&backing, bytes, bad);
    drop_cached(&file);
    Some(file)
}

fn shared_disk() -> Option<MutexGuard<'static, BadDisk>> {
    static DISK: LazyLock<Option<Mutex<BadDisk>>> =
        LazyLock::new(|| BadDisk::new(512).map(Mutex::new));
    let disk = DISK.as_ref();
    if disk.is_none() {
        // Another test may have made the attempt.
        skip("a disk with bad blocks cannot be made here");
    }
    disk.map(|disk| disk.lock().unwrap_or_else(PoisonError::into_inner))
}

impl BadDisk {
    /// A disk of `mib` MiB; `None`, reported, if it cannot be made.
    pub(super) fn new(mib: u64) -> Option<Self> {
        if !is_root() {
            return None;
        }
        let image = image(mib);
        let root = mount_image("btrfs", image.path())?;
        // Without a name the image disappears with the process, although the disk is never dropped.
        let image = image.into_file();
        Some(Self { image, root })
    }

    pub(super) fn dir(&self) -> PathBuf {
        self.root.dir()
    }

    /// A file of `len` bytes, and the device that it backs, with its path.
    fn device(&self, len: usize) -> Option<(File, (File, PathBuf))> {
        let dir = TempDir::new_in(self.root.dir()).unwrap();
        let backing = File::create_new(dir.path().join("disk")).unwrap();
        backing.set_len(len as u64).unwrap();
        let path = format!("/proc/{}/fd/{}", std::process::id(), backing.as_raw_fd());
        let device = device_over(path.as_ref())?;
        Some((backing, device))
    }

    /// Makes good blocks of these bytes bad, and bad ones good, and drops the cached pages of the
    /// file that holds them. The bytes are [`words`] that no other file of the disk holds; the
    /// incomplete block at the end counts as a block.
    pub(super) fn flip(&self, file: &File, bytes: &[u8], blocks: &[usize]) {
        file.sync_all().unwrap();
        // A block is found by its second word: the first one changes.
        let second_word = |block: &[u8]| <[u8; 8]>::try_from(&block[8..16]).unwrap();
        let chunks = bytes.chunks(BLOCK).map(second_word).enumerate();
        let mut wanted: HashMap<_, _> = chunks
            .filter(|(block, _)| blocks.contains(block))
            .map(|(block, word)| (word, block))
            .collect();
        let (mut piece, mut at) = (vec![0; 1 << 20], 0);
        loop {
            let n = self.image.read_at(&mut piece, at).unwrap();
            if n == 0 {
                break;
            }
            for (index, block) in piece[..n].chunks(BLOCK).enumerate() {
                if wanted.remove(&second_word(block)).is_some() {
                    let offset = at + (index * BLOCK) as u64;
                    self.image.write_all_at(&[!block[0]], offset).unwrap();
                }
            }
            at += n as u64;
        }
        assert!(wanted.is_empty(), "blocks {wanted:?} are not in the image");
        drop_cached(file);
    }
}

/// Makes the next read of a file read its disk.
fn drop_cached(file: &File) {
    fadvise(file, 0, None, Advice::DontNeed).unwrap();
}
