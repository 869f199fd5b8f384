//! Transfers whose source or sink other processes use at the same time.

use std::os::fd::AsFd;

use super::properties::check;
use crate::options::RecordOptions;
use crate::options::{Options, Reflink, Sparse};
use crate::pipe::Pipe;
use crate::report::Ended;
use crate::side::Side;
use crate::sim::arbitrary::{Features, scenarios_with};
use crate::sim::interference::{Action, Effect, Interference, Target};
use crate::sim::kernel::SimKernel;
use crate::sim::objects::{BLOCK, File, Object, patterned};
use crate::sim::queue::PACKET;
use crate::sim::run::transfer;
use crate::sim::scenario::{Kind, Scenario, SourceSpec};
use crate::sim::script::{Call, Injection};
use crate::strategy::Strategy;
use crate::sys::{Errno, Kernel, OFlags, SpliceFlags};
use zcopy_fuzz::holds_for_all;

const BTRFS: u64 = 0x9123_683e;

/// Enough cases for every pair with interference; `PROPTEST_CASES` sets another number.
const CASES: u32 = 1000;

/// Runs random transfers with only these features, which `adapt` makes frequent.
fn run(features: Features, adapt: fn(&mut Scenario)) {
    let scenarios = scenarios_with(features, move |scenario| {
        // Inspecting or counting bytes requires read and write, which rules out the other
        // strategies.
        if scenario.options.strategy.is_none() {
            scenario.options.inspected = false;
            scenario.options.records = RecordOptions::default();
        }
        adapt(scenario);
    });
    holds_for_all(scenarios, CASES, check);
}

fn make_file(kind: &mut Kind, is_direct: &mut bool) {
    (*kind, *is_direct) = (Kind::File, false);
}

fn make_source_file(source: &mut SourceSpec) {
    make_file(&mut source.kind, &mut source.is_direct);
    (source.is_nonblocking, source.claimed_size) = (false, None);
}

/// Makes the source end in a hole that the sink must have too.
fn end_in_hole(scenario: &mut Scenario) {
    scenario.source.len += 10 * BLOCK;
    let n_blocks = scenario.source.len / BLOCK;
    scenario.source.zeros.push((n_blocks * 2 / 3, n_blocks));
    scenario.source.is_sparse = true;
    (scenario.options.sparse, scenario.options.reflink) = (Sparse::Keep, Reflink::Never);
    (scenario.options.strategy, scenario.options.limit) = (None, None);
    scenario.sink.is_direct = false;
}

#[test]
fn bytes_others_write_at_a_shared_position_are_neither_lost_nor_torn() {
    let features = Features {
        sharing: true,
        ..Features::NONE
    };
    run(features, |scenario| {
        let sink = &mut scenario.sink;
        make_file(&mut sink.kind, &mut sink.is_direct);
        (sink.is_positional, sink.is_nonblocking) = (false, false);
    });
}

/// The transfer reserved as much of the sink as the call may move, and another process wrote behind
/// that range.
#[test]
fn no_more_of_a_sink_is_reserved_than_a_source_at_an_offset_holds() {
    // The call during which another process writes: the copy of a range that is too long, or the
    // `lseek` back over it.
    for (len, call, nth) in [(100_000, Call::CopyFileRange, 0), (0, Call::Seek, 2)] {
        let bytes = patterned(len);
        let kernel = SimKernel::default();
        let source = kernel.source(Object::file(&bytes), OFlags::empty());
        let sink = kernel.sink(Object::file(b""), OFlags::empty());
        kernel.schedule(Interference::inside(
            call,
            nth,
            Target::Sink(0),
            Action::Write(9),
        ));
        let options = Options {
            source_offset: Some(0),
            strategy: Some(Strategy::CopyFileRange),
            ..Options::default()
        };
        let report = transfer(&kernel, (&source, &sink), options).unwrap();
        assert_eq!(report.bytes(), len as u64);
        assert_eq!(kernel.contents(&sink)[..len], bytes);
        assert!(kernel.contents(&sink).len() <= len + 9, "{len} bytes");
    }
}

