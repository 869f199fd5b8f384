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
use crate::dircopy::attributes;
use crate::dircopy::ground::{Covered, as_nobody, mode, names, open, scratch, stat};
use crate::dircopy::place::{Durability, Place, Replace, place_special, place_symlink};
use crate::skip::is_root;

/// A source that is there, and a destination that is not.
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

    /// Makes directories, of what ends in `/`, and files that hold their own path.
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

/// What a copy came to.
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

fn worded(trouble: &Trouble) -> String {
    let mut worded = trouble.to_string();
    let mut error: &dyn std::error::Error = trouble;
    while let Some(source) = error.source() {
        worded = format!("{worded}: {source}");
        error = source;
    }
    worded
}

/// The simplest copier there can be, which deals with everything at the very end, and in the wrong order.
fn copy(root: Root, options: Options) -> Copied {
    let mut copied = Copied::default();
    let troubles = &mut copied.troubles;
    let entries: Vec<Entry> = root
        .walk(options, |trouble| troubles.push(worded(&trouble)))
        .collect();
    copied.paths = entries.iter().map(Entry::path).collect();
    for entry in entries.into_iter().rev() {
        if let Err(error) = copy_entry(&entry) {
            copied
                .troubles
                .push(format!("{}: {error}", entry.path().display()));
        }
        if let Err(trouble) = entry.done() {
            copied.troubles.push(worded(&trouble));
        }
    }
    if let Err(trouble) = root.done() {
        copied.troubles.push(worded(&trouble));
    }
    copied
}

fn copy_entry(entry: &Entry) -> io::Result<()> {
    let (replace, durability) = (Replace::Yes, Durability::Cached);
    let (from, to) = (entry.source(), entry.destination());
    match entry.kind() {
        FileType::RegularFile => {
            let (mut file, stat) = entry.open()?;
            let place = Place::new(entry.directory().destination().clone())?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            place.file().write_all(&bytes)?;
            attributes::apply(&file, &place, &stat).map_err(io::Error::other)?;
            place.commit(entry.name(), replace, durability)?;
        }
        FileType::Symlink => {
            let placed = place_symlink(from, entry.stat(), to, replace, durability)?;
            placed.attributes.map_err(io::Error::other)?;
        }
        _ => {
            let placed = place_special(from, entry.stat(), to, replace, durability)?;
            placed.attributes.map_err(io::Error::other)?;
        }
    }
    Ok(())
}

