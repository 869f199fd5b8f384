//! The programs in `examples/`, run as the comments in their first lines say.

mod pipelines;
mod relay;
mod resume_copy;
mod serve_file;
mod ship_log;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use crate::endpoints::{full, pipe, terminal};
use crate::files::{assert_same, pattern, read_to_end, write_all};
use crate::skip::{report, skip};

/// Long enough for an offload, and not a round number.
const LEN: usize = (3 << 20) + 7;

/// The time after which a program counts as hung.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A built example, with a time limit; `None`, reported, if it was not built: `cargo test` builds
/// the examples, `cargo test --test it` does not.
fn example(name: &str) -> Option<Command> {
    let mut path: PathBuf = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.extend(["examples", name]);
    if !path.exists() {
        skip(&format!("example {name} is not built"));
        return None;
    }
    let mut command = Command::new("timeout");
    command.arg(TIME_LIMIT.as_secs().to_string()).arg(path);
    Some(command)
}

/// A running example that prints an address on its first line. It is ended when it goes out of
/// scope.
struct Server {
    child: Child,
    /// The first line.
    address: String,
    /// The lines behind the first one.
    stdout: Option<BufReader<ChildStdout>>,
}

impl Server {
    fn spawn(command: &mut Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        Self {
            child,
            address: line.trim_end().to_owned(),
            stdout: Some(stdout),
        }
    }

    /// Sends a signal, which `timeout` passes on.
    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        // It may have ended.
        let _ = rustix::process::kill_process(pid, signal);
    }

    /// Waits for its end. Returns the status, and what it has printed behind the first line on
    /// standard output and on standard error.
    fn wait(mut self) -> (ExitStatus, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        let mut stdout = self.stdout.take().unwrap();
        stdout.read_to_string(&mut out).unwrap();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut err).unwrap();
        (self.child.wait().unwrap(), out, err)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
        let _ = self.child.wait();
    }
}

/// A scratch directory with a file `source`, and the bytes in it.
fn scratch() -> (TempDir, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let bytes = pattern(LEN);
    fs::write(dir.path().join("source"), &bytes).unwrap();
    (dir, bytes)
}

#[track_caller]
fn successful(output: Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stderr}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn copy_replaces_a_longer_file_and_prints_the_report() {
    let Some(mut copy) = example("copy") else {
        return;
    };
    let (dir, bytes) = scratch();
    fs::write(dir.path().join("sink"), pattern(2 * LEN)).unwrap();
    copy.current_dir(&dir).args(["source", "sink"]);
    let report = successful(copy.output().unwrap());
    assert!(
        report.starts_with(&format!("{LEN} bytes by ")),
        "{report:#}"
    );
    assert_same(&fs::read(dir.path().join("sink")).unwrap(), &bytes, "copy");
}

#[test]
fn copy_writes_to_a_device() {
    let Some(mut copy) = example("copy") else {
        return;
    };
    let (dir, _) = scratch();
    copy.current_dir(&dir).args(["source", "/dev/null"]);
    successful(copy.output().unwrap());
}

#[test]
fn copy_of_a_file_to_itself_fails_and_leaves_it_unchanged() {
    let Some(mut copy) = example("copy") else {
        return;
    };
    let (dir, bytes) = scratch();
    copy.current_dir(&dir).args(["source", "source"]);
    assert!(!copy.output().unwrap().status.success());
    assert_same(
        &fs::read(dir.path().join("source")).unwrap(),
        &bytes,
        "source",
    );
}

#[test]
fn copy_draws_its_progress_on_a_terminal() {
    let Some(mut copy) = example("copy") else {
        return;
    };
    let (dir, _) = scratch();
    let (user, screen) = terminal();
    copy.current_dir(&dir)
        .args(["source", "sink"])
        .stderr(screen);
    let output = copy.output().unwrap();
    // The command holds the other side of the terminal, which ends when all descriptors of that
    // side are closed.
    drop(copy);
    successful(output);
    let drawn = String::from_utf8(read_to_end(&user)).unwrap();
    let last = format!("100%  {LEN} bytes by ");
    assert!(drawn.contains(&last), "{drawn:?}");
}