/// The transfer returned `Ok` although it left a gap of zeros before the bytes of another process.
#[test]
fn a_gap_that_a_shorter_source_leaves_is_an_error() {
    let kernel = SimKernel::default();
    let source = kernel.source(Object::file(&patterned(100_000)), OFlags::empty());
    let sink = kernel.sink(Object::file(b""), OFlags::empty());
    let inside = |target, action| Interference::inside(Call::CopyFileRange, 0, target, action);
    kernel.schedule(inside(Target::Source(0), Action::Truncate(10)));
    kernel.schedule(inside(Target::Sink(0), Action::Write(9)));
    let options = Options {
        strategy: Some(Strategy::CopyFileRange),
        ..Options::default()
    };
    let error = transfer(&kernel, (&source, &sink), options).unwrap_err();
    assert_eq!((error.side(), error.bytes()), (Side::Sink, 10), "{error:#}");
    assert!(error.to_string().contains("lseek"), "{error:#}");
}

/// The plan does not use `copy_file_range`, which is where the interference is scheduled.
#[test]
fn a_source_that_becomes_shorter_leaves_no_gap_on_a_local_file_system() {
    for len in [100_000, 200_000, 600_000] {
        let kernel = SimKernel::default();
        let source = kernel.source(Object::file(&patterned(len)), OFlags::empty());
        let sink = kernel.sink(Object::file(b""), OFlags::empty());
        let inside = |target, action| Interference::inside(Call::CopyFileRange, 0, target, action);
        kernel.schedule(inside(Target::Source(0), Action::Truncate(10)));
        kernel.schedule(inside(Target::Sink(0), Action::Write(9)));
        // A private pipe, after which the plan would try it, is refused.
        kernel.inject(Call::Pipe, &[Injection::Fails(Errno::MFILE)]);
        let report = transfer(&kernel, (&source, &sink), Options::default()).unwrap();
        assert_eq!(report.bytes(), len as u64);
        assert!(kernel.contents(&sink) == patterned(len), "{len} bytes");
    }
}

/// Another process has read before the range was reserved, so that the range would reach beyond the
/// end. Bytes appended later belong to the first reader.
#[test]
fn nothing_is_kept_reserved_beyond_the_end_of_a_shared_source() {
    const LEN: usize = 300_000;
    let mut n_appended = 0;
    for nth in 0..6 {
        let kernel = SimKernel::default();
        let source = kernel.source(Object::file(&patterned(LEN)), OFlags::empty());
        let sink = kernel.sink(Object::file(b""), OFlags::empty());
        let before = |call, nth, action| Interference::before(call, nth, Target::Source(0), action);
        kernel.schedule(before(Call::Seek, nth, Action::Read(5000)));
        kernel.schedule(before(Call::CopyFileRange, 0, Action::Append(LEN)));
        kernel.schedule(before(Call::CopyFileRange, 0, Action::Read(700)));
        let options = Options {
            strategy: Some(Strategy::CopyFileRange),
            ..Options::default()
        };
        transfer(&kernel, (&source, &sink), options).unwrap();
        let state = kernel.state.borrow();
        let read = state
            .effects
            .iter()
            .filter_map(|record| match &record.effect {
                Effect::Read(place, bytes) => Some((*place as usize, bytes.len())),
                _ => None,
            });
        let read: Vec<_> = read.collect();
        if let [(_, 5000), (place, 700)] = read[..] {
            assert_eq!(place, LEN, "{nth}");
            n_appended += 1;
        }
    }
    assert!(
        n_appended > 0,
        "somebody has read before the range was reserved"
    );
}

