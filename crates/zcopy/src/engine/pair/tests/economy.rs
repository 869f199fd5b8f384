//! The costs of a transfer: calls, pipes and memory.

use crate::buffer;
use crate::options::{Options, Sparse};
use crate::plan;
use crate::sim::kernel::SimKernel;
use crate::sim::objects::{File, Object, patterned};
use crate::sim::run::{attempts, transfer};
use crate::sim::script::{Call, Injection};
use crate::strategy::Strategy;
use crate::sys::{Errno, OFlags};

#[test]
fn short_messages_of_a_stream_stay_with_read_and_write() {
    let kernel = SimKernel::default();
    let source = Object::written_by_peer(true, &patterned(200_000), &[1000; 200]);
    let source = kernel.source(source, OFlags::empty());
    let sink = kernel.sink(Object::read_by_peer(true), OFlags::empty());
    let report = transfer(&kernel, (&source, &sink), Options::default()).unwrap();
    assert_eq!(attempts(&report), [(Strategy::Buffered, 200_000, None)]);
    assert!(kernel.results(Call::Pipe).is_empty());
}

#[test]
fn a_stream_that_fills_its_buffer_is_upgraded_to_the_private_pipe() {
    for is_stream in [true, false] {
        let kernel = SimKernel::default();
        let source = Object::written_by_peer(is_stream, &patterned(600_000), &[64 << 10; 10]);
        let source = kernel.source(source, OFlags::empty());
        let sink = kernel.sink(Object::Null(Vec::new()), OFlags::empty());
        let report = transfer(&kernel, (&source, &sink), Options::default()).unwrap();
        let attempts = attempts(&report);
        // The socket never holds enough for a private pipe before that.
        let (warm_up, longest) = if is_stream {
            (Strategy::Buffered, plan::LONG_STREAM + (64 << 10))
        } else {
            (Strategy::Splice, 300_000)
        };
        assert_eq!(attempts[0].0, warm_up);
        assert!(
            (plan::OFFLOAD_ABOVE..longest).contains(&attempts[0].1),
            "{attempts:?}"
        );
        assert_eq!(attempts[1].0, Strategy::SplicePipe);
        assert_eq!(attempts[0].1 + attempts[1].1, 600_000);
    }
}

/// A splice in non-blocking mode fails with `EAGAIN` at the mark, as if the socket were empty.
#[test]
fn an_urgent_mark_costs_a_requested_splice_two_calls() {
    const MARK: usize = 20_000;
    let kernel = SimKernel::default();
    let mut source = Object::written_by_peer(true, &patterned(50_000), &[]);
    if let Object::Channel(socket) = &mut source {
        socket.urgent_marks.push_back(MARK as u64);
    }
    let source = kernel.source(source, OFlags::NONBLOCK);
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    let options = Options {
        strategy: Some(Strategy::SplicePipe),
        ..Options::default()
    };
    let report = transfer(&kernel, (&source, &sink), options).unwrap();
    assert_eq!(report.bytes(), 50_000);
    assert!(kernel.contents(&sink) == patterned(50_000));
    let splices = kernel.results(Call::Splice);
    let n_blocked = splices.iter().filter(|n| **n == Err(Errno::AGAIN)).count();
    // Before the first byte, twice at the mark, and before the end.
    assert_eq!(n_blocked, 4, "{splices:?}");
}

/// 64 KiB are read and written first.
#[test]
fn a_socket_that_holds_another_96_kib_goes_to_a_pipe_through_a_private_pipe() {
    for (len, n_private_pipes) in [(159 << 10, 0), (160 << 10, 1)] {
        let kernel = SimKernel::default();
        let mut source = Object::written_by_peer(true, &patterned(len), &[len]);
        if let Object::Channel(socket) = &mut source {
            socket.capacity = len;
        }
        let source = kernel.source(source, OFlags::empty());
        let sink = kernel.sink(Object::read_by_peer(false), OFlags::empty());
        let report = transfer(&kernel, (&source, &sink), Options::default()).unwrap();
        assert_eq!(report.bytes(), len as u64);
        assert_eq!(kernel.results(Call::Pipe).len(), n_private_pipes, "{len}");
    }
}