#[test]
fn explain_has_a_line_for_every_strategy_and_moves_nothing() {
    let Some(mut explain) = example("explain") else {
        return;
    };
    let (dir, _) = scratch();
    fs::write(dir.path().join("sink"), "as it was").unwrap();
    explain.current_dir(&dir).args(["source", "sink"]);
    let plans = successful(explain.output().unwrap());
    for name in crate::strategies::STRATEGIES {
        let lines = plans.lines().filter(|line| {
            let mut words = line.split_whitespace();
            words.nth(1).is_some_and(|word| word == name.to_string())
        });
        assert_eq!(
            lines.count(),
            2,
            "{name}, with and without stable:\n{plans}"
        );
    }
    assert_eq!(fs::read(dir.path().join("sink")).unwrap(), b"as it was");
}

#[test]
fn hash_while_copying_prints_what_sha256sum_prints() {
    let (dir, bytes) = scratch();
    let names: [&[u8]; 7] = [
        b"sink",
        b" * ",
        b"back\\slash",
        b"new\nline",
        b"carriage\rreturn\r",
        b"\t\x07\x7f\xff",
        b"\\\n\r\\",
    ];
    for name in names.map(OsStr::from_bytes) {
        let Some(mut hash) = example("hash_while_copying") else {
            return;
        };
        let created = File::create(dir.path().join(name));
        if let Err(error) = &created
            && let Some(Errno::INVAL | Errno::ILSEQ | Errno::NOENT) = Errno::from_io_error(error)
        {
            report(&format!("the file system takes no file {name:?}"));
            continue;
        }
        created.unwrap();
        hash.current_dir(&dir).arg("source").arg(name);
        let line = hash.output().unwrap();
        let mut sha256sum = Command::new("sha256sum");
        let theirs = sha256sum.current_dir(&dir).arg(name).output().unwrap();
        assert!(line.status.success() && theirs.status.success());
        assert_eq!(
            String::from_utf8_lossy(&line.stdout),
            String::from_utf8_lossy(&theirs.stdout)
        );
        assert_eq!(line.stdout, theirs.stdout);
        assert_same(&fs::read(dir.path().join(name)).unwrap(), &bytes, "copy");
    }
}

/// The sources are long and short files, a pipe, and a line that continues from one file to the
/// next.
#[test]
fn number_lines_prints_what_cat_n_prints() {
    let (dir, bytes) = scratch();
    fs::write(dir.path().join("half"), "one\n\ntw").unwrap();
    let cases: [&[&str]; 4] = [&["source"], &["half", "source", "half"], &["half"], &[]];
    for names in cases {
        let Some(mut number) = example("number_lines") else {
            return;
        };
        let stdin = || File::open(dir.path().join("source")).unwrap();
        let ours = number.current_dir(&dir).args(names).stdin(stdin()).output();
        let mut cat = Command::new("cat");
        let cat = cat.current_dir(&dir).arg("-n").args(names).stdin(stdin());
        let (ours, theirs) = (ours.unwrap(), cat.output().unwrap());
        assert!(ours.status.success() && theirs.status.success());
        assert!(ours.stdout.len() > bytes.len() || names == ["half"]);
        assert_same(&ours.stdout, &theirs.stdout, &names.join(" "));
    }
}

#[test]
fn number_lines_writes_an_incomplete_line_when_it_comes() {
    let Some(mut number) = example("number_lines") else {
        return;
    };
    let (stdin, writer) = pipe();
    let (reader, stdout) = pipe();
    let mut child = number.stdin(stdin).stdout(stdout).spawn().unwrap();
    drop(number);
    for (typed, shown) in [("ha", "     1\tha"), ("lf\n", "lf\n"), ("\n", "     2\t\n")] {
        assert!(write_all(&writer, typed.as_bytes()));
        let mut read = vec![0; shown.len()];
        (&File::from(reader.try_clone().unwrap()))
            .read_exact(&mut read)
            .unwrap();
        assert_eq!(String::from_utf8(read).unwrap(), shown);
    }
    drop(writer);
    assert!(child.wait().unwrap().success());
}

