//! Pipes in packet mode where the process has few descriptors left for a private pipe, or none, or
//! the user no memory for it.

use std::fs::File;
use std::io::{self, Write};
use std::net::UdpSocket;
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, OFlags, memfd_create};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zcopy::{Ended, Error, Progressed, Report, Session, Strategy, Transfer};

use crate::child_process::{NOBODY, can_run_as_nobody, fill_pipes};
use crate::endpoints::{packets, pipe};
use crate::files::{appending, assert_same, contents, file, pattern, read_to_end, write_all};
use crate::own_process::is_own_process;
use crate::refused::needs;

/// The longest packet in bytes.
const PACKET: usize = 4096;

/// The most bytes of a step.
const STEP: u64 = 4096;

/// How the bytes are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
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

/// Takes descriptors from the process until it is dropped.
struct Taken {
    descriptors: Vec<OwnedFd>,
    usual_limit: u64,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.descriptors.clear();
        limit_descriptors(self.usual_limit);
    }
}

/// Sets this limit of descriptors, and takes all below a number. The limit is at least 64, so that a
/// poll(2) of a few descriptors does not exceed it.
fn take_descriptors(any: &OwnedFd, limit: u64, below: RawFd) -> Taken {
    let usual_limit = getrlimit(Resource::Nofile).current.unwrap();
    limit_descriptors(limit);
    let is_below = |fd: &OwnedFd| fd.as_raw_fd() < below;
    let more = std::iter::from_fn(|| any.try_clone().ok());
    let descriptors = more.take_while(is_below).collect();
    Taken {
        descriptors,
        usual_limit,
    }
}

/// Leaves no descriptor to the process.
fn take_all_descriptors(any: &OwnedFd) -> Taken {
    take_descriptors(any, 64, 64)
}

/// Leaves the last quarter of 1024 descriptors to the process.
fn take_three_quarters(any: &OwnedFd) -> Taken {
    take_descriptors(any, 1024, 780)
}

/// Takes steps of a session until the end.
fn by_steps(mut session: Session<'_, &OwnedFd, &File>) -> Result<Report, Error> {
    while !matches!(session.step(STEP)?, Progressed::Ended(_)) {}
    session.finish()
}

#[test]
fn without_a_free_descriptor_no_packet_behind_a_stream_loses_its_rest() {
    if !is_own_process(
        "without_private_pipe::without_a_free_descriptor_no_packet_behind_a_stream_loses_its_rest",
        |_| {},
    ) {
        return;
    }
    let short = [3000, PACKET].repeat(5);
    // A read that fills the usual buffer ends one byte behind the stream, in the packet.
    let long = [(256 << 10) - 1, PACKET].repeat(2);
    for (capacity, lens) in [(64 << 10, &short), (1 << 20, &long)] {
        for variant in [
            Variant::Run,
            Variant::Rate,
            Variant::Session,
            Variant::TwoSinks,
        ] {
            let (source, bytes) = stream_and_packets(capacity, lens);
            let (sink, other_sink) = (file(b""), file(b""));
            let taken = take_all_descriptors(&source);
            let start = Instant::now();
            // Half a second for all bytes.
            let rate = 2 * bytes.len() as u64;
            let transfer = Transfer::new(&source, &sink);
            let report = match variant {
                Variant::Run => transfer.run(),
                Variant::Rate => transfer.rate_limit(rate).run(),
                Variant::Session => transfer.start().and_then(by_steps),
                Variant::TwoSinks => transfer.also_to(&other_sink).rate_limit(rate).run(),
            };
            let elapsed = start.elapsed();
            drop(taken);
            let what = format!("{variant:?}, {} bytes", bytes.len());
            let report = report.unwrap_or_else(|error| panic!("{what}: {error:#}"));
            assert_eq!(report.ended(), Ended::Eof, "{what}");
            if matches!(variant, Variant::Rate | Variant::TwoSinks) {
                // The transfer pays for what it read at once. A tenth of a second is a burst.
                let least = Duration::from_millis(500 - 100);
                assert!(elapsed >= least, "{what}: {elapsed:?}");
            }
            assert_same(&contents(&sink), &bytes, &what);
            if variant == Variant::TwoSinks {
                assert_same(&contents(&other_sink), &bytes, &what);
            }
        }
    }
}

