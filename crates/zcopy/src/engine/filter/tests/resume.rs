//! Consecutive sources: failures between them, and the costs.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use super::makers::Maker;
use super::{finish, run};
use crate::engine::FilterState;
use crate::filter::{Filter, Filtered, Input};
use crate::side::Side;
use crate::sim::SimKernel;
use crate::sim::channel::{Channel, Messages, Peer};
use crate::sim::objects::{File, Object, patterned};
use crate::sim::script::{Call, Injection};
use crate::sys::{Errno, OFlags};

const COUNT: Maker = Maker::Count {
    n: 0,
    has_counted: false,
};

fn file(kernel: &SimKernel, bytes: &[u8]) -> OwnedFd {
    kernel.source(Object::file(bytes), OFlags::empty())
}

fn pipe(kernel: &SimKernel, bytes: &[u8]) -> OwnedFd {
    kernel.source(Object::written_by_peer(false, bytes, &[]), OFlags::empty())
}

fn empty_file(kernel: &SimKernel) -> OwnedFd {
    kernel.sink(Object::file(&[]), OFlags::empty())
}

/// Returns a filter that must not be called.
fn never(_: Input<'_>, _: &mut [u8]) -> Filtered {
    panic!("there is nothing to filter")
}

#[test]
fn a_filter_gets_waiting_bytes_together_with_those_of_the_next_source() {
    let kernel = SimKernel::default();
    let sink = empty_file(&kernel);
    let (mut lines, mut state) = (Maker::Lines, FilterState::new());
    for (bytes, written) in [
        (&b"one\ntw"[..], &b"one\n"[..]),
        (b"", b"one\n"),
        (b"o", b"one\n"),
        (b"\nthree", b"one\ntwo\n"),
    ] {
        let source = file(&kernel, bytes);
        run(&kernel, (&source, &sink), &mut lines, &mut state).unwrap();
        assert_eq!(kernel.contents(&sink), written);
    }
    let report = finish(&kernel, &sink, &mut lines, &mut state).unwrap();
    assert_eq!(report.bytes(), 5);
    assert_eq!(kernel.contents(&sink), b"one\ntwo\nthree");
}

#[test]
fn an_empty_source_is_not_filtered() {
    let kernel = SimKernel::default();
    let (source, sink) = (file(&kernel, b""), empty_file(&kernel));
    let mut never = never;
    run(
        &kernel,
        (&source, &sink),
        &mut never,
        &mut FilterState::new(),
    )
    .unwrap();
}

#[test]
fn output_produced_only_at_the_end_is_written() {
    let kernel = SimKernel::default();
    let sink = empty_file(&kernel);
    let (mut count, mut state) = (COUNT, FilterState::new());
    for n in [3, 70_000] {
        let source = file(&kernel, &patterned(n));
        let report = run(&kernel, (&source, &sink), &mut count, &mut state).unwrap();
        assert_eq!(report.bytes(), 0);
    }
    let report = finish(&kernel, &sink, &mut count, &mut state).unwrap();
    assert_eq!(report.bytes(), 600);
    assert_eq!(kernel.contents(&sink), "70003\n".repeat(100).into_bytes());
}

#[test]
fn a_source_that_fails_in_mid_line_is_followed_by_the_next() {
    let kernel = SimKernel::default();
    let sink = empty_file(&kernel);
    let mut bad = File::holding(b"one\ntwo and what cannot be read");
    bad.bad = Some((7, Errno::IO));
    let source = kernel.source(Object::File(bad), OFlags::empty());
    let (mut lines, mut state) = (Maker::Lines, FilterState::new());
    let error = run(&kernel, (&source, &sink), &mut lines, &mut state).unwrap_err();
    assert_eq!((error.side(), error.bytes()), (Side::Source, 4));
    assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
    assert_eq!(error.undelivered(), b"");
    assert_eq!(kernel.cursor(&source), 7, "what waits is not given back");

    let next = file(&kernel, b", three\n");
    let report = run(&kernel, (&next, &sink), &mut lines, &mut state).unwrap();
    assert_eq!(report.bytes(), 11);
    assert_eq!(kernel.contents(&sink), b"one\ntwo, three\n");
}

#[test]
fn a_file_is_rewound_over_what_the_filter_has_not_come_to() {
    let kernel = SimKernel::default();
    let sink = empty_file(&kernel);
    let (mut thrice, mut state) = (Maker::Thrice(50_000), FilterState::new());
    let source = file(&kernel, &patterned(300_000));
    kernel.inject(Call::Write, &[Injection::Fails(Errno::NOSPC)]);
    let error = run(&kernel, (&source, &sink), &mut thrice, &mut state).unwrap_err();
    assert_eq!((error.side(), error.bytes()), (Side::Sink, 0));
    // After 50,000 bytes, 14,000 times 3 more. The next 50,000 would not leave the room that is
    // required.
    let made = Maker::Thrice(0).makes(&patterned(65_536), false);
    assert!(error.undelivered() == &made[..196_608]);
    assert_eq!(kernel.cursor(&source), 65_536);

    run(&kernel, (&source, &sink), &mut thrice, &mut state).unwrap();
    let rest = Maker::Thrice(0).makes(&patterned(300_000)[65_536..], false);
    assert!(kernel.contents(&sink) == rest);
}

