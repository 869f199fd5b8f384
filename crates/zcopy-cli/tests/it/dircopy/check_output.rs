//! What `zc-dircopy --check` writes: lines, totals, JSON, and a progress line.

use serde_json::Value;

use super::*;
use crate::mounts::mount_tmpfs;
use crate::screen::Terminal;
use crate::skip::has_program;

/// A copy of five files, two of which are damaged and one is missing.
fn damaged() -> Trees {
    let trees = Trees::new();
    trees
        .put("differs", "1")
        .put("directory", "2")
        .put("good", "333")
        .put("long", crate::files::pattern(1_000_003))
        .put("missing", "4");
    trees.succeeds(&[]);
    trees.put_copy("differs", "x");
    for name in ["directory", "missing"] {
        fs::remove_file(trees.copied(name)).unwrap();
    }
    fs::create_dir(trees.copied("directory")).unwrap();
    trees
}

fn whole() -> Trees {
    let trees = Trees::new();
    trees
        .put("long", crate::files::pattern(1_000_003))
        .put("short", "x");
    trees.succeeds(&[]);
    trees
}

fn command(trees: &Trees, options: &[&str]) -> Command {
    let mut command = zc_dircopy();
    command.current_dir(trees.path()).arg("--check");
    command.args(options).arg("dst");
    command
}

/// The same with a path that is good in any working directory.
fn command_anywhere(trees: &Trees, options: &[&str]) -> Command {
    let mut command = zc_dircopy();
    command.arg("--check").args(options).arg(trees.copy());
    command
}

fn check(trees: &Trees, options: &[&str]) -> Run {
    run(&mut command(trees, options))
}

