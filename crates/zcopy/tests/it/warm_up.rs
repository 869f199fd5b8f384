//! How a transfer out of a pipe begins.

use std::os::fd::OwnedFd;
use std::thread;

use rustix::io::ioctl_fionread;
use rustix::pipe::fcntl_getpipe_size;
use zcopy::{Strategy, Transfer};

use crate::endpoints::{null, pipe, tcp};
use crate::files::{assert_same, contents, file, pattern, read_to_end, write_all};
use crate::refused::needs;
use crate::strategies::STRATEGIES;

/// The capacity of a pipe of the default size.
const FULL: usize = 64 << 10;

/// A pipe that holds as many of the bytes as it can, and whose writer waits until it can write the
/// rest.
fn full_pipe(bytes: &[u8]) -> (OwnedFd, thread::JoinHandle<()>) {
    let (reader, writer) = pipe();
    assert!(fcntl_getpipe_size(&reader).unwrap() >= FULL);
    let owned = bytes.to_vec();
    let feeder = thread::spawn(move || {
        assert!(write_all(&writer, &owned));
    });
    while ioctl_fionread(&reader).unwrap() < bytes.len().min(FULL) as u64 {
        thread::yield_now();
    }
    (reader, feeder)
}

/// The strategy that moves the first bytes.
fn first_strategy(source: &OwnedFd, sink: &OwnedFd, len: usize) -> Strategy {
    let report = Transfer::new(source, sink).run().unwrap();
    assert_eq!(report.bytes(), len as u64);
    report.attempts()[0].strategy()
}

#[test]
fn a_full_pipe_that_is_still_written_to_has_no_warm_up_into_a_file_or_socket() {
    if !needs(&STRATEGIES) {
        return;
    }
    let bytes = pattern(3 * FULL);
    let (source, feeder) = full_pipe(&bytes);
    let sink = OwnedFd::from(file(b""));
    assert_eq!(
        first_strategy(&source, &sink, bytes.len()),
        Strategy::SplicePipe
    );
    assert_same(&contents(&sink.into()), &bytes, "from a full pipe");
    feeder.join().unwrap();

    let (source, feeder) = full_pipe(&bytes);
    let (near, far) = tcp();
    let drainer = thread::spawn(move || read_to_end(&far));
    assert_eq!(
        first_strategy(&source, &near, bytes.len()),
        Strategy::SplicePipe
    );
    drop(near);
    assert!(drainer.join().unwrap() == bytes);
    feeder.join().unwrap();

    let (source, feeder) = full_pipe(&bytes);
    assert_eq!(
        first_strategy(&source, &null(), bytes.len()),
        Strategy::Splice
    );
    feeder.join().unwrap();
}

#[test]
fn a_full_pipe_whose_writer_has_gone_has_a_warm_up() {
    if !needs(&STRATEGIES) {
        return;
    }
    let (source, feeder) = full_pipe(&pattern(FULL));
    feeder.join().unwrap();
    let sink = OwnedFd::from(file(b""));
    assert_eq!(first_strategy(&source, &sink, FULL), Strategy::Buffered);
}
