//! Copies with few descriptors.

use rustix::fs::{AtFlags, Mode, OFlags, XattrFlags};

use super::*;
use crate::screen::Terminal;
use crate::skip::has_program;

/// The fewest that a copy gets on with, standard input, output and error among them.
const FEWEST: usize = 21;

/// Runs a command with at most `limit` descriptors, of which three are open.
pub(super) fn with_descriptors(command: &Command, limit: usize) -> Command {
    let script = r#"
        for fd in /proc/self/fd/*; do
            fd=${fd##*/}
            [ "$fd" -gt 2 ] && eval "exec $fd>&-"
        done
        ulimit -n "$0" && exec "$@"
    "#;
    let mut limited = Command::new("bash");
    limited.args(["-c", script, &limit.to_string()]);
    limited.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited
}

fn run_with(command: &Command, limit: usize) -> Run {
    run(&mut with_descriptors(command, limit))
}

fn strict_check(trees: &Trees, options: &[&str]) -> Command {
    check_command(&trees.copy(), &[&["--strict"], options].concat())
}

/// A tree of `n_levels` levels. At every tenth there are a file, which has another name further
/// down, a link to it, and a directory before and behind the next level.
fn deep(n_levels: usize, name: impl Fn(usize) -> String) -> Trees {
    let trees = Trees::new();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = |directory: &rustix::fd::OwnedFd, name: &str| {
        rustix::fs::openat(directory, name, flags, Mode::empty()).unwrap()
    };
    let make = |directory: &rustix::fd::OwnedFd, name: &str| {
        rustix::fs::mkdirat(directory, name, Mode::from_raw_mode(0o751)).unwrap();
    };
    let mut at = rustix::fs::open(trees.source(), flags, Mode::empty()).unwrap();
    let mut last = None;
    for level in 0..n_levels {
        let next = name(level);
        make(&at, &next);
        if level % 10 == 9 {
            let file = format!("{level}");
            let mode = Mode::from_raw_mode(0o640);
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
            let opened = rustix::fs::openat(&at, &*file, flags, mode).unwrap();
            rustix::io::write(&opened, file.as_bytes()).unwrap();
            rustix::fs::symlinkat(&*file, &at, "link").unwrap();
            rustix::fs::fsetxattr(&at, "user.level", file.as_bytes(), XattrFlags::empty()).unwrap();
            make(&at, "A");
            make(&at, "z");
            if let Some((directory, file)) = last.replace((at.try_clone().unwrap(), file)) {
                rustix::fs::linkat(directory, &*file, &at, "again", AtFlags::empty()).unwrap();
            }
        }
        at = open(&at, &next);
    }
    trees
}

/// The attributes of everything in a tree, from `find`: other programs take no paths of this
/// length.
fn listing(tree: &Path) -> Vec<String> {
    let found = Command::new("find")
        .arg(tree)
        .args(["-mindepth", "1", "-not", "-name", "shasum.*"])
        .args(["-printf", "%d %f %y %#m %U:%G %n %l %T@ %s\\n"])
        .output()
        .unwrap();
    assert!(found.status.success(), "{found:?}");
    let found = String::from_utf8(found.stdout).unwrap();
    // The size of a directory is its file system's own business.
    let lines = found.lines().map(|line| {
        let is_directory = line.contains(" d ");
        let (all_but_size, _) = line.rsplit_once(' ').unwrap();
        if is_directory { all_but_size } else { line }.to_owned()
    });
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    lines
}

/// Removes a tree that Rust's own way cannot.
fn remove(trees: &Trees) {
    let removed = Command::new("rm").arg("-rf").arg(trees.path()).status();
    assert!(removed.unwrap().success());
}

