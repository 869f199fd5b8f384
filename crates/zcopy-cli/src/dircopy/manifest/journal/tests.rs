use std::fs;
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::common::digest::digests;
use crate::dircopy::manifest::kind::ManifestKind;
use crate::dircopy::manifest::read::archive::{Archive, Verify};
use crate::dircopy::manifest::record::Announced;

fn file(contents: &str) -> FileDigest {
    FileDigest {
        algorithm: Algorithm::Sha256,
        digest: digests(Algorithm::Sha256, &[contents.as_bytes()])[0],
    }
}

fn header() -> Header {
    Header {
        time: "2026-11-23T07:11:18Z".parse().unwrap(),
        source: b"/card".to_vec(),
        includes: Vec::new(),
        journals: Vec::new(),
        copied: Vec::new(),
        kind: ManifestKind::Sums,
    }
}

fn begin(tree: &TempDir) -> Journal {
    let directory = Arc::new(OwnedFd::from(File::open(tree.path()).unwrap()));
    Journal::begin(&directory, &directory, &header()).unwrap()
}

fn path_of(tree: &TempDir, journal: &Journal) -> PathBuf {
    tree.path().join(journal.name.to_str().unwrap())
}

/// The records in the journals of a tree, as far as they can be read.
fn records(tree: &TempDir) -> Vec<(String, Option<FileDigest>, Option<Announced>)> {
    let root = File::open(tree.path()).unwrap();
    let archive = Archive::open(root.as_fd(), Verify::Needed, true).unwrap();
    let mut records = archive.records().unwrap();
    let mut found = Vec::new();
    while let Some(record) = records.next().unwrap() {
        let path = String::from_utf8(record.path).unwrap();
        found.push((path, record.file, record.announced));
    }
    found
}

fn fill(journal: &Journal) {
    let (adds, replaces) = (
        Announced::Adds(file("new")),
        Announced::Replaces(file("newer")),
    );
    let announced = JournalEntry::Announced;
    journal
        .add(
            [
                (&b"added"[..], announced(adds)),
                (b"replaced", announced(replaces)),
                (b"cancelled", announced(adds)),
                (b"two\nlines", JournalEntry::Has(file("x"))),
            ],
            Durability::Cached,
        )
        .unwrap();
    journal
        .add(
            [
                (&b"replaced"[..], JournalEntry::Has(file("newer"))),
                (b"cancelled", JournalEntry::Cancelled),
                (b"-", JournalEntry::Has(file("dash"))),
                (b"gone", JournalEntry::Has(file("x"))),
                (b"gone", JournalEntry::Removed),
            ],
            Durability::Cached,
        )
        .unwrap();
}

#[test]
fn the_journal_of_a_killed_run_is_read() {
    let tree = tempfile::tempdir().unwrap();
    let journal = begin(&tree);
    fill(&journal);
    drop(journal);
    assert_eq!(
        records(&tree),
        [
            ("-".to_owned(), Some(file("dash")), None),
            ("added".to_owned(), None, Some(Announced::Adds(file("new")))),
            ("replaced".to_owned(), Some(file("newer")), None),
            ("two\nlines".to_owned(), Some(file("x")), None),
        ]
    );
}

#[test]
fn a_journal_that_was_cut_anywhere_tells_no_lie() {
    let tree = tempfile::tempdir().unwrap();
    let journal = begin(&tree);
    fill(&journal);
    let path = path_of(&tree, &journal);
    drop(journal);
    let whole = fs::read(&path).unwrap();
    let (mut n_records, possible) = (0, ["dash", "new", "newer", "x"].map(file));
    for cut in 0..=whole.len() {
        for rest in [&b""[..], &[0; 300], b"garbage\n"] {
            fs::write(&path, [&whole[..cut], rest].concat()).unwrap();
            let records = records(&tree);
            for (path, has, announced) in &records {
                let file = has.or(announced.map(Announced::file)).unwrap();
                assert!(possible.contains(&file), "{cut}: {path}");
            }
            n_records = n_records.max(records.len());
        }
    }
    assert_eq!(n_records, 5, "before one of them is removed");
    // A byte that has changed ends it too.
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        fs::write(&path, changed).unwrap();
        for (path, has, announced) in records(&tree) {
            let file = has.or(announced.map(Announced::file)).unwrap();
            assert!(possible.contains(&file), "{at}: {path}");
        }
    }
}

#[test]
fn a_journal_that_is_removed_has_left_nothing() {
    let tree = tempfile::tempdir().unwrap();
    let journal = begin(&tree);
    fill(&journal);
    journal.remove();
    assert_eq!(fs::read_dir(tree.path()).unwrap().count(), 0);
}

#[test]
fn entries_behind_one_that_is_damaged_make_the_journal_damaged() {
    let tree = tempfile::tempdir().unwrap();
    let journal = begin(&tree);
    fill(&journal);
    let path = path_of(&tree, &journal);
    drop(journal);
    let whole = fs::read(&path).unwrap();
    let is_damaged = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let root = File::open(tree.path()).unwrap();
        let archive = Archive::open(root.as_fd(), Verify::Needed, true).unwrap();
        !archive.damaged().is_empty()
    };
    assert!(!is_damaged(&whole));
    let ends: Vec<_> = memchr::memchr_iter(b'\n', &whole).collect();
    let last_line = ends[ends.len() - 2] + 1;
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        // The last entry may be what a loss of power has left.
        if at < last_line - 1 {
            assert!(is_damaged(&changed), "{at}");
        }
        assert!(!is_damaged(&whole[..at]), "{at}");
    }
}

#[test]
fn nothing_follows_an_entry_that_could_not_be_written() {
    let tree = tempfile::tempdir().unwrap();
    let journal = begin(&tree);
    fill(&journal);
    // A file that is open for reading takes nothing.
    let path = path_of(&tree, &journal);
    let read_only = Some(Arc::new(File::open(&path).unwrap()));
    let whole = std::mem::replace(&mut journal.lock().file, read_only);
    let entry = || [(&b"later"[..], JournalEntry::Has(file("x")))];
    assert!(journal.add(entry(), Durability::Cached).is_err());
    journal.lock().file = whole;
    let before = fs::read(&path).unwrap();
    assert!(journal.add(entry(), Durability::Cached).is_err());
    assert_eq!(fs::read(&path).unwrap(), before);
}
