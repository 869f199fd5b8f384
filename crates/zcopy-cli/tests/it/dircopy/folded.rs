//! Destinations where several names of the source are one name.

use super::damage_maps::map;
use super::facts::copies_in;
use super::file_systems::{FileSystem, NtfsNames};
use super::traced::traced;
use super::*;
use crate::skip::has_program;

/// A file system that ignores case.
struct Disk {
    path: PathBuf,
    listing: Listing,
    _file_system: FileSystem,
}

/// How it lists names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listing {
    /// As they were made.
    Keeps,
    /// In small letters.
    Folds,
}

/// All that this machine can mount.
fn disks() -> Vec<Disk> {
    let file_systems = [
        (FileSystem::ntfs(NtfsNames::CaseInsensitive), Listing::Folds),
        (FileSystem::exfat(), Listing::Keeps),
        (FileSystem::vfat(), Listing::Keeps),
        (FileSystem::ext4_casefold(), Listing::Keeps),
        (FileSystem::tmpfs_casefold(), Listing::Keeps),
    ];
    let disk = |(file_system, listing): (Option<FileSystem>, _)| {
        let path = file_system.as_ref()?.path();
        fs::write(path.join("Probe"), "").unwrap();
        assert!(path.join("pROBE").exists(), "it tells names apart");
        Some(Disk {
            path,
            listing,
            _file_system: file_system?,
        })
    };
    file_systems.into_iter().filter_map(disk).collect()
}

/// Those that list names as they were made.
fn disks_that_keep_case() -> impl Iterator<Item = Disk> {
    let disks = disks().into_iter();
    disks.filter(|disk| disk.listing == Listing::Keeps)
}

impl Disk {
    fn copy(&self) -> PathBuf {
        self.path.join("copy")
    }

    fn run(&self, trees: &Trees, options: &[&str]) -> Run {
        let mut command = zc_dircopy();
        command.arg("-q").args(options);
        run(command.arg(trees.source()).arg(self.copy()))
    }

    /// The newest manifest has these lines, all of which are true.
    #[track_caller]
    fn lists(&self, paths: &[&str]) {
        Sums::newest_in(&self.copy())
            .lists(paths)
            .satisfies_sha256sum(&self.copy());
        let check = check(&self.copy(), &["-q"]);
        assert_eq!(check.status, 0, "{check:?}");
    }

    #[track_caller]
    fn holds(&self, name: &str, bytes: &str) {
        let found = fs::read_to_string(self.copy().join(name)).unwrap();
        assert_eq!(found, bytes, "{name}");
    }

    fn n_files(&self) -> usize {
        copies_in(&self.copy()).len()
    }
}

/// The message for the second of two names that are one there.
fn refused(name: &'static str, other: &'static str) -> [&'static str; 2] {
    let message =
        format!("{name}: not copied: the destination does not tell its name from {other}");
    [message.leak(), ""]
}

#[test]
fn the_first_of_two_names_that_are_one_there_stays_and_the_second_is_reported() {
    for disk in disks() {
        let trees = Trees::new();
        trees
            .put("README", "one")
            .put("readme", "another")
            .put("x", "");
        let jobs = ["--jobs=1"];
        let message = refused("readme", "README");
        disk.run(&trees, &jobs).failed_naming(&[&message]);
        disk.lists(&["README", "x"]);
        disk.holds("README", "one");
        // What is newer replaces its own copy, and no other.
        trees.put("README", "changed").put("readme", "changed too");
        for options in [
            &[][..],
            &["--overwrite-policy=always"],
            &["--verify-existing"],
        ] {
            let run = disk.run(&trees, options);
            run.failed_naming(&[&message]);
            disk.lists(&["README", "x"]);
            disk.holds("README", "changed");
            assert_eq!(disk.n_files(), 2);
        }
    }
}