#[test]
fn a_thousand_levels_of_long_names_are_copied_and_verified_with_twenty_four() {
    if !has_program("bash") {
        return;
    }
    let trees = deep(1000, |level| format!("{level:0255}"));
    let expected = listing(&trees.source());
    assert_eq!(expected.len(), 1000 + 100 * 4 + 99);
    for _ in 0..3 {
        run_with(&trees.command(&[]), 24).is_quiet();
        assert_eq!(listing(&trees.copy()), expected);
    }
    let checked = run_with(&strict_check(&trees, &["--quiet"]), 24);
    checked.is_quiet();
    let checked = run_with(&strict_check(&trees, &["--json"]), 24);
    assert!(
        checked.stdout.contains(r#""matching":199"#),
        "{}",
        checked.stdout
    );
    assert_eq!((checked.status, checked.stderr), (0, String::new()));
    remove(&trees);
}

#[test]
fn every_way_to_copy_gets_on_with_the_fewest() {
    if !has_program("bash") {
        return;
    }
    for limit in [FEWEST, 24, 32, 64, 256] {
        for options in [
            &[][..],
            &["--hash=blake3"],
            &["--durable"],
            &["--verify", "--overwrite-policy=always"],
            &["--verify-existing"],
            &["--overwrite-policy=update", "--jobs=64"],
            &["--no-hash"],
            &["--dereference"],
            &["--lanes=always", "--jobs=64"],
            &["--json"],
        ] {
            let trees = deep(60, |level| format!("d{level}"));
            for number in 0..30 {
                trees.put(format!("wide/{number}/file"), format!("{number}"));
                let link = trees.original(format!("wide/{number}/link"));
                fs::hard_link(trees.original("wide/0/file"), link).unwrap();
            }
            // The other algorithm's manifest is written too.
            trees.put_copy("own", "own");
            let others: &[_] = match options {
                ["--hash=blake3"] => &["--hash=sha256"],
                _ => &["--hash=blake3"],
            };
            let mut begins = zc_dircopy();
            begins.arg("-q").args(others).arg("--accept=own");
            run(begins.arg(trees.original("wide/0")).arg(trees.copy())).is_quiet();
            for _ in 0..2 {
                let run = run_with(&trees.command(options), limit);
                assert_eq!(run.status, 0, "{limit}, {options:?}: {run:?}");
            }
            let run = run_with(&strict_check(&trees, &["-q"]), limit);
            assert_eq!(
                run.status == 0,
                options != ["--no-hash"],
                "{limit}, {options:?}: {run:?}"
            );
        }
    }
}

#[test]
fn on_a_terminal_all_is_counted_with_few_descriptors() {
    if !has_program("bash") {
        return;
    }
    let trees = deep(300, |level| format!("d{level}"));
    for limit in [FEWEST, 24, 32] {
        let mut command = zc_dircopy();
        command.arg(trees.source()).arg(trees.copy());
        let mut terminal = Terminal::spawn(&with_descriptors(&command, limit), 8, 79);
        assert!(terminal.end().success());
        let rows = terminal.seen().rows();
        assert!(rows[0].starts_with("59 files, "), "{limit}: {rows:?}");
        let mut terminal = Terminal::spawn(
            &with_descriptors(&strict_check(&trees, &["-q"]), limit),
            8,
            79,
        );
        assert!(terminal.end().success());
    }
    remove(&trees);
}

#[test]
fn more_manifests_and_journals_than_descriptors_are_merged() {
    if !has_program("bash") {
        return;
    }
    let trees = Trees::new();
    trees.put("z", "z");
    for number in 10..50 {
        let name = format!("d/{number}");
        trees.put_copy(&name, &name);
        let digest = digest_of(Algorithm::Sha256, name.as_bytes());
        let list = format!("shasum.2020-01-01.00.00.{number}.txt");
        trees.put_copy(list, format!("{digest}  {name}\n"));
    }
    // Runs that were killed before there was a manifest.
    trees.succeeds(&[]);
    let journal = |number: usize| trees.copied(format!(".zc-dircopy-journal-{number:08}"));
    for number in 0..40 {
        let other = Trees::new();
        other.put(format!("k/{number}"), "killed");
        let mut command = other.command(&[]);
        let kill = ["--trace=unlinkat", "--inject=unlinkat:signal=KILL"].map(str::to_owned);
        let _ = traced::traced(&command, &kill);
        command.arg("--quiet");
        let left = hidden_names(&other.copy());
        let left = left
            .iter()
            .find(|path| path.to_string_lossy().contains("journal"));
        fs::copy(left.unwrap(), journal(number)).unwrap();
        trees.put_copy(format!("k/{number}"), "killed");
    }
    run_with(&strict_check(&trees, &["-q"]), 24).is_quiet();
    run_with(&trees.command(&[]), 24).is_quiet();
    let sums = trees.sums();
    assert_eq!(sums.lines.len(), 40 + 40 + 1);
    hides_nothing(&trees.copy());
    run_with(&strict_check(&trees, &["-q"]), 24).is_quiet();
}

#[test]
fn with_too_few_nothing_is_copied_and_it_is_said_how_many_are_needed() {
    if !has_program("bash") {
        return;
    }
    for limit in [6, 12, FEWEST - 1] {
        let trees = Trees::new();
        trees.put("a", "a");
        let words = format!("{limit} may be open (ulimit -n), and {FEWEST} are needed");
        let run = run_with(&trees.command(&[]), limit);
        run.failed_naming(&[&["too few descriptors", &words]]);
        assert!(!trees.copy().exists());
    }
    let trees = Trees::new();
    trees.put("a", "a").succeeds(&[]);
    run_with(&strict_check(&trees, &[]), 16)
        .failed_naming(&[&["too few descriptors", "17 are needed"]]);
    run_with(&strict_check(&trees, &["-q"]), 17).is_quiet();
}

#[test]
fn inherited_descriptors_are_counted() {
    if !has_program("bash") {
        return;
    }
    let trees = deep(40, |level| format!("d{level}"));
    let script = r#"exec 3</dev/null 4</dev/null 5</dev/null; exec "$0" "$@""#;
    let command = trees.command(&[]);
    let mut opens = Command::new("bash");
    opens.args(["-c", script]).arg(command.get_program());
    opens.args(command.get_args());
    run_with(&opens, FEWEST + 3).is_quiet();
    trees.are_alike();
    let words = format!("and {} are needed", FEWEST + 3);
    run_with(&opens, FEWEST + 2).failed_naming(&[&["too few descriptors", &words]]);
}

#[test]
fn a_directory_that_is_moved_while_it_is_closed_leads_nowhere() {
    if !has_program("bash") || !has_program("strace") {
        return;
    }
    let trees = Trees::new();
    trees
        .put("a/b/c/stops", "x")
        .put("a/b/z", "x")
        .put("z", "x");
    let elsewhere = trees.path().join("elsewhere");
    let command = with_descriptors(&trees.command(&[]), FEWEST);
    let stops = traced::as_it_reads(&trees.original("a/b/c/stops"));
    let moves = || {
        fs::create_dir_all(elsewhere.join("b")).unwrap();
        fs::write(elsewhere.join("b/z"), "secret").unwrap();
        fs::rename(trees.original("a/b/c"), elsewhere.join("c")).unwrap();
        fs::rename(trees.original("a"), trees.path().join("a")).unwrap();
        std::os::unix::fs::symlink(&elsewhere, trees.original("a")).unwrap();
    };
    let traced = traced::while_stopped(&command, &stops, moves);
    assert!(!trees.copied("a/b/z").exists() || fs::read(trees.copied("a/b/z")).unwrap() == b"x");
    trees.holds("z", "x");
    assert_eq!(names_in(&elsewhere), ["b", "c"], "{:?}", traced.run);
    assert_eq!(names_in(&elsewhere.join("b")), ["z"]);
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}
