use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::common::digest::{Digest, digests};
use crate::dircopy::manifest::header::End;
use crate::dircopy::manifest::journal::Journal;
use crate::dircopy::manifest::journal::entry::JournalEntry;
use crate::dircopy::manifest::line;
use crate::dircopy::write::atomic_file::Durability;

/// A directory with manifests.
struct Tree(TempDir);

fn digest(contents: &[u8]) -> Digest {
    digests(Algorithm::Sha256, &[contents])[0]
}

/// Lines for files, of which each has the contents given.
fn lines(files: &[(&str, &str)]) -> Vec<u8> {
    let mut lines = Vec::new();
    for (path, contents) in files {
        line::write(&digest(contents.as_bytes()), path.as_bytes(), &mut lines);
    }
    lines
}

fn name(day: u8) -> String {
    format!("shasum.2026-01-{day:02}.00.00.00.txt")
}

impl Tree {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn put(&self, name: &str, contents: impl AsRef<[u8]>) -> &Self {
        fs::write(self.path().join(name), contents).unwrap();
        self
    }

    /// Writes a manifest as a run does, with a time on this day.
    fn manifest(&self, name: &str, day: u8, files: &[(&str, &str)]) -> &Self {
        self.manifest_with(name, day, files, |_| {})
    }

    fn manifest_with(
        &self,
        name: &str,
        day: u8,
        files: &[(&str, &str)],
        change: impl FnOnce(&mut Header),
    ) -> &Self {
        let mut header = Header {
            time: format!("2026-01-{day:02}T00:00:00Z").parse().unwrap(),
            source: b"source".to_vec(),
            includes: Vec::new(),
            journals: Vec::new(),
            copied: Vec::new(),
            kind: ManifestKind::Sums,
        };
        change(&mut header);
        let mut bytes = Vec::new();
        header.write(&mut bytes);
        bytes.extend(lines(files));
        let end = End {
            n_lines: files.len() as u64,
            digest: digest(&bytes),
        };
        end.write(&mut bytes);
        self.put(name, bytes)
    }

    fn included(&self, name: &str) -> Included {
        let bytes = fs::read(self.path().join(name)).unwrap();
        let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let end = lines.next_back().and_then(End::parse).unwrap();
        Included {
            digest: end.digest,
            name: name.parse().unwrap(),
        }
    }

    fn copied(&self, name: &str) -> Copied {
        Copied {
            digest: digest(&fs::read(self.path().join(name)).unwrap()),
            name: name.parse().unwrap(),
        }
    }

    fn open(&self) -> Archive {
        let root = File::open(self.path()).unwrap();
        Archive::open(root.as_fd(), Verify::Needed, true).unwrap()
    }

    /// The recorded contents of every path, as far as they are among these.
    #[track_caller]
    fn records(&self, expected: &[(&str, &str)]) {
        let archive = self.open();
        let damaged: Vec<_> = archive.damaged().iter().collect();
        assert!(damaged.is_empty(), "{damaged:?}");
        for _ in 0..2 {
            let mut records = archive.records().unwrap();
            let mut found = Vec::new();
            while let Some(record) = records.next().unwrap() {
                found.push((record.path, record.file.unwrap().digest));
            }
            let expected = expected.iter().map(|(path, contents)| {
                let digest = digest(contents.as_bytes());
                (path.as_bytes().to_vec(), digest)
            });
            assert_eq!(found, expected.collect::<Vec<_>>());
        }
    }

    #[track_caller]
    fn is_damaged(&self, why: &str) {
        let archive = self.open();
        let damaged: Vec<_> = archive.damaged().iter().collect();
        let [DamagedFile { damage, .. }] = damaged[..] else {
            panic!("{damaged:?}");
        };
        assert!(damage.to_string().contains(why), "{damage}");
    }
}