/// The rest did not fit in front of the bytes read, and the next run panicked.
#[test]
fn bytes_that_a_pipe_cannot_take_back_are_filtered_before_more_are_read() {
    let kernel = SimKernel::default();
    let sink = empty_file(&kernel);
    let mut bytes = patterned(200_000);
    bytes.retain(|byte| *byte != b'\n');
    bytes[65_500] = b'\n';
    bytes[65_600] = b'\n';
    let peer = Peer::Writes {
        rest: bytes.clone(),
        chunks: VecDeque::new(),
        has_closed: false,
    };
    let source = Object::Channel(Channel::new(bytes.len(), true, peer));
    let source = kernel.source(source, OFlags::empty());
    // 65,500 bytes of a line come first, then 64 KiB with its end and the end of the next line.
    kernel.inject(Call::Read, &[Injection::Short(65_500)]);
    kernel.inject(Call::Write, &[Injection::Fails(Errno::NOSPC)]);
    let mut first_line = |input: Input<'_>, room: &mut [u8]| {
        let Some(end) = input.bytes.iter().position(|byte| *byte == b'\n') else {
            return Filtered::NEED_MORE;
        };
        // The output buffer is full, so that the engine writes it before the second line.
        room[..=end].copy_from_slice(&input.bytes[..=end]);
        Filtered {
            consumed: end + 1,
            produced: room.len(),
        }
    };
    let mut state = FilterState::new();
    let error = run(&kernel, (&source, &sink), &mut first_line, &mut state).unwrap_err();
    assert_eq!(error.undelivered()[..65_501], bytes[..65_501]);
    let n_reads = kernel.results(Call::Read).len();

    // The second line has been read already.
    let read: Vec<_> = kernel.results(Call::Read);
    let n_read: usize = read.into_iter().flatten().sum();
    assert!(n_read > 65_600, "{n_read} bytes were read");
    let mut same = Maker::Same;
    run(&kernel, (&source, &sink), &mut same, &mut state).unwrap();
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
fn a_filter_that_takes_nothing_fails_and_does_not_spin() {
    let kernel = SimKernel::default();
    let sink = empty_file(&kernel);
    let source = pipe(&kernel, &patterned(300_000));
    let (mut idle, mut state) = (Maker::Idle, FilterState::new());
    // The source keeps failing, and the engine does not read it again.
    for n_reads in [1, 1] {
        let error = run(&kernel, (&source, &sink), &mut idle, &mut state).unwrap_err();
        assert_eq!((error.side(), error.call()), (Side::Neither, None));
        assert_eq!(
            format!("{error:#}"),
            "the filter failed: \
             it asked for more input when the input had ended or its buffer was full"
        );
        assert_eq!(kernel.results(Call::Read).len(), n_reads);
    }
    // The bytes are left for another filter.
    run(&kernel, (&source, &sink), &mut Maker::Same, &mut state).unwrap();
    assert!(kernel.contents(&sink) == patterned(300_000));

    // The filter may leave a few bytes before the end.
    let source = pipe(&kernel, b"a few");
    run(&kernel, (&source, &sink), &mut idle, &mut state).unwrap();
    let error = finish(&kernel, &sink, &mut idle, &mut state).unwrap_err();
    assert_eq!((error.side(), error.bytes()), (Side::Neither, 0));
}

#[test]
#[should_panic = "a filter consumed more than its input"]
fn a_filter_cannot_take_more_than_there_is() {
    let kernel = SimKernel::default();
    let (source, sink) = (file(&kernel, b"three"), empty_file(&kernel));
    let mut greedy = |input: Input<'_>, _: &mut [u8]| Filtered {
        consumed: input.bytes.len() + 1,
        produced: 0,
    };
    let _ = run(
        &kernel,
        (&source, &sink),
        &mut greedy,
        &mut FilterState::new(),
    );
}

#[test]
#[should_panic = "a filter produced more than its output holds"]
fn a_filter_cannot_make_more_than_there_is_room_for() {
    let kernel = SimKernel::default();
    let (source, sink) = (file(&kernel, b"three"), empty_file(&kernel));
    let mut boastful = |input: Input<'_>, room: &mut [u8]| Filtered {
        consumed: input.bytes.len(),
        produced: room.len() + 1,
    };
    let _ = run(
        &kernel,
        (&source, &sink),
        &mut boastful,
        &mut FilterState::new(),
    );
}

#[test]
fn a_small_file_costs_a_read_a_write_and_the_read_that_finds_its_end() {
    let kernel = SimKernel::default();
    let (source, sink) = (file(&kernel, b"1\n2\n3\n"), empty_file(&kernel));
    let (mut lines, mut state) = (Maker::Lines, FilterState::new());
    let report = run(&kernel, (&source, &sink), &mut lines, &mut state).unwrap();
    assert_eq!(report.attempts()[0].calls(), 3);
    let log = [
        (Call::Read, Ok(6)),
        (Call::Write, Ok(6)),
        (Call::Read, Ok(0)),
    ];
    assert_eq!(kernel.state.borrow().log, log);
    finish(&kernel, &sink, &mut lines, &mut state).unwrap();
    assert_eq!(kernel.state.borrow().log, log, "and the end costs nothing");
}

