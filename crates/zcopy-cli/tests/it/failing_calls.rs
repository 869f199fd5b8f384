//! Calls that fail though they hardly ever do: what `cargo xtask faults` has found once.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::files::pattern;
use crate::mounts::Fs;
use crate::skip::has_program;

/// The longest that a run here may take, in seconds.
const LIMIT: &str = "30";

/// A directory with the file `in`.
fn dir_with(bytes: &[u8]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("in"), bytes).unwrap();
    dir
}

/// A shell line in this directory. Its tools are told by `strace -e inject=…` what fails.
fn sh(dir: &TempDir, line: &str) -> Output {
    let tools = Path::new(env!("CARGO_BIN_EXE_zc-cat")).parent().unwrap();
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("timeout");
    command.args([LIMIT, "bash", "-c", line]).current_dir(dir);
    command
        .env("PATH", path)
        .env("LC_ALL", "C")
        .stdin(Stdio::null());
    command.output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether the log of strace has a call that it made fail.
fn has_failed_call(dir: &TempDir) -> bool {
    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    log.contains("(INJECTED)")
}

/// Before `main` each tool looks whether its standard descriptors are closed.
#[test]
fn a_refused_question_for_a_descriptors_flags_is_no_closed_descriptor() {
    if !has_program("strace") {
        return;
    }
    let bytes = pattern(5_000);
    for (tool, n_questions) in [("zc-cat", 2), ("zc-pv -q", 2), ("zc-tee one", 2)] {
        let dir = dir_with(&bytes);
        let inject = format!("strace -qq -o log -e inject=fcntl:error=EPERM:when=1..{n_questions}");
        let output = sh(&dir, &format!("{inject} {tool} < in"));
        assert!(output.status.success(), "{tool}: {}", stderr(&output));
        assert!(output.stdout == bytes, "{tool}");
        let log = fs::read_to_string(dir.path().join("log")).unwrap();
        let is_asked = |line: &&str| line.contains("F_GETFD") && line.ends_with("(INJECTED)");
        let n_asked = log.lines().filter(is_asked).count();
        assert_eq!(n_asked, n_questions, "{log}");
    }
}

#[test]
fn an_output_that_cannot_be_examined_is_blamed_with_its_own_error() {
    if !has_program("strace") {
        return;
    }
    let injected = "strace -qq -o log -P $PWD/out -e inject=fstat:error=EOVERFLOW:when";
    for (when, tool, expected) in [
        // The first question is zc-cat's own.
        (
            "2+",
            "zc-cat in",
            "zc-cat: write error: Value too large for defined data type\n",
        ),
        (
            "2+",
            "zc-cat --strict in in",
            "zc-cat: write error: Value too large for defined data type\n",
        ),
        (
            "1+",
            "zc-yes",
            "zc-yes: standard output: Value too large for defined data type\n",
        ),
    ] {
        let dir = dir_with(&pattern(300_000));
        let output = sh(&dir, &format!("{injected}={when} {tool} > out"));
        assert_eq!(output.status.code(), Some(1), "{tool}");
        assert_eq!(stderr(&output), expected, "{tool}");
        assert_eq!(fs::read(dir.path().join("out")).unwrap(), b"", "{tool}");
    }
}

#[test]
fn an_output_for_which_memory_is_short_is_named_and_the_others_go_on() {
    if !has_program("strace") {
        return;
    }
    let bytes = pattern(300_000);
    let dir = dir_with(&bytes);
    let refused = "-e inject=splice,tee,sendfile,copy_file_range:error=ENOSYS";
    let inject = "-e inject=write:error=ENOMEM:when=1";
    let strace = format!("strace -qq -o log -P $PWD/one {refused} {inject}");
    let output = sh(
        &dir,
        &format!("cat in | {strace} zc-tee -p one two > three"),
    );
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "zc-tee: one: Cannot allocate memory\n");
    for name in ["two", "three"] {
        assert!(fs::read(dir.path().join(name)).unwrap() == bytes, "{name}");
    }
}

#[test]
fn signals_are_heard_where_they_cannot_be_waited_for() {
    if !has_program("strace") {
        return;
    }
    let dir = dir_with(&pattern(300_000));
    let strace = "strace -f -qq -o log -e inject=recvfrom:error=EIO";
    let output = sh(&dir, &format!("{strace} zc-pv -q in"));
    assert!(output.status.success() && output.stdout == pattern(300_000));
    assert_eq!(stderr(&output), "");
    // The shell writes its process id down and becomes zc-pv.
    let pv = "bash -c 'echo $$ > pid; exec zc-pv -q -L 1 in'";
    let until_byte = "until [ -s out ]; do sleep 0.01; done";
    let line = format!("{strace} {pv} > out & {until_byte}; kill -TERM $(< pid) && wait $!");
    let output = sh(&dir, &line);
    assert_eq!(output.status.code(), Some(32), "{}", stderr(&output));
    assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
}

