//! The system calls of a short transfer, counted by `strace`.

use std::fs::File;
use std::os::fd::OwnedFd;

use zcopy::Strategy;

use crate::child_process::{Child, calls_between};
use crate::endpoints::{pipe, tcp};
use crate::files::{contents, file, write_all};
use crate::refused::needs;
use crate::skip::has_program;

/// Calls that move bytes, or find the end.
const MOVES: [&str; 9] = [
    "read",
    "pread64",
    "recvfrom",
    "write",
    "pwrite64",
    "splice",
    "sendfile",
    "copy_file_range",
    "pwritev2",
];

/// The calls of musl's allocator for the buffer of a transfer: it maps and unmaps memory, where
/// glibc's uses the heap. No other libc may make them.
const BUFFERS_OF_MUSL: [&str; 2] = ["mmap", "munmap"];

/// `fstat` and `fcntl(F_GETFL)` of both ends.
const TO_CLASSIFY: usize = 4;

/// The same without `fcntl(F_GETFL)` of a small file: if it is not open for reading, the read says
/// so, and nothing has moved.
const OF_A_FILE: usize = 3;

/// `fcntl(F_GETPIPE_SZ)` before each of two reads, so that no read of a pipe ends within a packet.
const TO_KNOW_THE_CAPACITY: usize = 2;

/// `ioctl(FIONREAD)`, so that a pipe that holds 64 KiB begins with the private pipe.
const TO_KNOW_WHETHER_IT_IS_FULL: usize = 1;

/// `getsockopt(SO_SNDTIMEO)`, so that a time-out of the sink counts from the last byte that moved.
const TO_KNOW_THE_TIME_OUT: usize = 1;

macro_rules! one_byte_costs_few_calls_more {
    ($($name:ident: $source:expr => $sink:expr, $n_calls:expr;)*) => {$(
        #[test]
        fn $name() {
            one_byte($source, $sink, $n_calls);
        }
    )*};
}

one_byte_costs_few_calls_more! {
    one_byte_from_file_to_file_costs_at_most_three_calls_more: from_file() => to_file(), OF_A_FILE;
    one_byte_from_file_to_pipe_costs_at_most_three_calls_more: from_file() => to_pipe(), OF_A_FILE;
    one_byte_from_file_to_tcp_costs_at_most_three_calls_more: from_file() => to_tcp(), OF_A_FILE;
    one_byte_from_pipe_to_pipe_costs_at_most_six_calls_more:
        from_pipe() => to_pipe(), TO_CLASSIFY + TO_KNOW_THE_CAPACITY;
    one_byte_from_pipe_to_file_costs_at_most_seven_calls_more:
        from_pipe() => to_file(), TO_CLASSIFY + TO_KNOW_THE_CAPACITY + TO_KNOW_WHETHER_IT_IS_FULL;
    one_byte_from_tcp_to_tcp_costs_at_most_five_calls_more:
        from_tcp() => to_tcp(), TO_CLASSIFY + TO_KNOW_THE_TIME_OUT;
}

fn from_file() -> OwnedFd {
    file(b"x").into()
}

fn from_pipe() -> OwnedFd {
    let (reader, writer) = pipe();
    assert!(write_all(&writer, b"x"));
    reader
}

fn from_tcp() -> OwnedFd {
    let (here, there) = tcp();
    assert!(write_all(&there, b"x"));
    here
}

/// A sink, and a descriptor to read its bytes back.
type SinkAndBack = (OwnedFd, OwnedFd);

fn to_file() -> SinkAndBack {
    let file = file(b"");
    (file.try_clone().unwrap().into(), file.into())
}

fn to_pipe() -> SinkAndBack {
    let (reader, writer) = pipe();
    (writer, reader)
}

fn to_tcp() -> SinkAndBack {
    tcp()
}

/// Moves one byte, and asserts that the transfer makes at most `n_calls` calls beside those that
/// move bytes.
fn one_byte(source: OwnedFd, (sink, back): SinkAndBack, n_calls: usize) {
    if !has_program("strace") {
        return;
    }
    let trace = tempfile::NamedTempFile::new().unwrap();
    let report = Child::traced_to(trace.path()).run(source, sink).unwrap();
    assert_eq!((report.bytes, report.outcome), (1, Ok(())));
    let needs_no_setup = ["buffered", "splice"].contains(&report.strategy.as_str());
    assert!(needs_no_setup, "{}", report.strategy);
    let back = File::from(back);
    let arrived = if back.metadata().unwrap().is_file() {
        contents(&back)
    } else {
        let mut byte = vec![0];
        assert_eq!(rustix::io::read(&back, &mut byte), Ok(1));
        byte
    };
    assert_eq!(arrived, b"x");

    let calls = calls_between(trace.path());
    let (moves, others): (Vec<_>, Vec<_>) = calls
        .iter()
        .partition(|call| MOVES.contains(&call.as_str()));
    let (for_a_buffer, others): (Vec<_>, Vec<_>) = others
        .into_iter()
        .partition(|call| cfg!(target_env = "musl") && BUFFERS_OF_MUSL.contains(&call.as_str()));
    assert!(for_a_buffer.len() <= 2, "{for_a_buffer:?}");
    assert!(moves.len() >= 2, "{moves:?} {others:?}");
    assert!(moves.len() <= 3, "{moves:?} {others:?}");
    assert!(others.len() <= n_calls, "{moves:?} {others:?}");
}

/// The size of the file at the start limits the first step. An earlier version queried the size at
/// each step.
#[test]
fn a_file_that_fits_into_a_pipe_costs_one_size_query_and_two_cursor_queries() {
    if !has_program("strace") || !needs(&[Strategy::Splice]) {
        return;
    }
    let trace = tempfile::NamedTempFile::new().unwrap();
    let (reader, writer) = pipe();
    let report = Child::traced_to(trace.path())
        .run(file(&vec![7; 64 << 10]).into(), writer)
        .unwrap();
    assert_eq!((report.bytes, report.outcome), (64 << 10, Ok(())));
    assert_eq!(report.strategy, "splice");
    drop(reader);

    let calls = calls_between(trace.path());
    // Architectures have different names for the same call.
    let count = |names: &[&str]| {
        calls
            .iter()
            .filter(|call| names.contains(&call.as_str()))
            .count()
    };
    let n_status = count(&["fstat", "fstat64", "newfstatat", "statx"]);
    assert_eq!(n_status, 2, "one for each descriptor: {calls:?}");
    let n_seek = count(&["lseek", "_llseek"]);
    assert_eq!(
        n_seek, 2,
        "one to classify the source, and one for the range: {calls:?}"
    );
}
