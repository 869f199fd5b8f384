//! Shell scripts that call a tool, run once with ours under its name and once with GNU's.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex};

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
    static BIG: LazyLock<Vec<u8>> = LazyLock::new(|| {
        (1..=100_000)
            .flat_map(|n| format!("{n}\n").into_bytes())
            .collect()
    });
    BIG.clone()
}

/// A tool, which scripts call by the name of the program that it stands in for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) program: &'static str,
    /// The status after a mistake on the command line.
    misuse: i32,
}

pub(crate) const CAT: Tool = Tool {
    name: "cat",
    program: env!("CARGO_BIN_EXE_zc-cat"),
    misuse: 1,
};
pub(crate) const TEE: Tool = Tool {
    name: "tee",
    program: env!("CARGO_BIN_EXE_zc-tee"),
    misuse: 1,
};
pub(crate) const YES: Tool = Tool {
    name: "yes",
    program: env!("CARGO_BIN_EXE_zc-yes"),
    misuse: 1,
};
pub(crate) const PV: Tool = Tool {
    name: "pv",
    program: env!("CARGO_BIN_EXE_zc-pv"),
    misuse: 64,
};

impl Tool {
    /// Runs the script with the name standing for our tool, in a directory with the files `f`, `g`,
    /// `empty` and `big`, and the directory `dir`.
    pub(crate) fn run(self, script: &str) -> Outcome {
        self.run_with(script, &[])
    }

    /// The same, with positional parameters.
    pub(crate) fn run_with(self, script: &str, parameters: &[&OsStr]) -> Outcome {
        run_tool((self.name, Path::new(self.program)), script, parameters)
    }

    /// The same, and asserts that each of the tool's peers does exactly the same.
    #[track_caller]
    pub(crate) fn as_peers(self, script: &str) -> Outcome {
        self.as_peers_with(script, &[])
    }

    /// The same, with positional parameters.
    #[track_caller]
    pub(crate) fn as_peers_with(self, script: &str, parameters: &[&OsStr]) -> Outcome {
        let ours = self.run_with(script, parameters);
        for peer in self.peers() {
            ours.is_as(&run_tool((self.name, &peer), script, parameters), script);
        }
        ours
    }

    /// The same for what GNU's tool has learnt since the one that the machine may have: only the
    /// newest is asked, if it is there.
    #[track_caller]
    pub(crate) fn as_newest_peer(self, script: &str) -> Outcome {
        let ours = self.run(script);
        if let Some(peer) = self.peers().iter().find(|peer| peer.starts_with("/opt")) {
            ours.is_as(&run_tool((self.name, peer), script, &[]), script);
        }
        ours
    }

    /// Asserts that the command line is refused with this message, that nothing is written, and
    /// that the peers refuse it, too.
    #[track_caller]
    pub(crate) fn refuses(self, script: &str, message: &str) {
        let outcome = self.refuses_alone(script, message);
        for peer in self.peers() {
            let theirs = run_tool((self.name, &peer), script, &[]);
            if self.name == PV.name {
                // Its opening quote in the hint is a grave accent.
                let first = |outcome: &Outcome| outcome.stderr.lines().next().map(str::to_owned);
                assert_eq!(first(&outcome), first(&theirs), "{script}");
                assert_eq!(outcome.status, theirs.status, "{script}");
            } else {
                outcome.is_as(&theirs, script);
            }
        }
    }

    /// The same of an option that the peers do not have.
    #[track_caller]
    pub(crate) fn refuses_alone(self, script: &str, message: &str) -> Outcome {
        let name = self.name;
        let outcome = self.run(script);
        let expected = format!("{name}: {message}\nTry '{name} --help' for more information.\n");
        outcome.ended_with(self.misuse, &expected, "");
        assert!(outcome.files == self.run(":").files, "{script}");
        outcome
    }

    /// The programs that it stands in for. Says so if there is none.
    ///
    /// Of GNU's cat it is the machine's own alone.
    fn peers(self) -> Vec<PathBuf> {
        match self.name {
            "pv" => crate::peer::pv().into_iter().collect(),
            "cat" => gnus_in(&["/usr/bin"], "cat"),
            name => gnus(name),
        }
    }
}

/// Runs the script with `cat` standing for `zc-cat`.
pub(crate) fn run(script: &str) -> Outcome {
    CAT.run(script)
}

/// The same, and sees that GNU cat does, says and leaves behind exactly the same.
#[track_caller]
pub(crate) fn as_gnu(script: &str) -> Outcome {
    CAT.as_peers(script)
}

/// The same, with positional parameters.
#[track_caller]
pub(crate) fn as_gnu_with(script: &str, parameters: &[&OsStr]) -> Outcome {
    CAT.as_peers_with(script, parameters)
}

/// Every GNU tool of that name there is: the newest, where the peers are installed, and the
/// machine's own. Says so if there is none.
pub(crate) fn gnus(name: &str) -> Vec<PathBuf> {
    gnus_in(&["/opt/peers/bin", "/usr/bin"], name)
}

fn gnus_in(directories: &[&str], name: &str) -> Vec<PathBuf> {
    let paths = directories.iter().map(|dir| Path::new(dir).join(name));
    let gnus: Vec<PathBuf> = paths.filter(|path| is_gnu(path, name)).collect();
    if gnus.is_empty() {
        skip(&format!("there is no GNU {name}"));
    }
    gnus
}

/// Whether the program says that it is GNU's tool of that name. Each program is asked once.
fn is_gnu(program: &Path, name: &str) -> bool {
    static ASKED: Mutex<BTreeMap<PathBuf, bool>> = Mutex::new(BTreeMap::new());
    let mut asked = ASKED.lock().unwrap();
    *asked.entry(program.to_owned()).or_insert_with(|| {
        let version = Command::new(program).arg("--version").output();
        let expected = format!("{name} (GNU coreutils)");
        version.is_ok_and(|version| version.stdout.starts_with(expected.as_bytes()))
    })
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
        self.ended_with(1, stderr, stdout);
    }

    /// It ended with this status, said this, and this came out.
    #[track_caller]
    pub(crate) fn ended_with(&self, status: i32, stderr: &str, stdout: impl AsRef<[u8]>) {
        assert_eq!((self.stderr.as_str(), self.status), (stderr, status));
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
