//! The trees that `zc-dircopy` copies and checks, and the rules for what it leaves behind.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{XattrFlags, setxattr};

use super::run::write_with_holes;
use crate::scenarios::{pattern, sha256, text};

pub(crate) use check::{check_damaged, check_whole, damaged_lines};
pub(crate) use copy::{check_copy, check_copy_and_sums, check_replaced_copy_and_sums};
pub(crate) use formats::{LINK, OTHER_COPY, check_bag, check_destinations, check_history};
pub(crate) use resume::{LOG as PARTIAL_LOG, check_resumed, make_begun_copy};

pub(crate) mod archive;
mod check;
mod copy;
mod formats;
mod manifest;
mod node;
mod reports;
mod resume;
mod summary;

/// The tree that is copied, and its copy, in the program's directory.
pub(crate) const SOURCE: &str = "source";
pub(crate) const COPY: &str = "copy";
/// The contents, mode and time of files in a copy that is older than the source.
const OLD: &[u8] = b"what was there before\n";
const OLD_MODE: u32 = 0o640;
const OLD_SECONDS: u64 = 1_500_000_000;
/// The files that the older copy has.
const OLD_FILES: [&str; 3] = ["large", "linked", "nothing"];
/// The hidden file of a killed run in the older copy.
const STALE: &str = ".zc-dircopy-AbCd1234";
/// The attribute that one file has, and its value.
const ATTRIBUTE: &str = "user.zcopy";
const VALUE: &[u8] = b"value";
/// The name of the manifest in a tree that is checked.
const SUM_FILE: &str = "shasum.2026-01-01.00.00.00.txt";
/// The file whose bytes differ from its digest in a damaged tree.
const DAMAGED: &str = "sub/text";
/// The directories of the source, with their modes. Parents come before children.
const DIRECTORIES: [(&str, u32); 4] = [
    ("", 0o755),
    ("empty", 0o711),
    ("sub", 0o750),
    ("sub/deep", 0o700),
];

/// A regular file of the source.
struct Original {
    bytes: Vec<u8>,
    mode: u32,
    modified: SystemTime,
}

/// The regular files of the source by name. `linked` and `sub/text` are one file.
fn originals() -> BTreeMap<PathBuf, Original> {
    let mut sparse = vec![0; 516 * 1024];
    sparse[..4_096].copy_from_slice(&pattern(4_096));
    sparse[512 * 1024..].copy_from_slice(&pattern(4_096));
    let files = [
        ("large", pattern(300_000), 0o644, 1_700_000_000),
        ("linked", text(5_000), 0o664, 1_600_000_000),
        ("nothing", Vec::new(), 0o444, 1_650_000_000),
        ("sparse", sparse, 0o755, 1_660_000_000),
        ("sub/deep/secret", pattern(20_000), 0o600, 1_670_000_000),
        ("sub/text", text(5_000), 0o664, 1_600_000_000),
    ];
    let files = files.map(|(name, bytes, mode, seconds)| {
        let modified = SystemTime::UNIX_EPOCH + Duration::new(seconds, 123_456_789);
        let original = Original {
            bytes,
            mode,
            modified,
        };
        (PathBuf::from(name), original)
    });
    files.into_iter().collect()
}

/// Makes a tree with everything that `zc-dircopy` treats differently.
pub(crate) fn make_source(dir: &Path) -> anyhow::Result<()> {
    let source = dir.join(SOURCE);
    for (name, _) in DIRECTORIES {
        fs::create_dir(source.join(name))?;
    }
    for (name, original) in originals() {
        let path = source.join(&name);
        match name.to_str() {
            Some("linked") => continue,
            Some("sparse") => write_with_holes(&path, &original.bytes)?,
            _ => fs::write(&path, &original.bytes)?,
        }
        if name == Path::new("large") {
            // tmpfs has such attributes since Linux 6.6 alone.
            let _ = setxattr(&path, ATTRIBUTE, VALUE, XattrFlags::empty());
        }
        File::open(&path)?.set_modified(original.modified)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(original.mode))?;
    }
    fs::hard_link(source.join("sub/text"), source.join("linked"))?;
    symlink("sub/text", source.join(LINK))?;
    for (nth, (name, mode)) in DIRECTORIES.into_iter().enumerate() {
        let path = source.join(name);
        let time = SystemTime::UNIX_EPOCH + Duration::new(1_400_000_000 + nth as u64, 987_654_321);
        File::open(&path)?.set_modified(time)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// Makes the tree, and an older copy of some of it.
pub(crate) fn make_source_and_old_copy(dir: &Path) -> anyhow::Result<()> {
    make_source(dir)?;
    let copy = dir.join(COPY);
    fs::create_dir(&copy)?;
    fs::write(copy.join(STALE), OLD)?;
    for name in OLD_FILES {
        let path = copy.join(name);
        fs::write(&path, OLD)?;
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(OLD_SECONDS);
        File::open(&path)?.set_modified(time)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(OLD_MODE))?;
    }
    Ok(())
}

/// Makes a copy with the digests of its files.
pub(crate) fn make_summed_copy(dir: &Path) -> anyhow::Result<()> {
    make_source(dir)?;
    fs::rename(dir.join(SOURCE), dir.join(COPY))?;
    let mut sums = File::create(dir.join(COPY).join(SUM_FILE))?;
    for (name, original) in originals() {
        let digest = sha256(&original.bytes);
        writeln!(sums, "{digest}  {}", name.display())?;
    }
    Ok(())
}

/// Makes such a copy, and changes the bytes of one file.
pub(crate) fn make_damaged_copy(dir: &Path) -> anyhow::Result<()> {
    make_summed_copy(dir)?;
    let path = dir.join(COPY).join(DAMAGED);
    // The file's other name keeps the bytes.
    fs::remove_file(&path)?;
    Ok(fs::write(path, text(4_999))?)
}
