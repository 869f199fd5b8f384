//! A disk of which blocks can be made bad, and good again.
//!
//! It is a btrfs in an image. A block that is changed in the image does not have its checksum, so that
//! reads of it fail with `EIO`.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};
use tempfile::NamedTempFile;

use crate::mounts::{Root, image, mount_image};
use crate::skip::{is_root, skip};

/// What btrfs has a checksum for.
pub(super) const BLOCK: usize = 4096;

pub(super) struct BadDisk {
    image: NamedTempFile,
    root: Root,
}

impl BadDisk {
    /// None, said aloud, if this machine cannot mount one.
    pub(super) fn new() -> Option<Self> {
        if !is_root() {
            return None;
        }
        let image = image(192);
        let Some(root) = mount_image("btrfs", image.path()) else {
            skip("btrfs cannot be mounted here");
            return None;
        };
        Some(Self { image, root })
    }

    /// Its root.
    pub(super) fn path(&self) -> PathBuf {
        self.root.dir()
    }

    /// Makes good blocks of a file bad, and bad ones good.
    pub(super) fn flip(&self, file: &Path, contents: &[u8], blocks: &[usize]) {
        let opened = File::open(file).unwrap();
        opened.sync_all().unwrap();
        let block = |n: usize| &contents[n * BLOCK..((n + 1) * BLOCK).min(contents.len())];
        let mut wanted: Vec<_> = blocks.iter().map(|n| &block(*n)[1..16]).collect();
        let image = self.image.as_file();
        let (mut piece, mut at) = (vec![0; 1 << 20], 0);
        loop {
            let n = image.read_at(&mut piece, at).unwrap();
            if n == 0 {
                break;
            }
            for (index, found) in piece[..n].chunks(BLOCK).enumerate() {
                let is_wanted = |wanted: &&[u8]| found[1..16] == **wanted;
                if let Some(which) = wanted.iter().position(is_wanted) {
                    wanted.remove(which);
                    let place = at + (index * BLOCK) as u64;
                    image.write_all_at(&[!found[0]], place).unwrap();
                }
            }
            at += n as u64;
        }
        assert!(wanted.is_empty(), "{wanted:?} are not where they should be");
        // The page cache has what was there.
        fadvise(&opened, 0, None, Advice::DontNeed).unwrap();
    }
}

/// Bytes of which no block is like another, nor like one of another seed.
pub(super) fn words(len: usize, seed: u64) -> Vec<u8> {
    let words = (0..len.div_ceil(8) as u64)
        .map(|n| (n + 1 + (seed << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
    bytes.truncate(len);
    bytes
}

/// The bytes with these blocks zeroed.
pub(super) fn zeroed(bytes: &[u8], bad: &[usize]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let end = bytes.len();
    for block in bad {
        bytes[(block * BLOCK).min(end)..((block + 1) * BLOCK).min(end)].fill(0);
    }
    bytes
}

/// The bad blocks that a map tells of, after a look at its form.
#[track_caller]
pub(super) fn mapped(map: &Path, size: usize) -> Vec<usize> {
    let text = fs::read_to_string(map).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let lines: Vec<Vec<_>> = lines
        .map(|line| line.split(' ').filter(|word| !word.is_empty()).collect())
        .collect();
    let number = |word: &str| usize::from_str_radix(word.strip_prefix("0x").unwrap(), 16).unwrap();
    let (mut end, mut bad) = (0, Vec::new());
    for line in &lines[1..] {
        let (offset, bytes) = (number(line[0]), number(line[1]));
        assert_eq!(offset, end, "{text}");
        end += bytes;
        match line[2] {
            "+" => {}
            "-" => bad.extend(offset / BLOCK..end.div_ceil(BLOCK)),
            other => panic!("{other}"),
        }
    }
    assert_eq!(end, size, "{text}");
    bad
}