/// A directory with the tree `source`: one file with a hole in its midst, and a small one.
fn dir_with_holes() -> TempDir {
    let dir = dir_with(b"");
    let source = dir.path().join("source");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("small"), pattern(5_000)).unwrap();
    let mut sparse = File::create(source.join("sparse")).unwrap();
    sparse.write_all(&pattern(4_096)).unwrap();
    sparse.seek(SeekFrom::Start(512 << 10)).unwrap();
    sparse.write_all(&pattern(4_096)).unwrap();
    dir
}

/// A hole is stepped over by `lseek`, and the data behind it must not come to stand in its place.
#[test]
fn a_hole_stays_where_its_sink_cannot_be_sought() {
    if !has_program("strace") {
        return;
    }
    let dir = dir_with_holes();
    let mut n_reached = 0;
    for extent in ["", "+"] {
        for nth in 1..=20 {
            let inject = format!("-e inject=lseek:error=ESPIPE:when={nth}{extent}");
            let strace = format!("rm -rf copy; strace -f -qq -o log {inject}");
            let output = sh(&dir, &format!("{strace} zc-dircopy -q -j1 source copy"));
            let copied = fs::read(dir.path().join("copy/sparse")).unwrap_or_default();
            let is_whole = copied == fs::read(dir.path().join("source/sparse")).unwrap();
            let is_absent = copied.is_empty() && !output.status.success();
            assert!(is_whole || is_absent, "{inject}: {}", stderr(&output));
            n_reached += usize::from(has_failed_call(&dir));
        }
    }
    assert!(n_reached > 10, "{n_reached}");
}

#[test]
fn a_file_system_that_calls_every_name_taken_is_not_asked_for_ever() {
    if !has_program("strace") {
        return;
    }
    let dir = dir_with_holes();
    let strace = "strace -f -qq -o log -e inject=linkat:error=EEXIST";
    let output = sh(&dir, &format!("{strace} zc-dircopy -q source copy"));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let expected = "zc-dircopy: .: cannot write the manifest: File exists\n";
    assert!(stderr(&output).ends_with(expected), "{}", stderr(&output));
}

#[test]
fn a_destination_that_cannot_be_examined_is_reported_with_its_own_error() {
    if !has_program("strace") {
        return;
    }
    let dir = dir_with_holes();
    let strace = "strace -f -qq -o log -P copy -e inject=newfstatat:error=EIO";
    let output = sh(&dir, &format!("{strace} zc-dircopy source copy"));
    assert_eq!(output.status.code(), Some(1));
    let expected = "zc-dircopy: copy: cannot use destination directory: Input/output error\n";
    assert_eq!(stderr(&output), expected);
}

/// A clone asks for the sizes of both files.
#[test]
fn a_file_whose_size_a_clone_cannot_learn_is_blamed_itself() {
    if !has_program("strace") {
        return;
    }
    let Some(dir) = Fs::Xfs.dir() else { return };
    let dir = tempfile::tempdir_in(dir).unwrap();
    fs::write(dir.path().join("in"), pattern(300_000)).unwrap();
    let mut n_failed = 0;
    for nth in 1..=12 {
        let inject = format!("-e inject=fstat:error=EIO:when={nth}");
        let output = sh(
            &dir,
            &format!("strace -y -qq -o log {inject} zc-cat in > out"),
        );
        let log = fs::read_to_string(dir.path().join("log")).unwrap();
        let failed = log.lines().find(|line| line.ends_with("(INJECTED)"));
        let Some(failed) = failed.filter(|_| !output.status.success()) else {
            continue;
        };
        // zc-cat's own question for the output is the first.
        let names = if failed.contains("/in>") {
            ["in", "in"]
        } else {
            ["standard output", "write error"]
        };
        let said = stderr(&output);
        let is_blamed = |name| said.ends_with(&format!("zc-cat: {name}: Input/output error\n"));
        assert!(names.into_iter().any(is_blamed), "{failed}: {said}");
        n_failed += 1;
    }
    assert!(n_failed > 3, "{n_failed}");
}

#[test]
fn a_source_that_cannot_be_examined_is_not_taken_for_the_destination() {
    if !has_program("strace") {
        return;
    }
    let dir = dir_with_holes();
    let strace = "strace -f -qq -o log -P $PWD/source -e inject=fstat:error=EIO";
    let output = sh(&dir, &format!("{strace} zc-dircopy source copy"));
    assert_eq!(output.status.code(), Some(1));
    let expected = "zc-dircopy: source: cannot stat: Input/output error\n";
    assert_eq!(stderr(&output), expected);
}

#[test]
fn a_symbolic_link_that_cannot_be_read_is_not_blamed_on_its_copy() {
    if !has_program("strace") {
        return;
    }
    let dir = dir_with_holes();
    symlink("in", dir.path().join("source/link")).unwrap();
    let strace = "strace -f -qq -o log -e inject=readlinkat:error=EIO";
    let output = sh(&dir, &format!("{strace} zc-dircopy source copy"));
    assert_eq!(output.status.code(), Some(1));
    let expected = "zc-dircopy: link: cannot read: Input/output error\n";
    assert_eq!(stderr(&output), expected);
}

