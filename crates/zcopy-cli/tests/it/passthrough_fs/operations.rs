//! The operations of the file system, each of which does the same to the directory behind it.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{DirEntryExt as _, FileExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::nodes::{self, Node};
use super::{Links, PassthroughFs, Renames, Symlinks};

/// The kernel asks each time, so that nothing is hidden from a test.
const NOT_CACHED: Duration = Duration::ZERO;
const GENERATION: Generation = Generation(0);

impl PassthroughFs {
    fn file(&self, handle: FileHandle) -> io::Result<Arc<File>> {
        let files = self.files.lock().unwrap();
        Ok(files.get(&handle.0).cloned().ok_or(Errno::BADF)?)
    }

    fn open_file(&self, inode: INodeNo, flags: OpenFlags) -> io::Result<FileHandle> {
        // The kernel sends each write with its offset.
        let flags = OFlags::from_bits_retain(flags.0.cast_unsigned());
        let flags = (flags - OFlags::NOFOLLOW - OFlags::APPEND) | OFlags::CLOEXEC;
        let file = rustix::fs::open(self.nodes.get(inode)?.path(), flags, Mode::empty())?;
        Ok(self.add(file.into()))
    }

    fn add(&self, file: File) -> FileHandle {
        let mut files = self.files.lock().unwrap();
        let handle = files.keys().max().map_or(1, |last| last + 1);
        files.insert(handle, Arc::new(file));
        FileHandle(handle)
    }

    /// The target of a symbolic link that is followed.
    fn followed(&self, node: &Node) -> io::Result<Option<PathBuf>> {
        let stat = rustix::fs::statat(node.fd(), c"", AtFlags::EMPTY_PATH)?;
        let is_link = nodes::kind(&stat) == fuser::FileType::Symlink;
        if !is_link || self.faults.symlinks == Symlinks::NotFollowed {
            return Ok(None);
        }
        std::fs::read_link(node.path()).map(Some)
    }

    /// Makes something by a call, gives it to its owner, and looks it up.
    fn make(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        make: impl FnOnce(BorrowedFd<'_>) -> Result<(), Errno>,
    ) -> io::Result<FileAttr> {
        let directory = self.nodes.get(parent)?;
        make(directory.fd())?;
        let (uid, gid) = (Uid::from_raw(request.uid()), Gid::from_raw(request.gid()));
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::chownat(directory.fd(), name, Some(uid), Some(gid), flags)?;
        self.nodes.forget_name(parent, name);
        Ok(self.nodes.look_up(parent, name)?)
    }

    fn remove(&self, parent: INodeNo, name: &OsStr, flags: AtFlags) -> io::Result<()> {
        let directory = self.nodes.get(parent)?;
        rustix::fs::unlinkat(directory.fd(), name, flags)?;
        self.nodes.forget_name(parent, name);
        Ok(())
    }
}

fn entry(reply: ReplyEntry, result: io::Result<FileAttr>) {
    match result {
        Ok(attributes) => reply.entry(&NOT_CACHED, &attributes, GENERATION),
        Err(error) => reply.error(error.into()),
    }
}

fn attributes(reply: ReplyAttr, result: io::Result<FileAttr>) {
    match result {
        Ok(attributes) => reply.attr(&NOT_CACHED, &attributes),
        Err(error) => reply.error(error.into()),
    }
}

fn data(reply: ReplyData, result: io::Result<Vec<u8>>) {
    match result {
        Ok(bytes) => reply.data(&bytes),
        Err(error) => reply.error(error.into()),
    }
}

fn empty(reply: ReplyEmpty, result: io::Result<()>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error.into()),
    }
}

/// Replies with a list or value of extended attributes, or its size.
fn xattr(reply: ReplyXattr, size: u32, get: impl FnOnce(&mut [u8]) -> io::Result<usize>) {
    let mut buffer = vec![0; 64 << 10];
    match get(&mut buffer) {
        Ok(n) if size == 0 => reply.size(n as u32),
        Ok(n) if n > size as usize => reply.error(fuser::Errno::ERANGE),
        Ok(n) => reply.data(&buffer[..n]),
        Err(error) => reply.error(error.into()),
    }
}

