//! File systems that keep fewer attributes of a file than Linux's own.

use std::os::fd::AsFd;

/// `FUSE_SUPER_MAGIC`: the driver is a process.
const FUSE: i128 = 0x6573_5546;

/// File systems whose files may have no owner, mode or extended attributes.
const FOREIGN: [i128; 6] = [
    FUSE,
    // `MSDOS_SUPER_MAGIC`.
    0x4d44,
    // `EXFAT_SUPER_MAGIC`.
    0x2011_bab0,
    // ntfs3, which has no constant in `<linux/magic.h>`.
    0x7366_746e,
    // `CIFS_SUPER_MAGIC`.
    0xff53_4d42,
    // `SMB2_SUPER_MAGIC`.
    0xfe53_4d42,
];

/// Whether the driver of the file system is a process.
pub(crate) fn is_in_user_space(file: impl AsFd) -> bool {
    kind(file) == Some(FUSE)
}

/// Whether each file of the file system has an inode number of its own. Drivers that pass on the
/// numbers of others may show several file systems as one: FUSE, `V9FS_MAGIC`, `CIFS_SUPER_MAGIC`,
/// `SMB2_SUPER_MAGIC`.
pub(crate) fn has_unique_inode_numbers(file: impl AsFd) -> bool {
    let passes_on = [FUSE, 0x0102_1997, 0xff53_4d42, 0xfe53_4d42];
    kind(file).is_some_and(|kind| !passes_on.contains(&kind))
}

/// Whether files of the file system may lack attributes that Linux's own file systems have.
pub(crate) fn is_foreign(file: impl AsFd) -> bool {
    kind(file).is_some_and(|kind| FOREIGN.contains(&kind))
}

fn kind(file: impl AsFd) -> Option<i128> {
    let found = rustix::fs::fstatfs(file).ok()?;
    // The type of `f_type` depends on the architecture. If it is a 32-bit integer, the value may be
    // negative.
    Some(i128::from(found.f_type) & 0xffff_ffff)
}