#[test]
fn a_socket_that_holds_little_more_is_not_given_a_private_pipe() {
    for (len, pipes) in [(400_000, 0), (500_000, 1)] {
        let kernel = SimKernel::default();
        let mut source = Object::written_by_peer(true, &patterned(len), &[len]);
        if let Object::Channel(socket) = &mut source {
            socket.capacity = 512 << 10;
        }
        let source = kernel.source(source, OFlags::empty());
        let sink = kernel.sink(Object::Null(Vec::new()), OFlags::empty());
        let report = transfer(&kernel, (&source, &sink), Options::default()).unwrap();
        assert_eq!(report.bytes(), len as u64);
        assert_eq!(kernel.results(Call::Pipe).len(), pipes, "{len} bytes");
    }
}

#[test]
fn pipes_grow_only_when_the_transfer_is_long() {
    for (len, grown) in [(10_000, 64 << 10), (600_000, 1 << 20)] {
        let kernel = SimKernel::default();
        let source = kernel.source(
            Object::written_by_peer(false, &patterned(len), &[]),
            OFlags::empty(),
        );
        let sink = kernel.sink(Object::read_by_peer(false), OFlags::empty());
        transfer(&kernel, (&source, &sink), Options::default()).unwrap();
        assert_eq!(kernel.capacity(&source), grown);
        assert_eq!(kernel.capacity(&sink), grown);
    }
}

#[test]
fn pipes_grow_as_far_as_the_budget_allows_and_never_shrink() {
    for (before, max, injections, after) in [
        (64 << 10, 256 << 10, vec![], 256 << 10),
        (64 << 10, 4096, vec![], 64 << 10),
        (2 << 20, 1 << 20, vec![], 2 << 20),
        (
            64 << 10,
            1 << 20,
            vec![Injection::Fails(Errno::PERM)],
            512 << 10,
        ),
        (
            64 << 10,
            1 << 20,
            vec![Injection::Fails(Errno::BUSY)],
            64 << 10,
        ),
    ] {
        let kernel = SimKernel::default();
        kernel.state.borrow_mut().pipe_max = max;
        let source = kernel.source(Object::file(&patterned(600_000)), OFlags::empty());
        let mut sink = Object::read_by_peer(false);
        if let Object::Channel(channel) = &mut sink {
            channel.capacity = before;
        }
        let sink = kernel.sink(sink, OFlags::empty());
        kernel.inject(Call::SetPipeCapacity, &injections);
        let report = transfer(&kernel, (&source, &sink), Options::default()).unwrap();
        assert_eq!(kernel.capacity(&sink), after);
        assert_eq!(
            report.grown_sink(),
            Some(after).filter(|after| *after != before)
        );
        assert_eq!(report.bytes(), 600_000);
    }
}

#[test]
fn pipes_do_not_grow_unasked() {
    let kernel = SimKernel::default();
    let source = kernel.source(Object::file(&patterned(600_000)), OFlags::empty());
    let sink = kernel.sink(Object::read_by_peer(false), OFlags::empty());
    let options = Options {
        grow_pipes: false,
        ..Options::default()
    };
    let report = transfer(&kernel, (&source, &sink), options).unwrap();
    assert_eq!(
        (report.grown_sink(), kernel.capacity(&sink)),
        (None, 64 << 10)
    );
}

/// A new buffer for each step would cost its page faults each time.
#[test]
fn a_transfer_allocates_at_most_two_buffers() {
    let mut lying = File::holding(&patterned(1_000_000));
    lying.claimed_size = Some(0);
    for source in [
        Object::file(&patterned(1_000_000)),
        Object::File(lying),
        Object::written_by_peer(true, &patterned(1_000_000), &[]),
    ] {
        let kernel = SimKernel::default();
        let source = kernel.source(source, OFlags::empty());
        let sink = kernel.sink(Object::file(&[]), OFlags::empty());
        let options = Options {
            strategy: Some(Strategy::Buffered),
            ..Options::default()
        };
        transfer(&kernel, (&source, &sink), options).unwrap();
        let n_buffers = kernel.state.borrow().n_buffers;
        assert!(n_buffers <= 2, "{n_buffers} buffers");
    }
}

