//! The operations of the file system, each of them the same one of the directory behind it.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::{DirEntryExt as _, FileExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::{Links, PassthroughFs, Renames, Symlinks};

/// The kernel asks each time, so that nothing is hidden from a test.
const NOT_CACHED: Duration = Duration::ZERO;
const GENERATION: Generation = Generation(0);

fn error(errno: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(errno.raw_os_error())
}

fn of_io(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

impl PassthroughFs {
    fn file(&self, handle: FileHandle) -> Result<Arc<File>, Errno> {
        let files = self.files.lock().unwrap();
        files.get(&handle.0).cloned().ok_or(Errno::BADF)
    }

    fn open_file(&self, inode: INodeNo, flags: OpenFlags) -> Result<FileHandle, Errno> {
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

    /// The path to a symbolic link that is going to be followed.
    fn followed(&self, node: &super::nodes::Node) -> Result<Option<std::path::PathBuf>, Errno> {
        let stat = rustix::fs::statat(node.fd(), c"", AtFlags::EMPTY_PATH)?;
        let is_link = super::nodes::kind(&stat) == fuser::FileType::Symlink;
        if !is_link || self.faults.symlinks == Symlinks::NotFollowed {
            return Ok(None);
        }
        let path = std::fs::read_link(node.path());
        path.map(Some).map_err(|error| of_io(&error))
    }

    /// Makes something by a call, gives it to its owner, and looks it up.
    fn make(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        make: impl FnOnce(std::os::fd::BorrowedFd<'_>) -> Result<(), Errno>,
    ) -> Result<FileAttr, Errno> {
        let directory = self.nodes.get(parent)?;
        make(directory.fd())?;
        let (uid, gid) = (Uid::from_raw(request.uid()), Gid::from_raw(request.gid()));
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::chownat(directory.fd(), name, Some(uid), Some(gid), flags)?;
        self.nodes.forget_name(parent, name);
        self.nodes.look_up(parent, name)
    }
}

fn entry(reply: ReplyEntry, result: Result<FileAttr, Errno>) {
    match result {
        Ok(attributes) => reply.entry(&NOT_CACHED, &attributes, GENERATION),
        Err(errno) => reply.error(error(errno)),
    }
}

fn empty(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(error(errno)),
    }
}

/// A list or value of extended attributes, or its size.
fn xattr(reply: ReplyXattr, size: u32, get: impl FnOnce(&mut [u8]) -> Result<usize, Errno>) {
    let mut buffer = vec![0; 64 << 10];
    match get(&mut buffer) {
        Ok(n) if size == 0 => reply.size(n as u32),
        Ok(n) if n > size as usize => reply.error(fuser::Errno::ERANGE),
        Ok(n) => reply.data(&buffer[..n]),
        Err(errno) => reply.error(error(errno)),
    }
}

impl Filesystem for PassthroughFs {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(reply, self.nodes.look_up(parent, name));
    }

    fn forget(&self, _: &Request, inode: INodeNo, n_look_ups: u64) {
        self.nodes.forget(inode, n_look_ups);
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.nodes.stat(inode) {
            Ok(attributes) => reply.attr(&NOT_CACHED, &attributes),
            Err(errno) => reply.error(error(errno)),
        }
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
                std::os::unix::fs::chown(&path, Some(uid), Some(gid))
                    .map_err(|error| of_io(&error))?;
                let times = Timestamps {
                    last_access: timespec(atime),
                    last_modification: timespec(mtime),
                };
                rustix::fs::utimensat(rustix::fs::CWD, &path, &times, AtFlags::empty())?;
                return self.nodes.stat(inode);
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
                let times = Timestamps {
                    last_access: timespec(atime),
                    last_modification: timespec(mtime),
                };
                rustix::fs::utimensat(node.fd(), c"", &times, AtFlags::EMPTY_PATH)?;
            }
            self.nodes.stat(inode)
        };
        match set() {
            Ok(attributes) => reply.attr(&NOT_CACHED, &attributes),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn readlink(&self, _: &Request, inode: INodeNo, reply: ReplyData) {
        let target = |node: &super::nodes::Node| rustix::fs::readlinkat(node.fd(), c"", Vec::new());
        match self.nodes.get(inode).and_then(|node| target(&node)) {
            Ok(target) => reply.data(target.as_bytes()),
            Err(errno) => reply.error(error(errno)),
        }
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
        let unlink = || {
            let directory = self.nodes.get(parent)?;
            rustix::fs::unlinkat(directory.fd(), name, AtFlags::empty())?;
            self.nodes.forget_name(parent, name);
            Ok(())
        };
        empty(reply, unlink());
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let remove = || {
            let directory = self.nodes.get(parent)?;
            rustix::fs::unlinkat(directory.fd(), name, AtFlags::REMOVEDIR)?;
            self.nodes.forget_name(parent, name);
            Ok(())
        };
        empty(reply, remove());
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
                return Err(Errno::INVAL);
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
                Links::Fail(errno) => return Err(Errno::from_raw_os_error(errno)),
                Links::AtMost(most) if u64::from(most) <= n_names => return Err(Errno::MLINK),
                Links::All | Links::AtMost(_) => {}
            }
            let flags = AtFlags::EMPTY_PATH;
            rustix::fs::linkat(file.fd(), c"", directory.fd(), name, flags)?;
            self.nodes.forget_name(parent, name);
            self.nodes.look_up(parent, name)
        };
        entry(reply, link());
    }

    fn open(&self, _: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.open_file(inode, flags) {
            Ok(handle) => reply.opened(handle, FopenFlags::empty()),
            Err(errno) => reply.error(error(errno)),
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
        let create = || {
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
            Err(errno) => reply.error(error(errno)),
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
        let mut buffer = vec![0; size as usize];
        let read = self.file(handle).and_then(|file| {
            file.read_at(&mut buffer, offset)
                .map_err(|error| of_io(&error))
        });
        match read {
            Ok(n) => reply.data(&buffer[..n]),
            Err(errno) => reply.error(error(errno)),
        }
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
        let write = |file: Arc<File>| file.write_at(data, offset).map_err(|error| of_io(&error));
        match self.file(handle).and_then(write) {
            Ok(n) => reply.written(n as u32),
            Err(errno) => reply.error(error(errno)),
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
        let sync = |file: Arc<File>| rustix::fs::fsync(&*file);
        empty(reply, self.file(handle).and_then(sync));
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
            let entries =
                std::fs::read_dir(node.path()).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            entries.map_err(|error| of_io(&error))
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
            Err(errno) => reply.error(error(errno)),
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
        let set = |node: &super::nodes::Node| rustix::fs::setxattr(node.path(), name, value, flags);
        empty(reply, self.nodes.get(inode).and_then(|node| set(&node)));
    }

    fn getxattr(&self, _: &Request, inode: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        xattr(reply, size, |value| {
            rustix::fs::getxattr(self.nodes.get(inode)?.path(), name, value)
        });
    }

    fn listxattr(&self, _: &Request, inode: INodeNo, size: u32, reply: ReplyXattr) {
        xattr(reply, size, |list| {
            rustix::fs::listxattr(self.nodes.get(inode)?.path(), list)
        });
    }

    fn removexattr(&self, _: &Request, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let remove = |node: &super::nodes::Node| rustix::fs::removexattr(node.path(), name);
        empty(reply, self.nodes.get(inode).and_then(|node| remove(&node)));
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
