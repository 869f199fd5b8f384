//! Copies to several destinations: each holds what it would hold alone, and long files are read
//! once.

use std::os::unix::fs::MetadataExt as _;

use serde_json::Value;
use zcopy::Strategy;

use super::disk::disks;
use super::late_writes::failing_disk;
use super::*;
use crate::bad_disk::{BLOCK, BadDisk, words};
use crate::mounts::{loop_mount, mount_tmpfs};
use crate::refused::needs;
use crate::skip::has_program;
use file_systems::{FileSystem, NtfsNames};
use traced::traced;

mod failing;
mod interrupted;

/// A source, and two destinations or more.
struct Scene {
    trees: Trees,
    destinations: Vec<PathBuf>,
}

impl Scene {
    /// Short and long files of all kinds, and `n` destinations beside them.
    fn new(n: usize) -> Self {
        let trees = Trees::new();
        for n in 0..60 {
            trees.put(format!("short/{n:02}"), format!("the contents of {n}"));
        }
        for n in 0..4 {
            trees.put(format!("long/{n}"), crate::files::pattern((2 << 20) + n));
        }
        trees.put("mid", crate::files::pattern(300_000));
        trees.put("empty", "");
        let sparse = fs::File::create(trees.original("sparse")).unwrap();
        std::os::unix::fs::FileExt::write_at(&sparse, b"in the middle", 3 << 20).unwrap();
        sparse.set_len(8 << 20).unwrap();
        fs::hard_link(trees.original("long/0"), trees.original("name")).unwrap();
        std::os::unix::fs::symlink("long", trees.original("link")).unwrap();
        fs::set_permissions(trees.original("short"), fs::Permissions::from_mode(0o750)).unwrap();
        Self::of(trees, n)
    }

    fn of(trees: Trees, n: usize) -> Self {
        let destinations = (0..n).map(|n| trees.path().join(format!("to{n}")));
        Self {
            destinations: destinations.collect(),
            trees,
        }
    }

    /// The same with another second destination.
    fn with_second(mut self, second: PathBuf) -> Self {
        self.destinations[1] = second;
        self
    }

    fn loud_command(&self, options: &[&str]) -> Command {
        let mut command = zc_dircopy();
        command.args(options).arg("-i").arg(self.trees.source());
        for destination in &self.destinations {
            command.arg("-o").arg(destination);
        }
        command
    }

    fn command(&self, options: &[&str]) -> Command {
        self.loud_command(&[&["--quiet"], options].concat())
    }

    fn run(&self, options: &[&str]) -> Run {
        run(&mut self.command(options))
    }

    /// A destination is as the source, and its manifest lists all files.
    #[track_caller]
    fn is_whole(&self, index: usize) {
        let (source, copy) = (self.trees.source(), &self.destinations[index]);
        facts::assert_same(&source, copy);
        Sums::newest_in(copy).is_whole(&source).holds_in(copy);
        hides_nothing(copy);
    }

    #[track_caller]
    fn are_whole(&self) -> &Self {
        (0..self.destinations.len()).for_each(|index| self.is_whole(index));
        self
    }

    #[track_caller]
    fn succeeds(&self, options: &[&str]) -> &Self {
        self.run(options).is_quiet();
        self
    }
}

#[test]
fn each_destination_holds_what_it_would_hold_alone() {
    for n in [2, 3] {
        for options in [
            &[][..],
            &["--jobs=1"],
            &["--jobs=16"],
            &["--durable"],
            &["--verify=both"],
            &["--lanes=always"],
            &["--hash=blake3"],
            &["--skip-errors"],
            &["--overwrite-policy=always"],
            &["--bwlimit=1GiB"],
        ] {
            let scene = Scene::new(n);
            scene.succeeds(options).are_whole();
            // Again, where all is there already.
            scene.succeeds(options).are_whole();
        }
    }
}

#[test]
fn without_digests_the_trees_are_alike_too() {
    let scene = Scene::new(2);
    scene.succeeds(&["--no-hash"]);
    for copy in &scene.destinations {
        facts::assert_same(&scene.trees.source(), copy);
    }
}

#[test]
fn manifests_of_all_kinds_are_written_to_each() {
    for kind in ["sha256sum", "ascmhl", "bagit"] {
        let scene = Scene::new(2);
        // A history has no links.
        fs::remove_file(scene.trees.original("link")).unwrap();
        scene.succeeds(&["--manifest", kind]);
        for copy in &scene.destinations {
            let checked = check(copy, &["--strict", "--quiet"]);
            assert_eq!(checked.status, 0, "{kind}: {checked:?}");
        }
    }
}