impl Filesystem for PassthroughFs {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(reply, self.nodes.look_up(parent, name).map_err(Into::into));
    }

    fn forget(&self, _: &Request, inode: INodeNo, n_look_ups: u64) {
        self.nodes.forget(inode, n_look_ups);
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        attributes(reply, self.nodes.stat(inode).map_err(Into::into));
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = || {
            let node = self.nodes.get(inode)?;
            if let Some(path) = self.followed(&node)? {
                let found = rustix::fs::stat(&path)?;
                let owner = |wanted: Option<u32>, now| wanted.unwrap_or(now);
                let (uid, gid) = (owner(uid, found.st_uid), owner(gid, found.st_gid));
                chown(&path, Some(uid), Some(gid))?;
                let times = timestamps(atime, mtime);
                rustix::fs::utimensat(rustix::fs::CWD, &path, &times, AtFlags::empty())?;
                return Ok(self.nodes.stat(inode)?);
            }
            if uid.is_some() || gid.is_some() {
                let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
                rustix::fs::chownat(node.fd(), c"", uid, gid, AtFlags::EMPTY_PATH)?;
            }
            if let Some(mode) = mode {
                rustix::fs::chmod(node.path(), Mode::from_raw_mode(mode & 0o7777))?;
            }
            if let Some(size) = size {
                let file = rustix::fs::open(node.path(), OFlags::WRONLY, Mode::empty())?;
                rustix::fs::ftruncate(file, size)?;
            }
            if atime.is_some() || mtime.is_some() {
                let times = timestamps(atime, mtime);
                rustix::fs::utimensat(node.fd(), c"", &times, AtFlags::EMPTY_PATH)?;
            }
            Ok(self.nodes.stat(inode)?)
        };
        attributes(reply, set());
    }

    fn readlink(&self, _: &Request, inode: INodeNo, reply: ReplyData) {
        let target = || {
            let node = self.nodes.get(inode)?;
            Ok(rustix::fs::readlinkat(node.fd(), c"", Vec::new())?.into_bytes())
        };
        data(reply, target());
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let kind = rustix::fs::FileType::from_raw_mode(mode);
        let mode = Mode::from_raw_mode(mode & 0o7777);
        let attributes = self.make(request, (parent, name), |directory| {
            rustix::fs::mknodat(directory, name, kind, mode, rdev.into())
        });
        entry(reply, attributes);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let mode = Mode::from_raw_mode(mode & 0o7777);
        let attributes = self.make(request, (parent, name), |directory| {
            rustix::fs::mkdirat(directory, name, mode)
        });
        entry(reply, attributes);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let attributes = self.make(request, (parent, name), |directory| {
            rustix::fs::symlinkat(target, directory, name)
        });
        entry(reply, attributes);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.remove(parent, name, AtFlags::empty()));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.remove(parent, name, AtFlags::REMOVEDIR));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let rename = || {
            if self.faults.renames == Renames::WithoutFlags && !flags.is_empty() {
                return Err(Errno::INVAL.into());
            }
            let (from, to) = (self.nodes.get(parent)?, self.nodes.get(new_parent)?);
            let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
            rustix::fs::renameat_with(from.fd(), name, to.fd(), new_name, flags)?;
            self.nodes.rename((parent, name), (new_parent, new_name));
            Ok(())
        };
        empty(reply, rename());
    }

    fn link(&self, _: &Request, inode: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let link = || {
            let (file, directory) = (self.nodes.get(inode)?, self.nodes.get(parent)?);
            let n_names = rustix::fs::statat(file.fd(), c"", AtFlags::EMPTY_PATH)?.st_nlink;
            match self.faults.links {
                Links::Fail(errno) => return Err(io::Error::from_raw_os_error(errno)),
                Links::AtMost(most) if u64::from(most) <= n_names => {
                    return Err(Errno::MLINK.into());
                }
                Links::All | Links::AtMost(_) => {}
            }
            let flags = AtFlags::EMPTY_PATH;
            rustix::fs::linkat(file.fd(), c"", directory.fd(), name, flags)?;
            self.nodes.forget_name(parent, name);
            Ok(self.nodes.look_up(parent, name)?)
        };
        entry(reply, link());
    }

    fn open(&self, _: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.open_file(inode, flags) {
            Ok(handle) => reply.opened(handle, FopenFlags::empty()),
            Err(error) => reply.error(error.into()),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let create = || -> io::Result<_> {
            let flags = OFlags::from_bits_retain(flags.cast_unsigned());
            let flags = (flags - OFlags::APPEND) | OFlags::CREATE | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(mode & 0o7777);
            let mut file = None;
            let attributes = self.make(request, (parent, name), |directory| {
                file = Some(rustix::fs::openat(directory, name, flags, mode)?);
                Ok(())
            })?;
            let file = file.ok_or(Errno::IO)?;
            Ok((attributes, self.add(file.into())))
        };
        match create() {
            Ok((attributes, handle)) => {
                let flags = FopenFlags::empty();
                reply.created(&NOT_CACHED, &attributes, GENERATION, handle, flags);
            }
            Err(error) => reply.error(error.into()),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = || {
            let mut buffer = vec![0; size as usize];
            let n = self.file(handle)?.read_at(&mut buffer, offset)?;
            buffer.truncate(n);
            Ok(buffer)
        };
        data(reply, read());
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.file(handle);
        match written.and_then(|file| file.write_at(data, offset)) {
            Ok(n) => reply.written(n as u32),
            Err(error) => reply.error(error.into()),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.files.lock().unwrap().remove(&handle.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        empty(reply, self.file(handle).and_then(|file| file.sync_all()));
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn readdir(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let read = || {
            let node = self.nodes.get(inode)?;
            std::fs::read_dir(node.path())?.collect::<io::Result<Vec<_>>>()
        };
        match read() {
            Ok(entries) => {
                for (n, entry) in (1..).zip(entries).skip(offset as usize) {
                    let kind = entry.file_type().ok().and_then(fuser::FileType::from_std);
                    let kind = kind.unwrap_or(fuser::FileType::RegularFile);
                    if reply.add(INodeNo(entry.ino()), n, kind, entry.file_name()) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(error) => reply.error(error.into()),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 4096, 255, 4096);
    }

    fn setxattr(
        &self,
        _: &Request,
        inode: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let flags = XattrFlags::from_bits_retain(flags.cast_unsigned());
        let set = || {
            let path = self.nodes.get(inode)?.path();
            Ok(rustix::fs::setxattr(path, name, value, flags)?)
        };
        empty(reply, set());
    }

    fn getxattr(&self, _: &Request, inode: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        xattr(reply, size, |value| {
            let path = self.nodes.get(inode)?.path();
            Ok(rustix::fs::getxattr(path, name, value)?)
        });
    }

    fn listxattr(&self, _: &Request, inode: INodeNo, size: u32, reply: ReplyXattr) {
        xattr(reply, size, |list| {
            let path = self.nodes.get(inode)?.path();
            Ok(rustix::fs::listxattr(path, list)?)
        });
    }

    fn removexattr(&self, _: &Request, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let remove = || {
            let path = self.nodes.get(inode)?.path();
            Ok(rustix::fs::removexattr(path, name)?)
        };
        empty(reply, remove());
    }
}

fn timestamps(atime: Option<TimeOrNow>, mtime: Option<TimeOrNow>) -> Timestamps {
    Timestamps {
        last_access: timespec(atime),
        last_modification: timespec(mtime),
    }
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    match time {
        Some(TimeOrNow::SpecificTime(time)) => {
            let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap();
            Timespec {
                tv_sec: i64::try_from(since.as_secs()).unwrap(),
                tv_nsec: since.subsec_nanos().into(),
            }
        }
        Some(TimeOrNow::Now) => Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_NOW,
        },
        None => Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_OMIT,
        },
    }
}
