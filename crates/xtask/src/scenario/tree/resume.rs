//! A long file that an earlier run of `zc-dircopy --resume` has begun.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::LazyLock;

use anyhow::Context;
use sha2::{Digest, Sha256};

use super::{COPY, SOURCE};
use crate::scenario::{Observed, Scenario};
use crate::scenarios::{pattern, sha256};

/// The long file. It is mostly holes, so that it takes no time and no space.
const LONG: &str = "long";
const LEN: u64 = (64 << 20) + 5;
/// Where the long file has data, and how much.
const DATA: [(u64, usize); 4] = [
    (0, 4096),
    (20 << 20, 5000),
    (40 << 20, 300_000),
    ((64 << 20) - 4091, 4096),
];
/// The offsets of the digests that the earlier run has noted. The last one lies in the midst of
/// data.
const NOTED: [u64; 2] = [30 << 20, (40 << 20) + 100_001];
/// The number of bytes that are compared at a time.
const PIECE: usize = 1 << 20;
/// How many bytes the earlier run has copied.
const COPIED: u64 = (40 << 20) + 200_000;
const SHORT: &[u8] = b"short";
const PARTIAL: &str = ".zc-dircopy-partial0";
/// The log of what the earlier run has copied.
pub(crate) const LOG: &str = ".zc-dircopy-logfile0";

/// The bytes of the long file. A sweep makes thousands of these files, and digests this once.
static ORIGINAL: LazyLock<Original> = LazyLock::new(|| {
    let mut bytes = vec![0; LEN as usize];
    for (at, len) in DATA {
        bytes[at as usize..][..len].copy_from_slice(&pattern(len));
    }
    Original {
        digest: sha256(&bytes),
        noted: NOTED.map(|offset| sha256(&bytes[..offset as usize])),
        bytes,
    }
});

#[derive(Debug)]
struct Original {
    bytes: Vec<u8>,
    digest: String,
    /// The digests of the bytes before [`NOTED`].
    noted: [String; NOTED.len()],
}

/// Makes a source, and the copy that a killed run has left of it.
pub(crate) fn make_begun_copy(dir: &Path) -> anyhow::Result<()> {
    let (source, copy) = (dir.join(SOURCE), dir.join(COPY));
    fs::create_dir_all(&source)?;
    fs::create_dir_all(&copy)?;
    fs::write(source.join("short"), SHORT)?;
    let original = File::create(source.join(LONG))?;
    let partial = File::create(copy.join(PARTIAL))?;
    for (at, len) in DATA {
        original.write_all_at(&pattern(len), at)?;
        let n_copied = COPIED.saturating_sub(at).min(len as u64);
        partial.write_all_at(&pattern(len)[..usize::try_from(n_copied)?], at.min(COPIED))?;
    }
    original.set_len(LEN)?;
    partial.set_len(COPIED)?;
    partial.set_permissions(fs::Permissions::from_mode(0o600))?;
    let log = copy.join(LOG);
    fs::write(&log, log_of(&source.join(LONG))?)?;
    fs::set_permissions(&log, fs::Permissions::from_mode(0o600))?;
    Ok(())
}

/// The log of the earlier run.
fn log_of(original: &Path) -> anyhow::Result<String> {
    let mut log = "# zc-dircopy partial, version 1\n".to_owned();
    let stat = fs::metadata(original)?;
    let mut name = String::new();
    for byte in LONG.bytes() {
        write!(name, "{byte:02x}")?;
    }
    let mut lines = vec![format!(
        " f {PARTIAL} {} {} {}.{:09} {}.{:09} {name}\n",
        stat.len(),
        stat.ino(),
        stat.mtime(),
        stat.mtime_nsec(),
        stat.ctime(),
        stat.ctime_nsec()
    )];
    for (offset, digest) in NOTED.iter().zip(&ORIGINAL.noted) {
        lines.push(format!(" c {offset} sha256 {digest}\n"));
    }
    let mut chain = Sha256::digest(&log).to_vec();
    for line in lines {
        chain = Sha256::digest([&chain, line.as_bytes()].concat()).to_vec();
        for byte in &chain[..8] {
            write!(log, "{byte:02x}")?;
        }
        log += &line;
    }
    Ok(log)
}

/// Returns whether a file holds these bytes.
fn holds(path: &Path, expected: &[u8]) -> io::Result<bool> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() != expected.len() as u64 {
        return Ok(false);
    }
    let mut found = vec![0; PIECE];
    for piece in expected.chunks(PIECE) {
        file.read_exact(&mut found[..piece.len()])?;
        if found[..piece.len()] != *piece {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Checks the copy after a run that goes on with it, and after one more.
pub(crate) fn check_resumed(scenario: &Scenario, observed: &Observed) -> Vec<String> {
    mistakes(scenario, observed)
        .unwrap_or_else(|error| vec![format!("the copy cannot be checked: {error:#}")])
}

fn mistakes(scenario: &Scenario, observed: &Observed) -> anyhow::Result<Vec<String>> {
    let copy = observed.dir().join(COPY);
    let mut wrong = mistakes_of_copy(observed)?;
    if scenario.has_succeeded(observed) {
        wrong.extend(lacks(observed)?);
    }
    let next = observed.run_again(&scenario.args)?;
    if !next.status.success() {
        let said = String::from_utf8_lossy(&next.stderr);
        wrong.push(format!("one more run ends with {}: {said}", next.status));
    }
    let later = mistakes_of_copy(observed)?.into_iter();
    let later = later.chain(lacks(observed)?);
    wrong.extend(later.map(|text| format!("after one more run, {text}")));
    for entry in fs::read_dir(copy)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(".zc-dircopy-") {
            wrong.push(format!("after one more run, {name} is still there"));
        }
    }
    Ok(wrong)
}

/// What the copy lacks of a whole one.
fn lacks(observed: &Observed) -> anyhow::Result<Vec<String>> {
    let mut wrong = Vec::new();
    let lines = lines_of_manifests(&observed.dir().join(COPY))?;
    for name in [LONG, "short"] {
        if !observed.dir().join(COPY).join(name).exists() {
            wrong.push(format!("{name} is missing"));
        }
        if !lines.iter().any(|(_, listed)| listed == name) {
            wrong.push(format!("{name} has no line"));
        }
    }
    Ok(wrong)
}

/// Lists names that stand for other bytes than their originals', and wrong lines.
fn mistakes_of_copy(observed: &Observed) -> anyhow::Result<Vec<String>> {
    let copy = observed.dir().join(COPY);
    let mut wrong = Vec::new();
    let digest_of_short = sha256(SHORT);
    let originals = [
        (LONG, &ORIGINAL.bytes[..], &ORIGINAL.digest),
        ("short", SHORT, &digest_of_short),
    ];
    for (name, expected, digest) in originals {
        match holds(&copy.join(name), expected) {
            Ok(true) => {}
            Ok(false) => wrong.push(format!("{name} has other bytes than its original")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        for (found, listed) in lines_of_manifests(&copy)? {
            if listed == name && (found != *digest || !copy.join(name).exists()) {
                wrong.push(format!("the line of {name} is wrong"));
            }
        }
    }
    Ok(wrong)
}

/// The digests and paths in all manifests.
fn lines_of_manifests(copy: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(copy).context("the copy")? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with("shasum.") {
            continue;
        }
        for line in BufReader::new(File::open(entry.path())?).lines() {
            if let Some((digest, path)) = line?.split_once("  ") {
                lines.push((digest.to_owned(), path.to_owned()));
            }
        }
    }
    Ok(lines)
}
