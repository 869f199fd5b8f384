use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::Command;

use rustix::fs::{AtFlags, CWD, FileType, Timespec, Timestamps};
use tempfile::TempDir;

use super::*;
use crate::dircopy::test_support::{Covered, as_nobody, mode, names, open, scratch, stat};
use crate::dircopy::write::atomic_file::{
    AtomicFile, Durability, Replace, SpecialFile, place_other,
};
use crate::dircopy::write::metadata::{self, Preserve, Replaces};
use crate::skip::is_root;

/// A source that exists, and a destination that does not.
struct Pair {
    scratch: TempDir,
}

impl Pair {
    fn new() -> Self {
        Self::within(scratch())
    }

    fn within(scratch: TempDir) -> Self {
        let pair = Self { scratch };
        fs::create_dir(pair.source("")).unwrap();
        pair
    }

    fn source(&self, path: impl AsRef<Path>) -> PathBuf {
        self.scratch.path().join("source").join(path)
    }

    fn destination(&self, path: impl AsRef<Path>) -> PathBuf {
        self.scratch.path().join("destination").join(path)
    }

    /// Makes a directory for each path that ends in `/`, and a file with its own path as contents
    /// for each other one.
    fn grow<P: AsRef<OsStr>>(&self, paths: impl IntoIterator<Item = P>) {
        for path in paths {
            let path = self.source(path.as_ref());
            if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
                fs::create_dir_all(path).unwrap();
            } else {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, path.as_os_str().as_encoded_bytes()).unwrap();
            }
        }
    }

    fn root(&self) -> Root {
        Root::open(&self.source(""), &self.destination("")).unwrap()
    }

    fn copy(&self, options: Options) -> Copied {
        copy(self.root(), options)
    }
}

/// The result of a copy.
#[derive(Debug, Default)]
struct Copied {
    /// Every entry, in order.
    paths: Vec<PathBuf>,
    /// Every complaint.
    troubles: Vec<String>,
}

impl Copied {
    #[track_caller]
    fn succeeds(self) -> Vec<PathBuf> {
        assert_eq!(self.troubles, [""; 0]);
        self.paths
    }

    #[track_caller]
    fn complains<const N: usize>(self, troubles: [&str; N]) -> Vec<PathBuf> {
        assert_eq!(self.troubles, troubles);
        self.paths
    }
}

fn worded(error: &WalkError) -> String {
    let mut worded = error.to_string();
    let mut error: &dyn std::error::Error = error;
    while let Some(source) = error.source() {
        worded = format!("{worded}: {source}");
        error = source;
    }
    worded
}

/// A simple copier, which copies all entries after the walk, in reverse order.
fn copy(root: Root, options: Options) -> Copied {
    let mut copied = Copied::default();
    let troubles = &mut copied.troubles;
    let entries: Vec<Entry> = root
        .walk(options, |error| troubles.push(worded(&error)))
        .collect();
    copied.paths = entries.iter().map(Entry::path).collect();
    for entry in entries.into_iter().rev() {
        if let Err(error) = copy_entry(&entry) {
            copied
                .troubles
                .push(format!("{}: {error}", entry.path().display()));
        }
        if let Err(error) = entry.done() {
            copied.troubles.push(worded(&error));
        }
    }
    if let Err(error) = root.done() {
        copied.troubles.push(worded(&error));
    }
    copied
}

fn copy_entry(entry: &Entry) -> io::Result<()> {
    let (replace, durability) = (Replace::Yes, Durability::Cached);
    let (from, to) = (entry.source(), entry.destination());
    if entry.kind() == FileType::RegularFile {
        let (mut file, stat) = entry.open()?;
        let new_file = AtomicFile::new(entry.destination_directory().clone())?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        new_file.file().write_all(&bytes)?;
        let replaces = Replaces::Mode(Mode::empty());
        metadata::apply(&file, &new_file, &stat, Preserve::ALL, replaces)
            .map_err(io::Error::other)?;
        new_file.commit(entry.name(), replace, durability)?;
    } else {
        let other = SpecialFile::read(from, entry.stat())?;
        let placed = place_other(&other, to, replace, durability)?;
        placed.attributes.map_err(io::Error::other)?;
    }
    Ok(())
}

