//! Directories that are closed to spare descriptors, and opened again.

use super::*;

/// One level stays open.
fn few() -> Options {
    Options::new().most_open(1)
}

/// The next entry, whose path is this. It is done at once.
#[track_caller]
fn next_is<R: FnMut(WalkError)>(walk: &mut Walk<'_, R>, path: &str) {
    let entry = walk.next().unwrap();
    assert_eq!(entry.path(), Path::new(path));
    entry.done().unwrap();
}

/// Something is moved after `a/b/c/1` was given. Returns what is given after that, and what is
/// complained of.
fn moved_at_the_bottom(pair: &Pair, options: Options, move_it: impl FnOnce()) -> Copied {
    pair.grow(["a/b/c/1", "a/b/z", "a/z", "z"]);
    let root = pair.root();
    let mut copied = Copied::default();
    let troubles = &mut copied.troubles;
    let mut walk = root.walk(options, |error| troubles.push(worded(&error)));
    next_is(&mut walk, "a/b/c/1");
    move_it();
    for entry in walk {
        copied.paths.push(entry.path());
        copy_entry(&entry).unwrap();
        entry.done().unwrap();
    }
    root.done().unwrap();
    copied
}

#[test]
fn a_tree_is_copied_with_any_number_of_levels_open() {
    for most_open in 1..5 {
        for follows in [false, true] {
            let pair = Pair::new();
            pair.grow([
                "a/b/c/d/1",
                "a/b/c/e/2",
                "a/b/3",
                "a/f/4",
                "g/h/i/j/k/",
                "z",
            ]);
            symlink("../f", pair.source("a/b/link")).unwrap();
            let paths_of_times = ["", "a", "a/b", "a/b/c", "a/b/c/d", "a/f", "g/h/i/j"];
            for (seconds, path) in (1..).zip(paths_of_times) {
                let time = std::time::SystemTime::UNIX_EPOCH
                    + std::time::Duration::from_secs(1_000_000 * seconds);
                fs::File::open(pair.source(path))
                    .unwrap()
                    .set_modified(time)
                    .unwrap();
            }
            let options = || Options::new().follow_symlinks(follows);
            let seen = pair.copy(options().most_open(most_open)).succeeds();
            let other = Pair::new();
            fs::remove_dir(other.source("")).unwrap();
            fs::rename(pair.source(""), other.source("")).unwrap();
            assert_eq!(seen, other.copy(options()).succeeds());
            for path in paths_of_times {
                let [here, there] = [&pair, &other].map(|pair| stat(&pair.destination(path)));
                assert_eq!(here.st_mtime, there.st_mtime, "{path}");
                assert_eq!(here.st_mode, there.st_mode, "{path}");
            }
        }
    }
}

#[test]
fn few_descriptors_are_open_at_once() {
    let pair = Pair::new();
    let path = "d/".repeat(100);
    pair.grow([format!("{path}file"), "e/file".to_owned()]);
    let root = pair.root();
    let n_before = n_open_in(pair.scratch.path());
    for entry in root.walk(few(), |error| panic!("{error}")) {
        assert_eq!(n_open_in(pair.scratch.path()), n_before + 2);
        entry.done().unwrap();
    }
    root.done().unwrap();
    assert_eq!(n_open_in(pair.scratch.path()), n_before - 2);
}

/// The number of descriptors of files beneath a directory.
fn n_open_in(directory: &Path) -> usize {
    let open = fs::read_dir("/proc/self/fd").unwrap();
    let open = open.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    open.filter(|path| path.starts_with(directory)).count()
}

#[test]
fn a_directory_that_takes_its_children_along_is_found_again() {
    let pair = Pair::new();
    let elsewhere = pair.scratch.path().join("elsewhere");
    let copied = moved_at_the_bottom(&pair, few(), || {
        fs::rename(pair.source("a/b"), &elsewhere).unwrap();
    });
    // As if it had stayed open.
    assert_eq!(copied.succeeds(), paths(["a/b/z", "a/z", "z"]));
}

