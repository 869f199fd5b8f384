//! Sources that a thread of its own reads ahead.

use std::os::fd::AsFd;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::engine::filter::read_ahead::{LONG, has_processor, is_worth_it};
use crate::fd_info::FdInfo;
use crate::sim::SimKernel;
use crate::sim::objects::{File, Object};
use crate::sys::OFlags;

#[test]
fn a_file_with_a_mebibyte_or_more_from_its_cursor_on_is_read_ahead_and_nothing_else_is() {
    for (size, cursor, expected) in [
        (LONG, 0, true),
        (LONG - 1, 0, false),
        (LONG + 5, 5, true),
        (LONG + 5, 6, false),
        (10 * LONG, 0, true),
        (10, 0, false),
    ] {
        let kernel = SimKernel::default();
        let mut file = File::holding(b"");
        file.claimed_size = Some(size);
        let source = kernel.source(Object::File(file), OFlags::empty());
        kernel.set_cursor(&source, cursor);
        let mut info = FdInfo::of(&&kernel, source.as_fd()).unwrap();
        info.classify_fully(&&kernel, source.as_fd());
        assert_eq!(is_worth_it(&info), expected, "{size} bytes at {cursor}");
        // The length of a pipe's contents is unknown, and a read may wait for its writer.
        let pipe = kernel.source(Object::written_by_peer(false, b"", &[]), OFlags::empty());
        let mut info = FdInfo::of(&&kernel, pipe.as_fd()).unwrap();
        info.size = Some(size);
        assert!(!is_worth_it(&info));
    }
}

#[test]
fn a_thread_that_may_run_on_one_processor_alone_reads_for_itself() {
    let n = std::thread::available_parallelism().unwrap().get();
    assert_eq!(has_processor(), n > 1);
    let pinned = std::thread::spawn(|| {
        let allowed = sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu));
        let mut one = CpuSet::new();
        one.set(first.unwrap());
        sched_setaffinity(None, &one).unwrap();
        has_processor()
    });
    assert!(!pinned.join().unwrap());
}