#[test]
fn each_path_has_its_newest_record() {
    let tree = Tree::new();
    tree.manifest(&name(1), 1, &[("a", "old"), ("b", "old"), ("d", "old")]);
    tree.manifest(&name(2), 2, &[("b", "new"), ("c", "new")]);
    tree.records(&[("a", "old"), ("b", "new"), ("c", "new"), ("d", "old")]);
}

#[test]
fn the_time_inside_tells_which_is_newer_and_not_the_name() {
    let tree = Tree::new();
    tree.manifest(&name(31), 1, &[("a", "old")]);
    tree.manifest(&name(2), 2, &[("a", "new")]);
    tree.records(&[("a", "new")]);
}

#[test]
fn a_list_of_another_program_is_older_than_every_manifest() {
    let tree = Tree::new();
    tree.put(
        "shasum.2030-01-01.00.00.00.txt",
        lines(&[("a", "copied in")]),
    );
    tree.manifest(&name(1), 1, &[("a", "recorded")]);
    tree.records(&[("a", "recorded")]);
}

#[test]
fn lists_of_another_program_may_be_unsorted_and_name_a_file_twice() {
    let tree = Tree::new();
    tree.put(
        &name(1),
        lines(&[("b", "1"), ("a", "1"), ("b", "2"), ("c", "1")]),
    );
    tree.put(&name(2), lines(&[("d", "1"), ("c", "2")]));
    tree.records(&[("a", "1"), ("b", "2"), ("c", "2"), ("d", "1")]);
}

#[test]
fn paths_are_those_of_this_system() {
    let tree = Tree::new();
    let digest = digest(b"x");
    tree.put(
        &name(1),
        format!("{digest}  dir\\file\r\n{digest}  ./a\n\\{digest}  b\\\\c\n"),
    );
    tree.records(&[("a", "x"), ("b\\c", "x"), ("dir/file", "x")]);
}

#[test]
fn more_records_than_fit_in_memory_are_sorted() {
    let tree = Tree::new();
    let names: Vec<_> = (0..60_000_u32)
        .map(|n| format!("{:08x}", n.wrapping_mul(0x9E37_79B1)))
        .collect();
    let files: Vec<_> = names
        .iter()
        .map(|name| (name.as_str(), name.as_str()))
        .collect();
    tree.put(&name(1), lines(&files));
    let mut sorted = files.clone();
    sorted.sort_unstable();
    tree.records(&sorted);
}

#[test]
fn a_manifest_that_is_included_is_not_read_again() {
    let tree = Tree::new();
    tree.manifest(&name(1), 1, &[("a", "x"), ("forgotten", "x")]);
    let included = tree.included(&name(1));
    tree.manifest_with(&name(2), 2, &[("a", "x")], |header| {
        header.includes.push(included);
    });
    tree.records(&[("a", "x")]);
    // Another file of its name is not the one that was included.
    tree.manifest(&name(1), 1, &[("a", "x"), ("longer", "x")]);
    tree.records(&[("a", "x"), ("longer", "x")]);
}

#[test]
fn a_manifest_that_came_with_the_source_is_a_file_like_others() {
    let tree = Tree::new();
    tree.manifest(
        "shasum.2030-01-01.00.00.00.txt",
        31,
        &[("a", "of the source")],
    );
    let copied = tree.copied("shasum.2030-01-01.00.00.00.txt");
    tree.manifest_with(&name(1), 1, &[("a", "recorded")], |header| {
        header.copied.push(copied);
    });
    tree.records(&[("a", "recorded")]);
    assert!(!tree.open().owns(b"shasum.2030-01-01.00.00.00.txt"));
    assert!(tree.open().owns(name(1).as_bytes()));
    // It remains one when it rots, or when it names the manifests of the tree.
    let disowned = [tree.copied(&name(1))];
    for claims in [false, true] {
        tree.manifest_with(
            "shasum.2030-01-01.00.00.00.txt",
            31,
            &[("a", "rotten")],
            |header| {
                if claims {
                    // Nobody can know the digest of a later manifest.
                    header.copied.extend(disowned.map(|copied| Copied {
                        digest: digest(b"guessed"),
                        ..copied
                    }));
                }
            },
        );
        if !claims {
            tree.records(&[("a", "recorded")]);
        }
    }
}