#[test]
fn a_directory_whose_child_was_moved_is_found_by_its_names() {
    let pair = Pair::new();
    let elsewhere = pair.scratch.path().join("elsewhere");
    let copied = moved_at_the_bottom(&pair, few(), || {
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("z"), "secret").unwrap();
        fs::rename(pair.source("a/b/c"), elsewhere.join("c")).unwrap();
        let copies = pair.scratch.path().join("copies");
        fs::create_dir(&copies).unwrap();
        fs::rename(pair.destination("a/b/c"), copies.join("c")).unwrap();
    });
    assert_eq!(copied.succeeds(), paths(["a/b/z", "a/z", "z"]));
    assert_ne!(fs::read(pair.destination("a/b/z")).unwrap(), b"secret");
}

#[test]
fn a_source_directory_that_was_replaced_is_told_and_what_is_left_of_it_passed_over() {
    let pair = Pair::new();
    let elsewhere = pair.scratch.path().join("elsewhere");
    let copied = moved_at_the_bottom(&pair, few(), || {
        fs::create_dir(&elsewhere).unwrap();
        fs::rename(pair.source("a/b/c"), elsewhere.join("c")).unwrap();
        fs::rename(pair.source("a/b"), elsewhere.join("b")).unwrap();
        pair.grow(["a/b/z"]);
        fs::write(pair.source("a/b/z"), "secret").unwrap();
    });
    let seen =
        copied.complains(["a/b: cannot open directory: it was moved or replaced during the run"]);
    assert_eq!(seen, paths(["a/z", "z"]));
    assert_eq!(names(&pair.destination("a/b")), ["c"]);
}

#[test]
fn a_link_in_place_of_a_closed_directory_leads_nowhere() {
    for is_source in [true, false] {
        let pair = Pair::new();
        let elsewhere = pair.scratch.path().join("elsewhere");
        let tree = pair
            .scratch
            .path()
            .join(["destination", "source"][usize::from(is_source)]);
        let copied = moved_at_the_bottom(&pair, few(), || {
            fs::create_dir_all(elsewhere.join("b/c")).unwrap();
            fs::write(elsewhere.join("b/z"), "elsewhere").unwrap();
            fs::rename(tree.join("a/b/c"), pair.scratch.path().join("c")).unwrap();
            fs::rename(tree.join("a"), pair.scratch.path().join("a")).unwrap();
            symlink(&elsewhere, tree.join("a")).unwrap();
        });
        let what = ["cannot use destination directory", "cannot open directory"];
        let what = what[usize::from(is_source)];
        let told = [
            format!("a/b: {what}: Not a directory (os error 20)"),
            format!("a: {what}: Not a directory (os error 20)"),
        ];
        assert_eq!(copied.troubles, told);
        assert_eq!(copied.paths, paths(["z"]));
        assert_eq!(fs::read(elsewhere.join("b/z")).unwrap(), b"elsewhere");
        assert_eq!(names(&elsewhere), ["b"]);
    }
}

#[test]
fn another_directory_that_got_the_number_of_a_removed_one_is_not_taken_for_it() {
    // Another test may be given the number first.
    let is_shown = (0..50).any(|_| shows_another_directory_of_the_same_number());
    if !is_shown {
        crate::skip::skip("no number of a directory is given again here");
    }
}

/// Whether the number of a removed directory was given to another one.
fn shows_another_directory_of_the_same_number() -> bool {
    let pair = Pair::new();
    let elsewhere = pair.scratch.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let mut has_number = false;
    let copied = moved_at_the_bottom(&pair, few(), || {
        let number = stat(&pair.source("a/b")).st_ino;
        fs::rename(pair.source("a/b/c"), elsewhere.join("c")).unwrap();
        fs::remove_dir_all(pair.source("a/b")).unwrap();
        for n in 0..100 {
            let path = elsewhere.join(n.to_string());
            fs::create_dir(&path).unwrap();
            if stat(&path).st_ino == number {
                fs::write(path.join("z"), "secret").unwrap();
                fs::rename(elsewhere.join("c"), path.join("c")).unwrap();
                has_number = true;
                break;
            }
        }
    });
    if has_number {
        let seen = copied
            .complains(["a/b: cannot open directory: No such file or directory (os error 2)"]);
        assert_eq!(seen, paths(["a/z", "z"]));
        assert!(!pair.destination("a/b/z").exists());
    }
    has_number
}