#[test]
fn destinations_may_have_digests_of_different_functions() {
    let scene = Scene::new(2);
    let second = scene.destinations[1].clone();
    let mut command = zc_dircopy();
    command.args(["-q", "--hash=blake3"]);
    run(command.arg(scene.trees.source()).arg(&second)).is_quiet();
    scene.trees.put("later", crate::files::pattern(3 << 20));
    scene.succeeds(&[]).are_whole();
    let algorithms = scene
        .destinations
        .iter()
        .map(|copy| Sums::newest_in(copy).algorithm());
    let expected = [Algorithm::Sha256, Algorithm::Blake3];
    assert_eq!(algorithms.collect::<Vec<_>>(), expected);
}

/// The bytes that the traced process has read of a file.
fn bytes_read(log: &str, file: &Path) -> u64 {
    let file = format!("<{}>", file.display());
    let reads = log.lines().filter(|line| line.contains(&file));
    let counts = reads.filter_map(|line| line.rsplit_once(" = ")?.1.trim().parse::<u64>().ok());
    counts.sum()
}

#[test]
fn a_long_file_is_read_once() {
    const LEN: usize = 128 << 20;
    if !has_program("strace") {
        return;
    }
    for options in [&[][..], &["--no-hash"]] {
        let scene = Scene::of(Trees::new(), 3);
        scene.trees.put("long", vec![7; LEN]);
        let calls = ["--trace=read,pread64,copy_file_range,splice,sendfile".to_owned()];
        let traced = traced(&scene.command(options), &calls);
        traced.run.is_quiet();
        let n_read = bytes_read(&traced.log, &scene.trees.original("long"));
        assert_eq!(n_read, LEN as u64, "{options:?}");
        for copy in &scene.destinations {
            facts::assert_same(&scene.trees.source(), copy);
        }
    }
}

#[test]
fn holes_stay_holes_in_each() {
    let scene = Scene::new(2);
    scene.succeeds(&[]);
    let blocks = |path: &Path| fs::metadata(path.join("sparse")).unwrap().blocks();
    for copy in &scene.destinations {
        assert_eq!(blocks(copy), blocks(&scene.trees.source()));
    }
}

#[test]
fn a_destination_that_shares_blocks_with_the_source_is_cloned_to() {
    if !needs(&[Strategy::Reflink]) {
        return;
    }
    let Some(root) = loop_mount("xfs", 320) else {
        return;
    };
    let trees = Trees::within(&root.dir());
    for n in 0..4 {
        trees.put(format!("{n}"), crate::files::pattern((1 << 20) + n));
    }
    let elsewhere = tempfile::tempdir_in(anywhere()).unwrap();
    let scene = Scene::of(trees, 2).with_second(elsewhere.path().join("copy"));
    let run = run(&mut scene.loud_command(&["--json"]));
    assert_eq!((run.status, run.stderr.as_str()), (0, ""));
    let counts = |index: usize| {
        let summary = &summaries(&run)[index];
        let count = |name: &str| summary[name].as_u64().unwrap();
        [count("cloned"), count("copied")]
    };
    assert_eq!([counts(0), counts(1)], [[4, 0], [0, 4]]);
    scene.are_whole();
}

