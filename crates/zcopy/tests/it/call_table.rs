//! The system calls of short transfers between all kinds of descriptors, beside those of
//! `std::io::copy`, as `docs/benchmarks.md` has them.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::File;
use std::os::fd::OwnedFd;

use tempfile::{NamedTempFile, tempfile_in};

use crate::child_process::{Child, calls_between};
use crate::endpoints::{null, pipe, tcp};
use crate::files::{pattern, write_all};
use crate::refused::needs;
use crate::skip::has_program;
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
    if !has_program("strace") || !needs(&STRATEGIES) {
        return;
    }
    let mut table = String::new();
    for from in Kind::ALL {
        for to in Kind::ALL {
            if from == Kind::Null {
                continue;
            }
            for len in LENS {
                let plan = calls(Child::traced_to, from, to, len);
                let std = calls(|trace| Child::traced_to(trace).copying_by_std(), from, to, len);
                let _ = writeln!(
                    table,
                    "| {} → {} | {} KiB | {} | {} |",
                    from.name(),
                    to.name(),
                    len >> 10,
                    counted(&plan),
                    counted(&std),
                );
            }
        }
    }
    assert!(PAGE.contains(&table), "the page has other calls than these:\n{table}");
}

/// A source that has ended after these bytes. Its second part keeps it from being reset.
fn source(kind: Kind, bytes: &[u8]) -> (OwnedFd, Option<OwnedFd>) {
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

/// A sink with room, and what keeps it open.
fn sink(kind: Kind) -> (OwnedFd, Option<OwnedFd>) {
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
fn calls(
    child: impl Fn(&std::path::Path) -> Child,
    from: Kind,
    to: Kind,
    len: usize,
) -> Vec<String> {
    let trace = NamedTempFile::new().unwrap();
    let (source, _peer) = source(from, &pattern(len));
    let (sink, _reader) = sink(to);
    let report = child(trace.path()).run(source, sink).unwrap();
    assert_eq!((report.bytes, report.outcome), (len as u64, Ok(())));
    let mut calls = calls_between(trace.path());
    calls.retain(|call| !OF_ALLOCATORS.contains(&call.as_str()));
    calls
}

/// The names of calls in the order of their first occurrence, with their numbers.
fn counted(calls: &[String]) -> String {
    let mut seen = HashSet::new();
    let names = calls.iter().filter(|call| seen.insert(*call));
    let counted = names.map(|name| match calls.iter().filter(|call| *call == name).count() {
        1 => format!("`{name}`"),
        n => format!("{n} `{name}`"),
    });
    counted.collect::<Vec<_>>().join(", ")
}
