//! One source after the other, what fails between them, and what it costs.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use super::makers::Maker;
use super::{finish, run};
use crate::engine::Desk;
use crate::filter::{Input, Rewriter, Rewritten};
use crate::scripted::Scripted;
use crate::scripted::channel::{Channel, Messages, Peer};
use crate::scripted::objects::{File, Object, patterned};
use crate::scripted::script::{Call, Twist};
use crate::side::Side;
use crate::sys::{Errno, OFlags};

const COUNT: Maker = Maker::Count {
    n: 0,
    has_told: false,
};

fn file(kernel: &Scripted, bytes: &[u8]) -> OwnedFd {
    kernel.source(Object::file(bytes), OFlags::empty())
}

fn pipe(kernel: &Scripted, bytes: &[u8]) -> OwnedFd {
    kernel.source(Object::feeding(false, bytes, &[]), OFlags::empty())
}

fn empty_file(kernel: &Scripted) -> OwnedFd {
    kernel.sink(Object::file(&[]), OFlags::empty())
}

/// A rewriter that must not be asked.
fn never(_: Input<'_>, _: &mut [u8]) -> Rewritten {
    panic!("there is nothing to rewrite")
}

#[test]
fn what_waits_is_shown_with_what_the_next_source_has() {
    let kernel = Scripted::default();
    let sink = empty_file(&kernel);
    let (mut lines, mut desk) = (Maker::Lines, Desk::new());
    for (bytes, written) in [
        (&b"one\ntw"[..], &b"one\n"[..]),
        (b"", b"one\n"),
        (b"o", b"one\n"),
        (b"\nthree", b"one\ntwo\n"),
    ] {
        let source = file(&kernel, bytes);
        run(&kernel, (&source, &sink), &mut lines, &mut desk).unwrap();
        assert_eq!(kernel.contents(&sink), written);
    }
    let report = finish(&kernel, &sink, &mut lines, &mut desk).unwrap();
    assert_eq!(report.bytes(), 5);
    assert_eq!(kernel.contents(&sink), b"one\ntwo\nthree");
}

#[test]
fn an_empty_source_is_not_rewritten() {
    let kernel = Scripted::default();
    let (source, sink) = (file(&kernel, b""), empty_file(&kernel));
    let mut never = never;
    run(&kernel, (&source, &sink), &mut never, &mut Desk::new()).unwrap();
}

#[test]
fn what_comes_in_the_end_alone_is_written() {
    let kernel = Scripted::default();
    let sink = empty_file(&kernel);
    let (mut count, mut desk) = (COUNT, Desk::new());
    for n in [3, 70_000] {
        let source = file(&kernel, &patterned(n));
        let report = run(&kernel, (&source, &sink), &mut count, &mut desk).unwrap();
        assert_eq!(report.bytes(), 0);
    }
    let report = finish(&kernel, &sink, &mut count, &mut desk).unwrap();
    assert_eq!(report.bytes(), 600);
    assert_eq!(kernel.contents(&sink), "70003\n".repeat(100).into_bytes());
}

#[test]
fn a_source_that_fails_in_mid_line_is_followed_by_the_next() {
    let kernel = Scripted::default();
    let sink = empty_file(&kernel);
    let mut bad = File::holding(b"one\ntwo and what cannot be read");
    bad.bad = Some((7, Errno::IO));
    let source = kernel.source(Object::File(bad), OFlags::empty());
    let (mut lines, mut desk) = (Maker::Lines, Desk::new());
    let error = run(&kernel, (&source, &sink), &mut lines, &mut desk).unwrap_err();
    assert_eq!((error.side(), error.bytes()), (Side::Source, 4));
    assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
    assert_eq!(error.undelivered(), b"");
    assert_eq!(kernel.cursor(&source), 7, "what waits is not given back");

    let next = file(&kernel, b", three\n");
    let report = run(&kernel, (&next, &sink), &mut lines, &mut desk).unwrap();
    assert_eq!(report.bytes(), 11);
    assert_eq!(kernel.contents(&sink), b"one\ntwo, three\n");
}

#[test]
fn a_file_is_rewound_over_what_the_rewriter_has_not_come_to() {
    let kernel = Scripted::default();
    let sink = empty_file(&kernel);
    let (mut thrice, mut desk) = (Maker::Thrice(50_000), Desk::new());
    let source = file(&kernel, &patterned(300_000));
    kernel.twist(Call::Write, &[Twist::Fails(Errno::NOSPC)]);
    let error = run(&kernel, (&source, &sink), &mut thrice, &mut desk).unwrap_err();
    assert_eq!((error.side(), error.bytes()), (Side::Sink, 0));
    // After 50,000 bytes, 14 thousand times 3 more: the next 50,000 would not have left the room there has to be.
    let made = Maker::Thrice(0).makes(&patterned(65_536), false);
    assert!(error.undelivered() == &made[..196_608]);
    assert_eq!(kernel.cursor(&source), 65_536);

    run(&kernel, (&source, &sink), &mut thrice, &mut desk).unwrap();
    let rest = Maker::Thrice(0).makes(&patterned(300_000)[65_536..], false);
    assert!(kernel.contents(&sink) == rest);
}