#[test]
fn equal_contents_and_times_do_not_make_two_names_one_file() {
    for disk in disks() {
        let trees = Trees::new();
        trees.put("Same", "it").put("same", "it");
        dated(&trees.original("Same"), 7);
        dated(&trees.original("same"), 7);
        for _ in 0..2 {
            let run = disk.run(&trees, &["--jobs=1"]);
            run.failed_naming(&[&refused("same", "Same")]);
            disk.lists(&["Same"]);
        }
    }
}

#[test]
fn one_of_several_names_that_are_copied_at_once_is_whole_and_the_others_are_reported() {
    for disk in disks() {
        for round in 0..4 {
            let trees = Trees::new();
            let n = 60;
            for number in 0..n {
                for letters in ["AB", "aB", "Ab", "ab"] {
                    trees.put(format!("{letters}{number}"), format!("{letters}{number}"));
                }
            }
            let copy = disk.path.join(format!("copy{round}"));
            // Into a directory that has a record, and into a new one.
            if round % 2 == 1 {
                let before = Trees::new();
                before.put("Other", "");
                run(zc_dircopy().arg("-q").arg(before.source()).arg(&copy)).is_quiet();
            }
            for _ in 0..2 {
                let mut command = zc_dircopy();
                command.args(["-q", "--jobs=8"]);
                let run = run(command.arg(trees.source()).arg(&copy));
                run.ended_with(1);
                assert_eq!(run.stderr.lines().count(), 3 * n);
                let sums = Sums::newest_in(&copy);
                assert_eq!(sums.lines.len(), n + round % 2);
                sums.satisfies_sha256sum(&copy);
                for path in sums.paths() {
                    let found = fs::read(copy.join(path)).unwrap();
                    let is_its_own = found == path.as_os_str().as_bytes();
                    assert!(is_its_own || path == "Other", "{path:?}");
                }
            }
        }
    }
}

#[test]
fn nothing_that_a_run_without_digests_has_made_is_replaced_by_another_name() {
    for disk in disks() {
        let trees = Trees::new();
        trees.put("A", "one").put("a", "other");
        let run = disk.run(&trees, &["--no-hash", "--jobs=1"]);
        run.failed_naming(&[&refused("a", "A")]);
        disk.holds("A", "one");
        let run = disk.run(&trees, &["--no-hash", "--overwrite-policy=always"]);
        let [loser, winner] = match disk.listing {
            Listing::Keeps => [("a", "A"), ("A", "one")],
            // Nothing tells there by which name a file was made.
            Listing::Folds => [("A", "a"), ("a", "other")],
        };
        run.failed_naming(&[&refused(loser.0, loser.1)]);
        disk.holds(winner.0, winner.1);
    }
}

#[test]
fn a_file_renamed_in_the_source_does_not_replace_what_is_recorded_by_its_old_name() {
    for disk in disks() {
        for (before, after) in [("a", "A"), ("B", "b")] {
            let trees = Trees::new();
            trees.put(before, "recorded").put("x", "");
            let _ = fs::remove_dir_all(disk.copy());
            disk.run(&trees, &[]).is_quiet();
            fs::rename(trees.original(before), trees.original(after)).unwrap();
            trees.put(after, "changed since");
            for _ in 0..2 {
                let run = disk.run(&trees, &["--overwrite-policy=always"]);
                run.failed_naming(&[&refused(after, before)]);
                disk.lists(&[before, "x"]);
                disk.holds(before, "recorded");
            }
        }
    }
}

