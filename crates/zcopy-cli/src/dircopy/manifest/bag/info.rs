//! The lines of `bag-info.txt`.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use super::INFO;
use super::tag_files::contents;
use crate::common::progress::clock;
use crate::dircopy::manifest::read::damage::Damage;
use crate::dircopy::stat::size;
use crate::dircopy::walk::scan::{Next, ScanOptions, scan};

/// The elements that a run sets. `Bag-Size` would be wrong afterwards, and is dropped.
const OWN: [&str; 4] = [
    "Bagging-Date",
    "Bag-Software-Agent",
    "Payload-Oxum",
    "Bag-Size",
];

/// The number of bytes and of files below `data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Oxum {
    pub(super) n_bytes: u64,
    pub(super) n_files: u64,
}

impl Oxum {
    /// The one that `bag-info.txt` tells. `None` without one, or if it is no pair of numbers.
    fn told(info: &[u8]) -> Option<Self> {
        info.split(|byte| *byte == b'\n').find_map(|line| {
            let (label, value) = str::from_utf8(line).ok()?.split_once(':')?;
            if !label.trim().eq_ignore_ascii_case("Payload-Oxum") {
                return None;
            }
            let (n_bytes, n_files) = value.trim().split_once('.')?;
            Some(Self {
                n_bytes: n_bytes.parse().ok()?,
                n_files: n_files.parse().ok()?,
            })
        })
    }

    /// Counts the files below `data`. Entries that cannot be examined are left out.
    fn counted(root: BorrowedFd<'_>) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let payload = rustix::fs::openat(root, c"data", flags, Mode::empty())?;
        let options = ScanOptions {
            follows_symlinks: false,
            one_file_system: false,
            most_open: 1,
        };
        let (mut n_bytes, mut n_files) = (0, 0);
        scan(payload.as_fd(), options, |found| {
            if let Ok(found) = found
                && found.kind == FileType::RegularFile
                && let Ok(stat) =
                    rustix::fs::statat(found.directory, found.name, AtFlags::SYMLINK_NOFOLLOW)
            {
                n_files += 1;
                n_bytes += size(&stat);
            }
            Next::Enter
        });
        Ok(Self { n_bytes, n_files })
    }
}

/// Fails if `bag-info.txt` tells another number of bytes or files than `data` has.
pub(super) fn verify(root: BorrowedFd<'_>) -> Result<(), Damage> {
    let told = match contents(root, INFO) {
        Ok(info) => Oxum::told(&info),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(Damage::from_error(error)),
    };
    let Some(told) = told else {
        return Ok(());
    };
    if told == Oxum::counted(root)? {
        return Ok(());
    }
    Err(Damage::Other(
        "its Payload-Oxum tells another number of bytes or files than data has",
    ))
}

/// The new contents of `bag-info.txt`. All elements of the old contents stay, except those that
/// describe the payload.
pub(super) fn updated(old: &[u8], oxum: Oxum) -> Vec<u8> {
    let mut new = Vec::new();
    let mut is_own = false;
    for line in old.split_inclusive(|byte| *byte == b'\n') {
        // A line that begins with a blank continues the element above.
        if !line.starts_with(b" ") && !line.starts_with(b"\t") {
            let label = line.split(|byte| *byte == b':').next().unwrap_or_default();
            let is_label = |own: &&str| label.trim_ascii().eq_ignore_ascii_case(own.as_bytes());
            is_own = OWN.iter().any(is_label);
        }
        if !is_own {
            new.extend_from_slice(line);
        }
    }
    if new
        .last()
        .is_some_and(|last| !matches!(last, b'\n' | b'\r'))
    {
        new.push(b'\n');
    }
    let Oxum { n_bytes, n_files } = oxum;
    // Writing to a vector cannot fail.
    let _ = writeln!(
        new,
        "Bag-Software-Agent: zc-dircopy {}",
        env!("CARGO_PKG_VERSION")
    );
    let _ = writeln!(new, "Bagging-Date: {}", clock::now().date());
    let _ = writeln!(new, "Payload-Oxum: {n_bytes}.{n_files}");
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_told_by_two_numbers() {
        let oxum = |info: &[u8]| Oxum::told(info).map(|oxum| (oxum.n_bytes, oxum.n_files));
        assert_eq!(oxum(b"A: b\r\npayload-oxum: 20.3\r\n"), Some((20, 3)));
        for none in [
            "",
            "Payload-Oxum: 20",
            "Payload-Oxum: x.3",
            " Payload-Oxum 20.3",
        ] {
            assert_eq!(oxum(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn other_elements_stay_with_their_continuation_lines() {
        let old = b"Source-Organization: A\n  long name\nPayload-Oxum: 1.1\nbag-size: 1\n KB\nContact-Name: B";
        let oxum = Oxum {
            n_bytes: 20,
            n_files: 3,
        };
        let new = String::from_utf8(updated(old, oxum)).unwrap();
        let kept = "Source-Organization: A\n  long name\nContact-Name: B\nBag-Software-Agent: ";
        assert!(new.starts_with(kept), "{new}");
        assert!(new.ends_with("\nPayload-Oxum: 20.3\n"), "{new}");
        assert!(!new.contains("KB"), "{new}");
    }
}
