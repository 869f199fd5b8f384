//! Sources that cannot be read everywhere, on a real disk with bad blocks.

use std::os::unix::fs::MetadataExt as _;

use super::*;
use crate::bad_disk::{BLOCK, BadDisk, words, zeroed};
use crate::skip::has_program;
use traced::meddled;

const LEN: usize = 40 * BLOCK + 777;

/// A source on a disk with bad blocks, and a copy elsewhere.
struct Scene {
    disk: BadDisk,
    scratch: TempDir,
    clip: Vec<u8>,
}

impl Scene {
    /// A clip, which can be read, between two other files.
    fn new() -> Option<Self> {
        let disk = BadDisk::new(192)?;
        let clip = words(LEN);
        let scene = Self {
            disk,
            scratch: tempfile::tempdir_in(DISK).unwrap(),
            clip,
        };
        put(&scene.original("d/clip"), &scene.clip);
        put(&scene.original("d/a"), "before");
        put(&scene.original("d/z"), "behind");
        fs::set_permissions(scene.original("d/clip"), fs::Permissions::from_mode(0o640)).unwrap();
        dated(&scene.original("d/clip"), 1000);
        Some(scene)
    }

    /// The same with bad blocks.
    fn damaged(bad: &[usize]) -> Option<Self> {
        let scene = Self::new()?;
        scene.flip(bad);
        Some(scene)
    }

    fn flip(&self, blocks: &[usize]) {
        let clip = fs::File::open(self.original("d/clip")).unwrap();
        self.disk.flip(&clip, &self.clip, blocks);
    }

    fn source(&self) -> PathBuf {
        self.disk.dir().join("src")
    }

    fn original(&self, name: &str) -> PathBuf {
        self.source().join(name)
    }

    fn copy(&self) -> PathBuf {
        self.scratch.path().join("dst")
    }

    fn copied(&self, name: &str) -> PathBuf {
        self.copy().join(name)
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = zc_dircopy();
        command.arg("--quiet").args(options);
        command.arg(self.source()).arg(self.copy());
        command
    }

    fn run(&self, options: &[&str]) -> Run {
        run(&mut self.command(options))
    }

    fn check(&self, options: &[&str]) -> Run {
        check(&self.copy(), options)
    }

    /// The copy lacks these blocks, its map says so, it has no line, and `--check` fails for it.
    #[track_caller]
    fn lacks(&self, name: &str, bad: &[usize]) {
        let expected = zeroed(&self.clip, bad);
        let found = fs::read(self.copied(name)).unwrap();
        crate::files::assert_same(&found, &expected, name);
        let map = self.copied(&format!("{name}.damaged"));
        assert_eq!(mapped(&map, LEN), bad);
        let sums = Sums::newest_in(&self.copy());
        sums.holds_in(&self.copy());
        sums.lists(&["d/a", "d/z"]);
        for options in [&["--silent"][..], &["--silent", "--strict"]] {
            let check = self.check(options);
            assert_eq!(check.status, 1, "{check:?}");
            assert!(
                check.stdout.contains(&format!("{name}: FAILED damaged\n")),
                "{check:?}"
            );
            assert!(!check.stdout.contains("not listed"), "{check:?}");
        }
        hides_nothing(&self.copy());
    }

    /// The copy is whole, has its line, and no map.
    #[track_caller]
    fn is_whole(&self) {
        assert!(fs::read(self.copied("d/clip")).unwrap() == self.clip);
        assert!(!self.copied("d/clip.damaged").exists());
        let sums = Sums::newest_in(&self.copy());
        sums.lists(&["d/a", "d/clip", "d/z"]).holds_in(&self.copy());
        assert_eq!(self.check(&["-q", "--strict"]).status, 0);
    }
}