/// The output of one read is written by one call, in however many pieces the filter produced it.
#[test]
fn lines_that_are_made_one_by_one_are_written_together() {
    let kernel = SimKernel::default();
    let lines = b"a line\n".repeat(100_000);
    let (source, sink) = (file(&kernel, &lines), empty_file(&kernel));
    let report = run(
        &kernel,
        (&source, &sink),
        &mut Maker::Lines,
        &mut FilterState::new(),
    )
    .unwrap();
    assert_eq!(report.bytes(), 700_000);
    let n_writes = kernel.results(Call::Write).len();
    assert_eq!(n_writes, 700_000_usize.div_ceil(64 << 10));
}

#[test]
fn pipes_grow_when_much_comes() {
    for (n, grown) in [(10_000, None), (600_000, Some(1 << 20))] {
        let kernel = SimKernel::default();
        let source = pipe(&kernel, &patterned(n));
        let sink = kernel.sink(Object::read_by_peer(false), OFlags::empty());
        let state = &mut FilterState::new();
        let report = run(&kernel, (&source, &sink), &mut Maker::Same, state).unwrap();
        assert_eq!((report.grown_source(), report.grown_sink()), (grown, grown));

        let file = kernel.source(Object::file(&patterned(n)), OFlags::empty());
        let sink = kernel.sink(Object::read_by_peer(false), OFlags::empty());
        let state = &mut FilterState::new();
        let report = run(&kernel, (&file, &sink), &mut Maker::Same, state).unwrap();
        assert_eq!((report.grown_source(), report.grown_sink()), (None, grown));
    }
}

/// The output buffer is aligned for `O_DIRECT`. Without `/proc` the file cannot be reopened.
#[test]
fn whole_blocks_are_read_and_written_directly() {
    let kernel = SimKernel::default();
    let source = kernel.source(Object::file(&patterned(400 << 10)), OFlags::DIRECT);
    let sink = kernel.sink(Object::file(&[]), OFlags::DIRECT);
    let state = &mut FilterState::new();
    run(&kernel, (&source, &sink), &mut Maker::Same, state).unwrap();
    assert!(kernel.contents(&sink) == patterned(400 << 10));
    let refused = Err(Errno::INVAL);
    assert!(!kernel.results(Call::Write).contains(&refused));
    assert!(!kernel.results(Call::Read).contains(&refused));
}

fn messages(kernel: &SimKernel, fd: &OwnedFd) -> Vec<usize> {
    kernel.with(fd, |object| match object {
        Object::Messages(messages) => {
            let all = messages.taken.iter().chain(&messages.queue);
            all.map(Vec::len).collect()
        }
        _ => Vec::new(),
    })
}

/// 256 KiB at once, which was tried, is more than most socket families accept.
#[test]
fn messages_made_of_a_stream_are_as_long_as_every_family_takes() {
    let kernel = SimKernel::default();
    let source = pipe(&kernel, &patterned(100_000));
    let sink = kernel.sink(Object::Messages(Messages::default()), OFlags::empty());
    let (mut twice, mut state) = (Maker::Twice, FilterState::new());
    run(&kernel, (&source, &sink), &mut twice, &mut state).unwrap();
    let lens = messages(&kernel, &sink);
    assert!(lens.iter().all(|len| *len <= 32 << 10), "{lens:?}");
    assert_eq!(lens.iter().sum::<usize>(), 200_000);
}

#[test]
fn a_filtered_message_stays_one_message() {
    let kernel = SimKernel::default();
    let sent = [7, 1, 40_000, 2].map(patterned);
    let source = Object::Messages(Messages::written_by_peer(&sent));
    let source = kernel.source(source, OFlags::empty());
    let sink = kernel.sink(Object::Messages(Messages::default()), OFlags::empty());
    let (mut twice, mut state) = (Maker::Twice, FilterState::new());
    run(&kernel, (&source, &sink), &mut twice, &mut state).unwrap();
    assert_eq!(messages(&kernel, &sink), [14, 2, 80_000, 4]);

    // The number of pieces in which the filter produces it does not matter.
    let source = Object::Messages(Messages::written_by_peer(&[patterned(2500)]));
    let source = kernel.source(source, OFlags::empty());
    let mut thrice = Maker::Thrice(1000);
    run(&kernel, (&source, &sink), &mut thrice, &mut state).unwrap();
    assert_eq!(messages(&kernel, &sink)[4..], [7500]);
}

#[test]
fn a_closure_is_a_filter_too() {
    fn is_filter<R: Filter>(_: R) {}
    is_filter(never);
    is_filter(|_: Input<'_>, _: &mut [u8]| Filtered::NEED_MORE);
}
