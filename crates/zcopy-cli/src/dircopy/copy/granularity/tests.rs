use std::path::Path;

use super::*;
use crate::dircopy::test_support::{Mounted, names, open, scratch};

use whole_seconds::WholeSeconds;

mod whole_seconds;

fn probed(path: &Path) -> Option<Granularity> {
    probe(open(path).as_fd())
}

#[test]
fn a_disk_and_memory_keep_nanoseconds_and_nothing_is_left_of_the_probe() {
    let scratch = scratch();
    let nanoseconds = Some(Granularity::Nanoseconds(1));
    assert_eq!(probed(scratch.path()), nanoseconds);
    assert_eq!(names(scratch.path()), [""; 0]);
    if let Some(tmpfs) = Mounted::new("tmpfs") {
        assert_eq!(probed(&tmpfs.path()), nanoseconds);
    }
}

#[test]
fn a_directory_tells_the_granularity_as_well() {
    let scratch = scratch();
    let parent = open(scratch.path());
    assert_eq!(probe_directory(parent.as_fd(), PROBE), Ok(PROBE));
    assert_eq!(names(scratch.path()), [""; 0]);
}

#[test]
fn a_cache_that_has_not_rounded_the_time_of_a_file_yet_does_not_hide_the_granularity() {
    let Some(fuse) = WholeSeconds::mount() else {
        return;
    };
    let directory = open(&fuse.path());
    let (cached, naming) = probe_file(directory.as_fd(), PROBE).unwrap();
    assert_eq!((cached, naming), (PROBE, Naming::Temporary));
    assert_eq!(probed(&fuse.path()), Some(Granularity::Seconds(1)));
}

#[test]
fn where_nothing_can_be_created_the_granularity_is_unknown() {
    assert_eq!(probed(Path::new("/proc/self")), None);
}
