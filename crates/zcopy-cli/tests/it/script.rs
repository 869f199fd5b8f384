//! Shell scripts that call a tool, run once with ours under its name and once with GNU's.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::skip::skip;

/// What a script came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// As the shell counts: 128 and the signal, of what a signal ended.
    pub(crate) status: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    /// What every file in the script's directory holds at the end.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

/// The lines 1 to 100,000: more than any pipe holds.
pub(crate) fn big() -> Vec<u8> {
    (1..=100_000)
        .flat_map(|n| format!("{n}\n").into_bytes())
        .collect()
}

/// Runs the script with `cat` standing for `zc-cat`, in a directory with the files `f`, `g`, `empty`
/// and `big`, and the directory `dir`.
pub(crate) fn run(script: &str) -> Outcome {
    run_with(script, &[])
}

/// The same, with positional parameters.
pub(crate) fn run_with(script: &str, parameters: &[&OsStr]) -> Outcome {
    let cat = Path::new(env!("CARGO_BIN_EXE_zc-cat"));
    run_tool(("cat", cat), script, parameters)
}

/// The same, and sees that GNU cat does, says and leaves behind exactly the same.
pub(crate) fn as_gnu(script: &str) -> Outcome {
    as_gnu_with(script, &[])
}

/// The same, with positional parameters.
pub(crate) fn as_gnu_with(script: &str, parameters: &[&OsStr]) -> Outcome {
    let ours = run_with(script, parameters);
    let gnu = Path::new("/usr/bin/cat");
    let version = Command::new(gnu).arg("--version").output();
    if version.is_ok_and(|version| version.stdout.starts_with(b"cat (GNU coreutils)")) {
        ours.is_as(&run_tool(("cat", gnu), script, parameters), script);
    } else {
        skip("/usr/bin/cat is not GNU's");
    }
    ours
}

/// Every GNU tool of that name there is: the newest, where the peers are installed, and the machine's
/// own. Says so if there is none.
pub(crate) fn gnus(name: &str) -> Vec<PathBuf> {
    let is_gnu = |program: &PathBuf| {
        let version = Command::new(program).arg("--version").output();
        let expected = format!("{name} (GNU coreutils)");
        version.is_ok_and(|version| version.stdout.starts_with(expected.as_bytes()))
    };
    let places = ["/opt/peers/bin", "/usr/bin"].map(|dir| Path::new(dir).join(name));
    let gnus: Vec<PathBuf> = places.into_iter().filter(is_gnu).collect();
    if gnus.is_empty() {
        skip(&format!("there is no GNU {name}"));
    }
    gnus
}

/// Runs the script with the name standing for the program.
pub(crate) fn run_tool(
    (name, program): (&str, &Path),
    script: &str,
    parameters: &[&OsStr],
) -> Outcome {
    let bin = TempDir::new().unwrap();
    symlink(program, bin.path().join(name)).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let path = std::env::join_paths(
        std::iter::once(bin.path().to_owned()).chain(std::env::split_paths(&path)),
    );
    let work = TempDir::new().unwrap();
    for (name, bytes) in [
        ("f", &b"hi\n"[..]),
        ("g", b"there\n"),
        ("empty", b""),
        ("big", &big()),
    ] {
        fs::write(work.path().join(name), bytes).unwrap();
    }
    fs::create_dir(work.path().join("dir")).unwrap();

    let output = Command::new("sh")
        .args(["-c", script, "sh"])
        .args(parameters)
        .current_dir(work.path())
        .env("PATH", path.unwrap())
        .env("LC_ALL", "C.UTF-8")
        .env_remove("POSIXLY_CORRECT")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let files = fs::read_dir(work.path())
        .unwrap()
        .map(Result::unwrap)
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect();
    Outcome {
        status: output
            .status
            .code()
            .or(output.status.signal().map(|signal| 128 + signal))
            .unwrap(),
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).unwrap(),
        files,
    }
}

impl Outcome {
    /// GNU's tool does, says and leaves behind exactly the same.
    #[track_caller]
    pub(crate) fn is_as(&self, theirs: &Self, script: &str) {
        for (ours, theirs) in self.stderr.lines().zip(theirs.stderr.lines()) {
            assert_eq!(ours, theirs, "{script}");
        }
        assert_eq!(self.status, theirs.status, "{script}");
        // Not `assert_eq`, which would print megabytes.
        assert!(self == theirs, "{script}: GNU's writes something else");
    }

    /// Nothing went wrong, and this came out.
    #[track_caller]
    pub(crate) fn succeeds_with(&self, stdout: impl AsRef<[u8]>) {
        assert_eq!((self.stderr.as_str(), self.status), ("", 0));
        self.printed(stdout);
    }

    /// Nothing went wrong, but it said this, and this came out.
    #[track_caller]
    pub(crate) fn succeeded_saying(&self, stderr: &str, stdout: impl AsRef<[u8]>) {
        assert_eq!((self.stderr.as_str(), self.status), (stderr, 0));
        self.printed(stdout);
    }

    /// It ended with 1, said this, and nothing came out.
    #[track_caller]
    pub(crate) fn fails_with(&self, stderr: &str) {
        self.fails_after(b"", stderr);
    }

    /// It ended with 1 and said this, but this came out all the same.
    #[track_caller]
    pub(crate) fn fails_after(&self, stdout: impl AsRef<[u8]>, stderr: &str) {
        assert_eq!((self.stderr.as_str(), self.status), (stderr, 1));
        self.printed(stdout);
    }

    #[track_caller]
    pub(crate) fn printed(&self, stdout: impl AsRef<[u8]>) {
        let (found, expected) = (&self.stdout[..], stdout.as_ref());
        assert!(
            found == expected,
            "{} bytes came out, {} were expected: {:?}",
            found.len(),
            expected.len(),
            String::from_utf8_lossy(&found[..found.len().min(200)])
        );
    }
}
