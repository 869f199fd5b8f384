//! The processes at both ends of a pipeline: this program, started with other arguments.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;

use rustix::pipe::{SpliceFlags, splice};

use crate::MIB;
use crate::peers::{tee_all, write_all};

/// The argument that makes this program an end of a pipeline.
pub(crate) const READ: &str = "--be-reader";
pub(crate) const WRITE: &str = "--be-writer";

/// Reads standard input up to its end or to `limit` bytes, and prints how many bytes came. The way
/// `digest` also prints their digest.
pub(crate) fn read(way: &str, limit: &str) -> io::Result<String> {
    let mut left: u64 = limit.parse().map_err(io::Error::other)?;
    let all = left;
    let stdin = io::stdin().as_fd().try_clone_to_owned()?;
    let null = File::create("/dev/null")?;
    let mut source = File::from(stdin.try_clone()?);
    let mut block = vec![0; if way == "splice" { 0 } else { 256 << 10 }];
    let mut digest = blake3::Hasher::new();
    while left > 0 {
        let room = left.min(MIB as u64) as usize;
        let n = if way == "splice" {
            splice(&stdin, None, &null, None, room, SpliceFlags::empty())?
        } else {
            let room = room.min(block.len());
            source.read(&mut block[..room])?
        };
        if n == 0 {
            break;
        }
        if way == "digest" {
            digest.update(&block[..n]);
        }
        left -= n as u64;
    }
    Ok(format!("{} {}", all - left, digest.finalize()))
}

/// Writes `bytes` bytes to standard output.
pub(crate) fn write(way: &str, bytes: &str) -> io::Result<()> {
    let bytes = bytes.parse().map_err(io::Error::other)?;
    let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    if way == "tee" {
        tee_all(&stdout, bytes);
    } else {
        write_all(stdout, bytes);
    }
    Ok(())
}