#[test]
fn without_a_free_descriptor_a_pipe_reaches_a_datagram_socket_in_messages_it_takes() {
    if !is_own_process(
        "without_private_pipe::without_a_free_descriptor_a_pipe_reaches_a_datagram_socket_in_messages_it_takes",
        |_| {},
    ) {
        return;
    }
    for has_other_sink in [false, true] {
        // More than a datagram of UDP can hold.
        let (source, bytes) = stream_and_packets(1 << 20, &[100_000]);
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
        sink.connect(receiver.local_addr().unwrap()).unwrap();
        receiver
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let null = File::create("/dev/null").unwrap();
        let taken = take_all_descriptors(&source);
        let transfer = Transfer::new(&source, &sink);
        let report = if has_other_sink {
            transfer.also_to(&null).run()
        } else {
            transfer.run()
        };
        drop(taken);
        assert_eq!(report.unwrap().bytes(), bytes.len() as u64);
        let mut arrived = Vec::new();
        let mut message = vec![0; 1 << 16];
        while arrived.len() < bytes.len() {
            let n = receiver.recv(&mut message).unwrap();
            arrived.extend_from_slice(&message[..n]);
        }
        assert_same(&arrived, &bytes, "the receiver");
    }
}

/// A writer that keeps the bytes, and the length of the longest write.
#[derive(Default)]
struct Longest {
    bytes: Vec<u8>,
    longest: usize,
}

impl Write for Longest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.longest = self.longest.max(bytes.len());
        self.bytes.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A read takes more than the writer gets at once.
#[test]
fn without_a_free_descriptor_a_writer_gets_no_more_than_the_buffer_size() {
    if !is_own_process(
        "without_private_pipe::without_a_free_descriptor_a_writer_gets_no_more_than_the_buffer_size",
        |_| {},
    ) {
        return;
    }
    let (source, bytes) = stream_and_packets(64 << 10, &[3000, PACKET, 20_000, PACKET]);
    let mut writer = Longest::default();
    let taken = take_all_descriptors(&source);
    let report = Transfer::to_writer(&source, &mut writer)
        .buffer_size(PACKET)
        .run();
    drop(taken);
    report.unwrap();
    assert_same(&writer.bytes, &bytes, "the writer");
    assert_eq!(writer.longest, PACKET);
}

/// Reads of a larger source would exceed the rate by all that it holds.
#[test]
fn without_a_free_descriptor_a_transfer_with_a_rate_does_not_enlarge_its_source() {
    if !is_own_process(
        "without_private_pipe::without_a_free_descriptor_a_transfer_with_a_rate_does_not_enlarge_its_source",
        |_| {},
    ) {
        return;
    }
    // In a fiftieth of a second this rate allows more than the pipe holds.
    let rate = 4_000_000;
    for has_descriptors in [true, false] {
        let (source, writer) = pipe();
        let bytes = pattern(1_000_000);
        let (sink, written) = (file(b""), bytes.clone());
        let writing = std::thread::spawn(move || write_all(&writer, &written));
        let appending = appending(&sink);
        let taken = (!has_descriptors).then(|| take_all_descriptors(&source));
        let report = Transfer::new(&source, &appending).rate_limit(rate).run();
        drop(taken);
        let is_grown = report.unwrap().grown_source().is_some();
        assert_eq!(is_grown, has_descriptors);
        assert!(writing.join().unwrap());
        assert_same(&contents(&sink), &bytes, "the sink");
    }
}

#[test]
fn a_step_is_short_again_once_a_descriptor_is_free() {
    if !needs(&[Strategy::Splice])
        || !is_own_process(
            "without_private_pipe::a_step_is_short_again_once_a_descriptor_is_free",
            |_| {},
        )
    {
        return;
    }
    let (source, bytes) = stream_and_packets(64 << 10, &[3000, PACKET, 3000, PACKET, 20_000]);
    let sink = file(b"");
    let mut session = Transfer::new(&source, &sink).start().unwrap();
    let taken = take_all_descriptors(&source);
    let _ = session.step(STEP).unwrap();
    assert_same(&contents(&sink), &bytes[..3000 + PACKET], "the first step");
    drop(taken);
    let _ = session.step(STEP).unwrap();
    let end = 3000 + PACKET + STEP as usize;
    assert_same(&contents(&sink), &bytes[..end], "the second step");
}

/// The reader cannot see whether the bytes beyond the limit are the rest of a packet, or belong to
/// the next reader.
#[test]
fn without_a_free_descriptor_a_limit_is_kept_and_the_rest_of_the_last_packet_is_lost() {
    if !is_own_process(
        "without_private_pipe::without_a_free_descriptor_a_limit_is_kept_and_the_rest_of_the_last_packet_is_lost",
        |_| {},
    ) {
        return;
    }
    let (source, bytes) = stream_and_packets(64 << 10, &[3000, PACKET, 3000]);
    let sink = file(b"");
    let taken = take_all_descriptors(&source);
    let report = Transfer::new(&source, &sink).limit(4000).run();
    drop(taken);
    assert_eq!(report.unwrap().ended(), Ended::Limit);
    assert_same(&contents(&sink), &bytes[..4000], "the sink");
    assert_same(
        &read_to_end(&source),
        &bytes[3000 + PACKET..],
        "the next reader",
    );
}

