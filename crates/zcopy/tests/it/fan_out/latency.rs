//! Few bytes arrive at once: the transfer does not wait for more.

use std::time::{Duration, Instant};

use rustix::net::SocketType;
use zcopy::Ended;

use super::to_all;
use crate::endpoints::{pipe, unix};
use crate::files::{appending, contents, file, write_all};

/// Writes each byte after the one before has arrived everywhere.
fn each_byte_arrives_before_the_next(with_file: bool, by_socket: bool) {
    let (source, writer) = if by_socket {
        unix(SocketType::STREAM)
    } else {
        pipe()
    };
    let (readers, mut sinks): (Vec<_>, Vec<_>) = (0..3).map(|_| pipe()).unzip();
    let log = file(b"");
    if with_file {
        sinks.push(appending(&log));
    }
    let transfer = std::thread::spawn(move || {
        let sinks: Vec<_> = sinks.iter().collect();
        to_all(&source, &sinks).run().unwrap()
    });
    let late = Instant::now() + Duration::from_secs(20);
    let mut written = Vec::new();
    for byte in 0..200 {
        assert!(write_all(&writer, &[byte]));
        written.push(byte);
        for reader in &readers {
            let mut read = [0; 2];
            assert_eq!(rustix::io::read(reader, &mut read), Ok(1));
            assert_eq!(read[0], byte);
        }
        while with_file && contents(&log) != written {
            assert!(Instant::now() < late, "byte {byte} does not arrive");
            std::thread::yield_now();
        }
    }
    drop(writer);
    let report = transfer.join().unwrap();
    assert_eq!((report.bytes(), report.ended()), (200, Ended::Eof));
}

#[test]
fn a_byte_arrives_in_every_pipe_before_the_next() {
    each_byte_arrives_before_the_next(false, false);
    each_byte_arrives_before_the_next(false, true);
}

#[test]
fn a_byte_arrives_in_an_appending_file_too_before_the_next() {
    each_byte_arrives_before_the_next(true, false);
    each_byte_arrives_before_the_next(true, true);
}