/// The reserved range has been truncated, and other processes have moved the cursor, which is not
/// at the end of the range.
#[test]
fn a_source_that_is_cut_and_grows_again_is_read_on_where_the_cursor_is() {
    const LEN: usize = 600_000;
    let kernel = SimKernel::default();
    kernel.state.borrow_mut().pipe_max = 64 << 10;
    let source = kernel.source(Object::file(&patterned(LEN)), OFlags::empty());
    let sink = kernel.sink(Object::file(b""), OFlags::empty());
    kernel.inject(Call::Splice, &[Injection::Normal; 2]);
    kernel.inject(Call::Splice, &[Injection::Short(1000)]);
    let of_source = |moment: fn(Call, usize, Target, Action) -> Interference, call, nth, action| {
        moment(call, nth, Target::Source(0), action)
    };
    let before = Interference::before;
    let reads = Action::Read(5000);
    kernel.schedule(of_source(Interference::inside, Call::Splice, 0, reads));
    kernel.schedule(of_source(Interference::inside, Call::Splice, 2, reads));
    kernel.schedule(of_source(before, Call::Read, 0, Action::Truncate(500)));
    kernel.schedule(of_source(before, Call::Read, 1, Action::Extend(LEN as u64)));
    let report = transfer(&kernel, (&source, &sink), Options::default()).unwrap();
    assert_eq!(report.bytes(), LEN as u64 - 2 * 5000);
    assert_eq!(kernel.cursor(&source), LEN as u64);
}

/// The zeros of the last hole were taken back, and the cursor was moved back over as many bytes,
/// although another process had read a byte behind the hole: it was left to be read again, and the
/// first zero was lost.
#[test]
fn a_source_is_not_rewound_over_a_hole_behind_which_others_have_read() {
    const HOLE: usize = 35 * BLOCK;
    let mut bytes = patterned(300_000);
    bytes[..HOLE].fill(0);
    let kernel = SimKernel::default();
    let source = kernel.source(Object::File(File::sparse(&bytes)), OFlags::DIRECT);
    let mut full = File::holding(b"");
    full.bad = Some((0, Errno::NOSPC));
    let sink = kernel.sink(Object::File(full), OFlags::empty());
    // After the hole, and before the data behind it is reserved.
    let reads = Action::Read(1);
    kernel.schedule(Interference::before(
        Call::SeekExtent,
        1,
        Target::Source(0),
        reads,
    ));
    let options = Options {
        observed: true,
        ..Options::default()
    };
    let error = transfer(&kernel, (&source, &sink), options).unwrap_err();
    assert_eq!((error.side(), error.bytes()), (Side::Sink, 0), "{error:#}");
    assert!(error.report().undelivered() == &bytes[..HOLE]);
    assert_eq!(kernel.cursor(&source), HOLE as u64 + 1);
}

/// A part of a block waited in the buffer while another process read, and the cursor was moved back
/// over more bytes than the transfer had read since.
#[test]
fn a_source_is_not_rewound_over_bytes_between_which_others_have_read() {
    const START: usize = BLOCK + 3000;
    const THEIRS: usize = 5 * BLOCK + 2000;
    const BAD: usize = 8 * BLOCK;
    let bytes = patterned(100_000);
    let kernel = SimKernel::default();
    let mut bad = File::holding(&bytes);
    bad.bad = Some((BAD as u64, Errno::IO));
    let source = kernel.source(Object::File(bad), OFlags::DIRECT);
    kernel.set_cursor(&source, START as u64);
    let sink = kernel.sink(Object::file(b""), OFlags::DIRECT);
    let reads = Action::Read(THEIRS);
    kernel.schedule(Interference::before(
        Call::Seek,
        4,
        Target::Source(0),
        reads,
    ));
    let options = Options {
        observed: true,
        ..Options::default()
    };
    let error = transfer(&kernel, (&source, &sink), options).unwrap_err();
    assert_eq!(
        (error.side(), error.bytes()),
        (Side::Source, 0),
        "{error:#}"
    );
    let theirs = 2 * BLOCK..2 * BLOCK + THEIRS;
    let ours = [&bytes[START..theirs.start], &bytes[theirs.end..BAD]].concat();
    assert!(error.report().undelivered() == ours);
    assert_eq!(kernel.cursor(&source), BAD as u64);
}

