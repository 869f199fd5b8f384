//! `--include`, `--exclude` and `--exclude-from`: which entries are copied.

use super::*;

/// A source with files of two kinds in three directories.
fn trees() -> Trees {
    let trees = Trees::new();
    for name in [
        "a.mov",
        "a.tmp",
        "d/b.mov",
        "d/b.tmp",
        "d/e/c.mov",
        "d/e/c.tmp",
    ] {
        trees.put(name, name);
    }
    trees
}

/// The files that a copy with these options has.
#[track_caller]
fn copied(options: &[&str]) -> Vec<String> {
    let trees = trees();
    trees.succeeds(&[options, &["--no-hash"]].concat());
    let names = facts::files_of(&trees.copy()).into_iter();
    let mut names: Vec<_> = names
        .map(|name| name.to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn the_first_pattern_that_matches_decides() {
    let movies = ["a.mov", "d/b.mov", "d/e/c.mov"];
    let include_first = ["--include=*.mov", "--include=*/", "--exclude=*"];
    assert_eq!(copied(&include_first), movies);
    assert_eq!(copied(&["--exclude=*", "--include=*.mov"]), [""; 0]);
    assert_eq!(
        copied(&["--include=b.tmp", "--exclude=*.tmp"]),
        ["a.mov", "d/b.mov", "d/b.tmp", "d/e/c.mov"]
    );
    assert_eq!(
        copied(&["--exclude=d/e/**", "--include=c.mov", "--exclude=*.tmp"]),
        ["a.mov", "d/b.mov"]
    );
    assert_eq!(copied(&["--include=*"]).len(), 6);
}

#[test]
fn nothing_in_an_excluded_directory_is_included() {
    let all = ["a.mov", "a.tmp"];
    assert_eq!(copied(&["--exclude=d/", "--include=b.mov"]), all);
    assert_eq!(copied(&["--include=b.mov", "--exclude=d/"]), all);
    assert_eq!(
        copied(&["--include=*.mov", "--exclude=*"]),
        ["a.mov"],
        "no directory is included"
    );
}

#[test]
fn a_file_has_its_patterns_at_the_place_of_its_option() {
    let directory = tempfile::tempdir().unwrap();
    let list = directory.path().join("list");
    fs::write(&list, "# no clips\n\n+ b.mov\n- *.mov\n; nor these\n*.tmp").unwrap();
    let from = format!("--exclude-from={}", list.to_str().unwrap());
    assert_eq!(copied(&[&from]), ["d/b.mov"]);
    assert_eq!(
        copied(&["--include=a.*", &from]),
        ["a.mov", "a.tmp", "d/b.mov"]
    );
    assert_eq!(copied(&[&from, "--include=a.*"]), ["d/b.mov"]);
    assert_eq!(copied(&["--exclude=b.*", &from]), [""; 0]);
}

#[test]
fn patterns_may_come_from_standard_input() {
    let trees = trees();
    let list = trees.path().join("list");
    fs::write(&list, "*.tmp\nd/e/\n").unwrap();
    let mut command = trees.command(&["--no-hash", "--exclude-from=-"]);
    let output = command.stdin(fs::File::open(&list).unwrap()).output();
    Run::from(output.unwrap()).is_quiet();
    let names = facts::files_of(&trees.copy());
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn patterns_from_a_closed_standard_input_are_an_error() {
    let trees = trees();
    let command = trees.command(&["--no-hash", "--exclude-from=-"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"exec "$0" "$@" <&-"#]);
    shell.arg(command.get_program()).args(command.get_args());
    let run = run(&mut shell);
    run.ended_with(2);
    let words = "cannot read the globs of ‘-’: Bad file descriptor";
    assert!(run.stderr.contains(words), "{run:?}");
    assert!(!trees.copy().exists());
}

#[test]
fn the_plan_and_the_space_follow_the_patterns() {
    let trees = trees();
    let run = trees.run_aloud(&["--dry-run", "--include=a*", "--exclude=*"]);
    assert!(
        run.stdout
            .starts_with("copy a.mov\ncopy a.tmp\n2 to copy, "),
        "{run:?}"
    );
}
