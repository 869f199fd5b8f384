//! The system calls and allocations of a `FilterTransfer`.

use std::fs::File;

use allocation_counter::measure;
use rustix::fs::{MemfdFlags, memfd_create};
use zcopy::{FilterTransfer, Filtered, Input, Remaining};

use super::{toggle, toggled};
use crate::child_process::{Child, calls_between};
use crate::endpoints::{null, pipe};
use crate::files::{assert_same, contents, file};
use crate::skip::has_program;

/// Filters one line of this many zeros, all of them a hole, into `/dev/null`. Returns the number of
/// allocations and the most bytes allocated at a time.
fn allocated(bytes: u64) -> (u64, u64) {
    // A memory file has holes wherever the tests have their files.
    let line = File::from(memfd_create("zcopy", MemfdFlags::CLOEXEC).unwrap());
    line.set_len(bytes).unwrap();
    let null = null();
    let info = measure(|| {
        let whole = |input: Input<'_>, output: &mut [u8]| {
            if input.remaining == Remaining::More {
                return Filtered::NEED_MORE;
            }
            let n = input.bytes.len().min(output.len());
            output[..n].copy_from_slice(&input.bytes[..n]);
            Filtered {
                consumed: n,
                produced: n,
            }
        };
        let mut filter = FilterTransfer::new(&null, whole);
        let done = filter.run(&line).unwrap().bytes();
        assert_eq!(done + filter.finish().unwrap().bytes(), bytes);
    });
    (info.count_total, info.bytes_max)
}

#[test]
fn a_line_of_2_gib_takes_no_more_memory_than_one_of_2_mib() {
    let ((few, _), (many, most)) = (allocated(2 << 20), allocated(2 << 30));
    // A thread that waits for the other allocates once.
    assert!(
        many < few + 8,
        "{few} allocations, and {many} for 1024 times the bytes"
    );
    // Five input buffers of 324 KiB each, and the output buffer.
    assert!(most < 2 << 20, "{most} bytes");
}

#[test]
fn a_stream_allocates_what_it_needs_once() {
    let allocated = |n: usize| {
        let (reader, writer) = pipe();
        let null = null();
        let feeder = std::thread::spawn(move || crate::files::write_all(&writer, &vec![7; n]));
        let info = measure(|| {
            let report = FilterTransfer::new(&null, toggle).run(&reader).unwrap();
            assert_eq!(report.bytes(), n as u64);
        });
        assert!(feeder.join().unwrap());
        (info.count_total, info.bytes_max)
    };
    let ((few, _), (many, most)) = (allocated(100_000), allocated(64 << 20));
    assert_eq!(few, many);
    assert!(most < 640 << 10, "{most} bytes");
}

#[test]
fn a_small_file_costs_two_queries_of_each_descriptor_a_read_a_write_and_a_read() {
    if !has_program("strace") {
        return;
    }
    let (source, sink) = (file(b"a small file"), file(b""));
    let trace = tempfile::NamedTempFile::new().unwrap();
    let ends = [&source, &sink].map(|end| end.try_clone().unwrap().into());
    let [from, to] = ends;
    let child = Child::traced_to(trace.path()).filtering();
    assert_eq!(child.run(from, to).unwrap().bytes, 12);
    assert_same(&contents(&sink), &toggled(b"a small file"), "the file");
    let mut calls = calls_between(trace.path());
    // The memory of the input and output buffers, which serve all sources that follow.
    let memory = ["mmap", "munmap", "brk"];
    let n_calls = calls.len();
    calls.retain(|call| !memory.contains(&call.as_str()));
    assert!(n_calls - calls.len() <= 4, "{n_calls}: {calls:?}");
    let n_queries = calls.iter().take_while(|call| *call != "read").count();
    assert!(n_queries <= 4, "{calls:?}");
    assert_eq!(calls[n_queries..], ["read", "write", "read"]);
}
