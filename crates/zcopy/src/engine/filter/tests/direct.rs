//! Sources that are open with `O_DIRECT`, whose cursor other processes move too.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::sync_channel;

use super::makers::Maker;
use super::run;
use crate::endpoint::Endpoint;
use crate::engine::FilterState;
use crate::engine::filter::read_ahead::{input_buffer, read_all};
use crate::filter_transfer::prepare;
use crate::side::Side;
use crate::sim::SimKernel;
use crate::sim::interference::{Action, Interference, Target};
use crate::sim::objects::{Object, patterned};
use crate::sim::script::{Call, Injection};
use crate::step::Step;
use crate::sys::{Errno, OFlags};

const LEN: usize = 100_000;

/// The position of the cursor, which is unaligned, and that of the next block.
const START: usize = 100;
const BLOCK: usize = 4096;

/// The number of bytes that another process reads once the bytes before the next block are
/// reserved.
const THEIRS: usize = 5000;

/// Opens a source with an injection into the first read of these bytes.
fn source(kernel: &SimKernel, injection: Injection) -> (OwnedFd, OwnedFd) {
    let source = kernel.source(Object::file(&patterned(LEN)), OFlags::DIRECT);
    kernel.set_cursor(&source, START as u64);
    kernel.inject(Call::Read, &[injection]);
    let theirs = Action::Read(THEIRS);
    kernel.schedule(Interference::before(
        Call::Read,
        0,
        Target::Source(0),
        theirs,
    ));
    (source, kernel.sink(Object::file(&[]), OFlags::empty()))
}

/// Returns the bytes that other processes have not read.
fn rest() -> Vec<u8> {
    let data = patterned(LEN);
    [&data[START..BLOCK], &data[BLOCK + THEIRS..]].concat()
}

#[test]
fn reserved_bytes_are_read_before_any_behind_them() {
    for injection in [
        Injection::Interrupted,
        Injection::Short(10),
        Injection::Short(512 - START),
    ] {
        let kernel = SimKernel::default();
        let (source, sink) = source(&kernel, injection);
        let (mut same, mut state) = (Maker::Same, FilterState::new());
        run(&kernel, (&source, &sink), &mut same, &mut state).unwrap();
        assert!(kernel.contents(&sink) == rest(), "{injection:?}");
    }
}

/// The range was reserved, and no process received its bytes.
#[test]
fn bytes_reserved_by_a_failed_read_wait_for_the_next_source() {
    let kernel = SimKernel::default();
    let (source, sink) = source(&kernel, Injection::Fails(Errno::IO));
    let (mut same, mut state) = (Maker::Same, FilterState::new());
    let error = run(&kernel, (&source, &sink), &mut same, &mut state).unwrap_err();
    assert_eq!((error.side(), error.bytes()), (Side::Source, 0));
    assert!(state.pending_input() == &patterned(BLOCK)[START..]);
    assert_eq!(kernel.cursor(&source), (BLOCK + THEIRS) as u64);
    assert!(!state.wants_more, "it has input to begin with");
}

/// The thread reads through a descriptor of its own.
#[test]
fn bytes_reserved_by_the_thread_are_read_or_handed_back() {
    for (injection, is_read) in [
        (Injection::Fails(Errno::IO), false),
        (Injection::Interrupted, true),
        (Injection::Short(10), true),
    ] {
        let kernel = SimKernel::default();
        let (source, sink) = source(&kernel, injection);
        let (from, _) = prepare(&&kernel, source.as_fd(), sink.as_fd()).unwrap();
        let (spare, empty) = sync_channel(8);
        let (fill, read) = sync_channel(8);
        for _ in 0..8 {
            spare.send(input_buffer().unwrap()).unwrap();
        }
        drop(spare);
        let source = Endpoint::new(source.as_fd(), from, None);
        let reserved = read_all(&&kernel, source, &empty, &fill, &AtomicBool::new(false));
        drop(fill);
        let read: Vec<_> = read.iter().collect();
        let chunks: Vec<_> = read.iter().map(|(chunk, _)| chunk.pending()).collect();
        if is_read {
            assert!(chunks.concat() == rest(), "{injection:?}");
            assert_eq!(read.last().unwrap().1, Ok(Step::Eof));
            assert_eq!(reserved, b"");
        } else {
            assert_eq!(chunks.concat(), b"");
            assert!(reserved == patterned(BLOCK)[START..]);
        }
    }
}

#[test]
fn an_error_at_the_close_of_the_second_opening_fails_the_filter_transfer() {
    let kernel = SimKernel::default();
    let source = kernel.source(Object::file(&patterned(LEN)), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::DIRECT);
    kernel.inject(Call::Close, &[Injection::Fails(Errno::IO)]);
    let state = &mut FilterState::new();
    let error = run(&kernel, (&source, &sink), &mut Maker::Same, state).unwrap_err();
    assert_eq!((error.side(), error.call()), (Side::Sink, Some("close")));
    assert_eq!(kernel.contents(&sink), patterned(LEN));
}
