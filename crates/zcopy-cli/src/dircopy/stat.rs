//! The file type and the permissions in `st_mode`.

use rustix::fs::{FileType, Mode, Stat};

pub(crate) fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

pub(crate) fn is_regular(stat: &Stat) -> bool {
    file_type(stat) == FileType::RegularFile
}

pub(crate) fn is_directory(stat: &Stat) -> bool {
    file_type(stat) == FileType::Directory
}

/// All 12 bits, with set-user-ID, set-group-ID and sticky.
pub(crate) fn permissions(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode & 0o7777)
}
