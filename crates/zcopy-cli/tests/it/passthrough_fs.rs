//! A FUSE file system that shows a directory, with faults that a test chooses.
//!
//! Another process serves it, which runs this program again, so that no test waits for itself.
//! However the test ends, the server loses its last user and exits.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use fuser::{Config, MountOption, Session, SessionACL};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::mounts::{self, Root};
use crate::skip::{is_root, skip};

use nodes::Nodes;

mod nodes;
mod operations;

/// Differences between the file system and the directory behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Faults {
    pub(crate) renames: Renames,
    pub(crate) links: Links,
    pub(crate) inodes: Inodes,
    pub(crate) symlinks: Symlinks,
}

/// The renames that it supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Renames {
    /// All, with their flags.
    #[default]
    All,
    /// None with flags: `EINVAL`.
    WithoutFlags,
}

/// The hard links that it supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Links {
    /// All.
    #[default]
    All,
    /// None: this error.
    Fail(i32),
    /// This many names for each file, then `EMLINK`.
    AtMost(u32),
}

/// The inode numbers that it reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Inodes {
    /// One for each file.
    #[default]
    Stable,
    /// One for each name, as sshfs does, and a link count of 1.
    ByName,
    /// Another one whenever a name is looked up.
    Volatile,
}

/// The file whose attributes change when those of a symbolic link are set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Symlinks {
    /// The link.
    #[default]
    NotFollowed,
    /// Its target, as on sshfs.
    Followed,
}

/// The file system, and the process that serves it.
#[derive(Debug)]
pub(crate) struct Mounted {
    // Dropped first, so that the server ends.
    root: Root,
    _server: Server,
}

impl Mounted {
    /// Shows a directory through FUSE; `None`, reported, if this machine cannot.
    pub(crate) fn over(directory: &Path, faults: Faults) -> Option<Self> {
        if !is_root() {
            return None;
        }
        let place = TempDir::new().unwrap();
        let server = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", SERVER])
            .env(SERVES, serde_json::to_string(&faults).unwrap())
            .env(DIRECTORY, directory)
            .env(MOUNT_POINT, place.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = server.unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut server = Server { child, stdout };
        let is_told = |line: &String| line.contains(MOUNTED) || line.contains(NOT_MOUNTED);
        let mut lines = server.stdout.by_ref().lines().map_while(Result::ok);
        let told = lines.find(is_told).unwrap_or_default();
        if !told.contains(MOUNTED) {
            skip(&format!("FUSE cannot be mounted here: {told}"));
            return None;
        }
        Some(Self {
            root: mounts::detach(&place),
            _server: server,
        })
    }

    /// Its root.
    pub(crate) fn path(&self) -> PathBuf {
        self.root.dir()
    }
}

/// The process that serves. It ends when the last user of the file system has gone.
#[derive(Debug)]
struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It is a test, and says how that ended.
        let _ = std::io::copy(&mut self.stdout, &mut std::io::sink());
        let _ = self.child.wait();
    }
}

/// The environment variable with the faults; the program is the server if it is set.
const SERVES: &str = "ZCOPY_TEST_SERVES_FUSE";
/// The environment variable with the directory behind the file system.
const DIRECTORY: &str = "ZCOPY_TEST_FUSE_DIRECTORY";
/// The environment variable with the mount point.
const MOUNT_POINT: &str = "ZCOPY_TEST_FUSE_PLACE";

/// The name of the test that is the server.
const SERVER: &str = "passthrough_fs::not_a_test_but_the_server_of_those_that_mount_a_file_system";

const MOUNTED: &str = "FUSE is ready";
const NOT_MOUNTED: &str = "FUSE has failed";

/// The server, not a test: it asserts nothing, and returns at once unless [`SERVES`] is set.
///
/// The harness calls it because the server has to be a process of its own, whose threads and
/// descriptors are not the test's, and the one program that is sure to be there is this one.
#[test]
fn not_a_test_but_the_server_of_those_that_mount_a_file_system() {
    let var = |name| std::env::var_os(name);
    let (Some(faults), Some(directory), Some(place)) =
        (var(SERVES), var(DIRECTORY), var(MOUNT_POINT))
    else {
        return;
    };
    let faults = serde_json::from_str(faults.to_str().unwrap()).unwrap();
    let session = Session::new(
        PassthroughFs::over(Path::new(&directory), faults),
        Path::new(&place),
        &config(),
    );
    let mut stdout = std::io::stdout();
    match session {
        Ok(session) => {
            writeln!(stdout, "\n{MOUNTED}").unwrap();
            // The test may have ended in the meantime.
            let _ = session.run();
        }
        Err(error) => writeln!(stdout, "\n{NOT_MOUNTED}: {error}").unwrap(),
    }
}

fn config() -> Config {
    let mut config = Config::default();
    config.acl = SessionACL::All;
    config.mount_options = vec![
        MountOption::FSName("zcopy-tests".to_owned()),
        MountOption::DefaultPermissions,
        MountOption::Dev,
        MountOption::Suid,
    ];
    config
}

/// The file system.
#[derive(Debug)]
struct PassthroughFs {
    faults: Faults,
    nodes: Nodes,
    files: std::sync::Mutex<HashMap<u64, std::sync::Arc<std::fs::File>>>,
}

impl PassthroughFs {
    fn over(directory: &Path, faults: Faults) -> Self {
        Self {
            faults,
            nodes: Nodes::over(directory, faults.inodes),
            files: std::sync::Mutex::default(),
        }
    }
}
