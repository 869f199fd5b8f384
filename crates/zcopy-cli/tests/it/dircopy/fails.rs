//! Calls that fail, one at a time: each error is told, has one file less copied, and stops nothing.

use std::collections::BTreeMap;

use super::*;
use crate::mounts::Fs;
use crate::refused::is_call_refused;
use crate::skip::has_program;
use traced::{Traced, meddled};

const OLD: &[u8] = b"what was there";

fn tree(directory: &Path) -> Trees {
    let trees = Trees::within(directory);
    trees
        .put("a/one", "one")
        .put("a/replaced", vec![1; 5000])
        .put("b/long", crate::files::pattern(300_000))
        .put("b/two", "two")
        .put("empty", "")
        .put("last", "last");
    // Where files are cloned, a clone of this length is read past the cache.
    if directory != anywhere() {
        trees.put("b/longer", crate::files::pattern((1 << 20) + 5));
    }
    std::os::unix::fs::symlink("one", trees.original("a/symlink")).unwrap();
    trees.put_copy("a/replaced", OLD);
    trees
}

/// Whether a call that was made to fail matters for what the destination holds.
fn matters(line: &str) -> bool {
    let path = line
        .split_once('<')
        .and_then(|(_, rest)| rest.split_once('>'));
    let is_sweep = line.contains("getdents64(") && line.contains("/dst");
    let is_close = line.contains("close(");
    // A file that is not cloned at once is cloned at the second attempt, or written. Advice may be
    // refused, and so may reads past the cache.
    let is_cloning = ["ioctl", "fadvise64", "F_GETF", "F_SETFL"]
        .iter()
        .any(|call| line.contains(call));
    // A directory and a file that was only read have nothing to lose. What killed runs have left
    // may stay.
    let is_written = path.is_some_and(|(path, _)| {
        path.contains("/dst/") && (path.contains('#') || path.contains("sum.") || is_file(path))
    });
    !is_sweep && !is_cloning && (!is_close || is_written)
}

fn is_file(path: &str) -> bool {
    Path::new(path.trim_end_matches("(deleted)").trim_end()).is_file()
}

/// What is there is whole, what has a line is there, and what fails is told of.
#[track_caller]
fn only_what_failed_is_missing(trees: &Trees, traced: &Traced, what: &str) {
    let injected = traced.injected();
    let status = traced.run.status;
    assert!(
        [0, 1].contains(&status),
        "{what}: {injected:?} {:?}",
        traced.run
    );
    let mut missing = Vec::new();
    let all = Sums::all_in(&trees.copy());
    let listed = all.first().map(Sums::paths).unwrap_or_default();
    for name in facts::files_of(&trees.source()) {
        let name = name.to_str().unwrap().to_owned();
        let bytes = fs::read(trees.original(&name)).unwrap();
        let found = fs::read(trees.copied(&name)).ok();
        let is_new = found.as_ref() == Some(&bytes);
        let is_old = name == "a/replaced" && found.as_deref() == Some(OLD);
        assert!(
            is_new || is_old || found.is_none(),
            "{what}: {name} is half done"
        );
        let has_line = listed.contains(&Path::new(&name));
        if !is_new || !has_line {
            missing.push(name);
        }
    }
    for sums in &all {
        sums.holds_in(&trees.copy())
            .satisfies_sha256sum(&trees.copy());
    }
    if status == 0 {
        assert_eq!(missing, [""; 0], "{what}: and nothing was said");
        assert_eq!(
            hidden_names(&trees.copy()),
            [""; 0].map(PathBuf::from),
            "{what}"
        );
    } else {
        let said = traced.run.stderr.lines().collect::<Vec<_>>();
        assert!(
            said.iter().all(|line| line.starts_with("zc-dircopy: ")),
            "{what}: {said:?}"
        );
        assert!(!said.is_empty(), "{what}: nothing was said");
    }
    if injected.iter().any(|line| matters(line)) {
        assert_eq!(status, 1, "{what}: {injected:?} {:?}", traced.run);
    }
    // All in a directory that cannot be made or opened, at most, or all lines of a manifest that
    // could not be written.
    let is_root = injected.iter().any(|line| line.contains("/src>"));
    let is_everything = all.is_empty() || is_root;
    let of_one_directory = missing.iter().filter_map(|name| name.split_once('/'));
    let directories: std::collections::BTreeSet<_> = of_one_directory.map(|(dir, _)| dir).collect();
    let n_alone = missing.iter().filter(|name| !name.contains('/')).count();
    let n_failed = directories.len() + n_alone;
    assert!(
        is_everything || n_failed <= injected.len(),
        "{what}: {missing:?} {injected:?} {:?}",
        traced.run
    );
}

fn each_fails(calls: &[&str], errors: &[&str], options: &[&str]) {
    let _ = each_fails_in(anywhere(), calls, errors, options);
}

