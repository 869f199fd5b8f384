//! Trees copied by `zc-dircopy`, and the manifests that are left in them.

mod amend;
mod announced;
mod archive;
mod archive_errors;
mod bags;
mod bags_of_others;
mod bandwidth;
mod changing;
mod check;
mod check_formats;
mod check_meanwhile;
mod check_output;
mod damage_maps;
mod damaged;
mod delete;
mod descriptors;
mod destinations;
mod disk;
mod dry_run;
mod fails;
mod filters;
mod folded;
mod fuse;
mod granularity;
mod hard_links_copied;
mod histories;
mod histories_missing;
mod histories_nested;
mod holes;
mod hostile;
mod interrupted;
mod json_objects;
mod kept;
mod killed;
mod killed_manifests;
mod kinds;
mod lanes;
mod late_writes;
mod links;
mod listings;
mod many;
mod names;
mod nobody;
mod policy;
mod preserve;
mod progress;
mod resume;
mod several_manifests;
mod several_runs;
mod sharing;
mod space;
mod sums;
mod usage;
mod verify;
mod versions;

mod facts;
mod file_systems;
mod listed;
mod mounting;
mod reference;
mod traced;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};

use tempfile::TempDir;
use zcopy_cli::common::digest::{Algorithm, Digest, Stream};
use zcopy_cli::dircopy::manifest::line;

use crate::child::{end_of, with_default_signals, zc_dircopy};
use listed::Sums;

/// Where trees are that have to be on a disk, as a rule.
const DISK: &str = "/var/tmp";

/// Where trees are, unless it matters: in memory, if files can have there all that they can have on
/// a disk. Every run ends with `syncfs(2)`, which waits for whatever others write to the same disk.
fn anywhere() -> &'static Path {
    static DIRECTORY: LazyLock<&Path> = LazyLock::new(|| {
        let memory = Path::new("/dev/shm");
        let keeps_attributes = || {
            let file = tempfile::NamedTempFile::new_in(memory).ok()?;
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(file.path(), "user.zcopy", b"x", flags).ok()
        };
        keeps_attributes().map_or(Path::new(DISK), |()| memory)
    });
    &DIRECTORY
}

/// A tree, and where its copy goes.
struct Trees {
    scratch: TempDir,
}

impl Trees {
    /// Where file systems have all that they can have. The source exists, the destination does not.
    fn new() -> Self {
        Self::within(anywhere())
    }

    /// On a disk.
    fn on_disk() -> Self {
        Self::within(Path::new(DISK))
    }

    /// Somewhere else.
    fn within(directory: &Path) -> Self {
        let scratch = tempfile::tempdir_in(directory).unwrap();
        fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o777)).unwrap();
        fs::create_dir(scratch.path().join("src")).unwrap();
        Self { scratch }
    }

    fn path(&self) -> &Path {
        self.scratch.path()
    }

    fn source(&self) -> PathBuf {
        self.path().join("src")
    }

    fn copy(&self) -> PathBuf {
        self.path().join("dst")
    }

    /// Where a name of the source is.
    fn original(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.source().join(Path::new(&name))
    }

    /// Where its copy is.
    fn copied(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.copy().join(Path::new(&name))
    }

    /// Makes a file in the source, and what directories it needs.
    fn put(&self, name: impl AsRef<OsStr>, bytes: impl AsRef<[u8]>) -> &Self {
        put(&self.original(name), bytes);
        self
    }

    /// Makes one in the destination.
    fn put_copy(&self, name: impl AsRef<OsStr>, bytes: impl AsRef<[u8]>) -> &Self {
        put(&self.copied(name), bytes);
        self
    }

    /// `zc-dircopy` with the operands, and nothing to say if all is well.
    fn command(&self, options: &[&str]) -> Command {
        let mut command = zc_dircopy();
        command.arg("--quiet");
        // How digests are made is to make no difference, unless a test says how.
        if let Some(when) = std::env::var_os("ZCOPY_LANES") {
            command.arg("--lanes").arg(when);
        }
        command.args(options);
        command.arg(self.source()).arg(self.copy());
        command
    }

    fn run(&self, options: &[&str]) -> Run {
        run(&mut self.command(options))
    }

    /// Copies without `--quiet`.
    fn run_aloud(&self, options: &[&str]) -> Run {
        let mut command = zc_dircopy();
        command.args(options).arg(self.source()).arg(self.copy());
        run(&mut command)
    }

    /// Checks the copy.
    fn check(&self, options: &[&str]) -> Run {
        check(&self.copy(), options)
    }

    /// Copies it, which succeeds.
    #[track_caller]
    fn succeeds(&self, options: &[&str]) -> &Self {
        self.run(options).is_quiet();
        self
    }

    /// What the newest manifest has.
    #[track_caller]
    fn sums(&self) -> Sums {
        Sums::newest_in(&self.copy())
    }

    /// The copy of a file holds this.
    #[track_caller]
    fn holds(&self, name: impl AsRef<OsStr>, bytes: impl AsRef<[u8]>) -> &Self {
        let found = fs::read(self.copied(&name)).unwrap();
        let name = name.as_ref().to_string_lossy();
        crate::files::assert_same(&found, bytes.as_ref(), &name);
        self
    }

    /// Everything in the source is in the destination as it is in the source, and every file has
    /// its line.
    #[track_caller]
    fn are_alike(&self) -> &Self {
        facts::assert_same(&self.source(), &self.copy());
        self.sums().is_whole(&self.source());
        self.sums().holds_in(&self.source());
        self.sums().holds_in(&self.copy());
        self
    }
}

