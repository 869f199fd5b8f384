//! Trees of many files.

use super::traced::traced;
use super::*;
use crate::mounts::Fs;
use crate::skip::has_program;

/// 10,000 files in 100 directories, each with contents of its own.
fn many() -> Trees {
    let trees = Trees::new();
    for directory in 0..100 {
        let path = trees.original(format!("d{directory}"));
        fs::create_dir(&path).unwrap();
        for file in 0..100 {
            let len = (directory * 100 + file) % 700;
            let bytes = format!("{directory} {file} ").repeat(1 + len / 8);
            fs::write(path.join(format!("f{file}")), bytes).unwrap();
        }
    }
    trees
}

#[test]
fn ten_thousand_files_have_their_lines_in_one_order_by_any_number_of_jobs() {
    let trees = many();
    let mut expected = Vec::new();
    for path in facts::files_of(&trees.source()) {
        let digest = facts::sha256(&trees.original(&path));
        for byte in digest {
            expected.extend(format!("{byte:02x}").bytes());
        }
        expected.extend(format!("  {}\n", path.display()).bytes());
    }
    for jobs in ["1", "8"] {
        let copy = trees.path().join(jobs);
        let copies = || {
            let mut command = zc_dircopy();
            command.args(["-q", "--jobs", jobs]);
            run(command.arg(trees.source()).arg(&copy)).is_quiet();
        };
        copies();
        let sums = Sums::newest_in(&copy);
        let found = sums.without_comments();
        crate::files::assert_same(&found, &expected, jobs);
        sums.holds_in(&copy);
        copies();
        let found = Sums::newest_in(&copy).without_comments();
        crate::files::assert_same(&found, &expected, "a second run");
    }
}

/// A hard disk reads one stream.
#[test]
fn one_job_reads_one_file_after_another() {
    if !has_program("strace") {
        return;
    }
    let trees = Trees::new();
    for n in 0..5 {
        trees.put(format!("{n}"), crate::files::pattern((2 << 20) + n));
    }
    let calls = ["--trace=read,pread64,copy_file_range,splice,sendfile".to_owned()];
    let traced = traced(&trees.command(&["--jobs=1"]), &calls);
    traced.run.is_quiet();
    let directory = format!("<{}/", trees.source().display());
    let paths = traced.log.lines().filter_map(|line| {
        let (_, rest) = line.split_once(&directory)?;
        rest.split('>').next()
    });
    let mut paths: Vec<_> = paths.collect();
    paths.dedup();
    paths.sort_unstable();
    assert_eq!(paths, ["0", "1", "2", "3", "4"]);
}

/// Each level takes two descriptors while it is walked, and no more than there are.
#[test]
fn wide_trees_need_few_descriptors() {
    let trees = Trees::new();
    for directory in 0..300 {
        trees.put(format!("{directory}/deeper/file"), "x");
    }
    copies_with_descriptors(64, &trees, &["--jobs=4"]);
}

/// Clones that wait to be read keep theirs.
#[test]
fn many_clones_need_few_descriptors() {
    let Some(directory) = Fs::Btrfs.dir() else {
        return;
    };
    let trees = Trees::within(&directory);
    for name in 0..100 {
        trees
            .put(format!("{name}"), "x")
            .put(format!("d/{name}"), "y");
    }
    copies_with_descriptors(64, &trees, &["--jobs=4"]);
}

/// The run uses fewer jobs than were asked for, rather than fail at a file: where clones wait to be
/// read, and where links wait for their turns.
#[test]
fn more_jobs_than_there_are_descriptors_for_are_fewer() {
    for fs in [Fs::Tmpfs, Fs::Btrfs] {
        let Some(directory) = fs.dir() else {
            continue;
        };
        let trees = Trees::within(&directory);
        for name in 0..300 {
            let directory = format!("d{}/{}/deeper/still", name % 10, name % 3);
            trees
                .put(format!("f{name}"), "x".repeat(40 * name))
                .put(format!("{directory}/{name}"), "y");
        }
        // They wait for a long one.
        trees.put("a", vec![7; 6 << 20]);
        for name in 0..100 {
            fs::create_dir(trees.original(format!("l{name}"))).unwrap();
            let link = trees.original(format!("l{name}/link"));
            fs::hard_link(trees.original("f1"), link).unwrap();
        }
        for (n_descriptors, options) in [
            (64, &["--jobs=64"][..]),
            (64, &["--jobs=64", "--verify"]),
            (128, &["--jobs=64"]),
            (128, &["--jobs=64", "--durable"]),
            (48, &["--jobs=1000"]),
        ] {
            copies_with_descriptors(n_descriptors, &trees, options);
            fs::remove_dir_all(trees.copy()).unwrap();
        }
    }
}

#[test]
fn more_threads_than_there_are_descriptors_for_verify_all_the_same() {
    let trees = Trees::new();
    for name in 0..300 {
        trees.put(format!("d{}/{name}", name % 10), "y".repeat(3 * name));
    }
    trees.succeeds(&[]);
    let mut shell = Command::new("sh");
    let check = zc_dircopy();
    shell.args(["-c", "ulimit -n 40; exec \"$0\" \"$@\""]);
    shell.arg(check.get_program());
    shell.args(["--check", "--jobs=1000", "--quiet"]);
    run(shell.arg(trees.copy())).is_quiet();
}

fn copies_with_descriptors(n_descriptors: u32, trees: &Trees, options: &[&str]) {
    let script = format!("ulimit -n {n_descriptors}; exec \"$0\" \"$@\"");
    let mut shell = Command::new("sh");
    let command = trees.command(options);
    shell
        .args(["-c", &script])
        .arg(command.get_program())
        .args(command.get_args());
    run(&mut shell).is_quiet();
    trees.are_alike();
}
