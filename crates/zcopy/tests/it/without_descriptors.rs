//! Pipes in packet mode where the process has few descriptors left, or none.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zcopy::{Ended, Error, Progressed, Report, Session, Strategy, Transfer};

use crate::endpoints::{packets, pipe};
use crate::files::{assert_same, contents, file, pattern, read_to_end};
use crate::own_process::is_own_process;
use crate::refused::needs;

/// The longest packet in bytes.
const PACKET: usize = 4096;

/// The most bytes of a step.
const STEP: u64 = 4096;

/// Bytes per second.
const RATE: u64 = 400_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Run,
    Rate,
    Session,
    TwoSinks,
}

/// A pipe that holds these writes and has no writer, and their bytes. Every second write is a
/// packet.
fn stream_and_packets(capacity: usize, lens: &[usize]) -> (OwnedFd, Vec<u8>) {
    let (reader, writer) = pipe();
    assert!(rustix::pipe::fcntl_setpipe_size(&writer, capacity).unwrap() >= capacity);
    let bytes = pattern(lens.iter().sum());
    let mut rest = &bytes[..];
    for (index, len) in lens.iter().enumerate() {
        let mode = [OFlags::empty(), OFlags::DIRECT][index % 2];
        rustix::fs::fcntl_setfl(&writer, mode).unwrap();
        let (part, later) = rest.split_at(*len);
        assert_eq!(rustix::io::write(&writer, part), Ok(*len));
        rest = later;
    }
    (reader, bytes)
}

/// Lets the process have descriptors up to this number.
fn limit_descriptors(n: u64) {
    let limit = getrlimit(Resource::Nofile);
    let current = Some(n);
    setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();
}

/// Leaves no descriptor to the process until the result is dropped and the limit is raised. The limit
/// itself stays above the number of descriptors that a poll(2) may have.
fn use_up_descriptors(any: &OwnedFd) -> Vec<OwnedFd> {
    limit_descriptors(64);
    std::iter::from_fn(|| any.try_clone().ok()).collect()
}

/// Takes steps of a session until the end.
fn by_steps(mut session: Session<'_, &OwnedFd, &File>) -> Result<Report, Error> {
    while !matches!(session.step(STEP)?, Progressed::Ended(_)) {}
    session.finish()
}

#[test]
fn without_a_free_descriptor_no_packet_behind_a_stream_loses_its_rest() {
    if !is_own_process(
        "without_descriptors::without_a_free_descriptor_no_packet_behind_a_stream_loses_its_rest",
        |_| {},
    ) {
        return;
    }
    let short = [3000, PACKET].repeat(5);
    let long = [(256 << 10) - 1, PACKET].repeat(2);
    let all = getrlimit(Resource::Nofile).current.unwrap();
    for (capacity, lens) in [(64 << 10, &short), (1 << 20, &long)] {
        for way in [Way::Run, Way::Rate, Way::Session, Way::TwoSinks] {
            let (source, bytes) = stream_and_packets(capacity, lens);
            let (sink, other_sink) = (file(b""), file(b""));
            let held = use_up_descriptors(&source);
            let transfer = Transfer::new(&source, &sink);
            let report = match way {
                Way::Run => transfer.run(),
                Way::Rate => transfer.rate_limit(RATE).run(),
                Way::Session => transfer.start().and_then(by_steps),
                Way::TwoSinks => transfer.also_to(&other_sink).rate_limit(RATE).run(),
            };
            drop(held);
            limit_descriptors(all);
            let what = format!("{way:?}, {} bytes", bytes.len());
            let report = report.unwrap_or_else(|error| panic!("{what}: {error:#}"));
            assert_eq!(report.ended(), Ended::Eof, "{what}");
            assert_same(&contents(&sink), &bytes, &what);
            if way == Way::TwoSinks {
                assert_same(&contents(&other_sink), &bytes, &what);
            }
        }
    }
}

/// The bytes of a transfer that ends within a packet.
const LIMIT: usize = 10_000;

/// The last quarter of the descriptors is not for private pipes that only save time. The one that
/// keeps a packet whole is opened all the same.
#[test]
fn with_few_descriptors_left_a_limit_loses_nothing_of_a_packet() {
    if !needs(&[Strategy::Splice])
        || !is_own_process(
            "without_descriptors::with_few_descriptors_left_a_limit_loses_nothing_of_a_packet",
            |_| {},
        )
    {
        return;
    }
    limit_descriptors(1024);
    let (source, bytes) = packets(&[4000; 8]);
    let sink = file(b"");
    let mut held = Vec::new();
    while held.last().is_none_or(|fd: &OwnedFd| fd.as_raw_fd() < 780) {
        held.push(source.try_clone().unwrap());
    }
    let report = Transfer::new(&source, &sink)
        .limit(LIMIT as u64)
        .run()
        .unwrap();
    assert_eq!(
        (report.ended(), report.undelivered()),
        (Ended::Limit, &b""[..])
    );
    assert_same(&contents(&sink), &bytes[..LIMIT], "the sink");
    assert_same(&read_to_end(&source), &bytes[LIMIT..], "the next reader");
}