/// A second read at the end found what another process had appended since the first, and the
/// transfer failed, because the strategy "stopped before the end".
#[test]
fn what_is_appended_behind_a_proven_end_is_no_error_of_a_requested_strategy() {
    let requests = [
        (Some(Strategy::Sendfile), Reflink::Auto),
        (None, Reflink::Always),
    ];
    for (strategy, reflink) in requests {
        let kernel = SimKernel::default();
        let source = kernel.source(Object::file(b"1"), OFlags::empty());
        kernel.set_cursor(&source, 1);
        let sink = match strategy {
            Some(_) => Object::read_by_peer(false),
            None => Object::file(b""),
        };
        let sink = kernel.sink(sink, OFlags::empty());
        let appends = Action::Append(1);
        kernel.schedule(Interference::before(
            Call::Read,
            1,
            Target::Source(0),
            appends,
        ));
        let options = Options {
            strategy,
            reflink,
            ..Options::default()
        };
        for file in &mut kernel.state.borrow_mut().objects {
            if let Object::File(file) = file {
                file.magic = BTRFS;
            }
        }
        let report = transfer(&kernel, (&source, &sink), options).unwrap();
        assert_eq!((report.bytes(), report.ended()), (0, Ended::Eof));
        assert_eq!(kernel.results(Call::Read), [Ok(0)]);
    }
}

#[test]
fn what_others_read_at_a_shared_position_is_not_delivered_too() {
    let features = Features {
        sharing: true,
        ..Features::NONE
    };
    run(features, |scenario| {
        let is_direct = scenario.source.is_direct;
        make_source_file(&mut scenario.source);
        (scenario.source.is_direct, scenario.source.is_positional) = (is_direct, false);
    });
}

#[test]
fn others_at_the_same_pipe_or_socket_lose_nothing() {
    let features = Features {
        sharing: true,
        ..Features::NONE
    };
    run(features, |scenario| {
        scenario.options.tick = None;
        if scenario.source.is_file() {
            scenario.source.kind = Kind::Pipe;
        }
        if scenario.sink.is_file() {
            scenario.sink.kind = Kind::Stream;
        }
    });
}

#[test]
fn a_file_that_others_change_gives_bytes_that_it_had() {
    let features = Features {
        sizes: true,
        ..Features::NONE
    };
    run(features, |scenario| {
        make_source_file(&mut scenario.source);
        scenario.faults.source = None;
        make_file(&mut scenario.sink.kind, &mut scenario.sink.is_direct);
        scenario.sink.is_nonblocking = false;
        end_in_hole(scenario);
        scenario.interferences.retain(Interference::changes_source);
    });
}

/// The oracle took the bytes of `/dev/null`, which stores no holes, for all that the source had
/// offered.
#[test]
fn a_hole_that_is_cut_off_after_its_turn_counts_at_a_device_too() {
    let mut scenario = Scenario::plain(Kind::File, 442_369, Kind::Device);
    (scenario.source.zeros, scenario.source.is_sparse) = (vec![(38, 31)], true);
    (scenario.options.inspected, scenario.faults.has_proc) = (true, true);
    for nth in 0..10 {
        let cuts = Action::Truncate(0);
        let other = Interference::before(Call::Status, nth, Target::Source(0), cuts);
        scenario.interferences = vec![other];
        check(&scenario).unwrap();
    }
}

#[test]
fn bytes_others_put_behind_the_range_of_a_transfer_stay() {
    let features = Features {
        sizes: true,
        ..Features::NONE
    };
    run(features, |scenario| {
        make_file(&mut scenario.sink.kind, &mut scenario.sink.is_direct);
        (scenario.sink.is_nonblocking, scenario.sink.appends) = (false, false);
        make_source_file(&mut scenario.source);
        end_in_hole(scenario);
        scenario
            .interferences
            .retain(|other| !other.changes_source());
    });
}

