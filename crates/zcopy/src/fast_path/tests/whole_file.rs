//! Whole files that are cloned by one call.

use std::os::fd::{AsRawFd as _, OwnedFd};

use crate::options::{Options, Reflink};
use crate::report::Ended;
use crate::side::Side;
use crate::sim::SimKernel;
use crate::sim::objects::{BLOCK, File, Object, patterned};
use crate::sim::run::{attempts, has_not_begun, transfer};
use crate::sim::script::{Call, Injection};
use crate::strategy::Strategy;
use crate::sys::OFlags;

const LEN: usize = 70_000;

/// Returns options for a clone of the whole file, without a fallback.
fn whole() -> Options {
    Options {
        reflink: Reflink::Always,
        source_offset: Some(0),
        sink_offset: Some(0),
        ..Options::default()
    }
}

fn ends(kernel: &SimKernel) -> (OwnedFd, OwnedFd) {
    ends_holding(kernel, &patterned(LEN), &[])
}

fn ends_holding(kernel: &SimKernel, source: &[u8], sink: &[u8]) -> (OwnedFd, OwnedFd) {
    let [source, sink] = [source, sink].map(|bytes| Object::File(on_btrfs(bytes)));
    let source = kernel.source(source, OFlags::empty());
    (source, kernel.sink(sink, OFlags::empty()))
}

fn on_btrfs(bytes: &[u8]) -> File {
    let mut file = File::holding(bytes);
    file.magic = 0x9123_683e;
    file
}

#[test]
fn a_whole_file_is_cloned_by_one_call_and_nothing_is_read() {
    let kernel = SimKernel::default();
    let (source, sink) = ends(&kernel);
    let report = transfer(&kernel, (&source, &sink), whole()).unwrap();
    assert_eq!(attempts(&report), [(Strategy::Reflink, LEN as u64, None)]);
    assert_eq!(
        (report.ended(), report.attempts()[0].calls()),
        (Ended::Eof, 1)
    );
    assert_eq!(kernel.results(Call::CloneFile).len(), 1);
    assert_eq!(kernel.results(Call::Read), []);
    assert!(kernel.contents(&sink) == patterned(LEN));
}

#[test]
fn a_clone_that_fails_once_or_is_cut_short_ends_in_all_bytes_or_an_error() {
    for injection in [
        Injection::Interrupted,
        Injection::Short(4096),
        Injection::Short(0),
        Injection::Fails(crate::sys::Errno::IO),
        Injection::Refused(0),
    ] {
        let kernel = SimKernel::default();
        let (source, sink) = ends(&kernel);
        kernel.inject(Call::CloneFile, &[injection]);
        match transfer(&kernel, (&source, &sink), whole()) {
            Ok(report) => {
                assert_eq!(report.bytes(), LEN as u64, "{injection:?}");
                assert!(kernel.contents(&sink) == patterned(LEN), "{injection:?}");
            }
            Err(error) => {
                let n = kernel.contents(&sink).len() as u64;
                assert!(
                    error.bytes() <= n && n < LEN as u64,
                    "{injection:?}: {error}"
                );
            }
        }
    }
}

/// Only the length of an empty sink shows that a clone was truncated.
#[test]
fn a_source_that_becomes_shorter_is_not_reported_beyond_its_end() {
    for (left, before) in [(0, 0), (0, LEN), (4096, 0), (4096, LEN), (4096, 4096)] {
        let kernel = SimKernel::default();
        let mut cut = on_btrfs(&patterned(LEN));
        cut.cut_when_cloned = Some(left);
        let source = kernel.source(Object::File(cut), OFlags::empty());
        let sink = Object::File(on_btrfs(&vec![7; before]));
        let sink = kernel.sink(sink, OFlags::empty());
        let report = match transfer(&kernel, (&source, &sink), whole()) {
            Ok(report) => report,
            Err(error) => error.into_report(),
        };
        let n = report.bytes() as usize;
        assert!(n <= left, "{report:?} of {left}");
        let mut expected = vec![7; before];
        expected.resize(before.max(n), 0);
        expected[..n].copy_from_slice(&patterned(n));
        assert!(kernel.contents(&sink) == expected, "{left}, {before}");
    }
}

#[test]
fn a_longer_sink_keeps_its_end() {
    let kernel = SimKernel::default();
    let n = 3 * BLOCK;
    let (source, sink) = ends_holding(&kernel, &patterned(n), &[7; 4 * BLOCK]);
    let report = transfer(&kernel, (&source, &sink), whole()).unwrap();
    assert_eq!(attempts(&report), [(Strategy::Reflink, n as u64, None)]);
    assert_eq!(kernel.results(Call::CloneFile), []);
    let mut expected = patterned(n);
    expected.resize(4 * BLOCK, 7);
    assert!(kernel.contents(&sink) == expected);
}

#[test]
fn a_sink_that_cannot_be_cloned_into_is_not_touched() {
    let kernel = SimKernel::default();
    let (source, sink) = ends(&kernel);
    let object = kernel.state.borrow().descriptor(sink.as_raw_fd()).object;
    let again = |flags| kernel.state.borrow_mut().name(object, flags, Side::Sink);
    let sinks = [
        again(OFlags::WRONLY | OFlags::APPEND),
        again(OFlags::RDONLY),
    ];
    for sink in &sinks {
        assert!(is_refused(&kernel, (&source, sink)));
        assert!(kernel.contents(sink).is_empty());
    }
    assert!(is_refused(&kernel, (&source, &source)));
    assert!(kernel.contents(&source) == patterned(LEN));
    let object = kernel.state.borrow().descriptor(source.as_raw_fd()).object;
    let unreadable = kernel
        .state
        .borrow_mut()
        .name(object, OFlags::WRONLY, Side::Source);
    assert!(is_refused(&kernel, (&unreadable, &sink)));
    assert!(kernel.contents(&sink).is_empty());
}

fn is_refused(kernel: &SimKernel, ends: (&OwnedFd, &OwnedFd)) -> bool {
    transfer(kernel, ends, whole()).is_err_and(|error| has_not_begun(&error))
}