fn events(run: &Run) -> Vec<Value> {
    let lines = run.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn summaries(run: &Run) -> Vec<Value> {
    let mut events = events(run);
    events.retain(|event| event["event"] == "summary");
    events
}

#[test]
fn objects_and_summaries_tell_their_destination() {
    let scene = Scene::new(2);
    let json = run(&mut scene.loud_command(&["--json"]));
    assert_eq!((json.status, json.stderr.as_str()), (0, ""));
    let names: Vec<_> = scene
        .destinations
        .iter()
        .map(|path| path.to_str().unwrap())
        .collect();
    for event in events(&json) {
        let destination = event["destination"].as_str().unwrap();
        assert!(names.contains(&destination), "{event}");
    }
    for name in &names {
        let is_its_file =
            |event: &&Value| event["event"] == "file" && event["destination"] == *name;
        assert_eq!(events(&json).iter().filter(is_its_file).count(), 60 + 4 + 5);
    }
    let told: Vec<_> = summaries(&json)
        .iter()
        .map(|event| event["destination"].clone())
        .collect();
    assert_eq!(told, names);

    let words = run(&mut scene.loud_command(&[]));
    let lines: Vec<_> = words.stdout.lines().collect();
    for name in names {
        let heading = lines.iter().position(|line| *line == format!("{name}:"));
        let heading = heading.unwrap_or_else(|| panic!("{words:?}"));
        assert!(
            lines[heading + 2].contains(" 68 skipped, 0 failed"),
            "{words:?}"
        );
        assert!(
            lines[heading + 3].starts_with(&format!("digests in {name}/")),
            "{words:?}"
        );
    }
}

#[test]
fn a_dry_run_writes_a_plan_for_each_and_nothing_else() {
    let scene = Scene::new(2);
    let mut command = zc_dircopy();
    command.arg("-q").arg(scene.trees.source());
    run(command.arg(&scene.destinations[1])).is_quiet();
    let before = facts::files_of(&scene.destinations[1]);
    let plan = run(&mut scene.loud_command(&["--dry-run"]));
    assert_eq!((plan.status, plan.stderr.as_str()), (0, ""));
    let [first, second] = [0, 1].map(|index| format!("{}:\n", scene.destinations[index].display()));
    let (_, plans) = plan.stdout.split_once(&first).unwrap();
    let (first, second) = plans.split_once(&second).unwrap();
    assert!(
        first.contains("copy long/1\n") && first.contains("68 to copy, "),
        "{first}"
    );
    assert!(
        second.contains("skip long/1\n") && second.contains("\n0 to copy, "),
        "{second}"
    );
    assert!(!scene.destinations[0].exists());
    assert_eq!(facts::files_of(&scene.destinations[1]), before);
}

#[test]
fn what_the_source_lacks_is_moved_in_each() {
    let scene = Scene::new(2);
    scene.succeeds(&[]);
    fs::remove_file(scene.trees.original("long/3")).unwrap();
    scene.succeeds(&["--delete"]);
    for copy in &scene.destinations {
        assert!(!copy.join("long/3").exists());
        let moved = facts::files_of(copy);
        let is_it = |path: &PathBuf| path.ends_with("long/3");
        assert!(moved.iter().any(is_it), "{moved:?}");
        let checked = check(copy, &["--strict", "--quiet"]);
        assert_eq!(checked.status, 0, "{checked:?}");
    }
}

#[test]
fn accepted_files_are_those_of_each_or_of_the_one_that_is_named() {
    let scene = Scene::new(2);
    scene.succeeds(&[]);
    for copy in &scene.destinations {
        put(&copy.join("short/01"), "another!");
    }
    let first = scene.destinations[0].join("short/01");
    let run = scene.run(&[
        "--accept",
        first.to_str().unwrap(),
        "--overwrite-policy=never",
    ]);
    let second = scene.destinations[1].to_str().unwrap();
    run.failed_naming(&[&[second, "short/01"]]);
    scene.succeeds(&["--accept=short/01", "--overwrite-policy=never"]);
    let run = scene.run(&["--accept=/etc/passwd"]);
    run.ended_with(2);
    assert!(
        run.stderr.contains("not a path below the destination"),
        "{run:?}"
    );
}

#[test]
fn destinations_of_one_file_system_share_its_space() {
    let Some(root) = mount_tmpfs(10) else {
        return;
    };
    let mut scene = Scene::of(Trees::new(), 2);
    scene.trees.put("long", vec![7; 6 << 20]);
    scene.destinations = ["one", "other"].map(|name| root.dir().join(name)).into();
    let run = scene.run(&[]);
    run.failed_naming(&[&["not enough space: the copy takes 6291456 bytes"]]);
    let copies = scene.destinations.iter().filter(|copy| copy.exists());
    let copies: Vec<_> = copies.collect();
    assert_eq!(copies.len(), 1, "{run:?}");
    facts::assert_same(&scene.trees.source(), copies[0]);
}

#[test]
fn what_one_destination_has_already_takes_no_space_from_another() {
    let Some(root) = mount_tmpfs(20) else {
        return;
    };
    let mut scene = Scene::of(Trees::new(), 2);
    scene.trees.put("long", vec![7; 8 << 20]);
    scene.destinations = ["one", "other"].map(|name| root.dir().join(name)).into();
    scene.succeeds(&[]).are_whole();
    // Whichever run looks first.
    for _ in 0..5 {
        fs::remove_dir_all(&scene.destinations[1]).unwrap();
        scene.succeeds(&["--no-hash-skipped"]).are_whole();
    }
}

#[test]
fn few_descriptors_suffice_for_two() {
    let scene = Scene::new(2);
    let few = |limit: usize| {
        run(&mut descriptors::with_descriptors(
            &scene.command(&[]),
            limit,
        ))
    };
    let refused = few(30);
    assert_eq!(refused.status, 1, "{refused:?}");
    assert!(
        refused.stderr.contains("too few descriptors"),
        "{refused:?}"
    );
    few(39).is_quiet();
    scene.are_whole();
    let scene = Scene::new(3);
    run(&mut descriptors::with_descriptors(&scene.command(&[]), 64)).is_quiet();
    scene.are_whole();
}