/// The bytes of a transfer that ends within a packet.
const LIMIT: usize = 10_000;

/// The last quarter of the descriptors is not for private pipes that only save time. The one that
/// keeps a packet whole is opened all the same.
#[test]
fn with_few_descriptors_left_a_limit_loses_nothing_of_a_packet() {
    if !needs(&[Strategy::Splice])
        || !is_own_process(
            "without_private_pipe::with_few_descriptors_left_a_limit_loses_nothing_of_a_packet",
            |_| {},
        )
    {
        return;
    }
    let (source, bytes) = packets(&[4000; 8]);
    let sink = file(b"");
    let _taken = take_three_quarters(&source);
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

/// A larger buffer keeps packets whole as well, so that no private pipe takes the last descriptors.
#[test]
fn with_few_descriptors_left_a_transfer_without_a_limit_takes_none() {
    if !is_own_process(
        "without_private_pipe::with_few_descriptors_left_a_transfer_without_a_limit_takes_none",
        |_| {},
    ) {
        return;
    }
    let (source, bytes) = stream_and_packets(1 << 20, &[(256 << 10) - 1, PACKET, 100_000]);
    let (read_end, write_end) = pipe();
    let _taken = take_three_quarters(&source);
    let n_open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let n_before = n_open();
    let reading = std::thread::spawn(move || read_to_end(&read_end));
    let mut most = 0;
    let report = Transfer::new(&source, &write_end)
        .observe(|_| {
            most = most.max(n_open());
            ControlFlow::Continue(())
        })
        .run();
    drop(write_end);
    assert_eq!(report.unwrap().ended(), Ended::Eof);
    assert_same(&reading.join().unwrap(), &bytes, "the reader");
    assert_eq!(most, n_before);
}

/// The private pipe has a page or two then, through which the bytes go in shorter steps.
#[test]
fn without_memory_for_pipes_a_step_loses_nothing_of_a_packet() {
    if !can_run_as_nobody()
        || !needs(&[Strategy::Splice])
        || !is_own_process(
            "without_private_pipe::without_memory_for_pipes_a_step_loses_nothing_of_a_packet",
            |command| {
                command.uid(NOBODY);
            },
        )
    {
        return;
    }
    let (source, bytes) = stream_and_packets(64 << 10, &[39_000, PACKET, 9000]);
    // The directory of temporary files may not be this user's.
    let sink = File::from(memfd_create("zcopy", MemfdFlags::CLOEXEC).unwrap());
    let _budget = fill_pipes();
    let mut session = Transfer::new(&source, &sink).start().unwrap();
    let mut n_moved = 0;
    while !matches!(session.step(40_000).unwrap(), Progressed::Ended(_)) {
        let n = contents(&sink).len();
        assert!(n - n_moved <= 40_000, "{n_moved} + {}", n - n_moved);
        n_moved = n;
    }
    assert_eq!(session.finish().unwrap().ended(), Ended::Eof);
    assert_same(&contents(&sink), &bytes, "the sink");
}

/// Another process's packet lies behind more stream than the pipe could hold when the transfer began.
#[test]
fn a_source_that_its_writer_enlarges_loses_nothing_of_a_packet() {
    if !needs(&[Strategy::Splice]) {
        return;
    }
    let (source, writer) = pipe();
    let lens = [6000, 69_000, PACKET];
    let bytes = pattern(lens.iter().sum());
    assert!(write_all(&writer, &bytes[..lens[0]]));
    let sink = file(b"");
    let appending = appending(&sink);
    let mut session = Transfer::new(&source, &appending).start().unwrap();
    let _ = session.step(u64::MAX).unwrap();
    rustix::pipe::fcntl_setpipe_size(&writer, 1 << 20).unwrap();
    let (stream, packet) = bytes[lens[0]..].split_at(lens[1]);
    assert!(write_all(&writer, stream));
    rustix::fs::fcntl_setfl(&writer, OFlags::DIRECT).unwrap();
    assert!(write_all(&writer, packet));
    drop(writer);
    while !matches!(session.step(u64::MAX).unwrap(), Progressed::Ended(_)) {}
    assert_same(&contents(&sink), &bytes, "the sink");
}
