use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::FileType;
use tempfile::TempDir;

use super::*;
use crate::dircopy::test_support::{Covered, open, scratch};
use crate::dircopy::walk::{Options, Root};

/// The files of the tree, each of three bytes.
const FILES: &[&str] = &[
    "a",
    "a.o",
    "doc/index.html",
    "doc/deep/index.html",
    "src/main.c",
    "src/main.o",
    "target/a",
    "src/target/a",
    "empty/.keep",
];

const OPTIONS: ScanOptions = ScanOptions {
    follows_symlinks: false,
    one_file_system: false,
    most_open: 1,
};

fn tree() -> TempDir {
    let scratch = scratch();
    for file in FILES {
        let path = scratch.path().join("source").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "abc").unwrap();
    }
    scratch
}

fn source(scratch: &TempDir) -> PathBuf {
    scratch.path().join("source")
}

fn scanned(source: &Path, options: (bool, bool), patterns: &[&str]) -> Total {
    let exclude = Exclude::new(patterns).unwrap();
    let source = open(source);
    let [total, other] = [usize::MAX, 1].map(|most_open| {
        let total = Total::default();
        let options = ScanOptions {
            follows_symlinks: options.0,
            one_file_system: options.1,
            most_open,
        };
        prescan(
            source.as_fd(),
            options,
            &exclude,
            &total,
            &StopFlag::default(),
        );
        total
    });
    // Few descriptors make no difference.
    let found = |total: &Total| (total.files(), total.bytes());
    assert_eq!(found(&other), found(&total));
    total
}

/// Files and bytes, of a scan that came to its end.
fn found(source: &Path, options: (bool, bool), patterns: &[&str]) -> (u64, u64) {
    let total = scanned(source, options, patterns);
    assert!(total.is_complete());
    (total.files(), total.bytes())
}

/// Files and bytes that the walk returns.
fn walked(scratch: &TempDir, options: (bool, bool), patterns: &[&str]) -> (u64, u64) {
    let root = Root::open(&source(scratch), &scratch.path().join("destination")).unwrap();
    let options = Options::new()
        .follow_symlinks(options.0)
        .one_file_system(options.1)
        .exclude(Exclude::new(patterns).unwrap());
    let (mut files, mut bytes) = (0, 0);
    for entry in root.walk(options, drop) {
        if entry.kind() == FileType::RegularFile {
            files += 1;
            bytes += u64::try_from(entry.stat().st_size).unwrap();
        }
        entry.done().unwrap();
    }
    root.done().unwrap();
    (files, bytes)
}

#[test]
fn the_prescan_finds_what_the_walk_gives() {
    let scratch = tree();
    let source = source(&scratch);
    symlink("src", source.join("link")).unwrap();
    symlink("a", source.join("b")).unwrap();
    fs::write(source.join("src/.zc-dircopy-aA0bB1cC"), "left behind").unwrap();
    symlink("nowhere", source.join("dangling")).unwrap();
    for patterns in [
        &[][..],
        &["*.o"],
        &["target/"],
        &["/target"],
        &["doc/*.html"],
        &["/doc/**/*.html"],
        &["link", "b"],
        &["link/"],
        &["source"],
        &["*"],
    ] {
        for follows in [false, true] {
            let options = (follows, false);
            let expected = walked(&scratch, options, patterns);
            assert_eq!(
                found(&source, options, patterns),
                expected,
                "{patterns:?}, {options:?}"
            );
        }
    }
    let all = FILES.len() as u64;
    assert_eq!(found(&source, (false, false), &[]), (all, 3 * all));
    assert_eq!(found(&source, (false, false), &["*"]), (0, 0));
}

#[test]
fn what_has_several_names_has_its_bytes_counted_once() {
    let scratch = tree();
    let source = source(&scratch);
    for name in ["again", "src/again"] {
        fs::hard_link(source.join("a"), source.join(name)).unwrap();
    }
    let all = FILES.len() as u64;
    assert_eq!(found(&source, (false, false), &[]), (all + 2, 3 * all));
    // The first name that is met counts, whichever that is.
    assert_eq!(found(&source, (false, false), &["/a"]), (all + 1, 3 * all));
}

#[test]
fn only_regular_files_count() {
    let scratch = tree();
    let source = source(&scratch);
    let before = found(&source, (false, false), &[]);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        source.join("fifo"),
        FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    symlink("a", source.join("link")).unwrap();
    assert_eq!(found(&source, (false, false), &[]), before);
}

#[test]
fn links_that_lead_upwards_are_not_followed_for_ever() {
    let scratch = tree();
    let source = source(&scratch);
    symlink("..", source.join("src/up")).unwrap();
    let options = (true, false);
    assert_eq!(
        found(&source, options, &[]),
        found(&source, (false, false), &[])
    );
}

#[test]
fn a_source_that_is_a_link_is_entered() {
    let scratch = tree();
    let link = scratch.path().join("link");
    symlink("source", &link).unwrap();
    let expected = found(&source(&scratch), (false, false), &[]);
    assert_eq!(found(&link, (false, false), &[]), expected);
    assert_eq!(found(&link.join(""), (false, false), &[]), expected);
}

#[test]
fn what_is_mounted_below_may_be_left_out() {
    let scratch = tree();
    let source = source(&scratch);
    let mounted = source.join("mounted");
    fs::create_dir(&mounted).unwrap();
    let expected = found(&source, (false, false), &[]);
    let arguments = ["-t", "tmpfs", "none"].map(AsRef::as_ref);
    let Some(_covered) = Covered::new(&mounted, &arguments) else {
        return;
    };
    fs::write(mounted.join("foreign"), "abc").unwrap();
    assert_eq!(found(&source, (false, true), &[]), expected);
    let (files, bytes) = expected;
    assert_eq!(found(&source, (false, false), &[]), (files + 1, bytes + 3));
}

#[test]
fn what_cannot_be_read_is_passed_over() {
    let scratch = scratch();
    let gone = scratch.path().join("gone");
    fs::create_dir(&gone).unwrap();
    let directory = open(&gone);
    fs::remove_dir(gone).unwrap();
    let total = Total::default();
    let exclude = Exclude::default();
    prescan(
        directory.as_fd(),
        OPTIONS,
        &exclude,
        &total,
        &StopFlag::default(),
    );
    assert_eq!((total.files(), total.is_complete()), (0, true));
}

#[test]
fn a_scan_that_is_ended_is_not_complete() {
    let scratch = tree();
    let (total, stop) = (Total::default(), StopFlag::default());
    stop.stop();
    let source = open(&source(&scratch));
    prescan(source.as_fd(), OPTIONS, &Exclude::default(), &total, &stop);
    assert!(!total.is_complete());
}
