//! The trees that `zc-dircopy` copies, and what must be true of a copy, whole or not.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use rustix::fs::{XattrFlags, setxattr};
use sha2::{Digest, Sha256};

use super::{Observed, Scenario};
use crate::scenarios::{pattern, text};

/// The tree that is copied, and its copy, in the program's directory.
const SOURCE: &str = "source";
const COPY: &str = "copy";
/// How the names of sum files begin.
const SUMS: &str = "shasum.";
/// The contents of files in a copy that is older than the source.
const OLD: &[u8] = b"what was there before\n";
/// An attribute of one file.
const ATTRIBUTE: &str = "user.zcopy";

/// Makes a tree with everything that `zc-dircopy` treats differently.
pub(crate) fn make_source(dir: &Path) -> anyhow::Result<()> {
    let source = dir.join(SOURCE);
    for sub in ["", "empty", "sub", "sub/deep"] {
        fs::create_dir(source.join(sub))?;
    }
    fs::write(source.join("large"), pattern(300_000))?;
    fs::write(source.join("nothing"), b"")?;
    fs::write(source.join("sub/text"), text(5_000))?;
    fs::write(source.join("sub/deep/secret"), pattern(20_000))?;
    fs::set_permissions(
        source.join("sub/deep/secret"),
        fs::Permissions::from_mode(0o600),
    )?;
    let mut sparse = File::create(source.join("sparse"))?;
    sparse.write_all(&pattern(4_096))?;
    sparse.seek(SeekFrom::Start(512 * 1024))?;
    sparse.write_all(&pattern(4_096))?;
    fs::hard_link(source.join("sub/text"), source.join("linked"))?;
    symlink("sub/text", source.join("symbolic"))?;
    // tmpfs has such attributes since Linux 6.6 alone.
    let _ = setxattr(
        source.join("large"),
        ATTRIBUTE,
        b"value",
        XattrFlags::empty(),
    );
    for (name, age) in [("large", 100), ("sub/text", 2_000), ("sub", 30_000)] {
        let time = SystemTime::now() - Duration::from_secs(age);
        File::open(source.join(name))?.set_modified(time)?;
    }
    Ok(())
}

/// Makes the tree, and an older copy of some of it.
pub(crate) fn make_source_and_old_copy(dir: &Path) -> anyhow::Result<()> {
    make_source(dir)?;
    let copy = dir.join(COPY);
    fs::create_dir(&copy)?;
    for name in ["large", "linked", "nothing"] {
        fs::write(copy.join(name), OLD)?;
        let time = SystemTime::now() - Duration::from_secs(1_000_000);
        File::options()
            .write(true)
            .open(copy.join(name))?
            .set_modified(time)?;
    }
    Ok(())
}

/// Makes a copy with the digests of its files.
pub(crate) fn make_summed_copy(dir: &Path) -> anyhow::Result<()> {
    make_source(dir)?;
    fs::rename(dir.join(SOURCE), dir.join(COPY))?;
    let mut sums = File::create(dir.join(COPY).join("shasum.2026-01-01.00.00.00.txt"))?;
    for name in names_below(&dir.join(COPY))? {
        let path = dir.join(COPY).join(&name);
        if path.symlink_metadata()?.is_file() && !is_sum_file(&name) {
            writeln!(sums, "{}  {}", digest(&fs::read(path)?), name.display())?;
        }
    }
    Ok(())
}

/// The same, with one file whose bytes have changed since.
pub(crate) fn make_damaged_copy(dir: &Path) -> anyhow::Result<()> {
    make_summed_copy(dir)?;
    Ok(fs::write(dir.join(COPY).join("sub/text"), text(4_999))?)
}

/// Checks a copy after a run that made digests.
pub(crate) fn check_copy_and_sums(scenario: &Scenario, observed: &Observed) -> Vec<String> {
    let mut wrong = check_copy(scenario, observed);
    match check_sums(observed) {
        Ok(found) => wrong.extend(found),
        Err(error) => wrong.push(format!("the copy cannot be checked: {error:#}")),
    }
    wrong
}

/// Checks a copy after a run: its files are the source's or as old as before, and after success
/// they are all there.
pub(crate) fn check_copy(_: &Scenario, observed: &Observed) -> Vec<String> {
    let mut wrong = Vec::new();
    if let Err(error) = compare(observed, &mut wrong) {
        wrong.push(format!("the copy cannot be checked: {error:#}"));
    }
    wrong
}