#[test]
fn no_packet_loses_its_rest() {
    let features = Features {
        packets: true,
        ..Features::NONE
    };
    run(features, |scenario| {
        scenario.source.kind = Kind::Pipe;
        scenario.source.is_packet = true;
    });
}

/// A splice brought a packet and one more byte. The search for packets read the packet and the
/// byte, each whole, and took them for a stream.
#[test]
fn a_packet_before_a_single_byte_is_found() {
    let chunks = [3000, PACKET, 1];
    let len = chunks.iter().sum();
    // Without a free slot, the search cuts the bytes at two places.
    for (has_free_slot, n_tees) in [(true, 1), (false, 2)] {
        for (packets_from, is_found) in [(3000, true), (len, false)] {
            let kernel = SimKernel::default();
            let mut source = Object::written_by_peer(false, &patterned(len), &chunks);
            if let Object::Channel(channel) = &mut source {
                (channel.is_packet, channel.packets_from) = (true, packets_from as u64);
            }
            let source = kernel.source(source, OFlags::empty());
            let mut pipe = Pipe::open(&&kernel, 64 << 10).unwrap();
            while kernel.results(Call::Splice).iter().flatten().sum::<usize>() < len {
                let (from, to) = ((source.as_fd(), None), (pipe.writer(), None));
                (&kernel)
                    .splice(from, to, len, SpliceFlags::empty())
                    .unwrap();
            }
            pipe.in_flight = len as u64;
            assert_eq!(pipe.searchable_len(&&kernel), Ok(60 << 10));
            if !has_free_slot {
                kernel.inject(Call::Write, &[Injection::Fails(Errno::AGAIN)]);
            }
            let what = format!("{has_free_slot}, {packets_from}");
            let found = pipe.holds_packets(&&kernel, &mut 0);
            assert_eq!(found, Ok(is_found), "{what}");
            assert_eq!(kernel.results(Call::Tee).len(), n_tees, "{what}");
            let mut contents = Vec::new();
            pipe.read_to_end(&&kernel, &mut contents);
            assert_eq!(contents, patterned(len), "{what}");
        }
    }
}

#[test]
fn no_reader_of_a_sink_loses_a_part_of_a_packet() {
    let features = Features {
        packets: true,
        ..Features::NONE
    };
    run(features, |scenario| {
        let source = &mut scenario.source;
        (source.kind, source.is_packet) = (Kind::Pipe, true);
        (source.len, source.packets_from) = (source.len + 200_000, source.packets_from + 130_000);
        source.chunks.clear();
        let sink = &mut scenario.sink;
        (sink.kind, sink.is_packet, sink.chunks) = (Kind::Pipe, false, vec![1000; 1000]);
        scenario.options.limit = None;
    });
}

#[test]
fn an_urgent_byte_does_not_end_a_transfer() {
    let features = Features {
        urgent: true,
        ..Features::NONE
    };
    run(features, |scenario| {
        let source = &mut scenario.source;
        (source.kind, source.len) = (Kind::Stream, source.len + 200_000);
        if scenario.sink.kind == Kind::Block {
            // A block device cannot grow, so that it must be large enough.
            scenario.sink.len += 200_000;
        }
        source.urgent_marks = vec![source.len as u64 / 4, source.len as u64 * 3 / 4];
        scenario.options.limit = None;
    });
}

#[test]
fn a_stable_transfer_shares_no_pages_that_came_through_a_pipe_or_socket() {
    let features = Features {
        pages: true,
        ..Features::NONE
    };
    run(features, |scenario| {
        scenario.options.stable = true;
        if scenario.source.is_file() {
            scenario.source.kind = Kind::Stream;
        }
        scenario.source.sends_pages = true;
    });
}