/// The killed run has announced the old name, and has not made it.
#[test]
fn a_file_renamed_after_a_kill_has_one_record() {
    if !has_program("strace") {
        return;
    }
    for disk in disks_that_keep_case() {
        let trees = Trees::new();
        trees.put("readme", "first").put("x", "");
        let mut command = zc_dircopy();
        command.args(["-q", "--jobs=1"]);
        command.arg(trees.source()).arg(disk.copy());
        let calls = "linkat,rename,renameat,renameat2";
        let kill = format!("--inject={calls}:signal=KILL:when=1");
        let killed = traced(&command, &[format!("--trace={calls}"), kill]);
        assert_eq!(killed.run.status, 128 + 9, "{killed:?}");
        assert!(!disk.copy().join("readme").exists(), "{killed:?}");
        fs::remove_file(trees.original("readme")).unwrap();
        trees.put("README", "second");
        for _ in 0..2 {
            disk.run(&trees, &[]).is_quiet();
            disk.lists(&["README", "x"]);
        }
    }
}

#[test]
fn a_file_renamed_in_the_archive_is_not_replaced_while_the_source_has_both_names() {
    for disk in disks_that_keep_case() {
        let trees = Trees::new();
        trees.put("B", "first").put("x", "");
        dated(&trees.original("B"), 100);
        disk.run(&trees, &[]).is_quiet();
        fs::rename(disk.copy().join("B"), disk.copy().join("aside")).unwrap();
        fs::rename(disk.copy().join("aside"), disk.copy().join("b")).unwrap();
        trees.put("b", "second");
        let run = disk.run(&trees, &[]);
        run.failed_naming(&[&["b", "B"]]);
        disk.holds("b", "first");
        disk.lists(&["B", "x"]);
    }
}

#[test]
fn a_file_renamed_in_both_trees_is_one_and_its_old_record_can_be_forgotten() {
    // The others list the same name as before.
    for disk in disks_that_keep_case() {
        let trees = Trees::new();
        trees.put("Dir/A", "it").put("B", "it").put("x", "");
        disk.run(&trees, &[]).is_quiet();
        for (before, after) in [("B", "b"), ("Dir/A", "Dir/a"), ("Dir", "dir")] {
            fs::rename(trees.original(before), trees.original(after)).unwrap();
            // exFAT's driver would find that the new name exists.
            fs::rename(disk.copy().join(before), disk.copy().join("aside")).unwrap();
            fs::rename(disk.copy().join("aside"), disk.copy().join(after)).unwrap();
        }
        disk.run(&trees, &[]).is_quiet();
        disk.lists(&["B", "Dir/A", "b", "dir/a", "x"]);
        disk.run(&trees, &["--forget-missing"]).is_quiet();
        disk.lists(&["b", "dir/a", "x"]);
    }
}

#[test]
fn only_missing_files_are_forgotten_where_names_are_listed_in_other_letters() {
    for disk in disks() {
        let (trees, later) = (Trees::new(), Trees::new());
        trees.put("Kept/File", "it").put("Gone", "it");
        later.put("x", "");
        disk.run(&trees, &[]).is_quiet();
        fs::remove_file(disk.copy().join("Gone")).unwrap();
        disk.run(&later, &["--forget-missing"]).is_quiet();
        disk.lists(&["Kept/File", "x"]);
    }
}

#[test]
fn a_file_that_is_listed_by_another_spelling_than_its_record_is_checked_once() {
    for disk in disks() {
        let trees = Trees::new();
        let names = ["Clip.MOV", "Dir/Sub/0001", "Dir/Sub/Clip", "x"];
        for name in names {
            trees.put(name, "it");
        }
        disk.run(&trees, &[]).is_quiet();
        if disk.listing == Listing::Keeps {
            // exFAT's driver would find that the new name exists.
            fs::rename(disk.copy().join("Clip.MOV"), disk.copy().join("aside")).unwrap();
            fs::rename(disk.copy().join("aside"), disk.copy().join("clip.mov")).unwrap();
        }
        let all = "Clip.MOV: OK\nDir/Sub/0001: OK\nDir/Sub/Clip: OK\nx: OK\n";
        let run = check(&disk.copy(), &["--strict"]);
        assert_eq!((run.status, run.stdout.as_str()), (0, all));
        fs::write(disk.copy().join("dir/sub/new"), "").unwrap();
        let run = check(&disk.copy(), &["--strict", "--silent"]);
        let unlisted = run.stdout.to_ascii_lowercase();
        assert_eq!(
            (run.status, unlisted.as_str()),
            (1, "dir/sub/new: failed not listed\n")
        );
    }
}