fn compare(observed: &Observed, wrong: &mut Vec<String>) -> anyhow::Result<()> {
    let is_success = observed.status.is_some_and(|status| status.success());
    let (source, copy) = (observed.dir().join(SOURCE), observed.dir().join(COPY));
    let originals = names_below(&source)?;
    for name in &originals {
        let (from, to) = (source.join(name), copy.join(name));
        let shown = name.display();
        let expected = from.symlink_metadata()?;
        let Ok(found) = to.symlink_metadata() else {
            if is_success {
                wrong.push(format!("{shown} was not copied, and the status is 0"));
            }
            continue;
        };
        if expected.file_type() != found.file_type() {
            wrong.push(format!("{shown} is of another type"));
            continue;
        }
        if expected.is_symlink() && fs::read_link(&from)? != fs::read_link(&to)? {
            wrong.push(format!("{shown} leads elsewhere"));
        }
        if expected.is_file() {
            let bytes = fs::read(&to)?;
            let is_old = bytes == OLD;
            if bytes != fs::read(&from)? && (is_success || !is_old) {
                wrong.push(format!("{shown} is neither the source's nor as it was"));
            }
        }
        if is_success && !expected.is_symlink() {
            let differs = [
                (
                    "mode",
                    u64::from(expected.mode()) != u64::from(found.mode()),
                ),
                ("time", expected.modified()? != found.modified()?),
            ];
            for (what, differs) in differs {
                if differs && !observed.stderr.contains(&shown.to_string()) {
                    wrong.push(format!("{shown} has another {what}, and nothing was said"));
                }
            }
        }
    }
    if copy.exists() {
        for name in names_below(&copy)? {
            if !originals.contains(&name) && !is_sum_file(&name) {
                let injected = if is_success {
                    ", and the status is 0"
                } else {
                    ""
                };
                wrong.push(format!("{} was left behind{injected}", name.display()));
            }
        }
    }
    Ok(())
}

/// Whether each line of each sum file is true, and after success each file has a line.
fn check_sums(observed: &Observed) -> anyhow::Result<Vec<String>> {
    let mut wrong = Vec::new();
    let copy = observed.dir().join(COPY);
    if !copy.exists() {
        return Ok(wrong);
    }
    let mut listed = BTreeMap::new();
    for name in names_below(&copy)?.iter().filter(|name| is_sum_file(name)) {
        for line in fs::read_to_string(copy.join(name))?.lines() {
            let (sum, file) = line.split_once("  ").context("a line without a name")?;
            listed.insert(PathBuf::from(file), sum.to_owned());
        }
    }
    for (name, sum) in &listed {
        match fs::read(copy.join(name)) {
            Ok(bytes) if digest(&bytes) == *sum => {}
            Ok(_) => wrong.push(format!("the digest of {} is false", name.display())),
            Err(error) => wrong.push(format!("{} is listed: {error}", name.display())),
        }
    }
    if observed.status.is_some_and(|status| status.success()) {
        let source = observed.dir().join(SOURCE);
        for name in names_below(&source)? {
            if source.join(&name).symlink_metadata()?.is_file() && !listed.contains_key(&name) {
                wrong.push(format!(
                    "{} is not listed, and the status is 0",
                    name.display()
                ));
            }
        }
    }
    Ok(wrong)
}

/// The paths of all that is below a directory, from there.
fn names_below(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    fn walk(dir: &Path, below: &Path, names: &mut Vec<PathBuf>) -> anyhow::Result<()> {
        for entry in fs::read_dir(dir.join(below))? {
            let entry = entry?;
            let name = below.join(entry.file_name());
            names.push(name.clone());
            if entry.file_type()?.is_dir() {
                walk(dir, &name, names)?;
            }
        }
        Ok(())
    }
    let mut names = Vec::new();
    walk(dir, Path::new(""), &mut names)?;
    names.sort();
    Ok(names)
}

fn is_sum_file(name: &Path) -> bool {
    let name = name.file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| name.starts_with(SUMS))
}

fn digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let digits = digest.iter().map(|byte| format!("{byte:02x}"));
    digits.collect::<Vec<_>>().concat()
}