#[test]
fn an_error_is_one_line_that_names_the_file() {
    const MISSING: &str = "missing: No such file or directory (os error 2)";
    let (dir, _) = scratch();
    let cases: [(&str, &[&str], &str); 22] = [
        ("ship_log", &["127.0.0.1:1", "missing"], MISSING),
        ("ship_log", &[], "usage: ship_log ADDRESS [FILE]"),
        ("resume_copy", &["missing", "sink"], MISSING),
        (
            "resume_copy",
            &["source", "/dev/null"],
            "/dev/null: not a regular file",
        ),
        (
            "resume_copy",
            &["source"],
            "usage: resume_copy [--rate BYTES-PER-SECOND] SOURCE DEST",
        ),
        ("cat", &["missing"], MISSING),
        ("pv", &["missing"], MISSING),
        (
            "pv",
            &["."],
            "the source cannot be used: it is a directory: Is a directory (os error 21)",
        ),
        ("copy", &["missing", "sink"], MISSING),
        ("copy", &["source"], "usage: copy SRC DST"),
        (
            "copy",
            &["source", "/dev/full"],
            "source to /dev/full: write to the sink failed after 0 bytes: \
             No space left on device (os error 28)",
        ),
        ("explain", &["missing", "/dev/null"], MISSING),
        (
            "explain",
            &["source", "missing"],
            "missing: a plan needs a DST that exists: No such file or directory (os error 2)",
        ),
        ("explain", &[], "usage: explain SRC DST"),
        ("hash_while_copying", &["missing", "sink"], MISSING),
        (
            "hash_while_copying",
            &["source", "."],
            ".: Is a directory (os error 21)",
        ),
        ("number_lines", &["missing"], MISSING),
        (
            "number_lines",
            &["."],
            ".: the source cannot be used: it is a directory: Is a directory (os error 21)",
        ),
        ("serve_file", &["missing"], MISSING),
        ("serve_file", &["source"], "source: not a directory"),
        (
            "serve_file",
            &[".", "nowhere"],
            "nowhere: invalid socket address",
        ),
        (
            "relay",
            &["nowhere", "127.0.0.1:1"],
            "nowhere: invalid socket address",
        ),
    ];
    for (name, arguments, said) in cases {
        let Some(mut command) = example(name) else {
            continue;
        };
        let output = command.current_dir(&dir).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{name} {arguments:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(stderr, format!("{name}: {said}\n"));
        assert!(output.stdout.is_empty());
    }
    assert!(!dir.path().join("missing").exists());
}

#[test]
fn the_status_shows_an_error_that_cannot_be_printed() {
    for name in [
        "cat",
        "copy",
        "explain",
        "hash_while_copying",
        "number_lines",
        "pv",
        "relay",
        "resume_copy",
        "serve_file",
        "ship_log",
    ] {
        let Some(mut example) = example(name) else {
            return;
        };
        let full = full();
        let status = example
            .args(["/missing", "/dev/null"])
            .stderr(full)
            .status();
        assert_eq!(status.unwrap().code(), Some(1), "{name}");
    }
}

#[test]
fn a_full_standard_output_is_an_error() {
    let (dir, _) = scratch();
    for (name, sink) in [
        ("copy", "sink"),
        ("explain", "/dev/null"),
        ("hash_while_copying", "sink"),
    ] {
        let Some(mut command) = example(name) else {
            continue;
        };
        let full = full();
        command
            .current_dir(&dir)
            .args(["source", sink])
            .stdout(full);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert_eq!(
            String::from_utf8(output.stderr).unwrap(),
            format!("{name}: standard output: No space left on device (os error 28)\n")
        );
    }
}
