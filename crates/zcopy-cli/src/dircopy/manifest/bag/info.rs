//! The lines of `bag-info.txt`.

use std::io::Write as _;

use crate::common::progress::clock;

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
