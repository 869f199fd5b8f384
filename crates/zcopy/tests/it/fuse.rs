//! A file system in user space with one file, served by a thread of the test. It behaves as real
//! servers do and as no file system of the kernel does.
//!
//! The protocol is version 7.31 of `<linux/fuse.h>`, as far as a transfer needs it.

use std::fs::File;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::skip::{has_program, is_root, skip};

/// The behaviour of the server for its one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Server {
    #[default]
    Ordinary,
    /// `ftruncate(2)` cannot make the file longer: `EPERM`.
    NeverExtends,
    /// The same, and a write behind its end fails with `EPERM`, as in object stores that only
    /// append.
    NeverSkips,
    /// A hole from the beginning of a block to a place within that block is not made, and counts as
    /// made, as in fuse2fs 1.47.
    PunchesNoBeginning,
    /// The file is opened without positions (`FOPEN_NONSEEKABLE`).
    HasNoPositions,
    /// The same, and the file claims half of its size: a splice believes that, a read does not
    /// (`FOPEN_DIRECT_IO`).
    ClaimsHalf,
    /// The file claims twice its size.
    ClaimsTwice(Access),
    /// A read gives at most [`SHORT`] bytes. (Without direct access the kernel would take a short
    /// read for the end of the file.)
    ReadsShort,
    /// A read of any byte of [`BAD`] fails with `EIO`.
    FailsToRead(Access),
    /// A write takes at most [`SHORT`] bytes.
    WritesShort(Access),
    /// A write of any byte behind [`FULL`] fails.
    FailsToWrite(Access, Errno),
    /// `close(2)` of a descriptor fails.
    FailsToFlush(Errno),
    /// `fsync(2)` and `fdatasync(2)` fail.
    FailsToSync(Errno),
    /// A `copy_file_range(2)` copies at most [`SHORT`] bytes.
    CopiesShort,
    /// A `copy_file_range(2)` stops at [`FULL`] in the source, and fails with `EIO` there.
    FailsToCopy,
}

/// How the kernel passes reads and writes to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Through the page cache: it reads ahead, and writes each page at once.
    Cached,
    /// Through the page cache, and it writes pages when it likes (`FUSE_WRITEBACK_CACHE`).
    WrittenLater,
    /// Past the page cache (`FOPEN_DIRECT_IO`).
    Direct,
}

/// The length of short reads, writes and copies.
pub(crate) const SHORT: usize = 10_007;

/// The bad block of a server that fails to read.
pub(crate) const BAD: Range<usize> = 73 * 4096..74 * 4096;

/// The length that the file cannot exceed if the server fails to write: within a page.
pub(crate) const FULL: usize = 300_001;

#[derive(Clone, Copy)]
enum Call {
    Read,
    Write,
    Copy,
}

/// The inode of the file; the root has inode 1.
const FILE: u64 = 2;
const HEADER: usize = 40;
const REPLY_HEADER: usize = 16;

struct Service {
    server: Server,
    bytes: Arc<Mutex<Vec<u8>>>,
}

/// An open file and its bytes. The file system exists until the file is closed.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) file: File,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl Served {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// A file that a server holds, open for reading and writing; `None`, reported, if this machine has
/// no FUSE.
pub(crate) fn serve(server: Server, bytes: &[u8]) -> Option<Served> {
    if !(is_root() && has_program("mount")) {
        return None;
    }
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let Ok(device) = rustix::fs::open("/dev/fuse", flags, Mode::empty()) else {
        skip("/dev/fuse cannot be opened");
        return None;
    };
    let dir = tempfile::TempDir::new().unwrap();
    // The mount program gets the device as its descriptor 0.
    let options = "fd=0,rootmode=40000,user_id=0,group_id=0";
    let mounted = Command::new("mount")
        .args(["-i", "-t", "fuse", "-o", options, "zcopy-test"])
        .arg(dir.path())
        .stdin(Stdio::from(device.try_clone().unwrap()))
        .output()
        .unwrap();
    if !mounted.status.success() {
        skip("FUSE cannot be mounted here");
        return None;
    }
    let bytes = Arc::new(Mutex::new(bytes.to_vec()));
    let service = Service {
        server,
        bytes: Arc::clone(&bytes),
    };
    // The thread ends when the file is closed and the file system is gone.
    std::thread::spawn(move || service.run(&device));
    let file = File::options()
        .read(true)
        .write(true)
        .open(dir.path().join("file"));
    let unmounted = Command::new("umount").arg("-l").arg(dir.path()).status();
    assert!(unmounted.unwrap().success());
    Some(Served {
        file: file.unwrap(),
        bytes,
    })
}