/// On 32-bit targets 4 GiB and a byte were truncated to a byte, and the file was read in the
/// smallest pieces.
#[test]
fn a_file_of_4_gib_is_read_into_the_largest_buffer() {
    let mut long = File::holding(&patterned(1_000_000));
    long.claimed_size = Some(1 << 32);
    let kernel = SimKernel::default();
    let source = kernel.source(Object::File(long), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    let options = Options {
        strategy: Some(Strategy::Buffered),
        sparse: Sparse::Fill,
        ..Options::default()
    };
    transfer(&kernel, (&source, &sink), options).unwrap();
    let reads = kernel.results(Call::Read);
    assert_eq!(reads[0], Ok(buffer::DEFAULT_CAPACITY), "{reads:?}");
}

#[test]
fn a_short_file_costs_a_read_a_write_and_the_read_that_finds_its_end() {
    let kernel = SimKernel::default();
    let source = kernel.source(Object::file(&patterned(1)), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    transfer(&kernel, (&source, &sink), Options::default()).unwrap();
    let log = kernel.state.borrow().log.clone();
    assert_eq!(
        log,
        [
            (Call::Read, Ok(1)),
            (Call::Write, Ok(1)),
            (Call::Read, Ok(0))
        ]
    );
}

/// A splice from a stream returns 0 at an urgent byte too.
#[test]
fn the_end_of_a_spliced_stream_costs_one_read_more() {
    for strategy in [None, Some(Strategy::SplicePipe)] {
        let kernel = SimKernel::default();
        let source = Object::written_by_peer(true, &patterned(750_000).repeat(2), &[64 << 10; 24]);
        let source = kernel.source(source, OFlags::empty());
        let sink = kernel.sink(Object::file(&[]), OFlags::empty());
        let options = Options {
            strategy,
            ..Options::default()
        };
        let report = transfer(&kernel, (&source, &sink), options).unwrap();
        assert_eq!(report.strategy(), Some(Strategy::SplicePipe));
        let log = kernel.state.borrow().log.clone();
        let moves = [Call::Read, Call::Write, Call::Splice];
        let moves = log.iter().filter(|(call, _)| moves.contains(call));
        let last: Vec<_> = moves.rev().take(3).collect();
        assert!(
            matches!(last[2], (Call::Splice, Ok(1..)))
                && *last[1] == (Call::Splice, Ok(0))
                && *last[0] == (Call::Read, Ok(0)),
            "{last:?}"
        );
    }
}

/// The search costs a descriptor, and two calls for each range of data.
#[test]
fn only_a_file_that_has_holes_is_searched_for_them() {
    let mut with_hole = patterned(600_000);
    with_hole[100_000..200_000].fill(0);
    for (file, sparse, is_searched) in [
        (File::holding(&patterned(600_000)), Sparse::Keep, false),
        (File::sparse(&with_hole), Sparse::Keep, true),
        (File::sparse(&with_hole), Sparse::Fill, false),
        (
            File::holding(&patterned(600_000)),
            Sparse::KeepUnwritten,
            false,
        ),
        (
            File::holding(&patterned(1 << 20)),
            Sparse::KeepUnwritten,
            true,
        ),
    ] {
        let kernel = SimKernel::default();
        let source = kernel.source(Object::File(file), OFlags::empty());
        let sink = kernel.sink(Object::file(&[]), OFlags::empty());
        let options = Options {
            sparse,
            ..Options::default()
        };
        transfer(&kernel, (&source, &sink), options).unwrap();
        let searches = kernel.results(Call::SeekExtent);
        assert_eq!(!searches.is_empty(), is_searched, "{searches:?}");
    }
}

#[test]
fn a_file_of_a_few_pages_is_read_and_written_to_a_pipe_and_a_longer_one_is_not() {
    for (len, strategy) in [
        (12 << 10, Strategy::Buffered),
        ((12 << 10) + 1, Strategy::Splice),
    ] {
        let kernel = SimKernel::default();
        let source = Object::file(&patterned(len));
        let source = kernel.source(source, OFlags::empty());
        let sink = kernel.sink(Object::read_by_peer(false), OFlags::empty());
        let report = transfer(&kernel, (&source, &sink), Options::default()).unwrap();
        assert_eq!(attempts(&report)[0].0, strategy, "{len} bytes");
    }
}
