//! `O_DIRECT`, with files that can be reopened and files that cannot.

use std::os::fd::OwnedFd;

use crate::options::Options;
use crate::report::Report;
use crate::side::Side;
use crate::sim::interference::{Action, Interference, Target};
use crate::sim::kernel::SimKernel;
use crate::sim::objects::{File, Object, patterned};
use crate::sim::run::transfer;
use crate::sim::script::{Call, Injection};
use crate::strategy::Strategy;
use crate::sys::{Errno, OFlags};

const LEN: usize = 100_000;

fn buffered() -> Options {
    Options {
        strategy: Some(Strategy::Buffered),
        ..Options::default()
    }
}

/// Returns a kernel in which files can be reopened, or not.
fn kernel(has_proc: bool) -> SimKernel {
    let kernel = SimKernel::default();
    kernel.state.borrow_mut().has_proc = has_proc;
    kernel
}

/// Returns a pipe whose peer writes chunks that are no multiples of a block.
fn oddly(kernel: &SimKernel) -> OwnedFd {
    let chunks = [100, 3, 5000, 1, 513, 20_000];
    let source = Object::written_by_peer(false, &patterned(LEN), &chunks);
    kernel.source(source, OFlags::empty())
}

fn run(kernel: &SimKernel, source: &OwnedFd, sink: &OwnedFd) -> Report {
    transfer(kernel, (source, sink), buffered()).unwrap()
}

#[test]
fn whole_blocks_are_gathered_and_written_directly_and_the_rest_goes_the_other_way() {
    let kernel = kernel(true);
    let source = oddly(&kernel);
    let sink = kernel.sink(Object::file(&[]), OFlags::DIRECT);
    assert_eq!(run(&kernel, &source, &sink).bytes(), LEN as u64);
    assert_eq!(kernel.contents(&sink), patterned(LEN));
    assert_eq!(kernel.cursor(&sink), LEN as u64);
    let writes = kernel.results(Call::Write);
    let [whole @ .., refused, rest] = &writes[..] else {
        panic!("{writes:?}");
    };
    assert_eq!((*refused, *rest), (Err(Errno::INVAL), Ok(LEN % 4096)));
    let is_whole = |written: &Result<usize, Errno>| written.is_ok_and(|n| n % 4096 == 0);
    assert!(whole.iter().all(is_whole), "{writes:?}");
}

/// With a write for each block the transfer would wait for the disk 24 times.
#[test]
fn all_whole_blocks_of_a_read_are_written_at_once() {
    let kernel = kernel(true);
    let source = kernel.source(Object::file(&patterned(LEN)), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::DIRECT);
    assert_eq!(run(&kernel, &source, &sink).bytes(), LEN as u64);
    assert_eq!(kernel.contents(&sink), patterned(LEN));
    let rest = LEN % 4096;
    let expected = [Ok(LEN - rest), Err(Errno::INVAL), Ok(rest)];
    assert_eq!(kernel.results(Call::Write), expected);
}

#[test]
fn without_another_opening_whole_blocks_arrive_and_the_refusal_of_the_rest_stands() {
    let kernel = kernel(false);
    let source = oddly(&kernel);
    let sink = kernel.sink(Object::file(&[]), OFlags::DIRECT);
    let error = transfer(&kernel, (&source, &sink), buffered()).unwrap_err();
    assert_eq!((error.side(), error.call()), (Side::Sink, Some("write")));
    assert_eq!(error.raw_os_error(), Some(Errno::INVAL.raw_os_error()));
    let n = LEN / 4096 * 4096;
    assert_eq!(error.bytes(), n as u64);
    assert_eq!(kernel.contents(&sink), patterned(LEN)[..n]);
    assert_eq!(error.undelivered(), &patterned(LEN)[n..]);
}

#[test]
fn without_another_opening_a_source_at_an_odd_place_is_refused() {
    let kernel = kernel(false);
    let source = kernel.source(Object::file(&patterned(LEN)), OFlags::DIRECT);
    kernel.set_cursor(&source, 100);
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    let error = transfer(&kernel, (&source, &sink), buffered()).unwrap_err();
    assert_eq!((error.side(), error.bytes()), (Side::Source, 0));
    assert_eq!(error.raw_os_error(), Some(Errno::INVAL.raw_os_error()));
}

#[test]
fn a_source_at_an_odd_place_is_read_the_other_way_up_to_its_next_block() {
    let kernel = kernel(true);
    let source = kernel.source(Object::file(&patterned(LEN)), OFlags::DIRECT);
    kernel.set_cursor(&source, 100);
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    let n = LEN - 100;
    assert_eq!(run(&kernel, &source, &sink).bytes(), n as u64);
    assert_eq!(kernel.contents(&sink), patterned(LEN)[100..]);
    assert_eq!(kernel.cursor(&source), LEN as u64);
    let reads = kernel.results(Call::Read);
    assert_eq!(reads[..2], [Err(Errno::INVAL), Ok(3996)]);
    assert!(!reads[2..].contains(&Err(Errno::INVAL)), "{reads:?}");
}

/// The file has grown since `fstat`. Reads of the new bytes advance the cursor, as any read does.
#[test]
fn a_source_that_is_longer_than_it_claims_is_read_on_from_an_odd_place_and_each_byte_once() {
    for claimed in [50, 100, 150] {
        let kernel = kernel(true);
        let mut file = File::holding(&patterned(LEN));
        file.claimed_size = Some(claimed);
        let source = kernel.source(Object::File(file), OFlags::DIRECT);
        kernel.set_cursor(&source, 100);
        let sink = kernel.sink(Object::file(&[]), OFlags::empty());
        let n = LEN - 100;
        assert_eq!(run(&kernel, &source, &sink).bytes(), n as u64, "{claimed}");
        assert!(kernel.contents(&sink) == patterned(LEN)[100..], "{claimed}");
        assert_eq!(kernel.cursor(&source), LEN as u64, "{claimed}");
    }
}

