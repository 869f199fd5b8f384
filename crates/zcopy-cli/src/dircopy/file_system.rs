//! Kinds of file systems that keep less of a file than Linux's own.

use std::os::fd::AsFd;

/// `FUSE_SUPER_MAGIC`: the driver is a process.
const FUSE: i128 = 0x6573_5546;

/// Those whose files may have no owner, no mode and no extended attributes: `FUSE_SUPER_MAGIC`, `MSDOS_SUPER_MAGIC`, `EXFAT_SUPER_MAGIC`,
/// that of ntfs3, `CIFS_SUPER_MAGIC`, `SMB2_SUPER_MAGIC`.
const FOREIGN: [i128; 6] = [
    FUSE,
    0x4d44,
    0x2011_bab0,
    0x7366_746e,
    0xff53_4d42,
    0xfe53_4d42,
];

/// Whether the driver of the file system is a process.
pub(super) fn is_in_user_space(file: impl AsFd) -> bool {
    kind(file) == Some(FUSE)
}

/// Whether files of the file system may lack attributes that Linux's own file systems have.
pub(super) fn is_foreign(file: impl AsFd) -> bool {
    kind(file).is_some_and(|kind| FOREIGN.contains(&kind))
}

fn kind(file: impl AsFd) -> Option<i128> {
    let found = rustix::fs::fstatfs(file).ok()?;
    // The type is a `c_long` here and something else there. Where it has 32 bits, the highest is its sign.
    Some(i128::from(found.f_type) & 0xffff_ffff)
}