fn put(path: &Path, bytes: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Makes a FIFO.
fn mkfifo(path: &Path) {
    let (fifo, mode) = (rustix::fs::FileType::Fifo, 0o600.into());
    rustix::fs::mknodat(rustix::fs::CWD, path, fifo, mode, 0).unwrap();
}

/// Runs `zc-dircopy --check` on a tree.
fn check(tree: &Path, options: &[&str]) -> Run {
    run(&mut check_command(tree, options))
}

fn check_command(tree: &Path, options: &[&str]) -> Command {
    let mut command = zc_dircopy();
    command.arg("--check").args(options).arg(tree);
    command
}

/// What a run came to.
#[derive(Debug)]
struct Run {
    /// As the shell counts: 128 and the signal, of what a signal ended.
    status: i32,
    stdout: String,
    stderr: String,
}

fn run(command: &mut Command) -> Run {
    command.stdin(Stdio::null()).output().unwrap().into()
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let status = output.status;
        let signal = || status.signal().map(|signal| 128 + signal);
        Self {
            status: status.code().or_else(signal).unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Run {
    /// All is well, and nothing was said.
    #[track_caller]
    fn is_quiet(&self) {
        let said = (self.stdout.as_str(), self.stderr.as_str());
        assert_eq!((self.status, said), (0, ("", "")));
    }

    /// The same without the total of `--check`, which has these results.
    #[track_caller]
    fn without_total(mut self, results: &str) -> Self {
        let total = format!("\nzc-dircopy: {results}\n");
        let rest = format!("\n{}", self.stderr);
        let rest = rest.strip_suffix(&total);
        let rest = rest.unwrap_or_else(|| panic!("no total of {results}: {self:?}"));
        let (rest, sizes) = rest.rsplit_once("\nzc-dircopy: ").unwrap();
        assert!(sizes.contains(" in ") && sizes.ends_with("/s"), "{sizes}");
        self.stderr = match rest.strip_prefix('\n') {
            Some(rest) => format!("{rest}\n"),
            None => String::new(),
        };
        self
    }

    /// It ended with that, and every line of what it said names the program.
    #[track_caller]
    fn ended_with(&self, status: i32) -> &Self {
        assert_eq!(self.status, status, "{self:?}");
        let is_ours = |line: &str| line.starts_with("zc-dircopy: ");
        let is_hint = |line: &str| line.starts_with("Try 'zc-dircopy ");
        // What is allowed is listed below what is wrong.
        let is_ours = |line: &str| {
            is_ours(line) || line == "Valid arguments are:" || line.starts_with("  - ")
        };
        let mut lines = self.stderr.lines();
        assert!(lines.all(|line| is_ours(line) || is_hint(line)), "{self:?}");
        self
    }

    /// It went on, ended with 1, and complained in as many lines as these are, in some order, of
    /// which each has its words.
    #[track_caller]
    fn failed_naming(&self, complaints: &[&[&str]]) -> &Self {
        self.ended_with(1);
        let mut lines: Vec<&str> = self.stderr.lines().collect();
        for words in complaints {
            let has_all = |line: &&str| words.iter().all(|word| line.contains(word));
            let found = lines.iter().position(has_all);
            let found = found.unwrap_or_else(|| panic!("nothing of {words:?}: {self:?}"));
            lines.remove(found);
        }
        assert_eq!(lines, [""; 0], "besides that: {self:?}");
        self
    }
}

fn digest_of(algorithm: Algorithm, bytes: &[u8]) -> Digest {
    let mut stream = Stream::new(algorithm);
    stream.update(bytes);
    stream.finish()
}

/// Has a file look as if it had last been written so long before the moment at which everything
/// here was.
fn dated(path: &Path, seconds_before: u64) -> SystemTime {
    // 2026, and a fraction that shows which digits are kept.
    let moment = Duration::new(1_780_000_000, 123_456_789);
    let time = SystemTime::UNIX_EPOCH + moment - Duration::from_secs(seconds_before);
    let file = fs::File::open(path).unwrap();
    file.set_modified(time).unwrap();
    time
}

/// How far the moments lie apart at which runs are killed, so that there are forty of them in the
/// time of a whole run, whatever the machine and the build.
fn a_part_of_the_time(run: impl FnOnce()) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed() / 40
}

/// No name in a tree begins with a dot. FUSE hides a file that was removed while it was open, and
/// closes it a moment later.
#[track_caller]
fn hides_nothing(tree: &Path) {
    let is_of_fuse = |path: &PathBuf| path.to_string_lossy().contains("/.fuse_hidden");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(5) && hidden_names(tree).iter().any(is_of_fuse) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(hidden_names(tree), [""; 0].map(PathBuf::from));
}

/// The names in a tree that begin with a dot.
fn hidden_names(tree: &Path) -> Vec<PathBuf> {
    let entries = walkdir::WalkDir::new(tree).min_depth(1);
    // What has just been removed is not there.
    let is_gone = |error: &walkdir::Error| {
        let error = error.io_error();
        error.is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    };
    let entries = entries
        .into_iter()
        .filter(|entry| !entry.as_ref().is_err_and(is_gone));
    let paths = entries.map(|entry| entry.unwrap().into_path());
    let is_hidden = |path: &PathBuf| path.file_name().unwrap().as_bytes().starts_with(b".");
    paths.filter(is_hidden).collect()
}

/// Runs a command, and interrupts it once it has written `n_objects` objects. Returns the signal
/// that ended it, and all objects.
fn interrupt_after(n_objects: usize, command: &Command) -> (Option<i32>, Vec<serde_json::Value>) {
    let mut command = with_default_signals(command);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut lines = std::io::BufRead::lines(stdout).map(Result::unwrap);
    let mut told: Vec<_> = lines.by_ref().take(n_objects).collect();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    told.extend(lines);
    let events = told.iter().map(|line| serde_json::from_str(line).unwrap());
    (end_of(child).signal(), events.collect())
}
