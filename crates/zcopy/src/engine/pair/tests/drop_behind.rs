//! Drop-behind leaves the pages of other processes in the cache.

use std::os::fd::{AsRawFd, OwnedFd};

use crate::options::{Cache, Options};
use crate::sim::SimKernel;
use crate::sim::interference::{Action, Effect, Interference, Target};
use crate::sim::objects::Object;
use crate::sim::run::transfer;
use crate::sim::script::Call;
use crate::strategy::Strategy;
use crate::sys::OFlags;

const MIB: usize = 1 << 20;

/// Returns the end of the furthest range dropped from one file, or the largest offset if a range
/// reached to the end of the file.
fn dropped(kernel: &SimKernel, fd: &OwnedFd) -> u64 {
    let state = kernel.state.borrow();
    let those = state
        .dropped
        .iter()
        .filter(|(at, ..)| *at == fd.as_raw_fd());
    let ends = those.map(|(_, offset, len)| if *len == 0 { u64::MAX } else { offset + len });
    ends.max().unwrap_or(0)
}

/// Returns all ranges dropped from one file, in order.
fn all_dropped(kernel: &SimKernel, fd: &OwnedFd) -> Vec<(usize, usize)> {
    let state = kernel.state.borrow();
    let those = state
        .dropped
        .iter()
        .filter(|(at, ..)| *at == fd.as_raw_fd());
    those
        .map(|(_, offset, len)| (*offset as usize, *len as usize))
        .collect()
}

/// Moves 40 MiB while another process moves the cursor of `target` at the n-th call of that kind.
/// Returns what was dropped from the source and from the sink, and where the other process began.
fn in_company(
    strategy: Option<Strategy>,
    (call, nth): (Call, usize),
    (target, action): (Target, Action),
) -> ([u64; 2], u64) {
    let kernel = SimKernel::default();
    let source = kernel.source(Object::file(&vec![7; 40 * MIB]), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    kernel.schedule(Interference::before(call, nth, target, action));
    let options = Options {
        cache: Cache::DropBehind,
        strategy,
        ..Options::default()
    };
    transfer(&kernel, (&source, &sink), options).unwrap();
    let (from, to) = (dropped(&kernel, &source), dropped(&kernel, &sink));
    // A page may lie in two windows; it is dropped with the later one.
    for (fd, n) in [(&source, from), (&sink, to)] {
        let all = if n == u64::MAX { 0 } else { n as usize };
        assert_eq!(all_dropped(&kernel, fd).last(), Some(&(0, all)));
    }
    let state = kernel.state.borrow();
    let place = match &state.effects[0].effect {
        Effect::Read(place, _) | Effect::Wrote(place, _) => *place,
        Effect::Changed(bytes) => panic!("{bytes:?}"),
    };
    ([from, to], place)
}

/// The transfer dropped a range that it took for its own, although another process had read or
/// written there.
#[test]
fn pages_that_others_read_or_wrote_by_the_same_cursor_stay() {
    // Reads and writes of 256 KiB, and splices of 64 KiB through a private pipe or inside the
    // kernel.
    for (strategy, reads, writes) in [
        (Some(Strategy::Buffered), Call::Read, Call::Write),
        (Some(Strategy::SplicePipe), Call::Splice, Call::Splice),
        (None, Call::Splice, Call::Splice),
    ] {
        let ([from, to], place) = in_company(
            strategy,
            (reads, 50),
            (Target::Source(0), Action::Read(4 * MIB)),
        );
        assert!(place > 10 << 20, "{strategy:?}: {place}");
        assert!(
            (8 << 20..=place).contains(&from),
            "{strategy:?}: {from}, {place}"
        );
        assert_eq!(
            to,
            u64::MAX,
            "{strategy:?}: the sink's cursor is this transfer's alone"
        );

        let ([from, to], place) = in_company(
            strategy,
            (writes, 50),
            (Target::Sink(0), Action::Write(4 * MIB)),
        );
        assert!(place > 10 << 20, "{strategy:?}: {place}");
        assert!(
            (8 << 20..=place).contains(&to),
            "{strategy:?}: {to}, {place}"
        );
        assert_eq!(
            from,
            u64::MAX,
            "{strategy:?}: the source's cursor is this transfer's alone"
        );
    }
}

/// Smaller windows would cost more calls; larger ones would leave more of the cache to this
/// transfer.
#[test]
fn pages_are_dropped_8_mib_at_a_time_and_those_of_the_sink_a_window_later() {
    let kernel = SimKernel::default();
    let source = kernel.source(Object::file(&vec![7; 40 * MIB]), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    let options = Options {
        cache: Cache::DropBehind,
        ..Options::default()
    };
    transfer(&kernel, (&source, &sink), options).unwrap();
    let windows = |n: usize| (0..n).map(|nth| (nth * 8 * MIB, 8 * MIB));
    // The last call drops the whole file from the beginning.
    let everything = [(0, 0)];
    let read: Vec<_> = windows(5).chain(everything).collect();
    assert_eq!(all_dropped(&kernel, &source), read);
    let written: Vec<_> = windows(4).chain(everything).collect();
    assert_eq!(all_dropped(&kernel, &sink), written);
    assert_eq!(
        kernel.results(Call::WriteOut).len(),
        5 + 4 + 1,
        "each window is sent, all but the last are waited for, and then all that is left"
    );
}

/// The kernel has read ahead, and no other process uses those pages.
#[test]
fn pages_read_ahead_of_a_limit_are_dropped_too_and_pages_8_mib_behind_it_are_not() {
    for (limit, len) in [(30, 38), (31, 39), (32, 0), (33, 0)] {
        let kernel = SimKernel::default();
        let source = kernel.source(Object::file(&vec![7; 40 * MIB]), OFlags::empty());
        let sink = kernel.sink(Object::file(&[]), OFlags::empty());
        let options = Options {
            cache: Cache::DropBehind,
            limit: Some(limit * MIB as u64),
            ..Options::default()
        };
        transfer(&kernel, (&source, &sink), options).unwrap();
        let dropped = all_dropped(&kernel, &source);
        assert_eq!(dropped.last(), Some(&(0, len * MIB)), "{limit} MiB");
    }
}