#[test]
fn a_manifest_that_was_cut_or_changed_is_damaged() {
    let tree = Tree::new();
    let files = [("a", "x"), ("b", "y"), ("c", "z")];
    tree.manifest(&name(1), 1, &files);
    let path = tree.path().join(name(1));
    let whole = fs::read(&path).unwrap();
    let n_lines = memchr::memchr_iter(b'\n', &whole).count();
    // After each line, and within each line.
    let mut at = 0;
    for n in 0..n_lines {
        let next = at + memchr::memchr(b'\n', &whole[at..]).unwrap() + 1;
        for cut in [at, at + 1, next - 1] {
            fs::write(&path, &whole[..cut]).unwrap();
            assert_eq!(tree.open().damaged().len(), 1, "{n}: {cut}");
        }
        at = next;
    }
    assert_eq!(at, whole.len());
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        fs::write(&path, changed).unwrap();
        assert_eq!(tree.open().damaged().len(), 1, "{at}");
    }
    fs::write(&path, [&whole[..], b"garbage\n"].concat()).unwrap();
    tree.is_damaged("end is missing");
}

#[test]
fn a_list_of_another_program_with_garbage_in_it_is_damaged() {
    let tree = Tree::new();
    tree.put(&name(1), [&lines(&[("a", "x")])[..], b"garbage\n"].concat());
    tree.is_damaged("line 2: it does not begin with the hexadecimal digits of a digest");
    tree.put(&name(1), &lines(&[("a", "x"), ("b", "x")])[..100]);
    tree.is_damaged("its end is missing");
    for without_lines in ["", "\n", "# a comment\n", "\r\n\n"] {
        tree.put(&name(1), without_lines);
        tree.is_damaged("it is empty");
    }
}

#[test]
fn what_is_no_regular_file_is_no_manifest() {
    let tree = Tree::new();
    tree.put("elsewhere", lines(&[("a", "x")]));
    symlink("elsewhere", tree.path().join(name(1))).unwrap();
    tree.is_damaged("it is a symbolic link");
    fs::remove_file(tree.path().join(name(1))).unwrap();
    fs::create_dir(tree.path().join(name(1))).unwrap();
    assert!(tree.open().is_empty());
}

#[test]
fn a_new_manifest_is_later_than_all_others_even_if_the_clock_was_set_back() {
    let tree = Tree::new();
    tree.manifest_with(&name(1), 1, &[], |header| {
        header.time = "2100-01-01T00:00:00Z".parse().unwrap();
    });
    let header = tree.open().next_header(Vec::new(), Vec::new());
    assert_eq!(header.time.to_string(), "2100-01-01T00:00:00.000000002Z");
    assert_eq!(header.includes, [tree.included(&name(1))]);
}

#[test]
fn a_backup_that_is_copied_back_does_not_disown_the_manifests_that_it_names() {
    let tree = Tree::new();
    tree.manifest(&name(1), 1, &[("a", "own")]);
    let own = tree.copied(&name(1));
    // The backup came from this tree, and names its manifest as a file of its source.
    tree.manifest_with(&name(2), 2, &[("b", "backup")], |header| {
        header.copied.push(own);
    });
    let backup = tree.copied(&name(2));
    tree.manifest_with(&name(3), 3, &[], |header| header.copied.push(backup));
    let archive = tree.open();
    assert!(archive.owns(name(1).as_bytes()) && archive.owns(name(3).as_bytes()));
    assert!(!archive.owns(name(2).as_bytes()));
    // No manifest names the backup now, so its header counts.
    fs::remove_file(tree.path().join(name(3))).unwrap();
    assert!(!tree.open().owns(name(1).as_bytes()));
    assert!(tree.open().owns(name(2).as_bytes()));
}

