//! The command line, and what is said of a bad one.

use super::*;
use crate::skip::has_program;

fn told(arguments: &[&str]) -> Run {
    let empty = tempfile::tempdir().unwrap();
    fs::create_dir(empty.path().join("src")).unwrap();
    let mut command = zc_dircopy();
    let run = run(command.current_dir(empty.path()).args(arguments));
    let n_names = fs::read_dir(empty.path()).unwrap().count();
    assert_eq!(n_names, 1, "something was made all the same");
    run
}

#[test]
fn bad_usage_ends_with_2_and_refers_to_the_help() {
    let table: [(&[&str], &str); 30] = [
        (&[], "missing source operand"),
        (&["src"], "missing destination operand"),
        (&["-i", "src"], "missing destination operand"),
        (&["-o", "dst"], "missing source operand"),
        (&["src", "dst", "more"], "more"),
        (&["-i", "src", "-o", "dst", "more"], "more"),
        (&["--no-such-option", "src", "dst"], "no-such-option"),
        (&["-Z", "src", "dst"], "Z"),
        (&["--jobs=0", "src", "dst"], "0"),
        (&["--jobs=-1", "src", "dst"], "-1"),
        (&["--jobs=many", "src", "dst"], "invalid number of jobs: "),
        (
            &["--queue-size=0", "src", "dst"],
            "invalid number of blocks: ",
        ),
        (&["--block-size=0", "src", "dst"], "invalid block size: "),
        (&["--block-size=2G", "src", "dst"], "2G"),
        (&["--bwlimit=fast", "src", "dst"], "invalid rate: "),
        (&["--bwlimit=-1", "src", "dst"], "bytes per second expected"),
        (&["--hash=md5", "src", "dst"], "md5"),
        (&["--lanes=sometimes", "src", "dst"], "sometimes"),
        (&["--overwrite-policy=sometimes", "src", "dst"], "sometimes"),
        (&["--exclude=[a", "src", "dst"], "[a"),
        (&["--exclude=[b", "src", "dst"], "invalid glob: "),
        (&["", "dst"], "the source has no name"),
        (&["-i", "src", "-o", ""], "the destination has no name"),
        (&["--exclude=", "src", "dst"], "invalid glob: "),
        (&["--exclude=/", "src", "dst"], "/"),
        (&["--exclude=./a", "src", "dst"], "./a"),
        (&["--exclude=a/../b", "src", "dst"], "a/../b"),
        (&["--include=[a", "src", "dst"], "invalid glob: "),
        (
            &["--exclude-from=nosuch", "src", "dst"],
            "cannot read the globs of ‘nosuch’: No such file",
        ),
        (&["--silent", "src", "dst"], "--check"),
    ];
    for (arguments, words) in table {
        let run = told(arguments);
        run.ended_with(2);
        assert!(run.stderr.contains(words), "{arguments:?}: {run:?}");
        assert!(run.stderr.contains("--help"), "{arguments:?}: {run:?}");
        assert_eq!(run.stdout, "", "{arguments:?}");
    }
}

#[test]
fn options_of_the_check_need_it() {
    for option in [
        "--silent",
        "--no-summary",
        "--hash-file=f",
        "--no-convert-paths",
        "--verbose",
        "--hash=xxh128",
    ] {
        told(&[option, "src", "dst"]).ended_with(2);
    }
}

#[test]
fn options_of_a_copy_are_refused_by_the_check() {
    use clap::CommandFactory as _;

    const BOTH: [&str; 16] = [
        "accept",
        "forget_missing",
        "check",
        "strict",
        "hash_file",
        "no_convert_paths",
        "silent",
        "no_summary",
        "verbose",
        "quiet",
        "json",
        "queue_size",
        "block_size",
        "hash",
        "jobs",
        "paths",
    ];
    let command = zcopy_cli::dircopy::Args::command();
    let names = |arg: &&clap::Arg| !["help", "version"].contains(&arg.get_id().as_str());
    for arg in command.get_arguments().filter(names) {
        if BOTH.contains(&arg.get_id().as_str()) {
            continue;
        }
        let option = format!("--{}", arg.get_long().unwrap());
        let mut arguments = vec!["--check", "src", &option];
        if arg.get_action().takes_values() {
            arguments.push(match arg.get_id().as_str() {
                "overwrite_policy" => "never",
                _ => "4096",
            });
        }
        let run = told(&arguments);
        run.ended_with(2);
        assert!(run.stderr.contains(&option), "{run:?}");
    }
}