#[test]
fn each_directory_is_listed_a_few_times_to_forget_what_is_missing() {
    if !has_program("strace") {
        return;
    }
    for disk in disks() {
        let (trees, later) = (Trees::new(), Trees::new());
        for n in 0..100 {
            for directory in ["", "Dir/", "Dir/Sub/"] {
                trees.put(format!("{directory}File{n}"), "it");
            }
        }
        disk.run(&trees, &[]).is_quiet();
        fs::remove_file(disk.copy().join("Dir/File7")).unwrap();
        let listings = ["--trace=getdents64".to_owned()];
        let check = check_command(&disk.copy(), &["--forget-missing", "-q"]);
        // The file that is missing has failed, for the last time.
        let n_listings = traced(&check, &listings).n_lines_with("getdents64(");
        assert!((1..40).contains(&n_listings), "{n_listings}");
        assert_eq!(Sums::newest_in(&disk.copy()).lines.len(), 299);
        later.put("x", "");
        let mut copy = zc_dircopy();
        copy.args(["-q", "--forget-missing"]);
        copy.arg(later.source()).arg(disk.copy());
        let traced = traced(&copy, &listings);
        traced.run.is_quiet();
        let n_listings = traced.n_lines_with("getdents64(");
        assert!((1..40).contains(&n_listings), "{n_listings}");
        assert_eq!(Sums::newest_in(&disk.copy()).lines.len(), 300);
    }
}

#[test]
fn the_destination_and_its_records_are_read_a_few_times_to_refuse_many_names() {
    if !has_program("strace") {
        return;
    }
    for disk in disks() {
        let (trees, relettered) = (Trees::new(), Trees::new());
        for n in 0..100 {
            trees.put(format!("Dir/CLIP{n}"), "it");
            relettered.put(format!("Dir/clip{n}"), "it");
        }
        disk.run(&trees, &[]).is_quiet();
        let mut copy = zc_dircopy();
        copy.arg("-q").arg(relettered.source()).arg(disk.copy());
        let options = ["-e".to_owned(), "trace=getdents64,pread64".to_owned()];
        let traced = traced(&copy, &options);
        let messages = (0..100).map(|n| {
            let (name, other) = (format!("Dir/clip{n}"), format!("Dir/CLIP{n}"));
            refused(name.leak(), other.leak())
        });
        assert_eq!(traced.run.ended_with(1).stderr.lines().count(), 100);
        for [message, _] in messages {
            assert!(traced.run.stderr.contains(message), "{message}");
        }
        for call in ["getdents64(", "pread64("] {
            let n_calls = traced.n_lines_with(call);
            assert!((1..60).contains(&n_calls), "{call}: {n_calls}");
        }
        assert_eq!(Sums::newest_in(&disk.copy()).lines.len(), 100);
    }
}

#[test]
fn a_directory_is_not_merged_with_another_and_is_reported_once() {
    for disk in disks() {
        let trees = Trees::new();
        trees
            .put("Dir/x", "one")
            .put("dir/x", "other")
            .put("dir/y", "left out")
            .put("dir/sub/z", "left out");
        for _ in 0..2 {
            let run = disk.run(&trees, &["--overwrite-policy=always"]);
            run.failed_naming(&[&refused("dir", "Dir")]);
            disk.lists(&["Dir/x"]);
            disk.holds("Dir/x", "one");
            assert_eq!(disk.n_files(), 1);
        }
        // Nor if the first one is no longer there.
        fs::remove_dir_all(trees.original("Dir")).unwrap();
        let run = disk.run(&trees, &[]);
        run.failed_naming(&[&refused("dir", "Dir")]);
        disk.lists(&["Dir/x"]);
    }
}