/// What there is beneath a directory, with everything that a copy keeps, as `find` tells.
fn found(directory: &Path) -> Vec<String> {
    let format = "%P %y %m %U %G %T@ %s %l\\0";
    let output = Command::new("find")
        .arg(directory)
        .args(["-printf", format])
        .output();
    let output = output.unwrap().stdout;
    let is_directory = |line: &&[u8]| line.windows(3).any(|word| word == b" d ");
    // How large a directory is says nothing.
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
    let mut walk = root.walk(Options::new(), |trouble| panic!("{trouble}"));
    let (a, b) = (walk.next().unwrap(), walk.next().unwrap());
    b.done().unwrap();
    assert_eq!(mode(&pair.destination("d")), "700");
    assert!(walk.next().is_none());
    assert_eq!(mode(&pair.destination("d")), "700");
    a.done().unwrap();
    assert_eq!(mode(&pair.destination("d")), "755");
    assert_eq!(stat(&pair.destination("d")).st_mtime, 1_000_000_000);
    // The root waits for whoever opened it.
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
fn what_may_not_be_read_is_told_and_passed_over() {
    let pair = Pair::new();
    pair.grow(["a", "closed/x", "named/y", "z"]);
    fs::set_permissions(pair.source("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    // Its names may be read, but nothing about them.
    fs::set_permissions(pair.source("named"), fs::Permissions::from_mode(0o744)).unwrap();
    let Some(copied) = as_nobody(|| pair.copy(Options::new())) else {
        return;
    };
    let paths_seen = copied.complains([
        "closed: cannot open directory: Permission denied (os error 13)",
        "named/y: cannot stat: Permission denied (os error 13)",
    ]);
    assert_eq!(paths_seen, paths(["a", "z"]));
    assert_eq!(names(&pair.destination("")), ["a", "named", "z"]);
}

#[test]
fn a_link_in_place_of_a_destination_directory_is_in_the_way() {
    let pair = Pair::new();
    pair.grow(["a/file", "b/file", "c/file"]);
    let elsewhere = pair.scratch.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::create_dir(pair.destination("")).unwrap();
    symlink(&elsewhere, pair.destination("a")).unwrap();
    fs::write(pair.destination("b"), "in the way").unwrap();
    let seen = pair.copy(Options::new()).complains([
        "a: cannot use destination directory: Not a directory (os error 20)",
        "b: cannot use destination directory: Not a directory (os error 20)",
    ]);
    assert_eq!(seen, paths(["c/file"]));
    assert_eq!(names(&elsewhere), [""; 0]);
    assert_eq!(fs::read(pair.destination("b")).unwrap(), b"in the way");
}

#[test]
fn a_link_that_is_swapped_in_during_the_run_leads_nowhere() {
    let pair = Pair::new();
    pair.grow(["a", "b/secret", "c/file", "d/file"]);
    let elsewhere = pair.scratch.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("file"), "elsewhere").unwrap();
    let root = pair.root();
    let mut walk = root.walk(Options::new(), |trouble| panic!("{trouble}"));
    let a = walk.next().unwrap();
    // The names have been read: this one as a directory's.
    fs::rename(pair.source("b"), pair.scratch.path().join("old b")).unwrap();
    symlink(&elsewhere, pair.source("b")).unwrap();
    let b = walk.next().unwrap();
    assert_eq!((b.path(), b.kind()), ("b".into(), FileType::Symlink));
    // A file that has become a link since it was looked at.
    let c = walk.next().unwrap();
    fs::remove_file(pair.source("c/file")).unwrap();
    symlink(elsewhere.join("file"), pair.source("c/file")).unwrap();
    assert_eq!(c.open().unwrap_err().raw_os_error(), Some(libc::ELOOP));
    // A destination directory that is one by the time its file comes.
    fs::rename(pair.destination("c"), pair.scratch.path().join("moved")).unwrap();
    symlink(&elsewhere, pair.destination("c")).unwrap();
    let place = Place::new(c.directory().destination().clone()).unwrap();
    place
        .commit(c"new", Replace::Yes, Durability::Cached)
        .unwrap();
    assert_eq!(names(&pair.scratch.path().join("moved")), ["new"]);
    assert_eq!(names(&elsewhere), ["file"]);
    let d = walk.next().unwrap();
    for entry in [a, b, c, d] {
        entry.done().unwrap();
    }
    assert!(walk.next().is_none());
}

#[test]
fn between_the_look_and_the_opening_there_is_no_way_in_either() {
    let pair = Pair::new();
    pair.grow(["real/file"]);
    symlink("real", pair.source("link")).unwrap();
    let root = pair.root();
    // Had it been a directory when it was looked at, this would be the next call.
    let opened = walk::open(root.directory(), c"link", entry::Way::Direct);
    assert_eq!(opened.unwrap_err(), Errno::NOTDIR);
    assert!(walk::open(root.directory(), c"link", entry::Way::Link).is_ok());
    symlink("/", pair.destination("link")).unwrap();
    let made = destination::make(root.directory().destination().as_fd(), c"link");
    assert_eq!(made.unwrap_err(), Errno::NOTDIR);
    let opened = root.open_destination("link/tmp".as_ref());
    assert_eq!(opened.unwrap_err().raw_os_error(), Some(libc::ENOTDIR));
    let opened = root.open_destination("../source".as_ref());
    assert_eq!(opened.unwrap_err().raw_os_error(), Some(libc::EINVAL));
}

#[test]
fn a_fifo_that_is_swapped_in_is_not_waited_for() {
    let pair = Pair::new();
    pair.grow(["file"]);
    let root = pair.root();
    let entry = root
        .walk(Options::new(), |trouble| panic!("{trouble}"))
        .next()
        .unwrap();
    fs::remove_file(pair.source("file")).unwrap();
    rustix::fs::mkfifoat(CWD, pair.source("file"), Mode::RUSR).unwrap();
    assert_eq!(entry.open().unwrap_err().raw_os_error(), Some(libc::EINVAL));
    entry.done().unwrap();
}

#[test]
fn what_vanishes_is_told_and_passed_over() {
    let pair = Pair::new();
    pair.grow(["a", "b", "c/x", "d"]);
    let root = pair.root();
    let mut vanished = Vec::new();
    let mut walk = root.walk(Options::new(), |trouble| {
        assert!(trouble.is_vanished());
        vanished.push(trouble.path().to_owned());
    });
    let first = walk.next().unwrap();
    assert_eq!(first.path(), Path::new("a"));
    fs::remove_file(pair.source("b")).unwrap();
    fs::remove_dir_all(pair.source("c")).unwrap();
    let rest: Vec<PathBuf> = walk.map(|entry| entry.path()).collect();
    assert_eq!(rest, paths(["d"]));
    assert_eq!(vanished, paths(["b", "c"]));
}

#[test]
fn links_are_followed_if_asked_and_loops_are_told() {
    let pair = Pair::new();
    pair.grow(["d/e/file", "real/x"]);
    symlink("..", pair.source("d/e/up")).unwrap();
    symlink("self", pair.source("self")).unwrap();
    symlink(".", pair.source("here")).unwrap();
    symlink("absent", pair.source("dangling")).unwrap();
    symlink("real", pair.source("alias")).unwrap();
    symlink("real/x", pair.source("alias.txt")).unwrap();
    let copied = pair.copy(Options::new().follow_symlinks(true));
    let seen = copied.complains([
        "d/e/up: file system loop detected",
        "dangling: cannot stat: No such file or directory (os error 2)",
        "here: file system loop detected",
        "self: cannot stat: Too many levels of symbolic links (os error 40)",
    ]);
    // A link to a directory stands where a directory does.
    assert_eq!(seen, paths(["alias.txt", "alias/x", "d/e/file", "real/x"]));
    let content = pair.source("real/x").into_os_string().into_vec();
    assert_eq!(fs::read(pair.destination("alias.txt")).unwrap(), content);
    assert!(stat(&pair.destination("alias/x")).st_mode & 0o170_000 == 0o100_000);
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
fn a_destination_that_is_met_in_the_source_is_not_entered() {
    let pair = Pair::new();
    pair.grow(["a", "sub/x"]);
    let mount = pair.scratch.path().join("mount");
    fs::create_dir(&mount).unwrap();
    let Some(_bound) = Covered::bind(&mount, &pair.source("sub")) else {
        return;
    };
    // Nothing on the way up from here is the source.
    let root = Root::open(&pair.source(""), &mount.join("copy")).unwrap();
    let copied = copy(root, Options::new());
    let seen = copied.complains(["sub/copy: cannot copy the destination into itself"]);
    assert_eq!(seen, paths(["a", "sub/x"]));
    assert_eq!(names(&pair.source("sub/copy/sub")), ["x"]);
}

#[test]
fn a_link_to_what_is_being_filled_is_not_followed_for_ever() {
    let pair = Pair::new();
    pair.grow(["sub/x"]);
    fs::create_dir_all(pair.destination("sub")).unwrap();
    symlink(pair.destination("sub"), pair.source("sub/link")).unwrap();
    symlink(pair.destination(""), pair.source("sub/root")).unwrap();
    let seen = pair.copy(Options::new().follow_symlinks(true)).complains([
        "sub/link: cannot copy the destination into itself",
        "sub/root: cannot copy the destination into itself",
    ]);
    assert_eq!(seen, paths(["sub/x"]));
}

#[test]
fn a_destination_in_the_source_is_refused_before_it_is_made() {
    let pair = Pair::new();
    let error = Root::open(&pair.source(""), &pair.source("new")).unwrap_err();
    assert!(worded(&error).ends_with(": the destination is inside the source"));
    assert_eq!(names(&pair.source("")), [""; 0]);
    let error = Root::open(&pair.source("absent"), &pair.destination("")).unwrap_err();
    assert!(error.is_vanished());
    assert!(!pair.destination("").exists());
}

#[test]
fn a_tree_may_be_deeper_than_a_path_is_long() {
    const DEPTH: usize = 3000;
    // Thousands of directories take their time on a disk.
    let pair = Pair::within(tempfile::tempdir_in("/dev/shm").unwrap());
    let mut at = open(&pair.source(""));
    for _ in 0..DEPTH {
        rustix::fs::mkdirat(&at, c"dir", Mode::RWXU).unwrap();
        at = reopen(at.as_fd(), c"dir").unwrap();
    }
    rustix::fs::mknodat(&at, c"file", FileType::RegularFile, Mode::RUSR, 0).unwrap();
    let root = pair.root();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    if limit.is_some_and(|limit| limit < 2 * DEPTH as u64 + 100) {
        return crate::skip::skip("too few descriptors for a deep tree");
    }
    let copied = copy(root, Options::new());
    let seen = copied.succeeds();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].as_os_str().len(), 4 * DEPTH + 4);
    let root = pair.root();
    let directory = root.open_destination(seen[0].parent().unwrap()).unwrap();
    assert!(rustix::fs::statat(&directory, c"file", AtFlags::SYMLINK_NOFOLLOW).is_ok());
    // Nothing of Rust's removes it: it opens all of them, or names them.
    let removed = Command::new("rm")
        .arg("-rf")
        .arg(pair.scratch.path())
        .status();
    assert!(removed.unwrap().success());
}

#[test]
fn the_dead_are_buried_where_the_walk_comes_by() {
    let pair = Pair::new();
    pair.grow(["d/file"]);
    fs::create_dir_all(pair.destination("d")).unwrap();
    fs::write(pair.destination(".zc-dircopy-aA0bB1cC"), "").unwrap();
    fs::write(pair.destination("d/.zc-dircopy-aA0bB1cC"), "").unwrap();
    fs::write(pair.destination("d/other"), "").unwrap();
    pair.copy(Options::new()).succeeds();
    assert_eq!(names(&pair.destination("")), ["d"]);
    assert_eq!(names(&pair.destination("d")), ["file", "other"]);
}

#[test]
fn names_take_little_more_than_their_letters() {
    let scratch = scratch();
    let n = 300;
    for number in 0..n {
        fs::write(scratch.path().join(format!("{number:020}")), "").unwrap();
    }
    let (mut names, read) = names::Names::read(open(scratch.path()).as_fd(), |_, kind| {
        kind == FileType::Directory
    });
    read.unwrap();
    // A zero byte and four for its place.
    assert_eq!(names.bytes(), n * (20 + 1 + 4));
    let sorted = (0..n).map(|number| CString::new(format!("{number:020}")).unwrap());
    assert!(names.by_ref().eq(sorted));
}

#[test]
fn hard_links_are_found_again_by_their_paths() {
    let pair = Pair::new();
    pair.grow(["a/first", "b/"]);
    fs::hard_link(pair.source("a/first"), pair.source("b/second")).unwrap();
    let root = pair.root();
    let mut first: Option<PathBuf> = None;
    for entry in root.walk(Options::new(), |trouble| panic!("{trouble}")) {
        assert_eq!(entry.stat().st_nlink, 2);
        if let Some(first) = &first {
            let directory = root.open_destination(first.parent().unwrap()).unwrap();
            let existing = attributes::Named {
                directory: directory.as_fd(),
                name: c"first",
            };
            let (replace, durability) = (Replace::Yes, Durability::Cached);
            crate::dircopy::place::place_link(existing, entry.destination(), replace, durability)
                .unwrap();
            assert!(entry.existing().unwrap().is_some());
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
