//! The simulated kernel under interference does what Linux 6.18 was observed to do with the same
//! calls.

use std::os::fd::{AsFd, OwnedFd};

use super::SimKernel;
use super::channel::{Channel, Peer};
use super::interference::{Action, Effect, Interference, Target};
use super::objects::{Object, patterned};
use super::script::Call;
use crate::sys::{Blocking, Errno, Kernel, OFlags, SeekFrom, SpliceFlags};

const BLOCKING: SpliceFlags = SpliceFlags::empty();

fn splice(kernel: &SimKernel, from: &OwnedFd, to: &OwnedFd, len: usize) -> Result<usize, Errno> {
    kernel.splice((from.as_fd(), None), (to.as_fd(), None), len, BLOCKING)
}

fn read(kernel: &SimKernel, fd: &OwnedFd, len: usize) -> Vec<u8> {
    let mut room = vec![0; len];
    let n = kernel.read(fd.as_fd(), None, &mut room, Blocking::MaySleep);
    room.truncate(n.unwrap());
    room
}

/// Returns a kernel, a pipe that holds `ours`, and an empty file.
fn ours_and_a_file(mode: OFlags) -> (SimKernel, OwnedFd, OwnedFd) {
    let kernel = SimKernel::default();
    let source = kernel.source(Object::written_by_peer(false, b"ours", &[]), mode);
    let sink = kernel.sink(Object::file(b""), OFlags::empty());
    (kernel, source, sink)
}

/// Makes another process act inside the first call of this kind.
fn act_inside(kernel: &SimKernel, call: Call, target: Target, action: Action) {
    kernel.schedule(Interference::inside(call, 0, target, action));
}

/// Returns a socket or pipe whose peer sends these bytes at once.
fn channel(is_stream: bool, bytes: &[u8]) -> Channel {
    match Object::written_by_peer(is_stream, bytes, &[]) {
        Object::Channel(channel) => channel,
        _ => unreachable!(),
    }
}

#[test]
fn a_splice_without_an_offset_overwrites_what_others_wrote_inside_it() {
    let (kernel, source, sink) = &ours_and_a_file(OFlags::empty());
    act_inside(kernel, Call::Splice, Target::Sink(0), Action::Write(9));
    assert_eq!(splice(kernel, source, sink, 100), Ok(4));
    assert_eq!(kernel.contents(sink), b"oursEFGHI");
    assert_eq!(kernel.cursor(sink), 4);
}

#[test]
fn a_splice_that_moves_nothing_stores_the_stale_position_too() {
    let (kernel, source, sink) = &ours_and_a_file(OFlags::NONBLOCK);
    act_inside(kernel, Call::Splice, Target::Sink(0), Action::Write(9));
    assert_eq!(splice(kernel, source, sink, 100), Err(Errno::AGAIN));
    assert_eq!(kernel.contents(sink), b"ABCDEFGHI");
    assert_eq!(kernel.cursor(sink), 0);
}

#[test]
fn a_splice_with_an_offset_leaves_the_position_to_others() {
    let (kernel, source, sink) = &ours_and_a_file(OFlags::empty());
    assert_eq!(kernel.seek(sink.as_fd(), SeekFrom::Current(4)), Ok(4));
    act_inside(kernel, Call::Splice, Target::Sink(0), Action::Write(3));
    let to = (sink.as_fd(), Some(0));
    assert_eq!(
        kernel.splice((source.as_fd(), None), to, 4, BLOCKING),
        Ok(4)
    );
    assert_eq!(kernel.contents(sink), b"oursABC");
    assert_eq!(kernel.cursor(sink), 7);
}

#[test]
fn sendfile_without_an_offset_sends_what_others_read_inside_it() {
    let kernel = &SimKernel::default();
    let source = kernel.source(Object::file(b"0123456789"), OFlags::empty());
    let sink = kernel.sink(Object::read_by_peer(true), OFlags::empty());
    act_inside(kernel, Call::Sendfile, Target::Source(0), Action::Read(3));
    let sent = kernel.sendfile(sink.as_fd(), (source.as_fd(), None), 5);
    assert_eq!(sent, Ok(5));
    assert_eq!(kernel.contents(&sink), b"01234");
    let effects = &kernel.state.borrow().effects;
    let Effect::Read(0, bytes) = &effects[0].effect else {
        panic!("{effects:?}");
    };
    assert_eq!(bytes, b"012");
}

#[test]
fn read_and_write_take_turns_with_others() {
    let kernel = &SimKernel::default();
    let sink = kernel.sink(Object::file(b""), OFlags::empty());
    act_inside(kernel, Call::Write, Target::Sink(0), Action::Write(3));
    kernel.schedule(Interference::before(
        Call::Write,
        1,
        Target::Sink(0),
        Action::Write(3),
    ));
    for bytes in [b"one", b"two"] {
        let written = kernel.write(sink.as_fd(), None, bytes, Blocking::MaySleep);
        assert_eq!(written, Ok(3));
    }
    assert_eq!(kernel.contents(&sink), b"oneABCBCDtwo");
}