#[test]
fn a_file_and_a_directory_may_be_one_name_too() {
    for disk in disks() {
        let trees = Trees::new();
        trees.put("it/x", "in it").put("IT", "a file");
        for _ in 0..2 {
            let run = disk.run(&trees, &["--jobs=1"]);
            assert_eq!(run.ended_with(1).stderr.lines().count(), 1, "{run:?}");
            let n_lines = Sums::newest_in(&disk.copy()).lines.len();
            assert_eq!(n_lines, 1);
            assert_eq!(disk.n_files(), 1);
        }
    }
}

#[test]
fn two_names_of_one_file_are_one_name_there_and_the_other_is_reported() {
    for disk in disks() {
        let trees = Trees::new();
        trees.put("LINK", "it");
        fs::hard_link(trees.original("LINK"), trees.original("link")).unwrap();
        for _ in 0..2 {
            let run = disk.run(&trees, &[]);
            run.failed_naming(&[&refused("link", "LINK")]);
            disk.lists(&["LINK"]);
            disk.holds("LINK", "it");
        }
    }
}

#[test]
fn no_file_of_the_source_replaces_a_manifest_by_another_spelling() {
    for disk in disks() {
        let trees = Trees::new();
        trees.put("a", "it");
        disk.run(&trees, &[]).is_quiet();
        let manifest = Sums::newest_in(&disk.copy()).path;
        let before = fs::read(&manifest).unwrap();
        let name = manifest.file_name().unwrap().to_str().unwrap();
        let upper = name.to_uppercase();
        trees.put(&upper, "no manifest");
        let run = disk.run(&trees, &["--overwrite-policy=always"]);
        let message =
            format!("{upper}: not copied: the destination does not tell its name from {name}");
        run.failed_naming(&[&[&message]]);
        assert_eq!(fs::read(&manifest).unwrap(), before);
        disk.lists(&["a"]);
    }
}

#[test]
fn names_in_any_letters_are_copied_and_replaced_if_no_other_is_in_the_way() {
    for disk in disks() {
        let trees = Trees::new();
        let names = ["DCIM/IMG_0001.JPG", "Grüße", "Plain", "plain too", "É"];
        for (n, name) in names.into_iter().enumerate() {
            trees.put(name, name);
            dated(&trees.original(name), 100 + n as u64);
        }
        for options in [&[][..], &[], &["--verify-existing"], &["--no-hash"]] {
            disk.run(&trees, options).is_quiet();
        }
        for name in names {
            trees.put(name, format!("{name}, later"));
        }
        for _ in 0..2 {
            disk.run(&trees, &[]).is_quiet();
            disk.lists(&names);
            disk.holds("Plain", "Plain, later");
        }
    }
}

#[test]
fn a_destination_that_tells_names_apart_gets_all_of_them() {
    let trees = Trees::new();
    trees.put("README", "one").put("Dir/x", "x");
    trees.succeeds(&[]);
    trees
        .put("readme", "other")
        .put("dir/x", "other")
        .put("Dir/X", "X")
        .put_copy("readme", "there, and not recorded")
        .put_copy("Dir/X", "")
        .put_copy("dir/x", "");
    trees.succeeds(&["--overwrite-policy=always"]).are_alike();
    trees.succeeds(&[]).are_alike();
}

#[test]
fn the_records_are_not_read_for_a_file_without_one_where_names_are_told_apart() {
    if !has_program("strace") {
        return;
    }
    let trees = Trees::new();
    trees.put("Recorded", "it");
    trees.succeeds(&[]);
    let n_reads = || {
        let options = ["-e".to_owned(), "trace=pread64".to_owned()];
        let traced = traced(&trees.command(&["--no-hash-skipped"]), &options);
        traced.run.is_quiet();
        traced.n_lines_with("shasum.")
    };
    let before = n_reads();
    assert!(before > 0, "manifests are read by another call");
    trees.put("Unrecorded", "it").put_copy("Unrecorded", "it");
    for tree in [trees.original("Unrecorded"), trees.copied("Unrecorded")] {
        dated(&tree, 7);
    }
    assert_eq!(n_reads(), before);
}

