//! How large a block device is.

use rustix::fs::Stat;

/// What the kernel counts in, whatever the device does (`sysfs-block`).
const SECTOR: u64 = 512;

/// How many bytes a block device holds.
///
/// It is not opened, and no cursor is moved that somebody else may be using.
pub(super) fn size(stat: &Stat) -> Option<u64> {
    let (major, minor) = (
        rustix::fs::major(stat.st_rdev),
        rustix::fs::minor(stat.st_rdev),
    );
    let sectors = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/size"));
    let sectors = sectors.ok()?.trim().parse::<u64>().ok()?;
    sectors.checked_mul(SECTOR)
}
