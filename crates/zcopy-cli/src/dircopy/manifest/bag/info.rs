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
        lines(info).find_map(|line| {
            if continues_element(line) || !label(line).eq_ignore_ascii_case(b"Payload-Oxum") {
                return None;
            }
            let (_, value) = str::from_utf8(line).ok()?.split_once(':')?;
            let (n_bytes, n_files) = value.trim().split_once('.')?;
            Some(Self {
                n_bytes: n_bytes.parse().ok()?,
                n_files: n_files.parse().ok()?,
            })
        })
    }

    /// Counts the files below `data`, and the symbolic links to files, which `bagit.py` lists as such.
    /// Entries that cannot be examined are left out.
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
                && matches!(found.kind, FileType::RegularFile | FileType::Symlink)
                && let Ok(stat) = rustix::fs::statat(found.directory, found.name, AtFlags::empty())
                && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
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
    for line in lines(old) {
        if !continues_element(line) {
            let is_label = |own: &&str| label(line).eq_ignore_ascii_case(own.as_bytes());
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

/// The lines with their ends, each of which is a line feed, a carriage return, or both.
fn lines(info: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends_line = |[byte, next]: [u8; 2]| byte == b'\n' || byte == b'\r' && next != b'\n';
    let mut rest = info;
    std::iter::from_fn(move || {
        let mut pairs = rest.windows(2).map(|pair| [pair[0], pair[1]]);
        let end = pairs.position(ends_line).map_or(rest.len(), |at| at + 1);
        let (line, behind) = rest.split_at(end);
        rest = behind;
        (!line.is_empty()).then_some(line)
    })
}

/// Whether a line continues the element above: it begins with a blank.
fn continues_element(line: &[u8]) -> bool {
    line.starts_with(b" ") || line.starts_with(b"\t")
}

/// The label of the element that begins in a line.
fn label(line: &[u8]) -> &[u8] {
    let label = line.split(|byte| *byte == b':').next().unwrap_or_default();
    label.trim_ascii()
}

#[cfg(test)]
mod tests {
    use zcopy_fuzz::holds_for_bytes;

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

    /// Such a line was taken for the total, so that `--check` found a whole bag damaged.
    #[test]
    fn a_line_that_continues_another_element_tells_no_total() {
        let info = b"Description: it says\n Payload-Oxum: 5.5\nPayload-Oxum: 20.3\n";
        let told = Oxum::told(info).unwrap();
        assert_eq!((told.n_bytes, told.n_files), (20, 3));
        assert_eq!(
            Oxum::told(b"Description: it says\n\tPayload-Oxum: 5.5\n"),
            None
        );
        assert_eq!(Oxum::told("\u{a0}Payload-Oxum: 5.5\n".as_bytes()), None);
    }

    /// The lines of such a file were one, whose total stayed beside the new one.
    #[test]
    fn lines_may_end_in_carriage_returns() {
        let oxum = Oxum {
            n_bytes: 20,
            n_files: 3,
        };
        let old = b"Contact-Name: B\rPayload-Oxum: 1.1\rBag-Count: 1 of 1\r";
        let told = Oxum::told(old).unwrap();
        assert_eq!((told.n_bytes, told.n_files), (1, 1));
        let new = String::from_utf8(updated(old, oxum)).unwrap();
        assert!(
            new.starts_with("Contact-Name: B\rBag-Count: 1 of 1\rBag-Software-Agent: "),
            "{new}"
        );
        assert_eq!(new.matches("Payload-Oxum").count(), 1, "{new}");
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

    #[test]
    fn the_total_that_is_set_is_the_one_that_is_told_whatever_stood_there_before() {
        let seeds: [&[u8]; 3] = [
            b"Source-Organization: A\n  long name\nPayload-Oxum: 1.1\nbag-size: 1\n KB\nContact-Name: B",
            b"A: b\r\npayload-oxum: 20.3\r\n",
            b"Description: it says\n Payload-Oxum: 5.5\n",
        ];
        holds_for_bytes(&seeds, |old| {
            let oxum = Oxum {
                n_bytes: 20,
                n_files: 3,
            };
            let new = updated(old, oxum);
            assert_eq!(Oxum::told(&new), Some(oxum), "{}", new.escape_ascii());
            assert_eq!(
                updated(&new, oxum).escape_ascii().to_string(),
                new.escape_ascii().to_string()
            );
        });
    }
}