#[test]
fn a_destination_that_tells_names_apart_costs_no_call_for_it() {
    if !has_program("strace") {
        return;
    }
    let trees = Trees::new();
    for n in 0..300 {
        trees.put(format!("File{n}"), "it");
    }
    trees.succeeds(&[]);
    let options = ["-e".to_owned(), "trace=openat,newfstatat".to_owned()];
    let traced = traced(&trees.command(&["--no-hash-skipped", "--jobs=1"]), &options);
    traced.run.is_quiet();
    let n_calls = |what: &str| {
        let lines = traced.log.lines();
        let is_of_file = |line: &&str| line.contains(what) && line.contains("\"File");
        lines.filter(is_of_file).count()
    };
    // One in the source and one in the destination.
    assert_eq!((n_calls("newfstatat("), n_calls("openat(")), (600, 0));
}

#[test]
fn the_map_of_a_damaged_file_is_not_replaced_by_that_of_a_refused_one() {
    for disk in disks() {
        let trees = Trees::new();
        let (zeros, ones) = ([0; 4096], [1; 4096]);
        trees.put("d/CLIP", [zeros, ones].concat());
        trees.put("d/CLIP.damaged", map('-', '+'));
        trees.put("d/clip", [ones, zeros].concat());
        trees.put("d/clip.damaged", map('+', '-'));
        for _ in 0..2 {
            disk.run(&trees, &["--skip-errors"]).ended_with(1);
            let copy = fs::read(disk.copy().join("d/CLIP")).unwrap();
            let map = fs::read_to_string(disk.copy().join("d/CLIP.damaged")).unwrap();
            let lost = if copy[0] == 0 {
                " 0x00001000  -"
            } else {
                "0x00001000  0x00001000  -"
            };
            assert!(
                map.contains(lost) && map.matches("  -").count() == 1,
                "{map}"
            );
        }
    }
}

#[test]
fn a_map_is_found_where_its_file_comes_back_spelled_otherwise() {
    for disk in disks() {
        let trees = Trees::new();
        let bytes = [[0; 4096], [1; 4096]].concat();
        trees.put("CLIP", &bytes).put("CLIP.damaged", map('-', '+'));
        disk.run(&trees, &["--skip-errors"]).ended_with(1);
        for name in ["CLIP", "CLIP.damaged"] {
            let small = trees.original(name.replace("CLIP", "clip"));
            fs::rename(trees.original(name), small).unwrap();
        }
        for options in [&["--no-hash-skipped"][..], &[]] {
            disk.run(&trees, options).failed_naming(&[&["clip"]]);
            let check = check(&disk.copy(), &["--silent"]);
            assert_eq!(check.status, 1, "{check:?}");
        }
    }
}

/// Where an archive lists names in small letters, its records have those of the source.
#[test]
fn a_bag_is_finished_and_updated_and_checked() {
    for disk in disks() {
        let trees = Trees::new();
        trees.put("Dir/One", "one").put("TWO", "two").put("x", "");
        let bag = ["--manifest=bagit"];
        disk.run(&trees, &bag).is_quiet();
        trees.put("Dir/Sub/Three", "three").put("TWO", "2.0");
        disk.run(&trees, &bag).is_quiet();
        disk.run(&trees, &bag).is_quiet();
        let manifest = fs::read_to_string(disk.copy().join("manifest-sha256.txt")).unwrap();
        let paths: Vec<_> = manifest.lines().map(|line| &line[66..]).collect();
        let expected = ["Dir/One", "Dir/Sub/Three", "TWO", "x"];
        assert_eq!(paths, expected.map(|path| format!("data/{path}")));
        check(&disk.copy(), &["-q"]).is_quiet();
        // A file that the bag lacks is found by any spelling, and one that is gone is missing.
        fs::write(disk.copy().join("data/Dir/Extra"), "").unwrap();
        fs::remove_file(disk.copy().join("data/Dir/Sub/Three")).unwrap();
        fs::remove_file(trees.original("Dir/Sub/Three")).unwrap();
        let run = disk.run(&trees, &bag);
        let extra = match disk.listing {
            Listing::Keeps => "Dir/Extra",
            Listing::Folds => "Dir/extra",
        };
        run.failed_naming(&[
            &[extra, "no record"],
            &["Dir/Sub/Three", "it is missing"],
            &["copy", "not finished"],
        ]);
    }
}