impl Service {
    fn run(&self, device: &OwnedFd) {
        let mut request = vec![0; (1 << 20) + 8192];
        loop {
            match rustix::io::read(device, &mut request) {
                Ok(n) => {
                    let request = &request[..n];
                    let Some(reply) = self.answer(request) else {
                        continue;
                    };
                    // The kernel refuses an answer that comes too late.
                    let _ = rustix::io::write(device, &framed(u64_at(request, 8), reply));
                }
                Err(Errno::INTR | Errno::NOENT | Errno::AGAIN) => {}
                Err(_) => return,
            }
        }
    }

    /// The answer to a request; `None` if the request expects none.
    fn answer(&self, request: &[u8]) -> Option<Result<Vec<u8>, Errno>> {
        const FORGET: u32 = 2;
        const INTERRUPT: u32 = 36;
        const BATCH_FORGET: u32 = 42;
        let (opcode, node) = (u32_at(request, 4), u64_at(request, 16));
        let body = &request[HEADER..];
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let size = match self.server {
            Server::ClaimsHalf => bytes.len() / 2,
            Server::ClaimsTwice(_) => bytes.len() * 2,
            _ => bytes.len(),
        };
        Some(match opcode {
            FORGET | INTERRUPT | BATCH_FORGET => return None,
            // LOOKUP
            1 if body == b"file\0" => {
                let mut entry = [FILE, 0, 0, 0, 0].map(u64::to_ne_bytes).concat();
                entry.extend(attributes(FILE, size));
                Ok(entry)
            }
            1 => Err(Errno::NOENT),
            // GETATTR
            3 => Ok(attributes_out(node, size)),
            // SETATTR
            4 => self.set_attributes(&mut bytes, body),
            // OPEN
            14 => {
                const DIRECT_IO: u64 = 1;
                const NONSEEKABLE: u64 = 1 << 2;
                let flags = match self.server {
                    Server::HasNoPositions => NONSEEKABLE,
                    Server::ClaimsHalf => NONSEEKABLE | DIRECT_IO,
                    server if server.access() == Access::Direct => DIRECT_IO,
                    _ => 0,
                };
                Ok([0, flags].map(u64::to_ne_bytes).concat())
            }
            // READ
            15 => {
                let start = offset(body).min(bytes.len());
                let len = self.server.shortened(u32_at(body, 16) as usize, Call::Read);
                let end = (start + len).min(bytes.len());
                let fails = matches!(self.server, Server::FailsToRead(_));
                if fails && start < BAD.end && end > BAD.start {
                    return Some(Err(Errno::IO));
                }
                Ok(bytes[start..end].to_vec())
            }
            // WRITE
            16 => self.write(&mut bytes, body),
            // STATFS
            17 => {
                let (blocks, sizes) = ([1_u64 << 20; 5], [4096_u32, 255, 4096, 0]);
                let blocks = blocks.map(u64::to_ne_bytes).concat();
                let sizes = sizes.map(u32::to_ne_bytes).concat();
                Ok([blocks, sizes, vec![0; 24]].concat())
            }
            // FSYNC, FLUSH
            20 | 25 => match (opcode, self.server) {
                (20, Server::FailsToSync(errno)) | (25, Server::FailsToFlush(errno)) => Err(errno),
                _ => Ok(Vec::new()),
            },
            // RELEASE, RELEASEDIR
            18 | 29 => Ok(Vec::new()),
            27 => Ok(vec![0; 16]),
            // INIT
            26 => {
                const WRITEBACK_CACHE: u32 = 1 << 16;
                let flags = match self.server.access() {
                    Access::WrittenLater => WRITEBACK_CACHE,
                    Access::Cached | Access::Direct => 0,
                };
                let version = [7_u32, 31, 128 << 10, flags].map(u32::to_ne_bytes).concat();
                let limits = [0_u32, 128 << 10].map(u32::to_ne_bytes).concat();
                Ok([version, limits, vec![0; 40]].concat())
            }
            // FALLOCATE
            43 if self.server == Server::PunchesNoBeginning => {
                punch(&mut bytes, body);
                Ok(Vec::new())
            }
            // COPY_FILE_RANGE
            47 if matches!(self.server, Server::CopiesShort | Server::FailsToCopy) => {
                self.copy(&mut bytes, body)
            }
            _ => Err(Errno::NOSYS),
        })
    }