#[test]
fn an_error_at_the_close_of_an_output_that_was_opened_again_is_reported() {
    if !has_program("strace") {
        return;
    }
    let dir = dir_with(&pattern(300_000));
    // The library's descriptor for the last part of a block, zc-pv's own by which it gives
    // `O_DIRECT` back, and the output itself.
    for nth in 1..=3 {
        let strace =
            format!("strace -f -qq -o log -P $PWD/out -e inject=close:error=EIO:when={nth}");
        for (line, name) in [
            ("zc-pv -q -K in > out", "(stdout)"),
            ("zc-pv -q -K in -o out", "out"),
        ] {
            let output = sh(&dir, &format!("{strace} {line}"));
            let begin = format!("zc-pv: {name}: ");
            let said = stderr(&output);
            assert!(
                said.starts_with(&begin) && said.ends_with(": Input/output error\n"),
                "{nth}: {said}"
            );
            assert!(!output.status.success(), "{nth}: {line}");
        }
    }
}

#[test]
fn a_copy_that_could_not_tell_of_its_errors_does_not_begin() {
    if !has_program("strace") {
        return;
    }
    let dir = dir_with(b"");
    fs::create_dir(dir.path().join("source")).unwrap();
    // The fourth call duplicates standard error.
    let strace = "strace -f -qq -o log -e inject=fcntl:error=EMFILE:when=4+";
    let output = sh(&dir, &format!("{strace} zc-dircopy -q source copy"));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "zc-dircopy: Too many open files\n");
    assert!(!dir.path().join("copy").exists());
}

#[test]
fn an_output_that_cannot_be_examined_is_named_and_the_others_go_on() {
    if !has_program("strace") {
        return;
    }
    let bytes = pattern(300_000);
    for (call, when, error) in [("fstat", "1", "EIO"), ("fcntl", "1+", "EIO")] {
        let dir = dir_with(&bytes);
        let inject = format!("-e inject={call}:error={error}:when={when}");
        let strace = format!("strace -qq -o log -P $PWD/two {inject}");
        let output = sh(
            &dir,
            &format!("cat in | {strace} zc-tee -v one two > three"),
        );
        assert_eq!(output.status.code(), Some(1), "{call}");
        let said = stderr(&output);
        assert!(
            said.starts_with("zc-tee: two: Input/output error\n"),
            "{call}: {said}"
        );
        assert!(said.contains("zc-tee: one: 300000 bytes"), "{call}: {said}");
        assert!(!said.contains("zc-tee: one: 0 bytes"), "{call}: {said}");
        for name in ["one", "three"] {
            assert!(fs::read(dir.path().join(name)).unwrap() == bytes, "{name}");
        }
    }
}

#[test]
fn a_filter_that_hides_the_limit_of_descriptors_stops_no_copy() {
    if !has_program("strace") {
        return;
    }
    let bytes = pattern(1_000);
    let dir = dir_with(&bytes);
    fs::create_dir(dir.path().join("source")).unwrap();
    fs::rename(dir.path().join("in"), dir.path().join("source/in")).unwrap();
    let strace = "strace -f -qq -o log -e inject=prlimit64:error=EPERM";
    let output = sh(&dir, &format!("{strace} zc-dircopy -q source copy"));
    assert_eq!(
        (output.status.code(), stderr(&output)),
        (Some(0), String::new())
    );
    assert!(fs::read(dir.path().join("copy/in")).unwrap() == bytes);
}

/// A hole of the source whose cursor could not be moved over it was read once more as zeros.
#[test]
fn a_hole_is_copied_once_where_its_source_cannot_be_sought() {
    if !has_program("strace") {
        return;
    }
    let dir = dir_with_holes();
    let whole = fs::read(dir.path().join("source/sparse")).unwrap();
    let mut n_reached = 0;
    for offload in ["", "-e inject=splice,copy_file_range:error=ENOSYS"] {
        for nth in 1..=12 {
            let inject = format!("{offload} -e inject=lseek:error=ESPIPE:when={nth}");
            let strace = format!("strace -qq -o log -P $PWD/source/sparse {inject}");
            let output = sh(&dir, &format!("{strace} zc-cat source/sparse > copy"));
            let copied = fs::read(dir.path().join("copy")).unwrap();
            assert!(whole.starts_with(&copied), "{inject}: {}", copied.len());
            let is_whole = copied.len() == whole.len();
            assert!(is_whole || !output.status.success(), "{inject}");
            n_reached += usize::from(has_failed_call(&dir));
        }
    }
    assert!(n_reached > 10, "{n_reached}");
}

/// The end of an older, longer output was left behind the bytes of the new one.
#[test]
fn an_older_output_is_emptied_or_the_transfer_fails() {
    if !has_program("strace") {
        return;
    }
    let bytes = pattern(5_000);
    for call in ["fstat", "statx", "ftruncate"] {
        let dir = dir_with(&bytes);
        fs::write(dir.path().join("out"), pattern(300_000)).unwrap();
        let inject = format!("-P $PWD/out -e inject={call}:error=EIO:when=1..3");
        let output = sh(
            &dir,
            &format!("strace -f -qq -o log {inject} zc-pv -q -o out in"),
        );
        let is_whole = fs::read(dir.path().join("out")).unwrap() == bytes;
        assert!(is_whole || !output.status.success(), "{call}");
    }
}
