//! What the kernel knows of the file system: files by their inode numbers.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use fuser::{FileAttr, FileType, INodeNo};
use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::Inodes;

/// A file of the directory that is shown, held by a descriptor that only refers to it.
#[derive(Debug)]
pub(super) struct Node {
    file: OwnedFd,
}

impl Node {
    /// Where it can be reached: not what a symbolic link leads to, but the link itself.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }

    pub(super) fn fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// All files that the kernel knows.
#[derive(Debug)]
pub(super) struct Nodes {
    inodes: Inodes,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    nodes: HashMap<u64, Held>,
    /// Which number a name has, where each has its own.
    names: HashMap<(u64, OsString), u64>,
    last: u64,
}

/// A file that the kernel knows by its number.
#[derive(Debug, Default)]
struct Held {
    node: Option<Arc<Node>>,
    /// How often the kernel has looked it up and not forgotten it.
    n_look_ups: u64,
}

const ROOT: u64 = INodeNo::ROOT.0;

impl Nodes {
    pub(super) fn over(directory: &Path, inodes: Inodes) -> Self {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let file = rustix::fs::open(directory, flags, Mode::empty()).unwrap();
        let root = Held {
            node: Some(Arc::new(Node { file })),
            n_look_ups: 1,
        };
        Self {
            inodes,
            state: Mutex::new(State {
                nodes: HashMap::from([(ROOT, root)]),
                names: HashMap::new(),
                last: ROOT,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The file that has this number.
    pub(super) fn get(&self, number: INodeNo) -> Result<Arc<Node>, Errno> {
        self.state()
            .nodes
            .get(&number.0)
            .and_then(|held| held.node.clone())
            .ok_or(Errno::STALE)
    }

    /// The kernel has forgotten some look-ups of a file.
    pub(super) fn forget(&self, number: INodeNo, n_look_ups: u64) {
        let mut state = self.state();
        if let Some(held) = state.nodes.get_mut(&number.0)
            && number.0 != ROOT
        {
            held.n_look_ups = held.n_look_ups.saturating_sub(n_look_ups);
            if held.n_look_ups == 0 {
                state.nodes.remove(&number.0);
            }
        }
    }

    /// Looks up a name, and tells what the file is like.
    pub(super) fn look_up(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let directory = self.get(parent)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(directory.fd(), name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        let mut state = self.state();
        let number = match self.inodes {
            // That of the root is not one of a real file system.
            Inodes::Stable => stat.st_ino,
            Inodes::Volatile => state.next(),
            Inodes::ByName => {
                let key = (parent.0, name.to_owned());
                let known = state.names.get(&key).copied();
                let number = known.unwrap_or_else(|| state.next());
                state.names.insert(key, number);
                number
            }
        };
        let held = state.nodes.entry(number).or_default();
        held.node = Some(Arc::new(Node { file }));
        held.n_look_ups += 1;
        drop(state);
        Ok(self.attributes(INodeNo(number), &stat))
    }

    /// What a file is like now.
    pub(super) fn stat(&self, number: INodeNo) -> Result<FileAttr, Errno> {
        let node = self.get(number)?;
        let stat = rustix::fs::statat(node.fd(), c"", AtFlags::EMPTY_PATH)?;
        Ok(self.attributes(number, &stat))
    }

    /// A name has come to stand for something else, or for nothing.
    pub(super) fn forget_name(&self, parent: INodeNo, name: &OsStr) {
        self.state().names.remove(&(parent.0, name.to_owned()));
    }

    /// What had one name has another one.
    pub(super) fn rename(&self, from: (INodeNo, &OsStr), to: (INodeNo, &OsStr)) {
        let mut state = self.state();
        let number = state.names.remove(&(from.0.0, from.1.to_owned()));
        let key = (to.0.0, to.1.to_owned());
        match number {
            Some(number) => state.names.insert(key, number),
            None => state.names.remove(&key),
        };
    }

    fn attributes(&self, number: INodeNo, stat: &Stat) -> FileAttr {
        FileAttr {
            ino: number,
            size: u64::try_from(stat.st_size).unwrap(),
            blocks: u64::try_from(stat.st_blocks).unwrap(),
            atime: time(stat.st_atime, stat.st_atime_nsec),
            mtime: time(stat.st_mtime, stat.st_mtime_nsec),
            ctime: time(stat.st_ctime, stat.st_ctime_nsec),
            crtime: SystemTime::UNIX_EPOCH,
            kind: kind(stat),
            perm: (stat.st_mode & 0o7777) as u16,
            nlink: match self.inodes {
                Inodes::ByName => 1,
                Inodes::Stable | Inodes::Volatile => u32::try_from(stat.st_nlink).unwrap(),
            },
            uid: stat.st_uid,
            gid: stat.st_gid,
            rdev: u32::try_from(stat.st_rdev).unwrap_or(0),
            blksize: 4096,
            flags: 0,
        }
    }
}

impl State {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

fn time(seconds: i64, nanoseconds: impl TryInto<u32>) -> SystemTime {
    let nanoseconds = nanoseconds.try_into().unwrap_or(0);
    let seconds = u64::try_from(seconds).expect("a time after 1970");
    SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds)
}

/// What kind of file it is.
pub(super) fn kind(stat: &Stat) -> FileType {
    match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
        rustix::fs::FileType::Directory => FileType::Directory,
        rustix::fs::FileType::Symlink => FileType::Symlink,
        rustix::fs::FileType::Fifo => FileType::NamedPipe,
        rustix::fs::FileType::Socket => FileType::Socket,
        rustix::fs::FileType::CharacterDevice => FileType::CharDevice,
        rustix::fs::FileType::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}
