//! Trees that change, forbid, loop, or lead elsewhere.

use super::*;

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
    let mut walk = root.walk(Options::new(), |error| panic!("{error}"));
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
    let new_file = AtomicFile::new(c.destination_directory().clone()).unwrap();
    new_file
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
    let opened = walker::open(root.source(), c"link", follow_link::FollowLink::No);
    assert_eq!(opened.unwrap_err(), Errno::NOTDIR);
    assert!(walker::open(root.source(), c"link", follow_link::FollowLink::Yes).is_ok());
    symlink("/", pair.destination("link")).unwrap();
    let parent = root.destination().as_fd();
    let origin = destination::create(parent, c"link").unwrap();
    let made = destination::open(parent, c"link", origin);
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
        .walk(Options::new(), |error| panic!("{error}"))
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
    let mut walk = root.walk(Options::new(), |error| {
        assert!(worded(&error).ends_with(": cannot stat: No such file or directory (os error 2)"));
        vanished.push(error.path().to_owned());
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
    assert!(
        worded(&error).ends_with(": cannot open directory: No such file or directory (os error 2)")
    );
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
