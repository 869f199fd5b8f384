//! Test files and their bytes.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::LazyLock;

use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom, fallocate};
use rustix::io::Errno;

/// Bytes whose position can be recognized: no two words of eight bytes are the same, and none is
/// all zeros.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    /// Most patterns are the beginning of this one. Tests are not optimized.
    static LONG: LazyLock<Vec<u8>> = LazyLock::new(|| pattern_anew(4 << 20));
    match LONG.get(..len) {
        Some(bytes) => bytes.to_vec(),
        None => pattern_anew(len),
    }
}

fn pattern_anew(len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    let mut word = 0_u64;
    while bytes.len() < len {
        word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// An unnamed file in a directory, with these bytes, open for reading and writing, its cursor at 0.
pub(crate) fn file_in(dir: &Path, bytes: &[u8]) -> File {
    let file = tempfile::tempfile_in(dir).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file
}

/// An unnamed file in the temporary directory.
pub(crate) fn file(bytes: &[u8]) -> File {
    file_in(&std::env::temp_dir(), bytes)
}

/// Opens the same file again, with a cursor and flags of its own.
pub(crate) fn reopen(fd: &impl AsFd, flags: OFlags) -> OwnedFd {
    try_reopen(fd, flags).unwrap()
}

/// The same, where the file system may not know the flags.
pub(crate) fn try_reopen(fd: &impl AsFd, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())
}

/// Opens the same file again, to append to it.
pub(crate) fn appending(fd: &impl AsFd) -> OwnedFd {
    reopen(fd, OFlags::WRONLY | OFlags::APPEND)
}

/// All bytes of a file, whatever its cursor. While others append, a file system in user space tells
/// the length before it gives the bytes.
pub(crate) fn contents(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
    let mut n = 0;
    while n < bytes.len() {
        match file.read_at(&mut bytes[n..], n as u64).unwrap() {
            0 => break,
            more => n += more,
        }
    }
    bytes.truncate(n);
    bytes
}

/// Bytes that the file system has allocated to a file.
pub(crate) fn allocated(file: &File) -> u64 {
    file.metadata().unwrap().blocks() * 512
}

pub(crate) fn cursor(fd: impl AsFd) -> u64 {
    rustix::fs::seek(fd, SeekFrom::Current(0)).unwrap()
}

pub(crate) fn set_cursor(fd: impl AsFd, position: u64) {
    rustix::fs::seek(fd, SeekFrom::Start(position)).unwrap();
}

/// Reads to the end. Panics if a read fails.
pub(crate) fn read_to_end(fd: &impl AsFd) -> Vec<u8> {
    let mut bytes = Vec::new();
    read_each(fd, |read| bytes.extend_from_slice(read));
    bytes
}

/// The same, with a call of `each` for every read.
pub(crate) fn read_each(fd: &impl AsFd, mut each: impl FnMut(&[u8])) {
    let mut buffer = vec![0; 256 << 10];
    loop {
        match rustix::io::read(fd, &mut buffer) {
            Ok(0) => return,
            Ok(n) => each(&buffer[..n]),
            Err(Errno::INTR) => {}
            // A terminal fails with `EIO` when its other side is closed.
            Err(Errno::IO) if rustix::termios::isatty(fd) => return,
            Err(errno) => panic!("{errno}"),
        }
    }
}

/// Writes all bytes. Returns false if the reader has closed.
pub(crate) fn write_all(fd: &impl AsFd, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}

/// Compares long byte strings without printing them.
#[track_caller]
pub(crate) fn assert_same(found: &[u8], expected: &[u8], what: &str) {
    if found != expected {
        let at = found.iter().zip(expected).position(|(a, b)| a != b);
        let (found, expected) = (found.len(), expected.len());
        panic!("{what}: {found} bytes for {expected}, the first difference at {at:?}");
    }
}

/// Makes a hole in a file, or writes zeros where the file system cannot.
pub(crate) fn punch_or_zero(file: &File, from: u64, len: u64) {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match fallocate(file, flags, from, len) {
        Err(Errno::OPNOTSUPP) => {
            let zeros = vec![0; usize::try_from(len).unwrap()];
            file.write_all_at(&zeros, from).unwrap();
        }
        punched => punched.unwrap(),
    }
}