/// All entries beneath a directory with the attributes that a copy keeps, as `find` prints them.
fn found(directory: &Path) -> Vec<String> {
    let format = "%P %y %m %U %G %T@ %s %l\\0";
    let output = Command::new("find")
        .arg(directory)
        .args(["-printf", format])
        .output();
    let output = output.unwrap().stdout;
    let is_directory = |line: &&[u8]| line.windows(3).any(|word| word == b" d ");
    // The size of a directory means nothing.
    let lines = output.split(|byte| *byte == 0).map(|line| {
        let shown = String::from_utf8_lossy(line).into_owned();
        // Before its size, and the target that it has not.
        let kept = shown.rsplitn(3, ' ').last().unwrap_or_default();
        if is_directory(&line) {
            kept.to_owned()
        } else {
            shown
        }
    });
    let mut lines: Vec<_> = lines.collect();
    lines.sort();
    lines
}

fn date(path: &Path, seconds: i64) {
    let time = Timespec {
        tv_sec: seconds,
        tv_nsec: 123_456_789,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn paths<const N: usize>(paths: [&str; N]) -> Vec<PathBuf> {
    paths.map(PathBuf::from).to_vec()
}

mod closed;
mod hostile;

#[test]
fn paths_come_in_the_order_of_their_bytes() {
    let pair = Pair::new();
    pair.grow([
        "a/b", "a.txt", "a-b/c", "a0", "ab/", "a/z/y", "a/z.", "a/z0", "B", "\u{e9}/x", "a\n/b",
        "a\u{1}",
    ]);
    let paths = pair.copy(Options::new()).succeeds();
    let sorted = Command::new("sh")
        .args(["-c", "find . ! -type d -printf '%P\\0' | LC_ALL=C sort -z"])
        .current_dir(pair.source(""))
        .output()
        .unwrap();
    let expected = sorted.stdout.split_terminator_zero();
    assert_eq!(paths, expected);
    assert_eq!(paths.len(), 11);
}

/// Names with a zero byte behind each.
trait SplitTerminatorZero {
    fn split_terminator_zero(&self) -> Vec<PathBuf>;
}

impl SplitTerminatorZero for Vec<u8> {
    fn split_terminator_zero(&self) -> Vec<PathBuf> {
        self.split_inclusive(|byte| *byte == 0)
            .map(|name| OsString::from_vec(name[..name.len() - 1].to_vec()).into())
            .collect()
    }
}

#[test]
fn any_name_will_do() {
    let pair = Pair::new();
    let longest = vec![b'l'; 255];
    for name in [
        &b"new\nline"[..],
        b"back\\slash",
        b"\xff\xfe",
        b" ",
        b"-rf",
        b"*",
        b"...",
        b"\x01",
        &longest,
    ] {
        let name = OsString::from_vec(name.to_vec());
        pair.grow([name.clone()]);
        let mut within = OsString::from("d");
        within.push(&name);
        within.push("/");
        if within.len() <= 256 {
            within.push(&name);
            pair.grow([within]);
        }
    }
    assert_eq!(pair.copy(Options::new()).succeeds().len(), 17);
    assert_eq!(found(&pair.destination("")), found(&pair.source("")));
}

#[test]
fn a_tree_keeps_everything_and_directories_their_times_after_they_were_filled() {
    let pair = Pair::new();
    pair.grow(["d/e/file", "d/empty/", "sticky/", "setgid/x", "setuid"]);
    symlink("d/e", pair.source("link")).unwrap();
    symlink("absent", pair.source("d/dangling")).unwrap();
    rustix::fs::mkfifoat(CWD, pair.source("d/fifo"), Mode::RUSR).unwrap();
    for (path, mode) in [
        ("sticky", 0o1777),
        ("setgid", 0o2755),
        ("setuid", 0o4711),
        ("d/e", 0o500),
        ("d/e/file", 0o400),
    ] {
        fs::set_permissions(pair.source(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    if is_root() {
        std::os::unix::fs::chown(pair.source("d/e"), Some(1), Some(2)).unwrap();
        std::os::unix::fs::lchown(pair.source("link"), Some(3), Some(4)).unwrap();
    }
    let all = [
        "d/e/file",
        "d/e",
        "d/dangling",
        "d/fifo",
        "d/empty",
        "d",
        "setgid/x",
        "setgid",
        "sticky",
        "setuid",
        "link",
        "",
    ];
    for (seconds, path) in (1_000_000_000..).zip(all) {
        date(&pair.source(path), seconds);
    }
    // The second time every directory is there, and has been made what it was.
    for _ in 0..2 {
        pair.copy(Options::new()).succeeds();
        assert_eq!(found(&pair.destination("")), found(&pair.source("")));
    }
}

#[test]
fn a_directory_has_its_attributes_with_its_last_entry_and_not_before() {
    let pair = Pair::new();
    pair.grow(["d/a", "d/b"]);
    fs::set_permissions(pair.source("d"), fs::Permissions::from_mode(0o755)).unwrap();
    date(&pair.source("d"), 1_000_000_000);
    let root = pair.root();
    let mut walk = root.walk(Options::new(), |error| panic!("{error}"));
    let (a, b) = (walk.next().unwrap(), walk.next().unwrap());
    b.done().unwrap();
    assert_eq!(mode(&pair.destination("d")), "700");
    assert!(walk.next().is_none());
    assert_eq!(mode(&pair.destination("d")), "700");
    a.done().unwrap();
    assert_eq!(mode(&pair.destination("d")), "755");
    assert_eq!(stat(&pair.destination("d")).st_mtime, 1_000_000_000);
    // The root waits for `Root::done`.
    assert_eq!(mode(&pair.destination("")), "700");
    root.done().unwrap();
    assert_eq!(mode(&pair.destination("")), mode(&pair.source("")));
}

#[test]
fn read_only_directories_are_filled_by_whoever_is_not_root() {
    let pair = Pair::new();
    let copied = as_nobody(|| {
        let source = pair.scratch.path().join("own");
        fs::create_dir_all(source.join("d/e")).unwrap();
        fs::write(source.join("d/e/file"), "x").unwrap();
        for path in ["d/e/file", "d/e", "d", ""] {
            let mode = if path == "d/e/file" { 0o444 } else { 0o555 };
            fs::set_permissions(source.join(path), fs::Permissions::from_mode(mode)).unwrap();
        }
        // One that may not even be read by now.
        let destination = pair.destination("");
        fs::create_dir_all(destination.join("d")).unwrap();
        fs::set_permissions(destination.join("d"), fs::Permissions::from_mode(0o000)).unwrap();
        let mut expected = found(&source);
        let copied = [(); 2]
            .map(|()| copy(Root::open(&source, &destination).unwrap(), Options::new()).succeeds());
        assert_eq!(found(&destination), std::mem::take(&mut expected));
        // So that it can be removed.
        for path in ["", "d", "d/e"] {
            for tree in [&source, &destination] {
                fs::set_permissions(tree.join(path), fs::Permissions::from_mode(0o777)).unwrap();
            }
        }
        copied
    });
    let Some(copied) = copied else { return };
    assert_eq!(copied, [paths(["d/e/file"]), paths(["d/e/file"])]);
}

#[test]
fn what_is_excluded_is_neither_made_nor_entered() {
    let pair = Pair::new();
    pair.grow([
        "keep.c",
        "drop.o",
        "sub/drop.o",
        "target/x",
        "sub/target/x",
        "sub/target.c",
        "build",
        "lib/build/x",
        "doc/a.html",
        "doc/en/b.html",
        "doc/en/b.txt",
        "top/x",
        "sub/top/x",
        "sub/new\n.o",
    ]);
    let exclude = Exclude::new(["*.o", "target/", "build/", "/top", "doc/**/*.html"]).unwrap();
    let seen = pair.copy(Options::new().exclude(exclude)).succeeds();
    let expected = [
        "build",
        "doc/en/b.txt",
        "keep.c",
        "sub/target.c",
        "sub/top/x",
    ];
    assert_eq!(seen, paths(expected));
    assert_eq!(
        names(&pair.destination("")),
        ["build", "doc", "keep.c", "lib", "sub"]
    );
    // One star does not reach over a slash.
    let exclude = Exclude::new(["doc/*.html", "\u{3f}uild"]).unwrap();
    let seen = Pair::copy(&pair, Options::new().exclude(exclude)).succeeds();
    assert!(seen.contains(&"doc/en/b.html".into()) && !seen.contains(&"doc/a.html".into()));
    assert!(!seen.contains(&"build".into()));
}

#[test]
fn another_file_system_is_not_entered_if_asked() {
    let pair = Pair::new();
    pair.grow(["a", "mount/", "z"]);
    let tmpfs = ["-t", "tmpfs", "none"].map(OsStr::new);
    let Some(_mounted) = Covered::new(&pair.source("mount"), &tmpfs) else {
        return;
    };
    pair.grow(["mount/x"]);
    let [without, with] = [true, false].map(|one| pair.copy(Options::new().one_file_system(one)));
    assert_eq!(without.succeeds(), paths(["a", "z"]));
    assert_eq!(with.succeeds(), paths(["a", "mount/x", "z"]));
}

#[test]
fn names_take_little_more_than_their_letters() {
    let scratch = scratch();
    let n = 300;
    for number in 0..n {
        fs::write(scratch.path().join(format!("{number:020}")), "").unwrap();
    }
    let directory = open(scratch.path());
    let mut spill = names::Spill::default();
    let (mut names, read) = names::Names::read(directory.as_fd(), &mut spill, |_, kind| {
        kind == FileType::Directory
    });
    read.unwrap();
    // A zero byte and four for its place.
    assert_eq!(names.reserved(), n * (20 + 1 + 4));
    let sorted = (0..n).map(|number| CString::new(format!("{number:020}")).unwrap());
    assert!(std::iter::from_fn(|| names.next().unwrap()).eq(sorted));
}

#[test]
fn hard_links_are_found_again_by_their_paths() {
    let pair = Pair::new();
    pair.grow(["a/first", "b/"]);
    fs::hard_link(pair.source("a/first"), pair.source("b/second")).unwrap();
    let root = pair.root();
    let mut first: Option<PathBuf> = None;
    for entry in root.walk(Options::new(), |error| panic!("{error}")) {
        assert_eq!(entry.stat().st_nlink, 2);
        if let Some(first) = &first {
            let directory = root.open_destination(first.parent().unwrap()).unwrap();
            let existing = metadata::Named {
                directory: directory.as_fd(),
                name: c"first",
            };
            let (replace, durability) = (Replace::Yes, Durability::Cached);
            crate::dircopy::write::atomic_file::place_link(
                existing,
                entry.destination(),
                replace,
                durability,
            )
            .unwrap();
        } else {
            assert!(entry.existing().unwrap().is_none());
            copy_entry(&entry).unwrap();
            first = Some(entry.path());
        }
        entry.done().unwrap();
    }
    let [a, b] = ["a/first", "b/second"].map(|path| fs::metadata(pair.destination(path)).unwrap());
    assert_eq!((a.ino(), a.nlink()), (b.ino(), 2));
}
