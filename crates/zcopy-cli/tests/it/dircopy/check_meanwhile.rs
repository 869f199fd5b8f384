//! Trees that another run changes while `--check` verifies them.

use std::io::Read as _;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::*;

/// More lines than a pipe holds, so that `--check` waits for its reader before it comes to the last
/// files.
const N_BEFORE: usize = 500;

/// A copy of many files, behind which come `z-…`.
fn tree() -> Trees {
    let trees = Trees::new();
    for n in 0..N_BEFORE {
        trees.put(format!("{n:03}{}", "x".repeat(200)), "");
    }
    for name in [
        "z-forgotten",
        "z-kept",
        "z-missing",
        "z-replaced",
        "z-rotten",
    ] {
        trees.put(name, name);
        dated(&trees.original(name), 1000);
    }
    trees.succeeds(&[]);
    // A disk that rots changes no time.
    let rotten = trees.copied("z-rotten");
    fs::write(&rotten, "z-Rotten").unwrap();
    dated(&rotten, 1000);
    fs::remove_file(trees.copied("z-missing")).unwrap();
    trees
}

/// A verification that has read the records, and has not come to the last files.
struct Begun(Child);

impl Begun {
    fn new(trees: &Trees, options: &[&str]) -> Self {
        let mut command = check_command(&trees.copy(), options);
        command.arg("--jobs=1").stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut first = [0];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut first)
            .unwrap();
        Self(child)
    }

    /// Its end, and the lines of the last files.
    fn end(self) -> (Run, Vec<String>) {
        let run = Run::from(self.0.wait_with_output().unwrap());
        let of_last = |line: &&str| line.starts_with("z-");
        let lines = run.stdout.lines().filter(of_last);
        let lines = lines.map(str::to_owned).collect();
        (run, lines)
    }
}

/// Replaces one file by a newer one, adds another, and copies nothing else.
fn replace(trees: &Trees, options: &[&str]) {
    trees.put("z-replaced", "it is newer").put("z-new", "it");
    fs::remove_file(trees.original("z-missing")).unwrap();
    let options = [&["--no-hash-skipped", "--exclude=z-rotten"], options].concat();
    trees.succeeds(&options);
}

#[test]
fn a_file_that_a_copy_replaces_meanwhile_matches_and_a_rotten_one_still_fails() {
    let trees = tree();
    let check = Begun::new(&trees, &["--strict"]);
    replace(&trees, &[]);
    let (run, lines) = check.end();
    assert_eq!(
        lines,
        [
            "z-forgotten: OK",
            "z-kept: OK",
            "z-missing: FAILED open or read",
            "z-replaced: OK",
            "z-rotten: FAILED",
        ]
    );
    let n_matching = N_BEFORE + 3;
    run.without_total(&format!(
        "{n_matching} matching, 1 differing, 1 missing, 0 unreadable"
    ))
    .failed_naming(&[
        &["z-missing", "No such file"],
        &["WARNING: 1 listed file could not be read"],
        &["WARNING: 1 computed checksum did NOT match"],
    ]);
}

#[test]
fn each_file_is_counted_once_though_it_is_read_twice() {
    let trees = tree();
    let check = Begun::new(&trees, &[]);
    replace(&trees, &[]);
    let (run, _) = check.end();
    // "z-forgotten", "z-kept", "it is newer" and "z-Rotten"
    let total = format!(": {} files, {} bytes in ", N_BEFORE + 5, 11 + 6 + 11 + 8);
    assert!(run.stderr.contains(&total), "{run:?}");
}

#[test]
fn a_file_that_is_removed_and_forgotten_meanwhile_has_not_failed() {
    let trees = tree();
    let check = Begun::new(&trees, &[]);
    fs::remove_file(trees.copied("z-forgotten")).unwrap();
    let amended = trees.check(&["--forget-missing", "--quiet"]);
    assert_eq!(amended.status, 1, "one is rotten: {amended:?}");
    let (_, lines) = check.end();
    let expected = ["z-kept: OK", "z-replaced: OK", "z-rotten: FAILED"];
    assert_eq!(lines, expected);
}

#[test]
fn a_file_that_is_replaced_without_a_digest_is_not_compared_with_the_old_record() {
    let trees = tree();
    let check = Begun::new(&trees, &[]);
    replace(&trees, &["--no-hash"]);
    let (_, lines) = check.end();
    let replaced = lines.iter().find(|line| line.starts_with("z-replaced"));
    assert_eq!(replaced, None, "{lines:?}");
    assert!(lines.contains(&"z-rotten: FAILED".to_owned()), "{lines:?}");
}

#[test]
fn failures_stay_if_the_manifests_are_gone_at_the_end() {
    let trees = tree();
    let check = Begun::new(&trees, &[]);
    replace(&trees, &[]);
    for path in fs::read_dir(trees.copy())
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        if path.file_name().unwrap().as_bytes().starts_with(b"shasum.") {
            fs::remove_file(path).unwrap();
        }
    }
    let (run, lines) = check.end();
    assert_eq!(run.status, 1);
    assert!(lines.contains(&"z-rotten: FAILED".to_owned()), "{lines:?}");
}

#[test]
fn a_file_that_grows_without_end_fails_and_the_check_ends() {
    let trees = Trees::new();
    trees.put("grows", vec![7; 1 << 20]);
    trees.succeeds(&[]);
    let copy = fs::File::options()
        .append(true)
        .open(trees.copied("grows"))
        .unwrap();
    let is_over = AtomicBool::new(false);
    let mut len = 2 << 20;
    copy.set_len(len).unwrap();
    std::thread::scope(|scope| {
        let is_over = &is_over;
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                // Faster than it is hashed, and slower than would make the second look at it long.
                len += 8 << 20;
                copy.set_len(len).unwrap();
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let run = run(&mut check_command(&trees.copy(), &[]));
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(run.status, 1);
        assert!(run.stdout.contains("grows: FAILED"), "{run:?}");
    });
}
