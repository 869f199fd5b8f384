//! Writes the manifests and the journal of earlier runs, in the documented formats.

use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::file::{ArchivedFile, List, Sign};
use crate::scenarios::sha256;

/// The names of the earlier lists. The clock of the last run was wrong, so that its manifest does
/// not have the greatest name.
const FOREIGN: &str = "shasum.2026-03-01.00.00.00.txt";
const OLDER: &str = "shasum.2026-02-01.00.00.00.txt";
const NEWEST: &str = "shasum.2026-01-01.00.00.00.txt";
/// The name of the journal.
const JOURNAL: &str = ".zc-dircopy-journal-AbCd1234";
/// The number of hexadecimal digits in the check of a journal's entry.
const CHECK_DIGITS: usize = 16;

/// Whether an earlier run has written a list at this path.
pub(super) fn is_earlier(path: &Path) -> bool {
    [FOREIGN, OLDER, NEWEST]
        .iter()
        .any(|name| path == Path::new(name))
}

/// Writes the manifests.
pub(super) fn write_manifests(root: &Path, files: &[ArchivedFile]) -> anyhow::Result<()> {
    let foreign = lines(files, List::Foreign);
    // Other programs do not sort, and Windows has other separators.
    let foreign: Vec<_> = foreign
        .iter()
        .rev()
        .map(|line| line.replace('/', "\\"))
        .collect();
    fs::write(root.join(FOREIGN), foreign.concat())?;
    let (older, digest) = manifest("time: 2026-01-01T00:00:00Z\n", &lines(files, List::Older));
    fs::write(root.join(OLDER), older)?;
    let header = format!("time: 2026-02-01T00:00:00Z\n# includes: {digest} {OLDER}\n");
    let (newest, _) = manifest(&header, &lines(files, List::Newest));
    Ok(fs::write(root.join(NEWEST), newest)?)
}

/// The lines of a list.
fn lines(files: &[ArchivedFile], wanted: List) -> Vec<String> {
    let lines = files.iter().flat_map(|file| {
        let lines = file.lines.iter().filter(move |(list, _)| *list == wanted);
        lines.map(|(_, bytes)| format!("{}  {}\n", sha256(bytes), file.path))
    });
    lines.collect()
}

/// A manifest with these lines, and the digest in its last line.
fn manifest(header: &str, lines: &[String]) -> (String, String) {
    let n_lines = lines.len();
    let above = format!(
        "# zc-dircopy manifest, version 1\n# source: /media/card\n# {header}{}",
        lines.concat()
    );
    let digest = sha256(above.as_bytes());
    (
        format!("{above}# end: {n_lines} lines, sha256 {digest}\n"),
        digest,
    )
}

/// Writes the journal of a run that was killed as it wrote the last entry.
pub(super) fn write_journal(root: &Path, files: &[ArchivedFile]) -> anyhow::Result<()> {
    let mut journal = "# zc-dircopy journal, version 1\n# source: /media/card\n\
                       # time: 2026-03-01T00:00:00Z\n"
        .to_owned();
    let mut chain = Sha256::digest(&journal);
    for file in files {
        for (sign, bytes) in &file.entries {
            let sign = match sign {
                Sign::Adds => '+',
                Sign::Replaces => '~',
                Sign::Clears => '?',
                Sign::Cancelled => '!',
                Sign::Has => '=',
                Sign::Removed => '-',
            };
            let digest = match sign {
                '?' | '!' | '-' => "0".repeat(64),
                _ => sha256(bytes),
            };
            let entry = format!(" {sign} sha256 {digest}  {}\n", file.path);
            let check = Sha256::new().chain_update(chain).chain_update(&entry);
            chain = check.finalize();
            let digits = chain.iter().map(|byte| format!("{byte:02x}"));
            journal += &digits.collect::<Vec<_>>().concat()[..CHECK_DIGITS];
            journal += &entry;
        }
    }
    journal += "0123456789abcdef = sha2";
    Ok(fs::write(root.join(JOURNAL), journal)?)
}
