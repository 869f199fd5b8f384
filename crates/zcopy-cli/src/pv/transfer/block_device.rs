//! The size of a block device.

use rustix::fs::Stat;

/// The unit of the kernel for all devices (`sysfs-block`).
const SECTOR: u64 = 512;

/// Returns the size of a block device in bytes.
///
/// It does not open the device, and moves no cursor that another process may use.
pub(crate) fn size(stat: &Stat) -> Option<u64> {
    let (major, minor) = (
        rustix::fs::major(stat.st_rdev),
        rustix::fs::minor(stat.st_rdev),
    );
    let sectors = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/size"));
    let sectors = sectors.ok()?.trim().parse::<u64>().ok()?;
    sectors.checked_mul(SECTOR)
}
