//! The system calls of short transfers between all kinds of descriptors, beside those of
//! `std::io::copy`, as `docs/benchmarks.md` has them.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::Path;

use tempfile::{NamedTempFile, tempfile_in};

use crate::child_process::{Child, calls_between};
use crate::endpoints::{null, pipe, tcp};
use crate::files::{file_in, pattern, write_all};
use crate::mounts::loop_mount;
use crate::refused::needs;
use crate::skip::{has_program, report};
use crate::strategies::STRATEGIES;

/// A kind of descriptor.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    File,
    Pipe,
    Tcp,
    Unix,
    Null,
}

impl Kind {
    const ALL: [Self; 5] = [Self::File, Self::Pipe, Self::Tcp, Self::Unix, Self::Null];

    fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Pipe => "pipe",
            Self::Tcp => "TCP",
            Self::Unix => "unix",
            Self::Null => "`/dev/null`",
        }
    }
}

const PAGE: &str = include_str!("../../../../docs/benchmarks.md");

/// The lengths of the transfers. They fit into a pipe and into the buffers of sockets.
const LENS: [usize; 2] = [4 << 10, 64 << 10];

/// The calls of an allocator, which depend on the libc.
const OF_ALLOCATORS: [&str; 4] = ["mmap", "munmap", "brk", "madvise"];

#[test]
fn the_page_has_the_calls_of_each_pair() {
    if !can_compare() {
        return;
    }
    let mut table = String::new();
    for from in Kind::ALL.into_iter().filter(|from| *from != Kind::Null) {
        for to in Kind::ALL {
            for len in LENS {
                let pair = format!("{} → {}", from.name(), to.name());
                table += &row(&pair, len, || (source(from, &pattern(len)), sink(to)));
            }
        }
    }
    assert!(
        page().contains(&table),
        "the page has other calls than these:\n{table}"
    );
}

#[test]
fn the_page_has_the_calls_of_a_clone() {
    if !can_compare() {
        return;
    }
    let Some(root) = loop_mount("btrfs", 256) else {
        return;
    };
    let dir = root.dir();
    let len = 64 << 10;
    let row = row("btrfs → btrfs", len, || {
        let file = |bytes: &[u8]| (OwnedFd::from(file_in(&dir, bytes)), None);
        (file(&pattern(len)), file(b""))
    });
    assert!(
        page().contains(&row),
        "the page has other calls than these:\n{row}"
    );
}

/// The page as it is for this libc: std calls `statx` only in that of GNU, and `fstat` elsewhere.
fn page() -> String {
    if cfg!(target_env = "gnu") {
        PAGE.to_owned()
    } else {
        PAGE.replace("`statx`", "`fstat`")
    }
}

/// Other kernels may need other calls: the page says of which one its table is.
fn can_compare() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let is_the_pages = release.starts_with("6.18");
    if !is_the_pages {
        report("the table of calls is that of Linux 6.18");
    }
    is_the_pages && has_program("strace") && needs(&STRATEGIES)
}

/// A descriptor, and the other end, which stays open.
type End = (OwnedFd, Option<OwnedFd>);

/// The row of the table for one pair.
fn row(pair: &str, len: usize, ends: impl Fn() -> (End, End)) -> String {
    let plan = calls(Child::traced_to, ends(), len);
    let std = calls(
        |trace| Child::traced_to(trace).copying_by_std(),
        ends(),
        len,
    );
    let (plan, std) = (counted(&plan), counted(&std));
    format!("| {pair} | {} KiB | {plan} | {std} |\n", len >> 10)
}

/// A source that ends after these bytes.
fn source(kind: Kind, bytes: &[u8]) -> End {
    let (reader, writer) = match kind {
        Kind::File | Kind::Null => {
            let file = file();
            assert!(write_all(&file, bytes));
            rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0)).unwrap();
            return (file, None);
        }
        Kind::Pipe => pipe(),
        Kind::Tcp => tcp(),
        Kind::Unix => unix(),
    };
    assert!(write_all(&writer, bytes));
    if kind == Kind::Pipe {
        return (reader, None);
    }
    rustix::net::shutdown(&writer, rustix::net::Shutdown::Write).unwrap();
    (reader, Some(writer))
}

/// A sink with room.
fn sink(kind: Kind) -> End {
    match kind {
        Kind::File => (file(), None),
        Kind::Null => (null(), None),
        Kind::Pipe => {
            let (reader, writer) = pipe();
            // `std::io::copy` waits for room in it before it looks for the end.
            rustix::pipe::fcntl_setpipe_size(&writer, 1 << 20).unwrap();
            (writer, Some(reader))
        }
        Kind::Tcp => {
            let (here, there) = tcp();
            (here, Some(there))
        }
        Kind::Unix => {
            let (here, there) = unix();
            (here, Some(there))
        }
    }
}

fn unix() -> (OwnedFd, OwnedFd) {
    let (here, there) = std::os::unix::net::UnixStream::pair().unwrap();
    (here.into(), there.into())
}

/// An empty file on tmpfs.
fn file() -> OwnedFd {
    tempfile_in("/dev/shm").unwrap().into()
}

/// The calls of a transfer.
fn calls(child: impl Fn(&Path) -> Child, ends: (End, End), len: usize) -> Vec<String> {
    let trace = NamedTempFile::new().unwrap();
    let ((source, _writer), (sink, _reader)) = ends;
    let moved = child(trace.path()).run(source, sink).unwrap();
    assert_eq!((moved.bytes, moved.outcome), (len as u64, Ok(())));
    let mut calls = calls_between(trace.path());
    calls.retain(|call| !OF_ALLOCATORS.contains(&call.as_str()));
    calls
}

/// The names of calls in the order of their first occurrence, with their numbers.
fn counted(calls: &[String]) -> String {
    let mut seen = HashSet::new();
    let names = calls.iter().filter(|call| seen.insert(*call));
    let counted = names.map(
        |name| match calls.iter().filter(|call| *call == name).count() {
            1 => format!("`{name}`"),
            n => format!("{n} `{name}`"),
        },
    );
    counted.collect::<Vec<_>>().join(", ")
}
