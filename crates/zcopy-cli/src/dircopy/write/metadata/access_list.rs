//! Access lists, as extended attributes hold them (pure). See `acl(5)` and
//! `<linux/posix_acl_xattr.h>`.

use rustix::fs::Mode;

/// The entries of an access list that a mode can express, and the mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AccessList {
    owner: u32,
    owning_group: u32,
    /// The upper limit for the owning group and for named users and groups. A list without names
    /// has no mask.
    mask: Option<u32>,
    others: u32,
}

const USER_OBJ: u16 = 0x01;
const GROUP_OBJ: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

impl AccessList {
    /// Parses the value of `system.posix_acl_access` or `system.posix_acl_default`.
    pub(super) fn parse(value: &[u8]) -> Option<Self> {
        // A version of four bytes, then entries of eight: a tag, permissions and an ID.
        let (_version, entries) = value.split_at_checked(4)?;
        let permissions = |tag: u16| {
            let mut entries = entries.chunks_exact(8);
            let entry = entries.find(|entry| entry[..2] == tag.to_le_bytes())?;
            Some(u32::from(entry[2] & 7))
        };
        Some(Self {
            owner: permissions(USER_OBJ)?,
            owning_group: permissions(GROUP_OBJ)?,
            mask: permissions(MASK),
            others: permissions(OTHER)?,
        })
    }

    /// The mode of a file with this list. The bits of the group are the mask.
    pub(super) fn mode(self) -> Mode {
        self.with_group(self.mask.unwrap_or(self.owning_group))
    }

    /// The mode of a file without this list. Its owning group gets no more permissions than the
    /// list gave it.
    pub(super) fn mode_without_list(self) -> Mode {
        self.with_group(self.owning_group & self.mask.unwrap_or(7))
    }

    fn with_group(self, group: u32) -> Mode {
        Mode::from_raw_mode((self.owner << 6 | group << 3 | self.others) as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(entries: &[(u16, u8)]) -> Vec<u8> {
        let mut value = 2_u32.to_le_bytes().to_vec();
        for (tag, permissions) in entries {
            value.extend(tag.to_le_bytes());
            value.extend([*permissions, 0, 1, 0, 0, 0]);
        }
        value
    }

    fn modes(entries: &[(u16, u8)]) -> Option<[Mode; 2]> {
        let list = AccessList::parse(&value(entries))?;
        Some([list.mode(), list.mode_without_list()])
    }

    #[test]
    fn the_group_bits_of_a_mode_are_the_mask_and_without_the_list_those_of_the_group() {
        let minimal = [(USER_OBJ, 7), (GROUP_OBJ, 5), (OTHER, 1)];
        assert_eq!(
            modes(&minimal),
            Some([0o751, 0o751].map(Mode::from_raw_mode))
        );
        let extended = [
            (USER_OBJ, 6),
            (0x02, 7),
            (GROUP_OBJ, 5),
            (MASK, 6),
            (OTHER, 4),
        ];
        assert_eq!(
            modes(&extended),
            Some([0o664, 0o644].map(Mode::from_raw_mode))
        );
    }

    #[test]
    fn what_is_no_list_has_no_mode() {
        assert_eq!(modes(&[]), None);
        assert_eq!(modes(&[(USER_OBJ, 7), (OTHER, 1)]), None);
        assert_eq!(AccessList::parse(b""), None);
        assert_eq!(AccessList::parse(b"\x02\0\0"), None);
    }
}