/// It was more than there is room for in front of what is read, and the next run panicked.
#[test]
fn what_a_pipe_cannot_take_back_is_rewritten_before_more_is_read() {
    let kernel = Scripted::default();
    let sink = empty_file(&kernel);
    let mut bytes = patterned(200_000);
    bytes.retain(|byte| *byte != b'\n');
    bytes[65_500] = b'\n';
    bytes[65_600] = b'\n';
    let peer = Peer::Feeds {
        rest: bytes.clone(),
        chunks: VecDeque::new(),
        has_closed: false,
    };
    let source = Object::Channel(Channel::new(bytes.len(), true, peer));
    let source = kernel.source(source, OFlags::empty());
    // 65,500 bytes of a line first, then 64 KiB with its end and that of the next one.
    kernel.twist(Call::Read, &[Twist::Short(65_500)]);
    kernel.twist(Call::Write, &[Twist::Fails(Errno::NOSPC)]);
    let mut first_line = |input: Input<'_>, room: &mut [u8]| {
        let Some(end) = input.bytes.iter().position(|byte| *byte == b'\n') else {
            return Rewritten::NOTHING;
        };
        // The room is filled, so that the sink has its turn before the second line.
        room[..=end].copy_from_slice(&input.bytes[..=end]);
        Rewritten {
            taken: end + 1,
            made: room.len(),
        }
    };
    let mut desk = Desk::new();
    let error = run(&kernel, (&source, &sink), &mut first_line, &mut desk).unwrap_err();
    assert_eq!(error.undelivered()[..65_501], bytes[..65_501]);
    let n_reads = kernel.answers(Call::Read).len();

    // The second line is there already.
    let read: Vec<_> = kernel.answers(Call::Read);
    let n_read: usize = read.into_iter().flatten().sum();
    assert!(n_read > 65_600, "{n_read} bytes were read");
    let mut same = Maker::Same;
    run(&kernel, (&source, &sink), &mut same, &mut desk).unwrap();
    assert!(kernel.contents(&sink) == bytes[65_501..]);
    let state = kernel.state.borrow();
    let mut moves = state
        .log
        .iter()
        .filter(|(call, _)| *call != Call::SetPipeCapacity);
    let (call, answer) = moves.nth(n_reads + 1).unwrap();
    assert_eq!((*call, *answer), (Call::Write, Ok(n_read - 65_501)));
}

#[test]
fn a_rewriter_that_takes_nothing_fails_and_does_not_spin() {
    let kernel = Scripted::default();
    let sink = empty_file(&kernel);
    let source = pipe(&kernel, &patterned(300_000));
    let (mut idle, mut desk) = (Maker::Idle, Desk::new());
    // It goes on failing, and reads no more meanwhile.
    for n_reads in [1, 1] {
        let error = run(&kernel, (&source, &sink), &mut idle, &mut desk).unwrap_err();
        assert_eq!((error.side(), error.call()), (Side::Neither, None));
        assert_eq!(
            format!("{error:#}"),
            "the rewriter failed: it took none of the bytes that it had to take"
        );
        assert_eq!(kernel.answers(Call::Read).len(), n_reads);
    }
    // The bytes are there for another.
    run(&kernel, (&source, &sink), &mut Maker::Same, &mut desk).unwrap();
    assert!(kernel.contents(&sink) == patterned(300_000));

    // A few it may leave, until the end.
    let source = pipe(&kernel, b"a few");
    run(&kernel, (&source, &sink), &mut idle, &mut desk).unwrap();
    let error = finish(&kernel, &sink, &mut idle, &mut desk).unwrap_err();
    assert_eq!((error.side(), error.bytes()), (Side::Neither, 0));
}

#[test]
#[should_panic = "a rewriter took more than it was shown"]
fn a_rewriter_cannot_take_more_than_there_is() {
    let kernel = Scripted::default();
    let (source, sink) = (file(&kernel, b"three"), empty_file(&kernel));
    let mut greedy = |input: Input<'_>, _: &mut [u8]| Rewritten {
        taken: input.bytes.len() + 1,
        made: 0,
    };
    let _ = run(&kernel, (&source, &sink), &mut greedy, &mut Desk::new());
}

#[test]
#[should_panic = "a rewriter made more than it had room for"]
fn a_rewriter_cannot_make_more_than_there_is_room_for() {
    let kernel = Scripted::default();
    let (source, sink) = (file(&kernel, b"three"), empty_file(&kernel));
    let mut boastful = |input: Input<'_>, room: &mut [u8]| Rewritten {
        taken: input.bytes.len(),
        made: room.len() + 1,
    };
    let _ = run(&kernel, (&source, &sink), &mut boastful, &mut Desk::new());
}

