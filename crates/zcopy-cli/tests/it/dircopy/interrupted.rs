//! Runs that a signal ends: they leave a manifest of what they copied, and the next run goes on.

use serde_json::Value;

use super::*;
use crate::skip::has_program;
use traced::traced;

const SIGNALS: [(&str, i32); 3] = [("SIGHUP", 1), ("SIGINT", 2), ("SIGTERM", 15)];

/// Sixty short files in three directories.
fn tree() -> Trees {
    let trees = Trees::new();
    for n in 0..60 {
        trees.put(format!("{}/{n:02}", n % 3), format!("the contents of {n}"));
    }
    fs::set_permissions(trees.original("0"), fs::Permissions::from_mode(0o750)).unwrap();
    trees
}

/// Runs the command, which gets the signal at the given call.
#[track_caller]
fn interrupted(command: &Command, calls: &str, signal: &str, when: &str) -> Run {
    let inject = format!("inject={calls}:signal={signal}:when={when}");
    let trace = format!("trace={calls}");
    traced(command, &["-e".into(), trace, "-e".into(), inject]).run
}

#[test]
fn a_signal_ends_the_run_with_a_manifest_and_a_summary() {
    if !has_program("strace") {
        return;
    }
    for (signal, number) in SIGNALS {
        let trees = tree();
        let mut command = zc_dircopy();
        command.arg("--jobs=1");
        command.arg(trees.source()).arg(trees.copy());
        let run = interrupted(&command, "linkat", signal, "25");
        assert_eq!(run.status, 128 + number, "{run:?}");
        let message =
            format!("zc-dircopy: interrupted by {signal}; the next run copies the rest\n");
        assert_eq!(run.stderr, message);
        assert!(run.stdout.contains(" 0 failed\n"), "{run:?}");
        assert!(run.stdout.contains("digests in "), "{run:?}");

        let copied = facts::copies_in(&trees.copy());
        assert!((25..60).contains(&copied.len()), "{}", copied.len());
        let copied: Vec<&str> = copied.iter().map(|path| path.to_str().unwrap()).collect();
        trees.sums().lists(&copied).holds_in(&trees.copy());
        let mode = fs::metadata(trees.copied("0"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o7777, 0o750, "a directory has its attributes");
        hides_nothing(&trees.copy());

        trees.succeeds(&[]).are_alike();
    }
}

#[test]
fn a_signal_ends_a_long_file_before_its_end() {
    if !has_program("strace") {
        return;
    }
    // With digests a call moves 128 KiB, without them 1 MiB. Without them a file of up to 64 MiB is
    // copied to its end.
    for (options, calls, when, len) in [
        (&["--jobs=1"][..], "write", "40", 16 << 20),
        (&["--jobs=1", "--no-hash"], "splice", "2", 200 << 20),
    ] {
        let trees = Trees::within(Path::new("/dev/shm"));
        trees.put("a", "short").put("long", vec![7; len]);
        let run = interrupted(&trees.command(options), calls, "SIGTERM", when);
        assert_eq!(run.status, 128 + 15, "{options:?}: {run:?}");
        assert!(!trees.copied("long").exists(), "{options:?}");
        hides_nothing(&trees.copy());
        trees.succeeds(options).holds("long", vec![7; len]);
    }
}

#[test]
fn a_second_signal_ends_the_run_at_once() {
    if !has_program("strace") {
        return;
    }
    let trees = tree();
    // The second signal comes while the manifest is brought to the disk.
    let options = [
        "utimensat:signal=SIGINT:when=3",
        "linkat:delay_enter=200ms:when=4",
        "fsync:signal=SIGINT:when=1",
    ];
    let options = options.map(|inject| ["-e".to_owned(), format!("inject={inject}")]);
    let run = traced(&trees.command(&["--jobs=1"]), options.as_flattened()).run;
    assert_eq!(run.status, 128 + 2, "{run:?}");
    assert!(Sums::all_in(&trees.copy()).is_empty(), "no manifest");
    assert_eq!(run.stderr, "", "and nothing was said");
    // The journal has the digests.
    trees.succeeds(&[]).are_alike();
}

#[test]
fn the_two_signals_of_timeout_count_as_one() {
    let trees = tree();
    trees.put("long", vec![7; 1 << 20]);
    let mut copy = zc_dircopy();
    copy.args(["--bwlimit=400K", "--jobs=1"]);
    copy.arg(trees.source()).arg(trees.copy());
    let mut timeout = Command::new("timeout");
    timeout.args(["--signal=INT", "--preserve-status", "0.5"]);
    let run = run(timeout.arg(copy.get_program()).args(copy.get_args()));
    assert_eq!(run.status, 128 + 2, "{run:?}");
    assert!(run.stderr.contains("interrupted by SIGINT"), "{run:?}");
    assert_eq!(Sums::all_in(&trees.copy()).len(), 1, "a manifest");
}

#[test]
fn an_ignored_signal_ends_nothing() {
    if !has_program("strace") {
        return;
    }
    let trees = tree();
    let program = trees.command(&["--jobs=1"]);
    let mut command = Command::new("env");
    command
        .arg("--ignore-signal=INT")
        .arg(program.get_program());
    command.args(program.get_args());
    let run = interrupted(&command, "linkat", "SIGINT", "25");
    assert_eq!((run.status, run.stderr.as_str()), (0, ""));
    trees.are_alike();
}

#[test]
fn json_tells_that_the_run_was_interrupted() {
    if !has_program("strace") {
        return;
    }
    let trees = tree();
    let mut command = zc_dircopy();
    command.args(["--json", "--jobs=1"]);
    command.arg(trees.source()).arg(trees.copy());
    let state = |run: &Run| {
        let last = run.stdout.lines().last().unwrap();
        let summary: Value = serde_json::from_str(last).unwrap();
        assert_eq!(summary["event"], "summary");
        summary["state"].as_str().unwrap().to_owned()
    };
    let run = interrupted(&command, "linkat", "SIGTERM", "25");
    assert_eq!((run.status, state(&run).as_str()), (143, "interrupted"));
    assert_eq!(state(&super::run(&mut command)), "done");
    fs::write(trees.copied("0/00"), "THE CONTENTS OF 0").unwrap();
    dated(&trees.copied("0/00"), 10);
    dated(&trees.original("0/00"), 10);
    assert_eq!(state(&super::run(&mut command)), "failed");
}