#[test]
fn a_name_that_differs_from_the_original_in_case_alone_is_not_taken_to_be_gone() {
    for disk in disks() {
        let trees = Trees::new();
        trees.put("README", "one").put("Dir/File", "").put("x", "");
        disk.run(&trees, &[]).is_quiet();
        for (before, after) in [("README", "readme"), ("Dir/File", "Dir/FILE")] {
            fs::rename(trees.original(before), trees.original(after)).unwrap();
        }
        trees.put("readme", "newer");
        fs::remove_file(trees.original("x")).unwrap();
        trees.put("y", "");
        let run = disk.run(&trees, &["--delete"]);
        let file = match disk.listing {
            Listing::Keeps => "Dir/File",
            Listing::Folds => "Dir/file",
        };
        // They belong to the recorded names, as in a run without --delete.
        run.failed_naming(&[&refused("readme", "README"), &refused("Dir/FILE", file)]);
        disk.holds("README", "one");
        disk.holds("Dir/File", "");
        let entries = fs::read_dir(disk.copy()).unwrap();
        let folder = entries.map(|entry| entry.unwrap().path());
        let is_folder = |path: &PathBuf| path.to_string_lossy().contains("deleted.");
        let folder = folder.into_iter().find(is_folder).unwrap();
        let moved = copies_in(&folder);
        assert_eq!(moved.len(), 1, "{moved:?}");
        assert!(folder.join("x").exists());
    }
}

#[test]
fn a_history_goes_on_by_the_names_of_the_source() {
    for disk in disks() {
        let trees = Trees::new();
        trees.put("Dir/One", "one").put("TWO", "two").put("x", "");
        let history = ["--manifest=ascmhl"];
        disk.run(&trees, &history).is_quiet();
        trees.put("Dir/Sub/Three", "three");
        disk.run(&trees, &history).is_quiet();
        disk.run(&trees, &history).is_quiet();
        check(&disk.copy(), &["-q", "--strict"]).is_quiet();
        let run = check(&disk.copy(), &["--no-summary"]);
        let expected = "Dir/One: OK\nDir/Sub/Three: OK\nTWO: OK\nx: OK\n";
        assert_eq!(run.stdout, expected);
        fs::write(disk.copy().join("Dir/One"), "0ne").unwrap();
        let run = check(&disk.copy(), &["--silent", "--no-summary"]);
        assert_eq!((run.status, &*run.stdout), (1, "Dir/One: FAILED\n"));
    }
}

/// Other programs would not find it by its old name where names are told apart.
#[test]
fn a_file_that_was_renamed_in_a_bag_keeps_it_from_being_finished() {
    for disk in disks_that_keep_case() {
        let trees = Trees::new();
        trees.put("B", "it").put("x", "");
        let bag = ["--manifest=bagit"];
        disk.run(&trees, &bag).is_quiet();
        let copied = |name| disk.copy().join("data").join(name);
        fs::rename(copied("B"), copied("aside")).unwrap();
        fs::rename(copied("aside"), copied("b")).unwrap();
        disk.run(&trees, &bag).failed_naming(&[
            &["B", "it is missing"],
            &["b", "no record"],
            &["copy", "not finished"],
        ]);
    }
}
