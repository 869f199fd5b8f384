//! What is no plain file: links, special files, holes.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, symlink};

use rustix::fs::{CWD, FileType, makedev};

use super::*;
use crate::skip::is_root;

fn make(path: &Path, kind: FileType, device: u64) {
    rustix::fs::mknodat(CWD, path, kind, 0o640.into(), device).unwrap();
}

#[test]
fn fifos_are_made_and_not_read() {
    let trees = Trees::new();
    make(&trees.original("fifo"), FileType::Fifo, 0);
    dated_by_name(&trees.original("fifo"));
    trees.put("file", "x");
    trees.succeeds(&[]).succeeds(&[]).are_alike();
    trees.sums().lists(&["file"]);
}

/// Opening it would wait for its writer.
fn dated_by_name(path: &Path) {
    let touch = Command::new("touch")
        .args(["-d", "2020-02-02 02:02:02.222"])
        .arg(path)
        .status();
    assert!(touch.unwrap().success());
}

#[test]
fn devices_are_made_and_not_read() {
    if !is_root() {
        return;
    }
    let trees = Trees::new();
    make(
        &trees.original("character"),
        FileType::CharacterDevice,
        makedev(1, 5),
    );
    make(
        &trees.original("block"),
        FileType::BlockDevice,
        makedev(7, 123),
    );
    std::os::unix::fs::chown(trees.original("block"), Some(3), Some(6)).unwrap();
    trees.succeeds(&[]).succeeds(&[]).are_alike();
    trees.sums().lists(&[]);
}

#[test]
fn sockets_are_reported_and_the_rest_copied() {
    let trees = Trees::new();
    let _listener = std::os::unix::net::UnixListener::bind(trees.original("socket")).unwrap();
    trees.put("a", "before").put("z", "behind");
    trees.run(&[]).failed_naming(&[&["socket"]]);
    trees.sums().lists(&["a", "z"]).holds_in(&trees.copy());
    assert!(!trees.copied("socket").exists());
}

#[test]
fn symbolic_links_are_copied_as_they_are() {
    let trees = Trees::new();
    trees.put("a/file", "x");
    let links = [
        ("to a file", "a/file"),
        ("to a directory", "a"),
        ("dangling", "nowhere"),
        ("to itself", "to itself"),
        ("above", ".."),
        ("absolute", "/etc/passwd"),
        ("a/beside", "../dangling"),
        ("a/\n", "\n"),
    ];
    for (name, target) in links {
        symlink(target, trees.original(name)).unwrap();
    }
    let long = "../".repeat(1300) + "nowhere";
    symlink(long, trees.original("long")).unwrap();
    trees.succeeds(&[]).succeeds(&[]).are_alike();
    trees.sums().lists(&["a/file"]);
}

#[test]
fn dereference_copies_what_links_lead_to() {
    let trees = Trees::new();
    trees.put("a/file", "x");
    put(&trees.path().join("outside/deep/file"), "outside");
    symlink("a/file", trees.original("link")).unwrap();
    symlink("../outside", trees.original("tree")).unwrap();
    symlink(
        trees.path().join("outside/deep/file"),
        trees.original("a/absolute"),
    )
    .unwrap();
    trees.succeeds(&["-L"]);
    trees
        .holds("link", "x")
        .holds("tree/deep/file", "outside")
        .holds("a/absolute", "outside");
    for copy in ["link", "tree", "a/absolute"] {
        assert!(!trees.copied(copy).is_symlink(), "{copy}");
    }
    let files = ["a/absolute", "a/file", "link", "tree/deep/file"];
    trees
        .sums()
        .lists(&files)
        .satisfies_sha256sum(&trees.copy());
    trees.sums().holds_in(&trees.source());
}

#[test]
fn dereference_reports_loops_and_links_that_lead_nowhere() {
    let trees = Trees::new();
    trees.put("a/b/file", "x");
    symlink("..", trees.original("a/b/up")).unwrap();
    symlink(".", trees.original("here")).unwrap();
    symlink("nowhere", trees.original("dangling")).unwrap();
    symlink("itself", trees.original("itself")).unwrap();
    let run = trees.run(&["--dereference"]);
    run.failed_naming(&[&["a/b/up"], &["here"], &["dangling"], &["itself"]]);
    trees.sums().lists(&["a/b/file"]).holds_in(&trees.copy());
}

/// A file that several links lead to has several names in the copy, or several copies: it is whole
/// by each.
#[test]
fn dereference_gives_every_link_to_a_file_the_file() {
    let trees = Trees::new();
    trees.put("file", "x");
    symlink("file", trees.original("a")).unwrap();
    symlink("file", trees.original("z")).unwrap();
    trees.succeeds(&["-L"]).succeeds(&["-L"]);
    trees.holds("a", "x").holds("file", "x").holds("z", "x");
    trees
        .sums()
        .lists(&["a", "file", "z"])
        .holds_in(&trees.copy());
}

#[test]
fn a_source_and_a_destination_may_be_named_by_links() {
    let trees = Trees::new();
    trees.put("file", "x");
    symlink("src", trees.path().join("from")).unwrap();
    fs::create_dir(trees.copy()).unwrap();
    symlink("dst", trees.path().join("to")).unwrap();
    let mut command = zc_dircopy();
    command.arg("-q").current_dir(trees.path());
    run(command.args(["from", "to"])).is_quiet();
    trees.are_alike();
}

/// Bytes that the file system has allocated to it.
fn allocated(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

#[test]
fn holes_are_kept() {
    let trees = Trees::new();
    let sparse = File::create(trees.original("sparse")).unwrap();
    sparse.set_len((5 << 20) + 1).unwrap();
    sparse.write_all_at(b"data", 1 << 20).unwrap();
    sparse.write_all_at(b"more", 3 << 20).unwrap();
    File::create(trees.original("all hole"))
        .unwrap()
        .set_len(3 << 20)
        .unwrap();
    for options in [
        &[][..],
        &["--verify", "--overwrite-policy=always"],
        &["--no-hash", "--overwrite-policy=always"],
    ] {
        trees.succeeds(options);
        facts::assert_same(&trees.source(), &trees.copy());
        assert!(
            allocated(&trees.copied("sparse")) <= 64 << 10,
            "{options:?}"
        );
        assert_eq!(allocated(&trees.copied("all hole")), 0, "{options:?}");
    }
    trees.sums().satisfies_sha256sum(&trees.copy());
}

/// Its length needs more than 32 bits. Its digest is a constant here, so that the test does not read
/// four gigabytes of zeros a second time.
#[test]
fn a_sparse_file_of_more_than_4_gib_stays_sparse() {
    const LEN: u64 = (4 << 30) + (1 << 20) + 3;
    let trees = Trees::new();
    let sparse = File::create(trees.original("sparse")).unwrap();
    sparse.set_len(LEN).unwrap();
    sparse.write_all_at(b"at the start", 0).unwrap();
    sparse.write_all_at(b"behind 4 GiB", 4 << 30).unwrap();
    trees.succeeds(&["--no-hash"]);
    let copy = File::open(trees.copied("sparse")).unwrap();
    assert_eq!(copy.metadata().unwrap().len(), LEN);
    assert!(allocated(&trees.copied("sparse")) <= 64 << 10);
    for (text, at) in [(b"at the start", 0), (b"behind 4 GiB", 4 << 30)] {
        let mut found = [0; 12];
        copy.read_exact_at(&mut found, at).unwrap();
        assert_eq!(&found, text);
    }
}
