//! Sinks and sources that fail, and filters that make no progress.

use std::fs::File;

use rustix::io::Errno;
use zcopy::{FilterTransfer, Filtered, Input, Remaining, Side};

use super::{QuoteLines, toggle, toggled};
use crate::child_process::Child;
use crate::endpoints::{Source, SourceKind, full};
use crate::files::{assert_same, contents, cursor, file, file_in, pattern, read_to_end};
use crate::mounts::Fs;

#[test]
fn a_full_device_takes_nothing_and_filtered_bytes_are_handed_back() {
    let full = full();
    for kind in [SourceKind::Memfd, SourceKind::Pipe, SourceKind::UnixStream] {
        let source = Source::new(kind, b"one\ntwo\nthree").unwrap();
        let mut filter = FilterTransfer::new(&full, QuoteLines::default());
        let error = filter.run(&source.fd).unwrap_err();
        assert_eq!((error.side(), error.bytes()), (Side::Sink, 0));
        assert_eq!(error.undelivered(), b"> one\n> two\n");
        if kind == SourceKind::Memfd {
            assert_eq!(cursor(&source.fd), 8);
            assert_eq!(filter.pending_input(), b"");
            assert_eq!(filter.finish().unwrap().bytes(), 0);
        } else {
            assert_eq!(filter.pending_input(), b"three");
            let error = filter.finish().unwrap_err();
            assert_eq!(error.undelivered(), b"> three");
        }
    }
}

#[test]
fn a_file_size_limit_is_reached_to_the_byte() {
    const LIMIT: u64 = (1 << 20) + 1000;
    let Some(dir) = Fs::Ext4.dir() else {
        return;
    };
    let bytes = pattern(9 << 20);
    let (source, sink) = (file_in(&dir, &bytes), file_in(&dir, b""));
    let child = Child::that_ignores_xfsz().file_size(LIMIT).filtering();
    let ends = [&source, &sink].map(|end| end.try_clone().unwrap().into());
    let [from, to] = ends;
    let report = child.run(from, to).unwrap();
    let errno = Errno::FBIG.raw_os_error();
    assert_eq!(report.outcome, Err(("sink".to_owned(), errno)));
    assert_eq!(report.bytes, LIMIT);
    let filtered = [contents(&sink), report.undelivered].concat();
    let consumed = usize::try_from(cursor(&source)).unwrap();
    assert_same(&filtered, &toggled(&bytes[..consumed]), "a limit");
}

/// The first page of `/proc/self/mem` cannot be read.
#[test]
fn the_next_source_is_filtered_after_one_that_fails() {
    let bad = File::open("/proc/self/mem").unwrap();
    let sink = file(b"");
    let mut filter = FilterTransfer::new(&sink, QuoteLines::default());
    filter.run(file(b"one\ntw")).unwrap();
    let error = filter.run(&bad).unwrap_err();
    assert_eq!((error.side(), error.bytes()), (Side::Source, 0));
    assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
    filter.run(file(b"o\n")).unwrap();
    filter.finish().unwrap();
    assert_eq!(contents(&sink), b"> one\n> two\n");
}

#[test]
fn descriptors_that_cannot_serve_are_refused_before_anything_is_read() {
    let (root, null) = (File::open("/").unwrap(), File::open("/dev/null").unwrap());
    let sink = file(b"");
    let mut filter = FilterTransfer::new(&sink, toggle);
    let error = filter.run(&root).unwrap_err();
    assert!(error.is_refused());
    assert_eq!(
        (error.side(), error.raw_os_error()),
        (Side::Source, Some(21))
    );
    assert!(filter.plan(&root).unwrap_err().is_refused());
    for (sink, errno) in [(&root, Errno::ISDIR), (&null, Errno::BADF)] {
        let source = file(b"some bytes");
        let mut filter = FilterTransfer::new(sink, toggle);
        let error = filter.run(&source).unwrap_err();
        assert!(error.is_refused());
        assert_eq!(error.side(), Side::Sink);
        assert_eq!(error.raw_os_error(), Some(errno.raw_os_error()));
        assert_eq!(cursor(&source), 0);
        assert!(filter.finish().unwrap_err().is_refused());
    }
}

#[test]
fn a_filter_is_told_when_a_line_fills_the_buffer() {
    let source = Source::new(SourceKind::Pipe, &pattern(300_000)).unwrap();
    let sink = file(b"");
    let mut inputs = Vec::new();
    let mut filter_transfer = FilterTransfer::new(&sink, |input: Input<'_>, output: &mut [u8]| {
        inputs.push((input.remaining, input.bytes.len()));
        match input.remaining {
            Remaining::More => Filtered::NEED_MORE,
            _ => toggle(input, output),
        }
    });
    filter_transfer.run(&source.fd).unwrap();
    filter_transfer.finish().unwrap();
    assert_same(&contents(&sink), &toggled(&pattern(300_000)), "one line");
    let full: Vec<_> = inputs
        .iter()
        .filter(|(rest, _)| *rest == Remaining::Full)
        .collect();
    assert!(!full.is_empty());
    assert!(full.iter().all(|(_, len)| *len >= 64 << 10), "{inputs:?}");
    // Each full buffer was offered once before, as one that could still grow.
    let offered_again = inputs.windows(2).filter(|two| two[1].0 == Remaining::Full);
    assert!(
        offered_again
            .into_iter()
            .all(|two| two[0] == (Remaining::More, two[1].1))
    );
}

#[test]
fn a_filter_that_makes_no_progress_fails() {
    for len in [300_000, 3 << 20] {
        for kind in [SourceKind::Memfd, SourceKind::Pipe] {
            let bytes = pattern(len);
            let source = Source::new(kind, &bytes).unwrap();
            let sink = file(b"");
            let mut filter =
                FilterTransfer::new(&sink, |_: Input<'_>, _: &mut [u8]| Filtered::NEED_MORE);
            let error = filter.run(&source.fd).unwrap_err();
            assert_eq!((error.side(), error.call()), (Side::Neither, None));
            assert_eq!(error.to_string(), "the filter failed");
            let calls = error.report().attempts()[0].calls();
            assert!(calls < 10, "{calls} calls");
            if kind == SourceKind::Memfd {
                assert_same(&read_to_end(&source.fd), &bytes, "it is all there");
            }
        }
    }
}

#[test]
fn a_filter_that_panics_and_continues_sees_no_byte_twice() {
    let bytes = pattern(100);
    let source = Source::new(SourceKind::Pipe, &bytes).unwrap();
    let sink = file(b"");
    let (mut n_calls, mut seen) = (0, Vec::new());
    let mut filter = FilterTransfer::new(&sink, |input: Input<'_>, room: &mut [u8]| {
        n_calls += 1;
        assert!(n_calls != 3, "the third call");
        let n = input.bytes.len().min(10);
        seen.extend_from_slice(&input.bytes[..n]);
        room[..n].copy_from_slice(&input.bytes[..n]);
        Filtered {
            consumed: n,
            produced: n,
        }
    });
    let run = std::panic::AssertUnwindSafe(|| filter.run(&source.fd));
    let panic = std::panic::catch_unwind(run).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"the third call"));
    filter.run(&source.fd).unwrap();
    filter.finish().unwrap();
    assert_same(&contents(&sink), &bytes, "the output has every byte once");
    assert_same(&seen, &bytes, "the filter has seen every byte once");
}
