//! The files that are moved.

use std::cell::OnceCell;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use tempfile::TempDir;

use super::MIB;
use super::mounts::{Fs, Root, loop_mount};
use super::skip::skip;

/// A directory on each file system, made when it is first asked for.
pub(crate) struct Files {
    pub(super) bytes: u64,
    pub(super) peers: Peers,
    homes: [OnceCell<Option<Home>>; 4],
}

/// When the peers of a transfer write into its source and read from its sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peers {
    /// While it runs, as in a pipeline.
    Meanwhile,
    /// Before and after it, so that its own cost is measured. All bytes have to fit into the pipes
    /// and sockets.
    Apart,
}

/// A directory that is gone when this is.
enum Home {
    Scratch(TempDir),
    Mounted(Root),
}

impl Files {
    /// Sources will have `bytes` bytes.
    pub(crate) fn new(bytes: u64) -> Self {
        let homes = Default::default();
        Self {
            bytes,
            peers: Peers::Meanwhile,
            homes,
        }
    }

    /// The same files for transfers whose peers work then.
    #[allow(dead_code, reason = "one benchmark alone has a choice")]
    pub(crate) fn with_peers(self, peers: Peers) -> Self {
        Self { peers, ..self }
    }

    /// Whether this machine has the file system; says so if not.
    pub(super) fn has(&self, fs: Fs) -> bool {
        self.home(fs).is_some()
    }

    /// A source, warm in the page cache.
    pub(super) fn source(&self, fs: Fs, bytes: u64) -> File {
        assert_eq!(self.bytes, bytes, "the sources have the size to be moved");
        let path = self.dir(fs).join("source");
        if !path.exists() {
            let mut file = File::create(&path).expect("a source");
            let block: Vec<u8> = (0..MIB).map(|i| ((i * 31) >> 3) as u8).collect();
            let mut left = bytes;
            while left > 0 {
                let n = left.min(MIB as u64) as usize;
                file.write_all(&block[..n]).expect("room for the source");
                left -= n as u64;
            }
            // What is still dirty would be written back in the middle of a measurement.
            file.sync_all().expect("a disk");
        }
        File::open(path).expect("the source")
    }

    /// A fresh target.
    pub(super) fn target(&self, fs: Fs) -> File {
        let dir = self.dir(fs);
        let path = dir.join("target");
        let _ = fs::remove_file(&path);
        // XFS takes a removed file apart some time later, or at once when it is asked for its free
        // space. Left to the transfer, which asks which file system this is, that halved its speed.
        let _ = rustix::fs::statfs(&dir);
        std::thread::yield_now();
        File::create(path).expect("a target")
    }

    fn dir(&self, fs: Fs) -> PathBuf {
        match self.home(fs).expect("a file system that is there") {
            Home::Scratch(dir) => dir.path().to_owned(),
            Home::Mounted(root) => root.dir(),
        }
    }

    fn home(&self, fs: Fs) -> Option<&Home> {
        // Room for a source and a target, and for targets that are removed and not yet forgotten.
        let mib = (self.bytes >> 20) * 8 + 512;
        let home = self.homes[fs as usize].get_or_init(|| match fs {
            Fs::Ext4 => tempfile::tempdir().ok().map(Home::Scratch),
            Fs::Tmpfs => tempfile::tempdir_in("/dev/shm").ok().map(Home::Scratch),
            Fs::Btrfs => loop_mount("btrfs", mib).map(Home::Mounted),
            Fs::Xfs => loop_mount("xfs", mib).map(Home::Mounted),
        });
        if home.is_none() {
            skip(&format!("{fs:?} cannot be mounted here"));
        }
        home.as_ref()
    }
}
