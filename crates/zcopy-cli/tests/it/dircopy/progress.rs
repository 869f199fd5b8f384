//! What is told during the copy and at its end.

use serde_json::Value;

use super::*;
use crate::screen::Terminal;
use crate::skip::has_program;

/// Something of everything that is counted.
fn tree() -> Trees {
    let trees = Trees::new();
    trees
        .put("a/copied", "12345")
        .put("a/other", vec![7; 200_000])
        .put("empty", "");
    fs::hard_link(trees.original("a/copied"), trees.original("b")).unwrap();
    std::os::unix::fs::symlink("nowhere", trees.original("link")).unwrap();
    trees
        .put("skipped", "here already")
        .put_copy("skipped", "here already");
    dated(&trees.original("skipped"), 10);
    dated(&trees.copied("skipped"), 10);
    trees
}

fn loud(trees: &Trees, options: &[&str]) -> Command {
    let mut command = zc_dircopy();
    command.args(options).arg(trees.source()).arg(trees.copy());
    command
}

/// The events that were told, in their order.
#[track_caller]
fn events(run: &Run) -> Vec<Value> {
    let lines = run.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn quiet_says_nothing() {
    run(&mut loud(&tree(), &["--quiet"])).is_quiet();
    run(&mut loud(&tree(), &["-q"])).is_quiet();
}

#[test]
fn a_summary_tells_what_became_of_the_tree() {
    let trees = tree();
    let run = run(&mut loud(&trees, &[]));
    assert_eq!(
        (run.status, run.stderr.as_str()),
        (0, ""),
        "no terminal is shown progress"
    );
    let sums = trees.sums().path;
    for words in [
        "5 files",
        "1 skipped",
        "1 linked",
        "0 failed",
        sums.to_str().unwrap(),
    ] {
        assert!(run.stdout.contains(words), "{words}: {run:?}");
    }
}

#[test]
fn json_lines_are_objects_and_the_last_is_the_summary() {
    let trees = tree();
    let _listener = std::os::unix::net::UnixListener::bind(trees.original("socket")).unwrap();
    let run = run(&mut loud(&trees, &["--json"]));
    assert_eq!(run.status, 1);
    let events = events(&run);
    let last = events.last().unwrap();
    assert_eq!(last["event"], "summary");
    assert_eq!(
        events
            .iter()
            .filter(|event| event["event"] == "summary")
            .count(),
        1
    );
    let error = events
        .iter()
        .find(|event| event["event"] == "error")
        .unwrap();
    assert_eq!(error["path"], "socket");
    assert!(
        error["message"].as_str().unwrap().contains("socket"),
        "{error}"
    );
    let count = |name: &str| {
        last[name]
            .as_u64()
            .unwrap_or_else(|| panic!("{name}: {last}"))
    };
    assert_eq!(count("files"), 5);
    assert_eq!(
        count("files"),
        count("copied") + count("cloned") + count("linked") + count("skipped")
    );
    assert_eq!((count("linked"), count("skipped")), (1, 1));
    assert_eq!((count("others"), count("failed")), (1, 1));
    assert_eq!(count("bytes"), 5 + 200_000 + 12);
    assert_eq!(last["sums"].as_str(), trees.sums().path.to_str());
    assert_eq!(count("files"), trees.sums().lines.len() as u64);
}

#[test]
fn counts_of_a_second_run_say_that_all_was_skipped() {
    for policy in ["default", "update", "never"] {
        let trees = tree();
        trees.succeeds(&[]);
        let run = run(&mut loud(&trees, &["--json", "--overwrite-policy", policy]));
        assert_eq!((run.status, run.stderr.as_str()), (0, ""));
        let events = events(&run);
        let last = events.last().unwrap();
        assert_eq!(
            (&last["copied"], &last["cloned"]),
            (&0.into(), &0.into()),
            "{policy}: {last}"
        );
        assert_eq!(
            (&last["files"], &last["skipped"]),
            (&5.into(), &5.into()),
            "{policy}: {last}"
        );
        assert_eq!(last["failed"], 0);
    }
}

#[test]
fn bytes_are_counted_once_however_often_they_are_read() {
    let options: [&[&str]; 6] = [
        &[],
        &["--verify"],
        &["--no-hash"],
        &["--verify-existing"],
        &["--overwrite-policy=update"],
        &["--no-hash-skipped"],
    ];
    for options in options {
        let trees = tree();
        for _ in 0..2 {
            let run = run(loud(&trees, &["--json"]).args(options));
            let events = events(&run);
            let last = events.last().unwrap();
            assert_eq!(last["bytes"], 5 + 200_000 + 12, "{options:?}: {last}");
        }
    }
}

#[test]
fn a_failed_file_is_counted_as_failed_alone() {
    let trees = Trees::new();
    trees.put("file", "long").put("fine", "y");
    fs::create_dir_all(trees.copied("file")).unwrap();
    let run = run(&mut loud(&trees, &["--json"]));
    assert_eq!(run.status, 1);
    let events = events(&run);
    let last = events.last().unwrap();
    let counts = ["files", "bytes", "failed"].map(|name| &last[name]);
    assert_eq!(counts, [1, 1, 1], "{last}");
}

#[test]
fn json_without_a_sum_file_names_none() {
    let trees = tree();
    let run = run(&mut loud(&trees, &["--json", "--no-hash"]));
    let events = events(&run);
    assert_eq!(events.last().unwrap()["sums"], Value::Null);
}

/// Has the program take its time over one file.
fn slowed(trees: &Trees) -> Command {
    slowed_at(trees, &trees.original("slow"))
}

/// The same with another file.
fn slowed_at(trees: &Trees, file: &Path) -> Command {
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-qq", "-o", "/dev/null", "-P"])
        .arg(file);
    strace.arg("--inject=read,pread64,splice,copy_file_range,sendfile:delay_exit=300000");
    strace.arg(env!("CARGO_BIN_EXE_zc-dircopy"));
    strace.arg(trees.source()).arg(trees.copy());
    strace
}

#[test]
fn a_line_on_the_terminal_tells_how_far_it_is_and_goes_at_the_end() {
    if !has_program("strace") {
        return;
    }
    let trees = Trees::new();
    trees.put("slow", vec![7; 1 << 20]).put("z", "y");
    let mut terminal = Terminal::spawn(&slowed(&trees), 8, 79);
    terminal.wait_for(|seen| seen.row(0).contains("1.00MiB") || seen.row(0).contains('%'));
    assert!(terminal.end().success());
    let rows = terminal.seen().rows();
    assert!(rows[0].starts_with("2 files, "), "{rows:?}");
    assert!(!rows.iter().any(|row| row.contains('%')), "{rows:?}");
    trees.are_alike();
}

#[test]
fn the_line_has_the_percentage_and_the_end_of_the_path_of_the_file() {
    if !has_program("strace") {
        return;
    }
    let trees = Trees::new();
    let name = format!("{}/in a directory\n/slow", "long ".repeat(20));
    trees.put(&name, vec![7; 1 << 20]).put("z", "y");
    let mut terminal = Terminal::spawn(&slowed_at(&trees, &trees.original(&name)), 8, 120);
    terminal.wait_for(|seen| {
        let row = seen.row(0);
        row.contains('%') && row.ends_with("tory?/slow") && row.contains(", ...")
    });
    assert!(terminal.end().success());
}

#[test]
fn complaints_stand_above_the_line_and_stay() {
    if !has_program("strace") {
        return;
    }
    let trees = Trees::new();
    trees.put("slow", vec![7; 1 << 20]);
    let _listener = std::os::unix::net::UnixListener::bind(trees.original("a socket")).unwrap();
    let mut terminal = Terminal::spawn(&slowed(&trees), 8, 79);
    terminal.wait_for(|seen| seen.row(0).contains("socket") && !seen.row(1).is_empty());
    assert!(!terminal.end().success());
    let rows = terminal.seen().rows();
    assert!(rows[0].starts_with("zc-dircopy: 'a socket': "), "{rows:?}");
    assert!(rows[1].starts_with("1 file, "), "{rows:?}");
}

/// Has a program ask for a password on the terminal when the command begins.
fn behind_a_prompt(command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "stty -echo; printf 'Password: '; exec \"$@\"", "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    shell
}

#[test]
fn no_line_is_drawn_while_a_program_asks_for_a_password() {
    if !has_program("strace") {
        return;
    }
    let trees = Trees::new();
    trees.put("slow", vec![7; 1 << 20]);
    let mut terminal = Terminal::spawn(&behind_a_prompt(&slowed(&trees)), 8, 79);
    assert!(terminal.end().success());
    let rows = terminal.seen().rows();
    assert_eq!(rows[0], "Password:");
    assert!(rows[1].starts_with("1 file, "), "{rows:?}");
    let raw = String::from_utf8_lossy(&terminal.seen().raw).into_owned();
    assert!(!raw.contains(" of "), "{raw}");
}

#[test]
fn quiet_shows_no_line_on_a_terminal() {
    let trees = tree();
    let mut terminal = Terminal::spawn(&trees.command(&[]), 8, 79);
    assert!(terminal.end().success());
    assert_eq!(terminal.seen().raw, b"");
}