/// The transfer gave back the bytes that a short read at an unaligned position did not return, as
/// if they lay behind the end. Another reader read bytes twice, and these bytes were lost.
#[test]
fn a_short_read_at_an_odd_place_keeps_its_range_if_others_have_read_on() {
    for short in [10, 412, 3995] {
        let kernel = kernel(true);
        let source = kernel.source(Object::file(&patterned(LEN)), OFlags::DIRECT);
        kernel.set_cursor(&source, 100);
        let sink = kernel.sink(Object::file(&[]), OFlags::empty());
        kernel.inject(Call::Read, &[Injection::Short(short)]);
        let (source_end, theirs) = (Target::Source(0), Action::Read(5000));
        kernel.schedule(Interference::before(Call::Read, 0, source_end, theirs));
        run(&kernel, &source, &sink);
        let data = patterned(LEN);
        let expected = [&data[100..4096], &data[4096 + 5000..]].concat();
        assert!(kernel.contents(&sink) == expected, "{short}");
        assert_eq!(kernel.cursor(&source), LEN as u64);
    }
}

/// A failure within the unaligned rest, or within the blocks before it, loses no bytes from the
/// count.
#[test]
fn unwritten_bytes_are_handed_back_whichever_write_fails() {
    for nth in 0..12 {
        let kernel = kernel(true);
        let source = oddly(&kernel);
        let sink = kernel.sink(Object::file(&[]), OFlags::DIRECT);
        kernel.set_cursor(&sink, 100);
        let mut injections = vec![Injection::Normal; nth];
        injections.push(Injection::Fails(Errno::IO));
        kernel.inject(Call::Write, &injections);
        let (n, undelivered) = match transfer(&kernel, (&source, &sink), buffered()) {
            Ok(report) => (report.bytes(), Vec::new()),
            Err(error) => {
                assert_eq!(error.side(), Side::Sink, "{error:#}");
                (error.bytes(), error.into_undelivered())
            }
        };
        assert_eq!(kernel.cursor(&sink), 100 + n);
        let rest = kernel.contents(&source);
        let written = kernel.contents(&sink);
        let written = written.get(100..).unwrap_or_default();
        assert_eq!(written.len() as u64, n);
        let all = [written, &undelivered[..], &rest].concat();
        assert!(all == patterned(LEN), "write {nth}: {n} bytes");
    }
}

/// The cursor of the reopened file follows its writes, and is 0 before the first one.
#[test]
fn a_write_of_nothing_to_an_appending_sink_moves_no_cursor() {
    let kernel = kernel(true);
    let source = kernel.source(Object::file(&patterned(100)), OFlags::empty());
    let held = vec![7; 4096];
    let sink = kernel.sink(Object::file(&held), OFlags::DIRECT | OFlags::APPEND);
    kernel.set_cursor(&sink, 5);
    kernel.inject(Call::Write, &[Injection::ReturnsZero]);
    let error = transfer(&kernel, (&source, &sink), buffered()).unwrap_err();
    assert_eq!((error.side(), error.bytes()), (Side::Sink, 0));
    assert_eq!(error.io_error_kind(), std::io::ErrorKind::WriteZero);
    assert_eq!(kernel.cursor(&sink), 5);
    assert!(kernel.contents(&sink) == held);
}

/// A splice that fails may have written a part, and returns none of it.
#[test]
fn nothing_but_whole_blocks_at_whole_places_is_spliced_to_a_direct_sink() {
    const LONG: usize = 600_000;
    for start in [0, 100, 4096] {
        let kernel = kernel(true);
        let source = kernel.source(Object::file(&patterned(LONG)), OFlags::empty());
        let sink = kernel.sink(Object::file(&[]), OFlags::DIRECT);
        kernel.set_cursor(&sink, start);
        let report = transfer(&kernel, (&source, &sink), Options::default()).unwrap();
        assert_eq!(report.bytes(), LONG as u64);
        assert!(kernel.contents(&sink)[start as usize..] == patterned(LONG));
        let spliced = kernel.results(Call::Splice);
        assert!(
            !spliced.is_empty() && spliced.iter().all(Result::is_ok),
            "{spliced:?}"
        );
        let drained = spliced.iter().flatten().skip(1).step_by(2);
        let is_misaligned = drained.copied().any(|n| n % 4096 != 0);
        assert!(
            !is_misaligned && (start != 100 || spliced.len() == 1),
            "{start}: {spliced:?}"
        );
    }
}

/// NFS reports at `close(2)` that the server has rejected written bytes.
#[test]
fn an_error_at_the_close_of_the_second_opening_fails_the_transfer() {
    for (errno, is_failure) in [(Errno::IO, true), (Errno::INTR, false)] {
        let kernel = kernel(true);
        let source = oddly(&kernel);
        let sink = kernel.sink(Object::file(&[]), OFlags::DIRECT);
        kernel.inject(Call::Close, &[Injection::Fails(errno)]);
        let outcome = transfer(&kernel, (&source, &sink), buffered());
        assert_eq!(kernel.results(Call::Close), [Err(errno)]);
        assert_eq!(kernel.contents(&sink), patterned(LEN));
        let error = outcome.err().filter(|_| is_failure);
        assert_eq!(error.is_some(), is_failure);
        if let Some(error) = error {
            assert_eq!((error.side(), error.call()), (Side::Sink, Some("close")));
            assert_eq!(error.raw_os_error(), Some(errno.raw_os_error()));
        }
    }
}
