//! A file system in user space that keeps whole seconds, while the kernel caches the times of its
//! regular files (`FUSE_WRITEBACK_CACHE`).
//!
//! The protocol is that of `<linux/fuse.h>`, version 7.31, as far as a time can be tried.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::dircopy::test_support::scratch;
use crate::skip::{is_root, skip};

const ROOT: u64 = 1;
const FILE: u64 = 2;
const DIRECTORY: u64 = 3;

const HEADER: usize = 40;
const BIG_WRITES: u32 = 1 << 5;
const WRITEBACK_CACHE: u32 = 1 << 16;
const SETS_MTIME: u32 = 1 << 5;

/// The root of the file system, which is gone with this descriptor.
pub(super) struct WholeSeconds(File);

impl WholeSeconds {
    /// Mounts it. Without FUSE the test is skipped aloud.
    pub(super) fn mount() -> Option<Self> {
        if !is_root() {
            return None;
        }
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let Ok(device) = rustix::fs::open("/dev/fuse", flags, Mode::empty()) else {
            skip("/dev/fuse cannot be opened");
            return None;
        };
        let scratch = scratch();
        // The device is descriptor 0 of the program that mounts it.
        let options = "fd=0,rootmode=40000,user_id=0,group_id=0";
        let mounted = Command::new("mount")
            .args(["-i", "-t", "fuse", "-o", options, "zcopy-test"])
            .arg(scratch.path())
            .stdin(Stdio::from(device.try_clone().unwrap()))
            .status();
        if !mounted.is_ok_and(|status| status.success()) {
            skip("FUSE cannot be mounted here");
            return None;
        }
        std::thread::spawn(move || serve(&device));
        let root = File::open(scratch.path()).unwrap();
        let mut unmount = Command::new("umount");
        let unmounted = unmount.arg("-l").arg(scratch.path()).status();
        assert!(unmounted.unwrap().success());
        Some(Self(root))
    }

    pub(super) fn path(&self) -> PathBuf {
        use std::os::fd::AsRawFd as _;
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

/// A created file or directory, and its time.
#[derive(Default)]
struct Node {
    name: Option<Vec<u8>>,
    seconds: u64,
}

fn serve(device: &OwnedFd) {
    let mut nodes: [Node; 4] = Default::default();
    let mut request = vec![0; 1 << 20];
    while let Ok(n) = rustix::io::read(device, &mut *request) {
        let request = &request[..n];
        let unique = u64_at(request, 8);
        let Some(answer) = answer(&mut nodes, request) else {
            continue;
        };
        let (errno, body) = match answer {
            Ok(body) => (0, body),
            Err(errno) => (-errno.raw_os_error(), Vec::new()),
        };
        let mut reply = Vec::new();
        reply.extend(u32::try_from(16 + body.len()).unwrap().to_ne_bytes());
        reply.extend(errno.to_ne_bytes());
        reply.extend(unique.to_ne_bytes());
        reply.extend(body);
        // A request may have been interrupted.
        let _ = rustix::io::write(device, &reply);
    }
}

fn answer(nodes: &mut [Node; 4], request: &[u8]) -> Option<Result<Vec<u8>, Errno>> {
    let node = u64_at(request, 16);
    let body = &request[HEADER..];
    Some(match u32_at(request, 4) {
        // LOOKUP
        1 => match [FILE, DIRECTORY]
            .into_iter()
            .find(|node| named(nodes, *node) == Some(name(body)))
        {
            Some(node) => Ok(entry(nodes, node)),
            None => Err(Errno::NOENT),
        },
        // FORGET, BATCH_FORGET: the kernel waits for no answer.
        2 | 42 => return None,
        // GETATTR
        3 => Ok(attributes_out(nodes, node)),
        // SETATTR
        4 => {
            if u32_at(body, 0) & SETS_MTIME != 0 {
                nodes[index(node)].seconds = u64_at(body, 40);
            }
            Ok(attributes_out(nodes, node))
        }
        // MKDIR
        9 => Ok(create(nodes, DIRECTORY, name(&body[8..]))),
        // UNLINK, RMDIR
        10 => Ok(remove(nodes, FILE)),
        11 => Ok(remove(nodes, DIRECTORY)),
        // FLUSH, RELEASE
        18 | 25 => Ok(Vec::new()),
        // INIT
        26 => {
            let mut reply = Vec::new();
            for word in [7, 31, 1 << 16, BIG_WRITES | WRITEBACK_CACHE] {
                reply.extend(u32::to_ne_bytes(word));
            }
            reply.extend([12_u16, 10].map(u16::to_ne_bytes).concat());
            reply.extend((1_u32 << 17).to_ne_bytes());
            // Servers rarely say how they round.
            reply.extend(1_u32.to_ne_bytes());
            reply.resize(64, 0);
            Ok(reply)
        }
        // CREATE
        35 => {
            let mut reply = create(nodes, FILE, name(&body[16..]));
            reply.resize(reply.len() + 16, 0);
            Ok(reply)
        }
        _ => Err(Errno::NOSYS),
    })
}

fn create(nodes: &mut [Node; 4], node: u64, name: &[u8]) -> Vec<u8> {
    nodes[index(node)].name = Some(name.to_vec());
    entry(nodes, node)
}

fn remove(nodes: &mut [Node; 4], node: u64) -> Vec<u8> {
    nodes[index(node)].name = None;
    Vec::new()
}

fn named(nodes: &[Node; 4], node: u64) -> Option<&[u8]> {
    nodes[index(node)].name.as_deref()
}

fn index(node: u64) -> usize {
    usize::try_from(node).unwrap()
}

/// A name up to its zero byte.
fn name(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap()
}

/// `struct fuse_entry_out`, valid for no time.
fn entry(nodes: &[Node; 4], node: u64) -> Vec<u8> {
    let mut reply = node.to_ne_bytes().to_vec();
    reply.resize(40, 0);
    reply.extend(attributes(nodes, node));
    reply
}

/// `struct fuse_attr_out`, valid for no time.
fn attributes_out(nodes: &[Node; 4], node: u64) -> Vec<u8> {
    let mut reply = vec![0; 16];
    reply.extend(attributes(nodes, node));
    reply
}

/// `struct fuse_attr`.
fn attributes(nodes: &[Node; 4], node: u64) -> Vec<u8> {
    let mode = match node {
        ROOT | DIRECTORY => 0o040_755,
        _ => 0o100_600,
    };
    let mut reply = Vec::new();
    // Inode, size, blocks, and the times of access, modification and change.
    for word in [node, 0, 0, 0, nodes[index(node)].seconds, 0] {
        reply.extend(word.to_ne_bytes());
    }
    // Nanoseconds, mode, links, owner, group, device, block size.
    for word in [0, 0, 0, mode, 1, 0, 0, 0, 4096, 0] {
        reply.extend(u32::to_ne_bytes(word));
    }
    reply
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_ne_bytes(bytes[offset..offset + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_ne_bytes(bytes[offset..offset + 8].try_into().unwrap())
}
