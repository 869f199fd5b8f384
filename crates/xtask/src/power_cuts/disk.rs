//! A disk that notes each write and each flush: the only file of a FUSE file system, for a loop
//! device over it.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context as _;
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation,
    INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyWrite, Request, Session, WriteFlags,
};
use tempfile::TempDir;

use super::log::Log;

/// The name of the file.
const NAME: &str = "disk";

const ROOT: INodeNo = INodeNo(1);
const FILE: INodeNo = INodeNo(2);

/// How long the kernel may trust attributes. They never change.
const EVER: Duration = Duration::from_secs(86_400);

/// The disk. The file system is unmounted when this is dropped.
#[derive(Debug)]
pub(super) struct Disk {
    log: Arc<Mutex<Log>>,
    _session: BackgroundSession,
    place: TempDir,
}

impl Disk {
    /// An empty disk of this size.
    ///
    /// # Errors
    ///
    /// FUSE cannot be mounted here.
    pub(super) fn new(size: u64) -> anyhow::Result<Self> {
        let place = TempDir::with_prefix("zcopy-disk-")?;
        let log = Arc::new(Mutex::new(Log::default()));
        let file_system = OneFile {
            size,
            log: Arc::clone(&log),
        };
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("zcopy-disk".to_owned())];
        let session = Session::new(file_system, place.path(), &config);
        let session = session.and_then(Session::spawn).context("FUSE")?;
        Ok(Self {
            log,
            _session: session,
            place,
        })
    }

    pub(super) fn path(&self) -> PathBuf {
        self.place.path().join(NAME)
    }

    /// The writes and flushes so far.
    pub(super) fn log(&self) -> MutexGuard<'_, Log> {
        lock(&self.log)
    }
}

fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The file system.
#[derive(Debug)]
struct OneFile {
    size: u64,
    log: Arc<Mutex<Log>>,
}

impl OneFile {
    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let (kind, size, perm) = if inode == FILE {
            (FileType::RegularFile, self.size, 0o600)
        } else {
            (FileType::Directory, 0, 0o700)
        };
        FileAttr {
            ino: inode,
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for OneFile {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == ROOT && name == NAME {
            reply.entry(&EVER, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&EVER, &self.attributes(inode));
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let left = self.size.saturating_sub(offset);
        let len = left.min(size.into()) as usize;
        reply.data(&lock(&self.log).read(offset, len));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        lock(&self.log).write(offset, data);
        // The kernel asks for no more than it can count.
        reply.written(data.len() as u32);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        lock(&self.log).flush();
        reply.ok();
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // That a descriptor is closed brings nothing to a disk.
        reply.ok();
    }
}