/// Has each call of these kinds fail in turn, in a run of its own. Those by which a program is
/// started are left alone. Gives the calls that were made at all.
fn each_fails_in(
    directory: &Path,
    calls: &[&str],
    errors: &[&str],
    options: &[&str],
) -> Vec<String> {
    if !has_program("strace") {
        return Vec::new();
    }
    let mut n_failed = BTreeMap::new();
    for (call, error) in calls
        .iter()
        .flat_map(|call| errors.iter().map(move |error| (call, error)))
    {
        for nth in 1.. {
            assert!(nth < 300, "{call}: there is no end to it");
            let trees = tree(directory);
            let fails = format!("{call}:error={error}:when={nth}");
            let traced = meddled(&trees.command(options), call, &fails);
            let Some(first) = traced.injected().first().copied() else {
                trees.are_alike();
                break;
            };
            // Those of the runtime and of other libraries speak of other paths.
            let name = trees.path().file_name().unwrap();
            if !first.contains(name.to_str().unwrap()) {
                continue;
            }
            *n_failed.entry(*call).or_insert(0) += 1;
            let what = format!("{error} from {call} {nth}");
            only_what_failed_is_missing(&trees, &traced, &what);
            // Nothing is left that keeps the next run from making it whole. What is there is not
            // given its attributes again.
            let is_there = calls.contains(&"fchmod") || *call == "openat";
            let policy = if is_there { "always" } else { "default" };
            trees.succeeds(&["--overwrite-policy", policy]).are_alike();
            assert_eq!(
                hidden_names(&trees.copy()),
                [""; 0].map(PathBuf::from),
                "{what}"
            );
        }
    }
    assert!(!n_failed.is_empty(), "none of these was ever made");
    n_failed.into_keys().map(str::to_owned).collect()
}

#[test]
fn a_write_that_fails_costs_one_file() {
    let calls = ["write", "pwrite64", "copy_file_range", "splice", "sendfile"];
    each_fails(&calls, &["ENOSPC", "EDQUOT", "EIO"], &[]);
}

#[test]
fn a_clone_that_cannot_be_made_or_read_costs_one_file() {
    let Some(directory) = Fs::Btrfs.dir() else {
        return;
    };
    let calls = ["fadvise64", "fcntl", "ioctl", "linkat", "pread64"];
    let made = each_fails_in(&directory, &calls, &["EIO"], &[]);
    let are_all_made = made == calls || is_call_refused("ficlone");
    assert!(made.is_empty() || are_all_made, "{made:?}");
}

#[test]
fn a_name_that_cannot_be_given_costs_one_file() {
    let calls = ["linkat", "renameat", "renameat2", "symlinkat"];
    each_fails(&calls, &["ENOSPC", "EDQUOT", "EIO"], &[]);
}

#[test]
fn a_sync_that_fails_costs_one_file() {
    each_fails(
        &["fsync", "fdatasync", "syncfs"],
        &["ENOSPC", "EDQUOT", "EIO"],
        &["--durable"],
    );
}

/// A network file system may say only then that a write has failed.
#[test]
fn a_close_that_fails_costs_one_file() {
    each_fails(&["close"], &["EIO", "EDQUOT"], &["--jobs=1"]);
}

/// The line tells what the copy should hold.
#[test]
fn a_copy_that_has_its_name_when_its_close_fails_keeps_its_line() {
    if !has_program("strace") {
        return;
    }
    for nth in 1.. {
        let trees = Trees::new();
        trees.put("file", "contents");
        let traced = meddled(
            &trees.command(&["--jobs=1"]),
            "close",
            &format!("close:error=EIO:when={nth}"),
        );
        assert!(!traced.injected().is_empty(), "no such call");
        if !traced.run.stderr.contains("file: cannot close its copy") {
            continue;
        }
        traced.run.ended_with(1);
        let listed = Sums::all_in(&trees.copy());
        assert_eq!(listed.first().unwrap().paths(), [Path::new("file")]);
        // A run that reads no file that is there leaves it listed.
        trees.succeeds(&["--no-hash-skipped"]).are_alike();
        trees.put_copy("file", "CONTENTS");
        let found = run(zc_dircopy().arg("--check").arg(trees.copy()));
        found.ended_with(1);
        return;
    }
}

#[test]
fn a_directory_that_cannot_be_made_costs_what_is_in_it() {
    each_fails(&["mkdirat", "mkdir"], &["ENOSPC", "EIO"], &[]);
}

#[test]
fn what_cannot_be_opened_costs_what_is_in_it() {
    each_fails(&["openat"], &["EIO", "EMFILE"], &["--jobs=1"]);
}

#[test]
fn what_cannot_be_read_costs_one_file() {
    each_fails(&["read", "pread64"], &["EIO"], &["--jobs=1"]);
    each_fails(&["getdents64"], &["EIO"], &["--jobs=1"]);
}

#[test]
fn an_attribute_that_cannot_be_kept_is_told() {
    each_fails(&["fchmod", "fchown", "utimensat"], &["EIO"], &["--jobs=1"]);
}

/// Calls that only reserve room or give advice may fail. The files are copied whole all the same.
#[test]
fn a_call_that_is_not_needed_may_fail() {
    if !has_program("strace") {
        return;
    }
    let calls = "fallocate,fadvise64,ioctl,flock,copy_file_range,splice";
    let trees = tree(anywhere());
    let fails = format!("{calls}:error=EOPNOTSUPP");
    let traced = meddled(&trees.command(&[]), calls, &fails);
    traced.run.is_quiet();
    trees.are_alike();
}