#[test]
fn a_small_file_costs_a_read_a_write_and_the_read_that_finds_its_end() {
    let kernel = Scripted::default();
    let (source, sink) = (file(&kernel, b"1\n2\n3\n"), empty_file(&kernel));
    let (mut lines, mut desk) = (Maker::Lines, Desk::new());
    let report = run(&kernel, (&source, &sink), &mut lines, &mut desk).unwrap();
    assert_eq!(report.attempts()[0].calls(), 3);
    let log = [
        (Call::Read, Ok(6)),
        (Call::Write, Ok(6)),
        (Call::Read, Ok(0)),
    ];
    assert_eq!(kernel.state.borrow().log, log);
    finish(&kernel, &sink, &mut lines, &mut desk).unwrap();
    assert_eq!(kernel.state.borrow().log, log, "and the end costs nothing");
}

/// What is made of what was read at once is written at once, in how many pieces it may have been made.
#[test]
fn lines_that_are_made_one_by_one_are_written_together() {
    let kernel = Scripted::default();
    let lines = b"a line\n".repeat(100_000);
    let (source, sink) = (file(&kernel, &lines), empty_file(&kernel));
    let report = run(
        &kernel,
        (&source, &sink),
        &mut Maker::Lines,
        &mut Desk::new(),
    )
    .unwrap();
    assert_eq!(report.bytes(), 700_000);
    let n_writes = kernel.answers(Call::Write).len();
    assert_eq!(n_writes, 700_000_usize.div_ceil(64 << 10));
}

#[test]
fn pipes_grow_when_much_comes() {
    for (n, grown) in [(10_000, None), (600_000, Some(1 << 20))] {
        let kernel = Scripted::default();
        let source = pipe(&kernel, &patterned(n));
        let sink = kernel.sink(Object::taking(false), OFlags::empty());
        let desk = &mut Desk::new();
        let report = run(&kernel, (&source, &sink), &mut Maker::Same, desk).unwrap();
        assert_eq!((report.grown_source(), report.grown_sink()), (grown, grown));

        let file = kernel.source(Object::file(&patterned(n)), OFlags::empty());
        let sink = kernel.sink(Object::taking(false), OFlags::empty());
        let desk = &mut Desk::new();
        let report = run(&kernel, (&file, &sink), &mut Maker::Same, desk).unwrap();
        assert_eq!((report.grown_source(), report.grown_sink()), (None, grown));
    }
}

/// What is made begins where `O_DIRECT` allows it. Without `/proc` there is no detour.
#[test]
fn whole_blocks_are_read_and_written_directly() {
    let kernel = Scripted::default();
    let source = kernel.source(Object::file(&patterned(400 << 10)), OFlags::DIRECT);
    let sink = kernel.sink(Object::file(&[]), OFlags::DIRECT);
    let desk = &mut Desk::new();
    run(&kernel, (&source, &sink), &mut Maker::Same, desk).unwrap();
    assert!(kernel.contents(&sink) == patterned(400 << 10));
    let refused = Err(Errno::INVAL);
    assert!(!kernel.answers(Call::Write).contains(&refused));
    assert!(!kernel.answers(Call::Read).contains(&refused));
}

fn messages(kernel: &Scripted, fd: &OwnedFd) -> Vec<usize> {
    kernel.with(fd, |object| match object {
        Object::Messages(messages) => {
            let all = messages.taken.iter().chain(&messages.queue);
            all.map(Vec::len).collect()
        }
        _ => Vec::new(),
    })
}

/// 256 KiB at once, which was tried, is more than most families take.
#[test]
fn messages_made_of_a_stream_are_as_long_as_every_family_takes() {
    let kernel = Scripted::default();
    let source = pipe(&kernel, &patterned(100_000));
    let sink = kernel.sink(Object::Messages(Messages::default()), OFlags::empty());
    let (mut twice, mut desk) = (Maker::Twice, Desk::new());
    run(&kernel, (&source, &sink), &mut twice, &mut desk).unwrap();
    let lens = messages(&kernel, &sink);
    assert!(lens.iter().all(|len| *len <= 32 << 10), "{lens:?}");
    assert_eq!(lens.iter().sum::<usize>(), 200_000);
}

#[test]
fn what_is_made_of_a_message_is_a_message() {
    let kernel = Scripted::default();
    let sent = [7, 1, 40_000, 2].map(patterned);
    let source = Object::Messages(Messages::feeding(&sent));
    let source = kernel.source(source, OFlags::empty());
    let sink = kernel.sink(Object::Messages(Messages::default()), OFlags::empty());
    let (mut twice, mut desk) = (Maker::Twice, Desk::new());
    run(&kernel, (&source, &sink), &mut twice, &mut desk).unwrap();
    assert_eq!(messages(&kernel, &sink), [14, 2, 80_000, 4]);

    // In however many pieces it is made.
    let source = Object::Messages(Messages::feeding(&[patterned(2500)]));
    let source = kernel.source(source, OFlags::empty());
    let mut thrice = Maker::Thrice(1000);
    run(&kernel, (&source, &sink), &mut thrice, &mut desk).unwrap();
    assert_eq!(messages(&kernel, &sink)[4..], [7500]);
}

#[test]
fn a_closure_is_a_rewriter_too() {
    fn is_rewriter<R: Rewriter>(_: R) {}
    is_rewriter(never);
    is_rewriter(|_: Input<'_>, _: &mut [u8]| Rewritten::NOTHING);
}