/// The bad blocks that a map lists, once its form has been checked.
#[track_caller]
fn mapped(map: &Path, size: usize) -> Vec<usize> {
    let text = fs::read_to_string(map).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let lines: Vec<Vec<_>> = lines
        .map(|line| line.split(' ').filter(|word| !word.is_empty()).collect())
        .collect();
    let number = |word: &str| usize::from_str_radix(word.strip_prefix("0x").unwrap(), 16).unwrap();
    let (mut end, mut bad) = (0, Vec::new());
    for line in &lines[1..] {
        let (offset, bytes) = (number(line[0]), number(line[1]));
        assert_eq!(offset, end, "{text}");
        end += bytes;
        match line[2] {
            "+" => {}
            "-" => bad.extend(offset / BLOCK..end.div_ceil(BLOCK)),
            other => panic!("{other}"),
        }
    }
    assert_eq!(end, size, "{text}");
    bad
}

#[test]
fn a_damaged_original_is_copied_whatever_is_verified() {
    for verify in ["--verify", "--verify=source", "--verify=both"] {
        let Some(scene) = Scene::damaged(&[10, 11, 30]) else {
            return;
        };
        let run = scene.run(&["--skip-errors", verify]);
        assert_eq!(run.status, 1, "{run:?}");
        scene.lacks("d/clip", &[10, 11, 30]);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_not_copied_and_the_offset_is_named() {
    let Some(scene) = Scene::damaged(&[10, 11, 30]) else {
        return;
    };
    for options in [&[][..], &["--no-hash"], &["--verify"]] {
        let run = scene.run(options);
        run.failed_naming(&[&["d/clip", "cannot read: Input/output error at offset 40960"]]);
        assert!(!scene.copied("d/clip").exists());
        assert!(!scene.copied("d/clip.damaged").exists());
    }
    scene.flip(&[10, 11, 30]);
    scene.run(&[]).is_quiet();
    scene.is_whole();
}

#[test]
fn a_copy_that_cannot_be_read_is_named_with_the_offset() {
    let Some(disk) = BadDisk::new(192) else {
        return;
    };
    let trees = Trees::new();
    let clip = words(LEN);
    trees.put("clip", &clip);
    let copy = disk.dir().join("dst");
    let copied = || {
        let mut command = zc_dircopy();
        run(command.arg("-q").arg(trees.source()).arg(&copy))
    };
    copied().is_quiet();
    disk.flip(&fs::File::open(copy.join("clip")).unwrap(), &clip, &[7]);
    let words = "cannot read its copy: Input/output error at offset 28672";
    copied().failed_naming(&[&["clip", words]]);
    let check = check(&copy, &["-q"]);
    assert!(
        check
            .stderr
            .contains("clip: Input/output error at offset 28672\n"),
        "{check:?}"
    );
}

#[test]
fn all_that_can_be_read_is_kept_beside_a_map_and_without_a_line() {
    for bad in [&[0][..], &[10, 11, 30], &[40], &[0, 40]] {
        let Some(scene) = Scene::damaged(bad) else {
            return;
        };
        let run = scene.run(&["--skip-errors", "--verify"]);
        let lost: u64 = bad
            .iter()
            .map(|block| if *block == 40 { 777 } else { BLOCK as u64 })
            .sum();
        let lost = format!("cannot read {lost} bytes (");
        let first = format!(" at offset {}", bad[0] * BLOCK);
        run.failed_naming(&[&[
            "d/clip: ",
            &lost,
            &first,
            "its copy has zeros there, and a map",
        ]]);
        scene.lacks("d/clip", bad);
        let [original, copied] = [scene.original("d/clip"), scene.copied("d/clip")]
            .map(|path| fs::metadata(path).unwrap());
        let facts = |of: &fs::Metadata| (of.mode(), of.mtime(), of.mtime_nsec(), of.len());
        assert_eq!(facts(&copied), facts(&original));
    }
}

#[test]
fn a_file_of_which_nothing_can_be_read_gets_no_copy() {
    let Some(scene) = Scene::damaged(&(0..=40).collect::<Vec<_>>()) else {
        return;
    };
    let run = scene.run(&["--skip-errors"]);
    run.failed_naming(&[&["d/clip", "cannot read any of its 164617 bytes"]]);
    assert!(!scene.copied("d/clip").exists());
    assert!(!scene.copied("d/clip.damaged").exists());
}

#[test]
fn zeros_in_place_of_bad_blocks_are_holes() {
    let Some(scene) = Scene::damaged(&(4..36).collect::<Vec<_>>()) else {
        return;
    };
    scene.run(&["--skip-errors"]).ended_with(1);
    let copied = fs::metadata(scene.copied("d/clip")).unwrap();
    assert!(copied.blocks() * 512 <= 12 * BLOCK as u64, "{copied:?}");
}

#[test]
fn programs_are_told_of_every_range() {
    let Some(scene) = Scene::damaged(&[10, 11, 30]) else {
        return;
    };
    let mut command = zc_dircopy();
    command.args(["--json", "--skip-errors"]);
    let run = run(command.arg(scene.source()).arg(scene.copy()));
    let damaged = "{\"event\":\"damaged\",\"path\":\"d/clip\",\"lost_bytes\":12288,\
        \"ranges\":[{\"offset\":40960,\"bytes\":8192},{\"offset\":122880,\"bytes\":4096}],\"is_copied\":true}\n";
    assert!(run.stdout.contains(damaged), "{run:?}");
    assert!(
        run.stdout
            .contains("\"failed\":1,\"attributes_not_kept\":0,\"damaged\":1,\"lost_bytes\":12288,"),
        "{run:?}"
    );
    let check = scene.check(&["--json"]);
    assert!(
        check
            .stdout
            .contains("\"path\":\"d/clip\",\"result\":\"damaged\"}\n"),
        "{check:?}"
    );
    assert!(check.stdout.contains("\"damaged\":1,"), "{check:?}");
}

/// The copy has the size and the time of its original, and must not be taken for it.
#[test]
fn a_damaged_copy_is_never_recorded_as_if_it_were_whole() {
    let Some(scene) = Scene::damaged(&[3]) else {
        return;
    };
    scene.run(&["--skip-errors"]).ended_with(1);
    for options in [
        &["--skip-errors"][..],
        &[],
        &["--no-hash-skipped"],
        &["--no-hash-skipped", "--skip-errors"],
        &["--overwrite-policy=update", "--skip-errors"],
        &["--overwrite-policy=always", "--skip-errors"],
        &["--overwrite-policy=never"],
        &["--verify-existing"],
        &["--no-hash"],
    ] {
        let run = scene.run(options);
        run.failed_naming(&[&["d/clip"]]);
        scene.lacks("d/clip", &[3]);
    }
    // A run from another source does not meet it.
    let other = Trees::new();
    other.put("new", "new");
    let mut command = zc_dircopy();
    run(command.arg("-q").arg(other.source()).arg(scene.copy())).is_quiet();
    fs::remove_file(scene.copied("new")).unwrap();
    assert_eq!(scene.check(&["-q"]).status, 1);
}

#[test]
fn a_better_copy_replaces_a_worse_one_and_a_worse_one_does_not() {
    let Some(scene) = Scene::damaged(&[3, 4, 20]) else {
        return;
    };
    scene.run(&["--skip-errors"]).ended_with(1);
    scene.lacks("d/clip", &[3, 4, 20]);
    scene.flip(&[3, 4, 30]);
    scene.run(&["--skip-errors"]).ended_with(1);
    scene.lacks("d/clip", &[20, 30]);
    scene.flip(&[0, 1]);
    let run = scene.run(&["--skip-errors"]);
    run.failed_naming(&[&["d/clip", "its damaged copy, which lacks no more, is kept"]]);
    scene.lacks("d/clip", &[20, 30]);
    scene.flip(&[0, 1, 20, 30]);
    scene.run(&[]).is_quiet();
    scene.is_whole();
}

#[test]
fn a_copy_that_ddrescue_completed_is_recorded() {
    let Some(scene) = Scene::damaged(&[3]) else {
        return;
    };
    scene.run(&["--skip-errors"]).ended_with(1);
    let file = fs::File::options()
        .write(true)
        .open(scene.copied("d/clip"))
        .unwrap();
    let block = &scene.clip[3 * BLOCK..4 * BLOCK];
    std::os::unix::fs::FileExt::write_all_at(&file, block, 3 * BLOCK as u64).unwrap();
    let map =
        format!("# Mapfile. Created by GNU ddrescue version 1.27\n0x3000 + 1\n0x0 {LEN:#x} +\n");
    fs::write(scene.copied("d/clip.damaged"), map).unwrap();
    assert_eq!(scene.check(&["-q"]).status, 0);
    scene.run(&[]).is_quiet();
    scene.is_whole();
}

/// As the guide tells.
#[test]
fn ddrescue_completes_a_copy_which_is_accepted_then() {
    let Some(scene) = Scene::damaged(&[3, 9]) else {
        return;
    };
    if !has_program("ddrescue") {
        return;
    }
    scene.run(&["--skip-errors"]).ended_with(1);
    let rescue = || {
        let mut ddrescue = Command::new("ddrescue");
        ddrescue.args(["--quiet", "-r3"]);
        ddrescue.args([scene.original("d/clip"), scene.copied("d/clip")]);
        let rescued = ddrescue.arg(scene.copied("d/clip.damaged")).status();
        assert!(rescued.unwrap().success());
    };
    scene.flip(&[9]);
    rescue();
    let check = scene.check(&["--silent"]);
    assert_eq!(check.stdout, "d/clip: FAILED damaged\n");
    scene.flip(&[3]);
    rescue();
    let check = scene.check(&["-q", "--strict", "--accept=d/clip"]);
    assert_eq!(check.status, 0, "{check:?}");
    scene.is_whole();
    scene.run(&[]).is_quiet();
}

#[test]
fn an_accepted_copy_is_no_longer_damaged() {
    let Some(scene) = Scene::damaged(&[3]) else {
        return;
    };
    scene.run(&["--skip-errors"]).ended_with(1);
    scene.run(&["--accept=d/clip"]).is_quiet();
    assert!(!scene.copied("d/clip.damaged").exists());
    assert_eq!(scene.check(&["-q", "--strict"]).status, 0);
}

#[test]
fn a_good_copy_is_not_replaced_by_a_damaged_one() {
    let Some(scene) = Scene::new() else {
        return;
    };
    scene.run(&[]).is_quiet();
    scene.is_whole();
    scene.flip(&[5]);
    dated(&scene.original("d/clip"), 10);
    for options in [
        &["--skip-errors"][..],
        &["--skip-errors", "--no-hash-skipped"],
    ] {
        let run = scene.run(options);
        run.failed_naming(&[&[
            "d/clip",
            "cannot read 4096 bytes (4096 at offset 20480)",
            "its existing copy is kept",
        ]]);
        scene.is_whole();
    }
    // Nor by one that nothing is recorded of.
    fs::remove_dir_all(scene.copy()).unwrap();
    put(&scene.copied("d/clip"), "mine");
    scene.run(&["--skip-errors"]).ended_with(1);
    assert_eq!(fs::read(scene.copied("d/clip")).unwrap(), b"mine");
    assert!(!scene.copied("d/clip.damaged").exists());
}

/// Its record says what it should be, so that every check fails until it is.
#[test]
fn a_damaged_copy_of_a_file_that_was_recorded_and_is_gone_keeps_the_record() {
    let Some(scene) = Scene::new() else {
        return;
    };
    scene.run(&[]).is_quiet();
    fs::remove_file(scene.copied("d/clip")).unwrap();
    scene.flip(&[5]);
    for _ in 0..2 {
        scene.run(&["--skip-errors"]).ended_with(1);
        assert!(fs::read(scene.copied("d/clip")).unwrap() == zeroed(&scene.clip, &[5]));
        assert_eq!(mapped(&scene.copied("d/clip.damaged"), LEN), [5]);
        Sums::newest_in(&scene.copy())
            .lists(&["d/a", "d/clip", "d/z"])
            .holds_in(&{
                let whole = scene.scratch.path().join("whole");
                put(&whole.join("d/clip"), &scene.clip);
                put(&whole.join("d/a"), "before");
                put(&whole.join("d/z"), "behind");
                whole
            });
        assert!(scene.check(&[]).stdout.contains("d/clip: FAILED\n"));
    }
    scene.flip(&[5]);
    scene.run(&[]).is_quiet();
    scene.is_whole();
}

#[test]
fn every_name_of_a_damaged_file_has_a_map() {
    let Some(scene) = Scene::damaged(&[5, 6]) else {
        return;
    };
    fs::hard_link(scene.original("d/clip"), scene.original("d/other")).unwrap();
    fs::hard_link(scene.original("d/clip"), scene.original("third")).unwrap();
    for bad in [&[5, 6][..], &[5]] {
        for _ in 0..2 {
            let run = scene.run(&["--skip-errors"]);
            run.failed_naming(&[&["d/clip"], &["d/other"], &["third"]]);
            for name in ["d/clip", "d/other", "third"] {
                scene.lacks(name, bad);
                let inode = |name| fs::metadata(scene.copied(name)).unwrap().ino();
                assert_eq!(inode(name), inode("d/clip"));
            }
        }
        scene.flip(&[6]);
    }
    scene.flip(&[5, 6]);
    scene.run(&[]).is_quiet();
    for name in ["d/clip", "d/other", "third"] {
        assert!(fs::read(scene.copied(name)).unwrap() == scene.clip);
        assert!(!scene.copied(&format!("{name}.damaged")).exists());
    }
    Sums::newest_in(&scene.copy()).lists(&["d/a", "d/clip", "d/other", "d/z", "third"]);
    assert_eq!(scene.check(&["-q", "--strict"]).status, 0);
}

/// An existing name of another file stays.
#[test]
fn a_good_copy_is_not_replaced_by_a_link_to_a_damaged_one() {
    let Some(scene) = Scene::damaged(&[5]) else {
        return;
    };
    fs::hard_link(scene.original("d/clip"), scene.original("d/other")).unwrap();
    put(&scene.copied("d/other"), "mine");
    let run = scene.run(&["--skip-errors"]);
    run.failed_naming(&[&["d/clip"], &["d/other", "its existing copy is kept"]]);
    assert_eq!(fs::read(scene.copied("d/other")).unwrap(), b"mine");
    assert!(!scene.copied("d/other.damaged").exists());
    assert!(fs::read(scene.copied("d/clip")).unwrap() == zeroed(&scene.clip, &[5]));
    assert_eq!(mapped(&scene.copied("d/clip.damaged"), LEN), [5]);
}

#[test]
fn copies_of_damaged_copies_are_damaged() {
    let Some(scene) = Scene::damaged(&[5]) else {
        return;
    };
    scene.run(&["--skip-errors"]).ended_with(1);
    let second = scene.scratch.path().join("second");
    let copied = |options: &[&str]| {
        let mut command = zc_dircopy();
        command.arg("-q").args(options);
        run(command.arg(scene.copy()).arg(&second))
    };
    // It can be read everywhere, so that no errors need to be skipped.
    for options in [&[][..], &[], &["--skip-errors"]] {
        copied(options).failed_naming(&[&["d/clip", "4096 bytes (4096 at offset 20480)"]]);
        assert_eq!(mapped(&second.join("d/clip.damaged"), LEN), [5]);
        assert!(fs::read(second.join("d/clip")).unwrap() == zeroed(&scene.clip, &[5]));
        let check = check(&second, &["--silent"]);
        assert_eq!(check.stdout, "d/clip: FAILED damaged\n");
    }
}

/// Two names of a damaged file, and its copy.
fn linked() -> Option<Scene> {
    let scene = Scene::damaged(&[5])?;
    fs::hard_link(scene.original("d/clip"), scene.original("d/other")).unwrap();
    let run = scene.run(&["--skip-errors"]);
    run.failed_naming(&[&["d/clip"], &["d/other"]]);
    Some(scene)
}

/// All names are recorded, and none has a map.
#[track_caller]
fn is_accepted(scene: &Scene) {
    for name in ["d/clip", "d/other"] {
        assert!(!scene.copied(&format!("{name}.damaged")).exists());
    }
    let sums = Sums::newest_in(&scene.copy());
    sums.lists(&["d/a", "d/clip", "d/other", "d/z"])
        .holds_in(&scene.copy());
    assert_eq!(scene.check(&["-q", "--strict"]).status, 0);
}

#[test]
fn all_names_of_a_damaged_copy_can_be_accepted() {
    let accepted = ["--accept=d/clip", "--accept=d/other"];
    let Some(scene) = linked() else {
        return;
    };
    let check = scene.check(&[&["-q", "--strict"][..], &accepted].concat());
    assert_eq!(check.status, 0, "{check:?}");
    is_accepted(&scene);
    for options in [&[][..], &["--skip-errors"], &["--no-hash-skipped"]] {
        scene.run(options).is_quiet();
        is_accepted(&scene);
    }
    let Some(scene) = linked() else {
        return;
    };
    for options in [&accepted[..], &[], &["--skip-errors"]] {
        scene.run(options).is_quiet();
        is_accepted(&scene);
    }
}

/// An earlier version left the maps of accepted files until the next run.
#[test]
fn the_map_of_an_accepted_additional_name_is_removed() {
    let Some(scene) = linked() else {
        return;
    };
    let map = fs::read(scene.copied("d/other.damaged")).unwrap();
    let check = scene.check(&["-q", "--accept=d/clip", "--accept=d/other"]);
    assert_eq!(check.status, 0, "{check:?}");
    for name in ["d/clip.damaged", "d/other.damaged"] {
        put(&scene.copied(name), &map);
    }
    scene.run(&[]).is_quiet();
    is_accepted(&scene);
}

#[test]
fn a_name_that_is_linked_to_its_damaged_copy_is_left() {
    let Some(scene) = linked() else {
        return;
    };
    let map = fs::metadata(scene.copied("d/other.damaged")).unwrap().ino();
    let mut command = zc_dircopy();
    command.args(["--json", "--skip-errors"]);
    let run = run(command.arg(scene.source()).arg(scene.copy()));
    for count in ["\"linked\":0,", "\"skipped\":4,", "\"damaged\":2,"] {
        assert!(run.stdout.contains(count), "{run:?}");
    }
    let left = "d/other: cannot read 4096 bytes (4096 at offset 20480); its damaged copy, which lacks no more, is kept";
    assert!(run.stderr.contains(left), "{run:?}");
    assert_eq!(
        fs::metadata(scene.copied("d/other.damaged")).unwrap().ino(),
        map
    );
}

#[test]
fn a_file_that_has_the_name_of_the_map_is_not_replaced() {
    let Some(scene) = Scene::damaged(&[5]) else {
        return;
    };
    put(&scene.original("d/clip.damaged"), "mine");
    for _ in 0..2 {
        let run = scene.run(&["--skip-errors"]);
        run.failed_naming(&[&[
            "d/clip",
            "its map cannot be written",
            "the source has a file of that name",
        ]]);
        assert_eq!(fs::read(scene.copied("d/clip.damaged")).unwrap(), b"mine");
        assert!(!scene.copied("d/clip").exists());
        assert_eq!(scene.check(&["-q", "--strict"]).status, 0);
    }
    fs::remove_file(scene.original("d/clip.damaged")).unwrap();
    let run = scene.run(&["--skip-errors"]);
    run.failed_naming(&[&[
        "d/clip",
        "its map 'clip.damaged' cannot be written",
        "File exists",
    ]]);
    assert_eq!(fs::read(scene.copied("d/clip.damaged")).unwrap(), b"mine");
}

#[test]
fn a_map_without_its_file_is_no_file_to_copy() {
    let trees = Trees::new();
    let map = "# Mapfile. Created by zc-dircopy 0\n0x0 + 1\n0x0 0x1000 -\n";
    trees.put("clip.damaged", map).put("a", "a");
    trees.run(&[]).failed_naming(&[&[
        "clip.damaged",
        "the map of a damaged file that is not there",
    ]]);
    assert!(!trees.copied("clip.damaged").exists());
}

/// A clone shares the bad blocks, and shows them only when it is read.
#[test]
fn a_clone_of_a_damaged_file_is_written_anew() {
    let Some(scene) = Scene::damaged(&[5]) else {
        return;
    };
    let copy = scene.disk.dir().join("dst");
    let copied = |options: &[&str]| {
        let mut command = zc_dircopy();
        command.arg("-q").args(options);
        run(command.arg(scene.source()).arg(&copy))
    };
    copied(&[]).failed_naming(&[&["d/clip", "cannot read", "Input/output error at offset"]]);
    copied(&["--skip-errors"]).failed_naming(&[&["d/clip", "4096 bytes (4096 at offset 20480)"]]);
    assert!(fs::read(copy.join("d/clip")).unwrap() == zeroed(&scene.clip, &[5]));
    assert_eq!(mapped(&copy.join("d/clip.damaged"), LEN), [5]);
    Sums::newest_in(&copy).lists(&["d/a", "d/z"]);
}

/// At every moment, a copy that lacks blocks has a map that lists them.
#[test]
fn a_run_that_is_killed_leaves_no_damaged_copy_without_a_map() {
    let Some(scene) = Scene::damaged(&[5, 9]) else {
        return;
    };
    if !has_program("strace") {
        return;
    }
    let mut n_kills = 0;
    for (n, bad) in [&[5, 9][..], &[9], &[]].into_iter().enumerate() {
        for call in ["linkat", "renameat", "renameat2", "unlinkat"] {
            for nth in 1..100 {
                // As it was before this stage.
                let before = scene.scratch.path().join(format!("before-{n}"));
                if !before.exists() {
                    if n == 0 {
                        fs::create_dir(&before).unwrap();
                    } else {
                        copy_tree(&scene.copy(), &before);
                    }
                }
                let _ = fs::remove_dir_all(scene.copy());
                copy_tree(&before, &scene.copy());
                let kill = format!("{call}:signal=KILL:when={nth}");
                let traced = meddled(&scene.command(&["--skip-errors", "--jobs=1"]), call, &kill);
                let is_killed = traced.run.status == 128 + 9;
                n_kills += u32::from(is_killed);
                let what = format!("{bad:?}: {call} {nth}: {traced:?}");
                let found = fs::read(scene.copied("d/clip")).unwrap_or_default();
                let lacking: Vec<_> = [5, 9]
                    .into_iter()
                    .filter(|n| !found.is_empty() && found[n * BLOCK..][..BLOCK] == [0; BLOCK])
                    .collect();
                if !lacking.is_empty() {
                    let told = mapped(&scene.copied("d/clip.damaged"), LEN);
                    assert!(lacking.iter().all(|block| told.contains(block)), "{what}");
                }
                scene.run(&["--skip-errors"]);
                match bad {
                    [] => scene.is_whole(),
                    bad => scene.lacks("d/clip", bad),
                }
                if !is_killed {
                    break;
                }
            }
        }
        scene.flip(match n {
            0 => &[5],
            1 => &[9],
            _ => &[],
        });
    }
    assert!(n_kills > 8, "{n_kills}");
}

/// A tree as `cp -a` copies it.
fn copy_tree(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.unwrap().success());
}
