//! Files and disks with bad blocks.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use rustix::fs::{Advice, fadvise};
use tempfile::{NamedTempFile, TempDir};

use crate::files::file_in;
use crate::mounts::{Root, device_over, image, mount_image};
use crate::skip::skip;

/// What btrfs has a checksum for.
pub(super) const BLOCK: usize = 4096;

/// A btrfs, and the image that it is in.
struct Below {
    image: NamedTempFile,
    root: Root,
}

/// Bytes of which no word has ever been returned before.
pub(super) fn words(len: usize) -> Vec<u8> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let n = len.div_ceil(8) as u64;
    let first = NEXT.fetch_add(n, Ordering::Relaxed);
    let words = (first..first + n).map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
    bytes.truncate(len);
    bytes
}

/// A file with these bytes, of which some blocks cannot be read.
pub(super) fn damaged(bytes: &[u8], bad: &[usize]) -> Option<File> {
    let below = below()?;
    let file = file_in(&below.root.dir(), bytes);
    file.sync_all().unwrap();
    below.damage(bytes, bad);
    forget(&file);
    Some(file)
}

/// An empty file that could share blocks with those.
pub(super) fn beside_damaged() -> Option<File> {
    Some(file_in(&below()?.root.dir(), b""))
}

/// A disk with these bytes, a whole number of blocks.
pub(super) fn damaged_device(bytes: &[u8], bad: &[usize]) -> Option<File> {
    let below = below()?;
    let (backing, device) = below.device(bytes.len())?;
    device.0.write_all_at(bytes, 0).unwrap();
    device.0.sync_all().unwrap();
    backing.sync_all().unwrap();
    below.damage(bytes, bad);
    forget(&device.0);
    forget(&backing);
    Some(device.0)
}

/// A file on an ext4 that is on such a disk.
pub(super) fn damaged_on_ext4(bytes: &[u8], bad: &[usize]) -> Option<File> {
    let below = below()?;
    let (backing, (_device, path)) = below.device(16 << 20)?;
    let root = mount_image("ext4", &path)?;
    let file = file_in(&root.dir(), bytes);
    file.sync_all().unwrap();
    backing.sync_all().unwrap();
    below.damage(bytes, bad);
    forget(&file);
    forget(&backing);
    Some(file)
}

fn below() -> Option<std::sync::MutexGuard<'static, Below>> {
    static BELOW: LazyLock<Option<Mutex<Below>>> = LazyLock::new(|| {
        let image = image(512);
        let root = mount_image("btrfs", image.path())?;
        Some(Mutex::new(Below { image, root }))
    });
    let below = BELOW.as_ref();
    if below.is_none() {
        skip("a btrfs cannot be damaged here");
    }
    below.map(|below| below.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Below {
    /// A file of so many bytes, and the disk that it stands for.
    fn device(&self, len: usize) -> Option<(File, (File, PathBuf))> {
        let dir = TempDir::new_in(self.root.dir()).unwrap();
        let backing = File::create_new(dir.path().join("disk")).unwrap();
        backing.set_len(len as u64).unwrap();
        let path = format!("/proc/{}/fd/{}", std::process::id(), backing.as_raw_fd());
        let device = device_over(path.as_ref())?;
        Some((backing, device))
    }

    /// Changes a byte of each of these blocks where the image holds them. The tail of a file is a block too.
    fn damage(&self, bytes: &[u8], bad: &[usize]) {
        let first_word = |block: &[u8]| <[u8; 8]>::try_from(&block[..8]).unwrap();
        let blocks = bytes.chunks(BLOCK).map(first_word).enumerate();
        let mut wanted: HashMap<_, _> = blocks
            .filter(|(block, _)| bad.contains(block))
            .map(|(block, word)| (word, block))
            .collect();
        let image = self.image.as_file();
        let (mut piece, mut at) = (vec![0; 1 << 20], 0);
        loop {
            let n = image.read_at(&mut piece, at).unwrap();
            if n == 0 {
                break;
            }
            for (index, block) in piece[..n].chunks(BLOCK).enumerate() {
                if wanted.remove(&first_word(block)).is_some() {
                    let place = at + (index * BLOCK) as u64;
                    image.write_all_at(&[!block[0]], place).unwrap();
                }
            }
            at += n as u64;
        }
        assert!(
            wanted.is_empty(),
            "blocks {wanted:?} are not where they should be"
        );
    }
}

/// Has it read anew from below.
fn forget(file: &File) {
    fadvise(file, 0, None, Advice::DontNeed).unwrap();
}
