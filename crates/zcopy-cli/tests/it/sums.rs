//! Manifests and what is verified against them, held beside `sha256sum`.

mod alone;
mod choice;
mod names;
mod several;
mod verdicts;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use zcopy_cli::common::digest::{Algorithm, Digest, Stream};
use zcopy_cli::dircopy::manifest::check::{Options, Outcome, check_into};
use zcopy_cli::dircopy::manifest::line;

use crate::skip::skip;

/// What verifying came to.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    outcome: Outcome,
    stdout: String,
    /// Without the program's name.
    stderr: String,
}

impl Said {
    /// Everything is as it should be, and nothing else was said.
    #[track_caller]
    fn is_verified(&self, n_files: usize) {
        assert_eq!(
            (self.outcome, self.stderr.as_str()),
            (Outcome::Verified, "")
        );
        assert_eq!(self.stdout.lines().count(), n_files);
        let is_ok = |line: &str| line.ends_with(": OK");
        assert!(self.stdout.lines().all(is_ok), "{}", self.stdout);
    }

    #[track_caller]
    fn failed_saying(&self, stdout: &str, stderr: &str) {
        assert_eq!(
            (self.stdout.as_str(), self.stderr.as_str()),
            (stdout, stderr)
        );
        assert_eq!(self.outcome, Outcome::Failed);
    }
}

fn verify(options: &Options) -> Said {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let outcome = check_into(options, &mut stdout, &mut stderr).unwrap();
    Said {
        outcome,
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: anonymous(&stderr),
    }
}

/// What was said on standard error, without the name of the program that said it.
fn anonymous(stderr: &[u8]) -> String {
    let stderr = str::from_utf8(stderr).unwrap();
    let lines = stderr.split_inclusive('\n');
    lines.map(|line| line.split_once(": ").unwrap().1).collect()
}

/// A tree with a manifest beside it.
struct Tree {
    dir: TempDir,
    sums: Vec<u8>,
}

impl Tree {
    fn new() -> Self {
        Self {
            dir: TempDir::new().unwrap(),
            sums: Vec::new(),
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    fn sum_file(&self) -> PathBuf {
        self.dir.path().join("sums")
    }

    /// Makes a file, and what directories it needs. It is not listed.
    fn put(&self, name: impl AsRef<OsStr>, bytes: impl AsRef<[u8]>) -> &Self {
        let path = self.path().join(Path::new(&name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        self
    }

    /// Lists a name with the digest of these bytes.
    fn list(&mut self, name: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> &mut Self {
        line::write(&sha256(bytes.as_ref()), name.as_ref(), &mut self.sums);
        self
    }

    /// Makes a file, and lists it.
    fn add(&mut self, name: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.put(OsStr::from_bytes(name.as_ref()), &bytes);
        self.list(name, bytes)
    }

    /// Adds a line as it stands, without a newline of its own.
    fn line(&mut self, line: impl AsRef<[u8]>) -> &mut Self {
        self.sums.extend_from_slice(line.as_ref());
        self
    }

    /// To verify it against its manifest.
    fn options(&self) -> Options {
        fs::create_dir_all(self.path()).unwrap();
        fs::write(self.sum_file(), &self.sums).unwrap();
        Options::new()
            .directory(self.path())
            .hash_file(self.sum_file())
    }

    /// Verifies it. Files are called as from within the tree.
    fn verify(&self) -> Said {
        self.verify_with(&self.options())
    }

    fn verify_with(&self, options: &Options) -> Said {
        let mut said = verify(options);
        let tree = format!("{}/", self.path().display());
        said.stderr = said.stderr.replace(&tree, "");
        said
    }

    /// The same by `sha256sum -c`.
    fn verify_by(&self, program: &Path, options: &[&str]) -> Said {
        let _ = self.options();
        let output = Command::new(program)
            .args(options)
            .arg("-c")
            .arg(self.sum_file())
            .current_dir(self.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        Said {
            outcome: match output.status.code() {
                Some(0) => Outcome::Verified,
                Some(1) => Outcome::Failed,
                other => panic!("it ended with {other:?}"),
            },
            // Earlier versions do not quote what is no text.
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: anonymous(&output.stderr),
        }
    }
}

fn sha256(bytes: &[u8]) -> Digest {
    let mut stream = Stream::new(Algorithm::Sha256);
    stream.update(bytes);
    stream.finish()
}

/// GNU's `sha256sum`, where there is one, with its version: the machine's, and the newest.
fn sha256sums() -> Vec<(PathBuf, (u32, u32))> {
    let places = ["/opt/peers/bin", "/opt/peers/root/usr/bin", "/usr/bin"];
    let found: Vec<_> = places
        .into_iter()
        .map(|place| Path::new(place).join("sha256sum"))
        .filter_map(|program| {
            let output = Command::new(&program).arg("--version").output().ok()?;
            let output = String::from_utf8(output.stdout).ok()?;
            let version = output.strip_prefix("sha256sum (GNU coreutils) ")?;
            let (major, rest) = version.lines().next()?.split_once('.')?;
            let minor = rest.split(|other: char| !other.is_ascii_digit()).next()?;
            Some((program, (major.parse().ok()?, minor.parse().ok()?)))
        })
        .collect();
    if found.is_empty() {
        skip("there is no GNU sha256sum");
    }
    found
}

/// The newest whose words are followed: it quotes names where earlier ones escape them.
fn newest_sha256sum() -> Option<PathBuf> {
    let found = sha256sums()
        .into_iter()
        .find(|(_, version)| *version >= (9, 12));
    if found.is_none() {
        skip("there is no GNU sha256sum 9.12");
    }
    found.map(|(program, _)| program)
}