#[test]
fn a_closed_directory_may_forbid_to_be_read_by_the_way_up() {
    let copied = as_nobody(|| {
        let pair = Pair::new();
        pair.grow(["a/b/c/1", "a/z"]);
        let root = pair.root();
        let mut walk = root.walk(few(), |error| panic!("{}", worded(&error)));
        next_is(&mut walk, "a/b/c/1");
        // There is no way up from here.
        let closed = fs::Permissions::from_mode(0o600);
        fs::set_permissions(pair.source("a/b/c"), closed).unwrap();
        next_is(&mut walk, "a/z");
        assert!(walk.next().is_none());
        let open = fs::Permissions::from_mode(0o700);
        fs::set_permissions(pair.source("a/b/c"), open).unwrap();
    });
    if copied.is_none() {
        crate::skip::skip("only root can be nobody");
    }
}

#[test]
fn an_entry_that_waits_keeps_nothing_open_and_is_found_again() {
    let pair = Pair::new();
    pair.grow(["a/b/1", "a/b/2", "c/3"]);
    let root = pair.root();
    let n_before = n_open_in(pair.scratch.path());
    let mut waiting = Vec::new();
    for entry in root.walk(few(), |error| panic!("{error}")) {
        waiting.push(entry.wait(DeferredDirs::Closed));
    }
    assert_eq!(n_open_in(pair.scratch.path()), n_before);
    assert!(waiting.iter().all(|entry| !entry.is_open()));
    let mode = "700";
    assert_eq!(
        crate::dircopy::test_support::mode(&pair.destination("a/b")),
        mode
    );
    fs::rename(pair.source("c"), pair.source("d")).unwrap();
    let mut told = Vec::new();
    for entry in waiting {
        match entry.resume() {
            Ok(entry) => {
                copy_entry(&entry).unwrap();
                entry.done().unwrap();
            }
            Err(error) => told.push(worded(&error)),
        }
    }
    root.done().unwrap();
    let expected = "c/3: cannot open directory: No such file or directory (os error 2)";
    assert_eq!(told, [expected]);
    assert_eq!(names(&pair.destination("a/b")), ["1", "2"]);
    let [original, copy] = [pair.source("a/b"), pair.destination("a/b")].map(|path| stat(&path));
    assert_eq!(
        (original.st_mtime, original.st_mode),
        (copy.st_mtime, copy.st_mode)
    );
}

#[test]
fn a_scan_leads_nowhere_else_either() {
    use super::scan::{Next, ScanOptions, scan};
    let pair = Pair::new();
    pair.grow(["a/b/c/1", "a/b/y/2", "a/x/3", "z"]);
    let elsewhere = pair.scratch.path().join("elsewhere");
    fs::create_dir_all(elsewhere.join("y")).unwrap();
    fs::write(elsewhere.join("y/secret"), "").unwrap();
    let options = ScanOptions {
        follows_symlinks: false,
        one_file_system: false,
        most_open: 1,
    };
    let root = open(&pair.source(""));
    let (mut seen, mut failed) = (Vec::new(), Vec::new());
    scan(root.as_fd(), options, |found| {
        match found {
            Ok(found) => {
                let path = String::from_utf8(found.path()).unwrap();
                if path == "a/b/c/1" {
                    fs::rename(pair.source("a/b/c"), elsewhere.join("c")).unwrap();
                    fs::remove_dir_all(pair.source("a/b")).unwrap();
                    symlink(&elsewhere, pair.source("a/b")).unwrap();
                }
                if found.kind == FileType::RegularFile {
                    seen.push(path);
                }
            }
            Err(failure) => failed.push((failure.path, failure.error.raw_os_error())),
        }
        Next::Enter
    });
    seen.sort();
    assert_eq!(seen, ["a/b/c/1", "a/x/3", "z"]);
    assert_eq!(failed, [(b"a/b".to_vec(), Some(libc::ENOTDIR))]);
}
