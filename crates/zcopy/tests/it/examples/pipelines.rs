//! The examples that stand in a pipeline: `pv`, `cat` and `tee`.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use super::{LEN, example, scratch};
use crate::endpoints::{full, pipe, terminal};
use crate::files::{assert_same, read_to_end, write_all};

#[test]
fn pv_copies_a_file_and_draws_bar_rate_and_time_left() {
    let Some(mut pv) = example("pv") else {
        return;
    };
    let (dir, bytes) = scratch();
    let (user, screen) = terminal();
    pv.current_dir(&dir).arg("source").stderr(screen);
    let output = pv.output().unwrap();
    // The command holds the other side of the terminal.
    drop(pv);
    assert!(output.status.success());
    assert_same(&output.stdout, &bytes, "pv");
    let drawn = String::from_utf8(read_to_end(&user)).unwrap();
    let last = drawn.rsplit('\r').find(|line| line.contains('/')).unwrap();
    assert!(last.starts_with("   3.0 MiB 0:00:0"), "{drawn:?}");
    let end = "/s] [==============================>] 100% ETA 0:00:00\x1b[K";
    assert!(last.contains(end), "{drawn:?}");
}

/// Standard input that is a file has a size, too.
#[test]
fn pv_knows_the_size_of_standard_input() {
    let Some(mut pv) = example("pv") else {
        return;
    };
    let (dir, bytes) = scratch();
    let (user, screen) = terminal();
    pv.stdin(File::open(dir.path().join("source")).unwrap());
    let output = pv.stderr(screen).output().unwrap();
    drop(pv);
    assert_same(&output.stdout, &bytes, "pv");
    let drawn = String::from_utf8(read_to_end(&user)).unwrap();
    assert!(drawn.contains("100% ETA 0:00:00"), "{drawn:?}");
}

#[test]
fn pv_draws_while_its_source_is_silent_and_shows_no_bar_without_a_size() {
    let Some(mut pv) = example("pv") else {
        return;
    };
    let (stdin, writer) = pipe();
    let (user, screen) = terminal();
    pv.stdin(stdin).stdout(Stdio::piped()).stderr(screen);
    let child = pv.spawn().unwrap();
    drop(pv);
    assert!(write_all(&writer, b"hello"));
    let mut drawn = read_until(&user, "       5 B 0:00:00 [");
    drop(writer);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"hello");
    drawn += &String::from_utf8(read_to_end(&user)).unwrap();
    assert!(!drawn.contains("ETA"), "{drawn:?}");
}

#[test]
fn pv_is_silent_without_a_terminal() {
    let Some(mut pv) = example("pv") else {
        return;
    };
    let (dir, bytes) = scratch();
    let output = pv.current_dir(&dir).arg("source").output().unwrap();
    assert_same(&output.stdout, &bytes, "pv");
    assert!(output.stderr.is_empty());
}

#[test]
fn cat_goes_on_after_a_missing_file_as_gnu_cat_does() {
    let Some(mut ours) = example("cat") else {
        return;
    };
    let (dir, bytes) = scratch();
    fs::write(dir.path().join("short"), "short\n").unwrap();
    let args = ["short", "missing", "-", ".", "source", "short"];
    let mut theirs = Command::new("cat");
    let [ours, theirs] = [&mut ours, &mut theirs].map(|cat| {
        let stdin = File::open(dir.path().join("source")).unwrap();
        cat.current_dir(&dir).args(args).stdin(stdin);
        cat.output().unwrap()
    });
    assert_eq!(ours.status.code(), Some(1));
    assert_eq!(theirs.status.code(), Some(1));
    assert!(ours.stdout.len() > 2 * bytes.len());
    assert_same(&ours.stdout, &theirs.stdout, "cat");
    let errors = String::from_utf8(ours.stderr).unwrap();
    let starts: Vec<_> = errors.lines().map(|line| &line[..10]).collect();
    assert_eq!(starts, ["cat: missi", "cat: .: th"], "{errors}");
}

#[test]
fn cat_without_names_copies_standard_input() {
    let Some(mut cat) = example("cat") else {
        return;
    };
    let (dir, bytes) = scratch();
    cat.stdin(File::open(dir.path().join("source")).unwrap());
    let output = cat.output().unwrap();
    assert!(output.status.success());
    assert_same(&output.stdout, &bytes, "cat");
}

#[test]
fn cat_ends_at_the_first_error_of_its_output() {
    let Some(mut cat) = example("cat") else {
        return;
    };
    let (dir, _) = scratch();
    cat.current_dir(&dir).args(["source", "source"]);
    let output = cat.stdout(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "cat: standard output: write to the sink failed after 0 bytes: \
         No space left on device (os error 28)\n"
    );
}

#[test]
fn tee_writes_to_all_its_files_and_appends_if_asked() {
    let (dir, bytes) = scratch();
    fs::write(dir.path().join("one"), "an old and longer text".repeat(LEN)).unwrap();
    let mut expected = bytes.clone();
    for appends in [false, true] {
        let Some(mut tee) = example("tee") else {
            return;
        };
        tee.current_dir(&dir).args(appends.then_some("-a"));
        tee.args(["one", "two"]);
        tee.stdin(File::open(dir.path().join("source")).unwrap());
        let output = tee.output().unwrap();
        assert!(output.status.success());
        assert_same(&output.stdout, &bytes, "standard output");
        for name in ["one", "two"] {
            assert_same(&fs::read(dir.path().join(name)).unwrap(), &expected, name);
        }
        expected.extend_from_slice(&bytes);
    }
}

#[test]
fn tee_serves_the_others_when_files_fail() {
    let Some(mut tee) = example("tee") else {
        return;
    };
    let (dir, bytes) = scratch();
    tee.current_dir(&dir).args(["/dev/full", ".", "one"]);
    tee.stdin(File::open(dir.path().join("source")).unwrap());
    let output = tee.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_same(&output.stdout, &bytes, "standard output");
    assert_same(&fs::read(dir.path().join("one")).unwrap(), &bytes, "one");
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "tee: .: Is a directory (os error 21)\n\
         tee: /dev/full: No space left on device (os error 28)\n"
    );
}

#[test]
fn pv_cat_and_tee_make_a_pipeline() {
    let (Some(mut cat), Some(mut pv), Some(mut tee)) =
        (example("cat"), example("pv"), example("tee"))
    else {
        return;
    };
    let (dir, bytes) = scratch();
    cat.current_dir(&dir).arg("source").stdout(Stdio::piped());
    let mut cat = cat.spawn().unwrap();
    pv.stdin(cat.stdout.take().unwrap()).stdout(Stdio::piped());
    let mut pv = pv.spawn().unwrap();
    tee.stdin(pv.stdout.take().unwrap());
    tee.current_dir(&dir).arg("copy").stdout(Stdio::piped());
    let printed = tee.output().unwrap();
    assert!(cat.wait().unwrap().success() && pv.wait().unwrap().success());
    assert!(printed.status.success());
    assert_same(&printed.stdout, &bytes, "standard output");
    assert_same(&fs::read(dir.path().join("copy")).unwrap(), &bytes, "copy");
}

/// Reads what a program draws, up to `text`.
fn read_until(terminal: &OwnedFd, text: &str) -> String {
    let mut terminal = File::from(terminal.try_clone().unwrap());
    let mut drawn = Vec::new();
    loop {
        let mut byte = [0];
        terminal.read_exact(&mut byte).unwrap();
        drawn.extend(byte);
        if drawn.ends_with(text.as_bytes()) {
            return String::from_utf8(drawn).unwrap();
        }
    }
}