#[track_caller]
fn events(run: &Run) -> Vec<Value> {
    let lines = run.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn the_total_tells_missing_files_from_unreadable_ones() {
    let run = check(&damaged(), &[]);
    run.ended_with(1);
    assert_eq!(
        run.stdout,
        "differs: FAILED\n\
         directory: FAILED open or read\n\
         good: OK\n\
         long: OK\n\
         missing: FAILED open or read\n"
    );
    assert!(run.stderr.contains("5 files, 1000007 bytes ("));
    let run = run.without_total("2 matching, 1 differing, 1 missing, 1 unreadable");
    run.failed_naming(&[
        &["dst/directory", "Is a directory"],
        &["dst/missing", "No such file"],
        &["WARNING: 2 listed files could not be read"],
        &["WARNING: 1 computed checksum did NOT match"],
    ]);
}

/// `sha256sum --quiet -c` says the same.
#[test]
fn quiet_lists_the_failures_and_warns_of_them() {
    let run = check(&damaged(), &["--quiet"]);
    assert_eq!(
        run.stdout,
        "differs: FAILED\n\
         directory: FAILED open or read\n\
         missing: FAILED open or read\n"
    );
    run.failed_naming(&[
        &["dst/directory", "Is a directory"],
        &["dst/missing", "No such file"],
        &["WARNING: 2 listed files could not be read"],
        &["WARNING: 1 computed checksum did NOT match"],
    ]);
    check(&whole(), &["--quiet"]).is_quiet();
    check(&whole(), &["-q"]).is_quiet();
}

/// The same lists, verified by both in the same tree: the same output, messages and status.
#[test]
fn quiet_prints_what_sha256sum_prints() {
    if !has_program("sha256sum") {
        return;
    }
    let trees = Trees::new();
    trees
        .put_copy("a", "1")
        .put_copy("b", "2")
        .put_copy("c", "3");
    fs::create_dir(trees.copied("d")).unwrap();
    let listed = |name: &str, bytes| format!("{}  {name}\n", digest_of(Algorithm::Sha256, bytes));
    let good = listed("a", b"1") + &listed("b", b"2");
    let differs = listed("b", b"x");
    let (missing, directory) = (listed("missing", b"x"), listed("d", b"x"));
    for (list, options) in [
        (good.clone(), &[][..]),
        (good.clone() + &differs, &[]),
        (differs.clone() + &listed("c", b"x"), &[]),
        (good.clone() + &missing, &[]),
        (good.clone() + &directory + &missing + &differs, &[]),
        (good.clone() + "no line\n", &[]),
        (good.clone() + "no line\n", &["--strict"]),
        (good + &differs + "no line\n", &["--strict"]),
        ("no line\n".to_owned(), &[]),
        (String::new(), &[]),
    ] {
        fs::write(trees.copied("list"), &list).unwrap();
        let mut theirs = Command::new("sha256sum");
        theirs
            .current_dir(trees.copy())
            .args(["--check", "--quiet"]);
        let theirs = run(theirs.args(options).arg("list"));
        let mut ours = zc_dircopy();
        ours.current_dir(trees.copy()).args(["--check", "--quiet"]);
        ours.args(options).args(["--hash-file=list", "."]);
        let ours = run(&mut ours);
        assert_eq!(ours.status, theirs.status, "{list}: {ours:?}");
        assert_eq!(ours.stdout, theirs.stdout, "{list}");
        let theirs = theirs.stderr.replace("sha256sum: ", "zc-dircopy: ");
        assert_eq!(ours.stderr, theirs, "{list}");
    }
}

#[test]
fn without_a_summary_there_is_no_total_and_no_warning() {
    let run = check(&damaged(), &["--no-summary"]);
    assert_eq!(run.stdout.lines().count(), 5);
    run.failed_naming(&[
        &["dst/directory", "Is a directory"],
        &["dst/missing", "No such file"],
    ]);
}

#[test]
fn several_trees_have_one_total() {
    let trees = damaged();
    let run = run(command(&trees, &["--silent"]).arg("dst"));
    let files = "10 files, 2000014 bytes ";
    assert_eq!(run.stderr.matches(files).count(), 1, "{run:?}");
    run.without_total("4 matching, 2 differing, 2 missing, 2 unreadable");
}

#[test]
fn verbose_adds_algorithm_size_and_rate() {
    let run = check(&damaged(), &["--verbose", "--no-summary"]);
    let lines: Vec<&str> = run.stdout.lines().collect();
    for (line, beginning) in [
        (lines[0], "differs: FAILED (sha256, 1 byte, "),
        (lines[2], "good: OK (sha256, 3 bytes, "),
        (lines[3], "long: OK (sha256, 1000003 bytes, "),
    ] {
        let is_rate = line.ends_with("/s)");
        assert!(line.starts_with(beginning) && is_rate, "{line}");
    }
    assert_eq!(lines[1], "directory: FAILED open or read");
    assert_eq!(lines[4], "missing: FAILED open or read");
}

#[test]
fn json_has_an_event_for_each_file_and_a_summary() {
    let run = check(&damaged(), &["--json"]);
    assert_eq!(run.status, 1);
    let events = events(&run);
    let files: Vec<&Value> = events.iter().filter(|e| e["event"] == "file").collect();
    let results: Vec<(&str, &str)> = files
        .iter()
        .map(|file| {
            let text = |name: &str| file[name].as_str().unwrap();
            assert_eq!(text("tree"), "dst");
            (text("path"), text("result"))
        })
        .collect();
    assert_eq!(
        results,
        [
            ("differs", "differs"),
            ("directory", "unreadable"),
            ("good", "ok"),
            ("long", "ok"),
            ("missing", "missing"),
        ]
    );
    assert_eq!(files[3]["algorithm"], "sha256");
    assert_eq!(files[3]["bytes"], 1_000_003);
    assert!(files[3]["seconds"].is_number());
    assert_eq!(files[4]["message"], "No such file or directory");
    assert_eq!(files[4]["bytes"], Value::Null);
    let last = events.last().unwrap();
    assert_eq!(last["event"], "summary");
    let counts = ["files", "bytes", "matching", "differing", "missing"].map(|name| &last[name]);
    assert_eq!(counts, [5, 1_000_007, 2, 1, 1], "{last}");
    let counts = ["unreadable", "malformed", "failed"].map(|name| &last[name]);
    assert_eq!(counts, [1, 0, 3], "{last}");
    // Standard error has no total in words.
    assert!(!run.stderr.contains(" matching, "), "{run:?}");
}

#[test]
fn json_can_be_confined_to_failures() {
    for option in ["--silent", "--quiet"] {
        let run = check(&damaged(), &["--json", option]);
        let events = events(&run);
        let is_file = |event: &&Value| event["event"] == "file";
        assert_eq!(events.iter().filter(is_file).count(), 3, "{run:?}");
        assert_eq!(events.last().unwrap()["event"], "summary");
    }
    let run = check(&whole(), &["--json", "--silent", "--no-summary"]);
    assert_eq!(run.stdout, "");
}

#[test]
fn json_tells_of_trees_and_lists_that_cannot_be_read() {
    let trees = whole();
    fs::write(trees.path().join("list"), "nothing\n").unwrap();
    for (options, path) in [
        (["--json", "--hash-file=nowhere"], "nowhere"),
        (["--json", "--hash-file=list"], "list"),
    ] {
        let run = check(&trees, &options);
        assert_eq!(run.status, 1);
        let events = events(&run);
        assert_eq!(events.len(), 2, "{run:?}");
        assert_eq!(
            (&events[0]["event"], &events[0]["path"]),
            (&"error".into(), &path.into())
        );
        assert!(events[0]["message"].is_string());
        assert_eq!(
            (&events[1]["files"], &events[1]["failed"]),
            (&0.into(), &1.into())
        );
    }
}

/// The last event, which is the summary of a run that failed, and the errors.
#[track_caller]
fn failure(run: &Run) -> (Value, Vec<Value>) {
    assert_eq!(run.status, 1, "{run:?}");
    let mut events = events(run);
    let summary = events.pop().unwrap();
    assert_eq!(
        (&summary["event"], &summary["state"]),
        (&"summary".into(), &"failed".into())
    );
    events.retain(|event| event["event"] == "error");
    (summary, events)
}

#[test]
fn json_has_an_event_for_what_cannot_be_accepted_and_counts_it() {
    let trees = whole();
    let run = check(&trees, &["--json", "--accept=nosuch"]);
    let (summary, errors) = failure(&run);
    assert_eq!(
        (errors.len(), &summary["failed"]),
        (1, &1.into()),
        "{run:?}"
    );
    assert_eq!(errors[0]["path"], "nosuch");
    let message = errors[0]["message"].as_str().unwrap();
    assert!(message.starts_with("cannot accept it: "), "{message}");
    let run = check(&trees, &["--json"]);
    assert_eq!(events(&run).last().unwrap()["state"], "done");
}

#[test]
fn json_counts_damaged_manifests_and_so_does_the_total() {
    let trees = whole();
    let path = trees.sums().path;
    let manifest = fs::read(&path).unwrap();
    fs::write(&path, [&manifest[..], b"x"].concat()).unwrap();
    let (summary, errors) = failure(&check(&trees, &["--json"]));
    assert_eq!(summary["damaged_manifests"], 1);
    assert_eq!((errors.len(), &summary["failed"]), (1, &1.into()));
    let run = check(&trees, &[]);
    assert!(run.stderr.ends_with(", 1 damaged manifest\n"), "{run:?}");
    // Neither an amendment nor a copy begins. Both tell so and the verification goes on.
    let (summary, errors) = failure(&check(&trees, &["--json", "--forget-missing"]));
    assert_eq!((errors.len(), &summary["failed"]), (2, &2.into()));
    let (summary, errors) = failure(&trees.run(&["--json"]));
    assert_eq!((errors.len(), &summary["failed"]), (1, &1.into()));
}

#[test]
fn a_run_that_cannot_begin_ends_with_a_summary_for_programs() {
    let trees = whole();
    let mut copy = zc_dircopy();
    copy.arg("--json")
        .arg(trees.original("nosuch"))
        .arg(trees.copy());
    let (summary, errors) = failure(&run(&mut copy));
    assert_eq!((errors.len(), &summary["failed"]), (1, &1.into()));
    if !has_program("bash") {
        return;
    }
    for command in [
        trees.command(&["--json"]),
        command_anywhere(&trees, &["--json"]),
    ] {
        let mut limited = Command::new("bash");
        limited.args(["-c", "ulimit -n 12; exec \"$0\" \"$@\""]);
        limited.arg(command.get_program()).args(command.get_args());
        let limited = run(&mut limited);
        let (summary, errors) = failure(&limited);
        assert_eq!((errors.len(), &summary["failed"]), (1, &1.into()));
        let message = errors[0]["message"].as_str().unwrap();
        assert!(message.starts_with("too few descriptors"), "{message}");
        limited.failed_naming(&[&["zc-dircopy: too few descriptors"]]);
    }
}

#[test]
fn a_signal_ends_a_verification_with_a_summary() {
    if !has_program("strace") {
        return;
    }
    let trees = whole();
    for signal in ["SIGHUP", "SIGINT", "SIGTERM"] {
        let options = ["--jobs=1", "--block-size=8K", "--json"];
        let calls = "read,readv,pread64,preadv,preadv2,splice";
        let path = trees.copied("long").to_str().unwrap().to_owned();
        let inject = format!("--inject={calls}:signal={signal}:when=3");
        let run = traced::traced(
            &command_anywhere(&trees, &options),
            &["-P".to_owned(), path, inject],
        )
        .run;
        let number = match signal {
            "SIGHUP" => 1,
            "SIGINT" => 2,
            _ => 15,
        };
        assert_eq!(run.status, 128 + number, "{run:?}");
        let events = events(&run);
        let summary = events.last().unwrap();
        assert_eq!(summary["state"], "interrupted", "{run:?}");
        assert_eq!(summary["files"], 0, "the file was not read to its end");
        assert_eq!(run.stderr, format!("zc-dircopy: interrupted by {signal}\n"));
    }
}

#[test]
fn blocks_of_any_size_and_queues_of_any_length_give_the_same_results() {
    let trees = damaged();
    let expected = check(&trees, &[]).stdout;
    for options in [
        &["--block-size=4K"][..],
        &["--block-size=1G"],
        &["--queue-size=1"],
        &["--queue-size=1", "--block-size=4K", "--jobs=1"],
        &["--queue-size=4096", "--block-size=1M"],
    ] {
        assert_eq!(check(&trees, options).stdout, expected, "{options:?}");
    }
    for option in ["--block-size=0", "--queue-size=0"] {
        check(&trees, &[option]).ended_with(2);
    }
}

#[test]
fn the_block_size_is_what_is_read_at_once() {
    if !has_program("strace") {
        return;
    }
    let trees = whole();
    let calls = "--trace=read,readv,pread64,preadv,preadv2,splice,sendfile";
    let traced = traced::traced(
        &command_anywhere(&trees, &["--block-size=8K", "--quiet"]),
        &[calls.to_owned()],
    );
    traced.run.is_quiet();
    let of_file = |line: &&str| line.contains("/dst/long>");
    let n_blocks = traced.log.lines().filter(of_file);
    let n_blocks = n_blocks.filter(|line| line.ends_with("= 8192")).count();
    assert_eq!(n_blocks, 1_000_003 / 8192, "{}", traced.log);
}

#[test]
fn a_queue_has_a_second_thread_hash() {
    if !has_program("strace") {
        return;
    }
    let trees = whole();
    let n_threads = |options: &[&str]| {
        let options = [options, &["--quiet", "--jobs=1"]].concat();
        let calls = "--trace=clone,clone3".to_owned();
        let traced = traced::traced(&command_anywhere(&trees, &options), &[calls]);
        traced.run.is_quiet();
        traced.log.matches("CLONE_THREAD").count()
    };
    assert_eq!(n_threads(&[]), 0);
    assert_eq!(n_threads(&["--queue-size=2"]), 1);
}

/// Makes the program take its time over one file.
fn slowed(trees: &Trees, options: &[&str]) -> Command {
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-qq", "-o", "/dev/null", "-P"])
        .arg(trees.copied("long"));
    strace.arg("--inject=read,readv,pread64,preadv,preadv2,splice:delay_exit=300000");
    strace.arg(env!("CARGO_BIN_EXE_zc-dircopy"));
    strace.current_dir(trees.path()).arg("--check");
    strace.args(options).arg("dst");
    strace
}

#[test]
fn a_line_on_the_terminal_tells_how_far_it_is_and_goes_at_the_end() {
    if !has_program("strace") {
        return;
    }
    let trees = whole();
    let options = ["--jobs=1", "--block-size=128K"];
    let mut terminal = Terminal::spawn(&slowed(&trees, &options), 8, 79);
    terminal.wait_for(|seen| {
        let words = ["KiB of  976KiB", "KiB/s", "0 of 2 files, ETA "];
        words.iter().all(|word| seen.row(0).contains(word))
    });
    assert!(terminal.end().success());
    let rows = terminal.seen().rows();
    assert_eq!(rows[..2], ["long: OK", "short: OK"], "{rows:?}");
    let is_total = rows[2].starts_with("zc-dircopy: 2 files, 1000004 bytes");
    assert!(is_total, "{rows:?}");
    assert!(rows[3].starts_with("zc-dircopy: 2 matching, "), "{rows:?}");
    assert_eq!(rows[4], "", "{rows:?}");
}

#[test]
fn quiet_shows_no_line_on_a_terminal() {
    let trees = whole();
    let mut terminal = Terminal::spawn(&command(&trees, &["--quiet"]), 8, 79);
    assert!(terminal.end().success());
    assert_eq!(terminal.seen().raw, b"");
}

#[test]
fn json_tells_every_second_how_far_it_is() {
    if !has_program("strace") {
        return;
    }
    let trees = whole();
    let run = run(&mut slowed(
        &trees,
        &["--jobs=1", "--block-size=128K", "--json"],
    ));
    assert_eq!(run.status, 0);
    let events = events(&run);
    let progress = events.iter().find(|event| event["event"] == "progress");
    let progress = progress.unwrap_or_else(|| panic!("{run:?}"));
    let bytes = progress["bytes"].as_u64().unwrap();
    assert!((1..1_000_004).contains(&bytes), "{progress}");
    for name in ["files", "bytes_per_second", "seconds", "failed"] {
        assert!(progress[name].is_number(), "{name}: {progress}");
    }
    assert_eq!(events.last().unwrap()["event"], "summary");
}

#[test]
fn a_full_directory_for_temporary_files_is_named() {
    let Some(full) = mount_tmpfs(1) else { return };
    let trees = whole();
    let mut file = fs::File::create(full.dir().join("rest")).unwrap();
    std::io::copy(&mut std::io::repeat(1), &mut file).unwrap_err();
    let mut command = check_command(&trees.copy(), &["--strict", "--silent"]);
    let run = run(command.env("TMPDIR", full.dir()));
    assert_eq!(run.status, 1, "{run:?}");
    let directory = full.dir();
    let message = format!(
        "cannot write a temporary file in {}: No space left on device",
        directory.display()
    );
    assert!(run.stderr.contains(&message), "{run:?}");
}