#[test]
fn messages_begin_with_the_name_that_the_program_was_called_by() {
    let trees = Trees::new();
    let called = trees.path().join("mirror");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_zc-dircopy"), &called).unwrap();
    let usage = run(Command::new(&called).arg("--jobs=0"));
    assert_eq!(usage.status, 2);
    let names =
        |line: &str| line.starts_with("mirror: ") || line.starts_with("Try 'mirror --help'");
    assert!(usage.stderr.lines().all(names), "{usage:?}");

    let _listener = std::os::unix::net::UnixListener::bind(trees.original("socket")).unwrap();
    let failed = run(Command::new(&called)
        .arg("-q")
        .arg(trees.source())
        .arg(trees.copy()));
    assert_eq!(failed.status, 1);
    assert!(failed.stderr.starts_with("mirror: socket: "), "{failed:?}");
    let check = run(Command::new(&called)
        .arg("--check")
        .arg(trees.path().join("nowhere")));
    assert!(check.stderr.starts_with("mirror: "), "{check:?}");
}

#[test]
fn names_in_messages_are_quoted_for_a_shell() {
    let trees = Trees::new();
    let name = trees.original("two\nlines and 'quotes'");
    let _listener = std::os::unix::net::UnixListener::bind(name).unwrap();
    let run = trees.run(&[]);
    run.failed_naming(&[&[r"'two'$'\n''lines and '\''quotes'\'''"]]);
}

#[test]
fn help_and_version_are_told() {
    for option in ["--help", "-h"] {
        let help = told(&[option]);
        assert_eq!(help.status, 0);
        assert!(
            help.stdout.contains("--overwrite-policy") && help.stdout.contains("shasum."),
            "{help:?}"
        );
    }
    for option in ["--version", "-V"] {
        let version = told(&[option]);
        assert_eq!(version.status, 0);
        assert!(version.stdout.starts_with("zc-dircopy "), "{version:?}");
    }
}

#[test]
fn options_may_follow_operands_and_be_shortened() {
    let trees = Trees::new();
    trees.put("file", "x");
    let mut command = zc_dircopy();
    command.current_dir(trees.path());
    run(command.args(["src", "dst", "--qui", "--no-hash", "--over=always", "-j1"])).is_quiet();
    assert_eq!(Sums::all_in(&trees.copy()).len(), 0);
    trees.holds("file", "x");
}

/// What a person is told is no use if nobody can read it.
#[test]
fn a_summary_that_cannot_be_written_is_an_error() {
    let trees = Trees::new();
    trees.put("file", "x");
    let mut command = zc_dircopy();
    command.arg(trees.source()).arg(trees.copy());
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = command.stdout(full).output().unwrap();
    let run = Run::from(output);
    run.failed_naming(&[&["write error", "No space left"]]);
    trees.are_alike();
}

#[test]
fn explain_says_how_each_file_was_copied() {
    let trees = Trees::new();
    trees.put("one", "x").put("two", vec![7; 300_000]);
    let run = trees.run(&["--explain"]);
    assert_eq!(run.status, 0, "{run:?}");
    for name in ["one", "two"] {
        assert!(
            run.stderr.lines().any(|line| line.contains(name)),
            "{run:?}"
        );
    }
}

#[test]
fn durable_copies_are_brought_to_the_disk_before_they_are_named() {
    if !has_program("strace") {
        return;
    }
    let trees = Trees::on_disk();
    trees.put("d/file", "x");
    let calls = "--trace=fsync,fdatasync,syncfs,linkat,renameat,renameat2";
    let traced = traced::traced(&trees.command(&["--durable"]), &[calls.to_owned()]);
    traced.run.is_quiet();
    let line = |words: &[&str]| {
        let has_all = |line: &str| words.iter().all(|word| line.contains(word));
        let found = traced.log.lines().position(has_all);
        found.unwrap_or_else(|| panic!("{words:?}: {}", traced.log))
    };
    let named = line(&["link", "\"file\""]);
    assert!(line(&["sync(", "/d/#"]) < named, "{}", traced.log);
    let after = traced.log.lines().skip(named + 1);
    let is_directory = |line: &str| line.contains("fsync(") && line.contains("/dst/d>");
    assert!(after.clone().any(is_directory), "{}", traced.log);
    let sums = line(&["link", "shasum."]);
    assert!(named < sums, "no line before its file");
    trees.are_alike();
}
