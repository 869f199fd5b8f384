//! Threads that write into a source and read from a sink.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::{SpliceFlags, splice, tee};

use super::MIB;

pub(super) fn write_all<W: Write>(mut to: W, bytes: u64) {
    let block = vec![7; 128 << 10];
    let mut left = bytes;
    while left > 0 {
        let n = left.min(block.len() as u64) as usize;
        to.write_all(&block[..n]).expect("somebody who reads");
        left -= n as u64;
    }
}

/// Fills a pipe once and gives out its pages for ever, as `yes` might.
pub(super) fn tee_all(to: &impl AsFd, bytes: u64) {
    let (head, mut filler) = io::pipe().expect("a pipe");
    let capacity = rustix::pipe::fcntl_setpipe_size(&head, MIB).expect("a large pipe");
    filler
        .write_all(&vec![7; capacity])
        .expect("room in the pipe");
    let mut left = bytes;
    while left > 0 {
        let n = left.min(capacity as u64) as usize;
        left -= tee(&head, to, n, SpliceFlags::empty()).expect("tee") as u64;
    }
}

pub(super) fn read_all<R: Read>(mut from: R) -> u64 {
    let mut block = vec![0; 256 << 10];
    let mut total = 0;
    loop {
        match from.read(&mut block).expect("read") {
            0 => return total,
            n => total += n as u64,
        }
    }
}

pub(super) fn splice_all(from: &impl AsFd) -> u64 {
    let null = File::create("/dev/null").expect("a sink");
    let mut total = 0;
    loop {
        match splice(from, None, &null, None, MIB, SpliceFlags::empty()).expect("splice") {
            0 => return total,
            n => total += n as u64,
        }
    }
}

/// Waits until the other end of a pipe or socket is closed, and takes no byte.
pub(super) fn wait_for_end(from: &impl AsFd) {
    let mut fds = [PollFd::new(from, PollFlags::RDHUP)];
    poll(&mut fds, None).expect("poll");
}