    fn set_attributes(&self, bytes: &mut Vec<u8>, body: &[u8]) -> Result<Vec<u8>, Errno> {
        const SIZE: u32 = 1 << 3;
        if u32_at(body, 0) & SIZE != 0 {
            let len = usize::try_from(u64_at(body, 16)).unwrap();
            let refuses = matches!(self.server, Server::NeverExtends | Server::NeverSkips);
            if len > bytes.len() && refuses {
                return Err(Errno::PERM);
            }
            bytes.resize(len, 0);
        }
        Ok(attributes_out(FILE, bytes.len()))
    }

    fn write(&self, bytes: &mut Vec<u8>, body: &[u8]) -> Result<Vec<u8>, Errno> {
        let (start, data) = (offset(body), &body[40..]);
        if start > bytes.len() && self.server == Server::NeverSkips {
            return Err(Errno::PERM);
        }
        let data = &data[..self.server.shortened(data.len(), Call::Write)];
        let end = start + data.len();
        if let Server::FailsToWrite(_, errno) = self.server
            && end > FULL
        {
            return Err(errno);
        }
        let len = bytes.len().max(end);
        bytes.resize(len, 0);
        bytes[start..end].copy_from_slice(data);
        Ok((data.len() as u64).to_ne_bytes().to_vec())
    }

    /// Copies within the file.
    fn copy(&self, bytes: &mut Vec<u8>, body: &[u8]) -> Result<Vec<u8>, Errno> {
        let word = |at| usize::try_from(u64_at(body, at)).unwrap();
        let (from, to) = (word(8), word(32));
        let mut len = self.server.shortened(word(40), Call::Copy);
        len = len.min(bytes.len().saturating_sub(from));
        if self.server == Server::FailsToCopy {
            len = len.min(FULL.saturating_sub(from));
            if len == 0 {
                return Err(Errno::IO);
            }
        }
        let copied = bytes[from..from + len].to_vec();
        let end = bytes.len().max(to + len);
        bytes.resize(end, 0);
        bytes[to..to + len].copy_from_slice(&copied);
        Ok((len as u64).to_ne_bytes().to_vec())
    }
}

impl Server {
    fn access(self) -> Access {
        match self {
            Self::ClaimsTwice(access)
            | Self::FailsToRead(access)
            | Self::WritesShort(access)
            | Self::FailsToWrite(access, _) => access,
            Self::ReadsShort => Access::Direct,
            _ => Access::Cached,
        }
    }

    /// The length of what the server reads, writes or copies when it is asked for `len` bytes.
    fn shortened(self, len: usize, call: Call) -> usize {
        match (self, call) {
            (Self::ReadsShort, Call::Read)
            | (Self::WritesShort(_), Call::Write)
            | (Self::CopiesShort, Call::Copy) => len.min(SHORT),
            _ => len,
        }
    }
}

/// Makes a hole with the fault of fuse2fs 1.47.
fn punch(bytes: &mut [u8], body: &[u8]) {
    const BLOCK: usize = 4096;
    let (start, len) = (offset(body), usize::try_from(u64_at(body, 16)).unwrap());
    if !start.is_multiple_of(BLOCK) || len >= BLOCK {
        let end = bytes.len().min(start + len);
        bytes[start.min(end)..end].fill(0);
    }
}

/// An answer as it is written: its length, the error, the id of the request, and the payload.
fn framed(unique: u64, answer: Result<Vec<u8>, Errno>) -> Vec<u8> {
    let (error, payload) = match answer {
        Ok(payload) => (0, payload),
        Err(errno) => (-errno.raw_os_error(), Vec::new()),
    };
    let len = u32::try_from(REPLY_HEADER + payload.len()).unwrap();
    let mut reply = len.to_ne_bytes().to_vec();
    reply.extend(error.to_ne_bytes());
    reply.extend(unique.to_ne_bytes());
    reply.extend(payload);
    reply
}

/// `struct fuse_attr_out`, valid for no time, so that the kernel asks again each time.
fn attributes_out(node: u64, len: usize) -> Vec<u8> {
    [vec![0; 16], attributes(node, len)].concat()
}

/// `struct fuse_attr`.
fn attributes(node: u64, len: usize) -> Vec<u8> {
    let (mode, links, size) = if node == FILE {
        (0o100_600_u32, 1, len as u64)
    } else {
        (0o40_700, 2, 0)
    };
    let words = [node, size, size.div_ceil(512), 0, 0, 0];
    let halves = [0, 0, 0, mode, links, 0, 0, 0, 4096, 0];
    [
        words.map(u64::to_ne_bytes).concat(),
        halves.map(u32::to_ne_bytes).concat(),
    ]
    .concat()
}

/// The offset of a READ or a WRITE.
fn offset(body: &[u8]) -> usize {
    usize::try_from(u64_at(body, 8)).unwrap()
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}