#[test]
fn whose_manifest_it_is_follows_any_number_of_copies_of_copies() {
    for n_copies in 1..6_u8 {
        let tree = Tree::new();
        tree.manifest(&name(1), 1, &[]);
        for day in 2..=n_copies {
            let before = tree.copied(&name(day - 1));
            tree.manifest_with(&name(day), day, &[], |header| header.copied.push(before));
        }
        let archive = tree.open();
        for day in 1..=n_copies {
            // The newest one belongs to the tree, the one that it names does not, and so on.
            let is_own = (n_copies - day) % 2 == 0;
            assert_eq!(
                archive.owns(name(day).as_bytes()),
                is_own,
                "{day} of {n_copies}"
            );
        }
    }
}

#[test]
fn a_new_header_names_no_file_of_the_source_that_cannot_replace_a_manifest() {
    let tree = Tree::new();
    tree.manifest(&name(1), 1, &[]);
    let in_source = [1, 2].map(|day| Copied {
        name: name(day).parse().unwrap(),
        digest: digest(b"of the source"),
    });
    let header = tree.open().next_header(Vec::new(), in_source.to_vec());
    assert_eq!(header.copied, in_source[1..]);
}

#[test]
fn a_list_that_was_copied_records_no_manifest_of_this_tree() {
    let tree = Tree::new();
    let (own, info) = (name(1), format!("{}.info", name(1)));
    let files = [("a", "x"), (&*own, "another"), (&*info, "another")];
    tree.manifest(&name(2), 2, &files);
    let copied = tree.copied(&name(2));
    tree.manifest_with(&name(1), 3, &[("b", "x")], |header| {
        header.copied.push(copied);
    });
    let mut records = tree.open().records().unwrap();
    let mut paths = Vec::new();
    while let Some(record) = records.next().unwrap() {
        paths.push(String::from_utf8(record.path).unwrap());
    }
    assert_eq!(paths, ["a", "b"]);
}

#[test]
fn a_file_time_that_may_be_later_than_it_says_is_not_older_than_a_manifest() {
    let tree = Tree::new();
    tree.manifest_with(&name(1), 1, &[], |header| {
        header.time = "2026-01-01T00:00:05.5Z".parse().unwrap();
    });
    let archive = tree.open();
    let second = archive.newest.unwrap().as_second();
    for (seconds, nanoseconds, is_newer) in [
        (0, 479_999_990, true),
        // The clock of the kernel may be behind.
        (0, 480_000_001, false),
        (0, 500_000_001, false),
        (1, 1, false),
        // The file system may have rounded it down to a second, or to two.
        (0, 0, false),
        (-1, 0, false),
        (-2, 0, true),
        (-3, 0, true),
        (-1, 600_000_001, true),
    ] {
        let time = Time {
            seconds: second + seconds,
            nanoseconds,
        };
        assert_eq!(archive.is_newer_than(time), is_newer, "{time:?}");
    }
}

#[test]
fn the_journal_of_a_killed_run_does_not_make_records_newer() {
    let tree = Tree::new();
    tree.manifest(&name(1), 1, &[("a", "x")]);
    let root = std::sync::Arc::new(File::open(tree.path()).unwrap().into());
    let mut header = tree.open().next_header(Vec::new(), Vec::new());
    header.time = "2026-01-05T00:00:00Z".parse().unwrap();
    let journal = Journal::begin(&root, &root, &header).unwrap();
    let added = JournalEntry::Cancelled;
    journal
        .add([(&b"b"[..], added)], Durability::Cached)
        .unwrap();
    let archive = tree.open();
    assert!(archive.has_journals());
    let between: Timestamp = "2026-01-03T00:00:00.1Z".parse().unwrap();
    let between = Time {
        seconds: between.as_second(),
        nanoseconds: between.subsec_nanosecond().into(),
    };
    assert!(!archive.is_newer_than(between));
    let new_header = archive.next_header(Vec::new(), Vec::new());
    assert!(new_header.time > header.time);
}