#[test]
fn a_splice_splits_packets_and_a_read_destroys_what_has_no_room() {
    let kernel = &SimKernel::default();
    let mut packets = channel(false, &patterned(700));
    packets.is_packet = true;
    if let Peer::Writes { chunks, .. } = &mut packets.peer {
        chunks.extend([100, 200]);
    }
    for _ in 0..3 {
        packets.advance_peer();
    }
    let source = kernel.source(Object::Channel(packets), OFlags::DIRECT);
    let (reader, writer) = kernel.pipe(Blocking::MaySleep).unwrap();
    assert_eq!(splice(kernel, &source, &writer, 50), Ok(50));
    assert_eq!(splice(kernel, &source, &writer, 100), Ok(100));
    assert_eq!(read(kernel, &reader, 10).len(), 10);
    assert_eq!(read(kernel, &reader, 1000).len(), 50);
    assert_eq!(read(kernel, &reader, 1000).len(), 50);
    assert_eq!(read(kernel, &source, 1000).len(), 150);
    assert_eq!(read(kernel, &source, 1000).len(), 400);
}

#[test]
fn a_splice_stops_at_an_urgent_byte_and_a_read_goes_past_it() {
    for (mode, at_mark) in [
        (OFlags::empty(), Ok(0)),
        (OFlags::NONBLOCK, Err(Errno::AGAIN)),
    ] {
        let kernel = &SimKernel::default();
        let mut socket = channel(true, &patterned(1500));
        socket.urgent_marks.push_back(1000);
        socket.advance_peer();
        let source = kernel.source(Object::Channel(socket), mode);
        let (_reader, writer) = kernel.pipe(Blocking::MaySleep).unwrap();
        assert_eq!(splice(kernel, &source, &writer, 65536), Ok(1000));
        assert_eq!(splice(kernel, &source, &writer, 65536), at_mark);
        assert_eq!(splice(kernel, &source, &writer, 65536), at_mark);
        assert_eq!(read(kernel, &source, 4096), patterned(1500)[1000..]);
    }
}

#[test]
fn a_read_stops_before_an_urgent_byte_too() {
    let kernel = &SimKernel::default();
    let mut socket = channel(true, &patterned(1500));
    socket.urgent_marks.push_back(1000);
    socket.advance_peer();
    let source = kernel.source(Object::Channel(socket), OFlags::empty());
    assert_eq!(read(kernel, &source, 4096).len(), 1000);
    assert_eq!(read(kernel, &source, 4096).len(), 500);
}

#[test]
fn pages_of_a_file_change_until_they_are_copied_out() {
    let kernel = &SimKernel::default();
    let source = kernel.source(Object::file(&patterned(100)), OFlags::empty());
    let (reader, writer) = kernel.pipe(Blocking::MaySleep).unwrap();
    let (other_reader, other_writer) = kernel.pipe(Blocking::MaySleep).unwrap();
    assert_eq!(splice(kernel, &source, &writer, 100), Ok(100));
    let teed = kernel.tee(reader.as_fd(), other_writer.as_fd(), 100, BLOCKING);
    assert_eq!(teed, Ok(100));
    assert_eq!(read(kernel, &reader, 50), patterned(50));
    kernel.schedule(Interference::before(
        Call::Read,
        1,
        Target::Source(0),
        Action::WriteAt(60, 3),
    ));
    let found = read(kernel, &reader, 50);
    assert_eq!(found[..10], patterned(60)[50..]);
    assert_eq!(found[10..13], *b"ABC");
    assert_eq!(read(kernel, &other_reader, 100)[60..63], *b"ABC");
}

#[test]
fn pages_that_were_cut_off_or_punched_belong_to_the_file_no_more() {
    for action in [Action::Truncate(0), Action::Punch(0, 100)] {
        let kernel = &SimKernel::default();
        let source = kernel.source(Object::file(&patterned(100)), OFlags::empty());
        let (reader, writer) = kernel.pipe(Blocking::MaySleep).unwrap();
        assert_eq!(splice(kernel, &source, &writer, 100), Ok(100));
        for action in [action, Action::Extend(100), Action::WriteAt(0, 9)] {
            let target = Target::Source(0);
            kernel.schedule(Interference::before(Call::Read, 0, target, action));
        }
        assert_eq!(read(kernel, &reader, 100), patterned(100));
        assert!(
            kernel.contents(&source)[..9]
                .iter()
                .all(u8::is_ascii_uppercase)
        );
    }
}
