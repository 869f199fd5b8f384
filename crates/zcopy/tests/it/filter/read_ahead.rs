//! Long files, which a thread reads ahead.

use std::fs::File;
use std::os::unix::fs::FileExt;

use zcopy::{FilterTransfer, Filtered, Input};

use super::{QuoteLines, quoted, toggle, toggled};
use crate::endpoints::{Sink, SinkKind, Source, SourceKind, full, null, pipe};
use crate::files::{assert_same, contents, cursor, file_in, pattern, read_to_end, set_cursor};
use crate::mounts::{Fs, mount_tmpfs};
use crate::skip::skip;

/// Long enough that the thread fills its buffers several times.
const LONG: usize = (9 << 20) + 11;

#[test]
fn a_long_file_is_read_from_its_cursor_to_its_end() {
    let bytes = pattern(LONG);
    for kind in [SourceKind::Regular(Fs::Ext4), SourceKind::Memfd] {
        for start in [
            0,
            1,
            4096,
            1 << 20,
            LONG - (1 << 20),
            LONG - 100,
            LONG,
            LONG + 5,
        ] {
            let Some(source) = Source::new(kind, &bytes) else {
                continue;
            };
            set_cursor(&source.fd, start as u64);
            let sink = Sink::new(SinkKind::Memfd).unwrap();
            let mut filter = FilterTransfer::new(&sink.fd, QuoteLines::default());
            filter.run(&source.fd).unwrap();
            filter.finish().unwrap();
            assert_eq!(cursor(&source.fd), LONG.max(start) as u64);
            let expected = quoted(&bytes[start.min(LONG)..]);
            assert_same(&sink.into_bytes(0).unwrap(), &expected, "a long file");
        }
    }
}

/// Only the thread reads 256 KiB at once; other reads are 64 KiB long.
#[test]
fn long_files_and_block_devices_are_read_ahead() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        skip("there is one processor");
        return;
    }
    let null = null();
    let calls = |source: &Source| {
        let report = FilterTransfer::new(&null, toggle).run(&source.fd).unwrap();
        (report.bytes(), report.attempts()[0].calls())
    };
    let device = Source::new(SourceKind::Block, b"");
    let file = Source::new(SourceKind::Memfd, &vec![0; 8 << 20]);
    for source in [device, file].into_iter().flatten() {
        // 32 reads, 32 writes, and the read that finds the end.
        assert_eq!(calls(&source), (8 << 20, 32 + 32 + 1), "{:?}", source.kind);
    }
    let short = Source::new(SourceKind::Memfd, &vec![0; (1 << 20) - 1]).unwrap();
    assert_eq!(calls(&short), ((1 << 20) - 1, 16 + 16 + 1));
    let nearly_read = Source::new(SourceKind::Memfd, &vec![0; 8 << 20]).unwrap();
    set_cursor(&nearly_read.fd, (8 << 20) - (128 << 10));
    assert_eq!(calls(&nearly_read), (128 << 10, 2 + 2 + 1));
}

/// The cursor of the source ends behind the bytes that the filter consumed, not behind those read
/// ahead.
#[test]
fn a_sink_that_fails_leaves_the_cursor_behind_the_bytes_consumed() {
    let bytes = pattern(LONG);
    let mut sinks: Vec<(&str, File)> = Vec::new();
    sinks.push(("full", full().into()));
    let root = mount_tmpfs(3);
    if let Some(root) = &root {
        sinks.push(("tmpfs", file_in(&root.dir(), b"")));
    }
    for (name, sink) in &sinks {
        for kind in [SourceKind::Regular(Fs::Ext4), SourceKind::Memfd] {
            let Some(source) = Source::new(kind, &bytes) else {
                continue;
            };
            sink.set_len(0).ok();
            if *name == "tmpfs" {
                set_cursor(sink, 0);
            }
            let what = format!("{kind:?} to {name}");
            let error = FilterTransfer::new(sink, QuoteLines::default())
                .run(&source.fd)
                .unwrap_err();
            assert_eq!(error.side(), zcopy::Side::Sink, "{what}");
            assert_eq!(
                error.io_error_kind(),
                std::io::ErrorKind::StorageFull,
                "{what}"
            );
            let arrived = if *name == "tmpfs" {
                contents(sink)
            } else {
                Vec::new()
            };
            assert_eq!(error.bytes(), arrived.len() as u64, "{what}");
            assert!(*name != "tmpfs" || arrived.len() > 2 << 20, "{what}");
            let filtered = [&arrived[..], error.undelivered()].concat();
            let consumed = usize::try_from(cursor(&source.fd)).unwrap();
            assert_same(&filtered, &quoted(&bytes[..consumed]), &what);
            assert_eq!(bytes[consumed - 1], b'\n', "{what}");
        }
    }
}

#[test]
fn a_reader_that_closes_leaves_the_cursor_behind_the_bytes_consumed() {
    let bytes = pattern(LONG);
    for n in [1, 100_000, 3 << 20] {
        let source = Source::new(SourceKind::Memfd, &bytes).unwrap();
        let (reader, sink) = pipe();
        let reader = std::thread::spawn(move || {
            let mut start = vec![0; n];
            std::io::Read::read_exact(&mut File::from(reader), &mut start).unwrap();
            start
        });
        let error = FilterTransfer::new(&sink, toggle)
            .run(&source.fd)
            .unwrap_err();
        assert_eq!(error.io_error_kind(), std::io::ErrorKind::BrokenPipe);
        let expected = toggled(&bytes);
        assert_same(&reader.join().unwrap(), &expected[..n], "the start");
        let consumed = usize::try_from(cursor(&source.fd)).unwrap();
        let accepted = usize::try_from(error.bytes()).unwrap();
        assert_same(
            error.undelivered(),
            &expected[accepted..consumed],
            "the rest",
        );
    }
}

/// Bytes that were given back to the file are read and filtered again.
#[test]
fn after_a_failure_the_same_file_can_be_continued() {
    let bytes = pattern(LONG);
    let source = Source::new(SourceKind::Memfd, &bytes).unwrap();
    let Some(root) = mount_tmpfs(3) else {
        return;
    };
    let sink = file_in(&root.dir(), b"");
    let mut filter = FilterTransfer::new(&sink, QuoteLines::default());
    let mut arrived = Vec::new();
    while let Err(error) = filter.run(&source.fd) {
        arrived.extend(contents(&sink));
        arrived.extend(error.undelivered());
        sink.set_len(0).unwrap();
        set_cursor(&sink, 0);
    }
    filter.finish().unwrap();
    arrived.extend(contents(&sink));
    assert_same(&arrived, &quoted(&bytes), "in pieces");
}

#[test]
fn a_panic_of_the_filter_ends_the_thread_and_reaches_the_caller() {
    let bytes = pattern(LONG);
    let source = Source::new(SourceKind::Memfd, &bytes).unwrap();
    let null = null();
    let mut n_calls = 0;
    let mut filter = FilterTransfer::new(&null, |input: Input<'_>, output: &mut [u8]| {
        n_calls += 1;
        assert!(n_calls != 5, "enough");
        toggle(input, output)
    });
    let run = std::panic::AssertUnwindSafe(|| filter.run(&source.fd));
    let panic = std::panic::catch_unwind(run).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"enough"));
    let stopped_at = cursor(&source.fd);
    assert!(stopped_at < LONG as u64);
    // The filter can be used again, with the rest of the file.
    let rest = filter.run(&source.fd).unwrap();
    assert!(rest.bytes() >= LONG as u64 - stopped_at);
}

#[test]
fn a_file_that_shrinks_ends_early() {
    let bytes = pattern(LONG);
    let source = Source::new(SourceKind::Memfd, &bytes).unwrap();
    let file = File::from(source.fd.try_clone().unwrap());
    let sink = Sink::new(SinkKind::Memfd).unwrap();
    let cut = 5 << 20;
    let mut filter = FilterTransfer::new(&sink.fd, |input: Input<'_>, output: &mut [u8]| {
        file.set_len(cut).unwrap();
        toggle(input, output)
    });
    let report = filter.run(&source.fd).unwrap();
    assert_eq!(report.bytes(), cut);
    drop(filter);
    let cut = usize::try_from(cut).unwrap();
    let arrived = sink.into_bytes(0).unwrap();
    assert_same(&arrived, &toggled(&bytes[..cut]), "up to the cut");
}

#[test]
fn a_file_that_grows_is_read_to_its_new_end() {
    let bytes = pattern(LONG);
    let source = Source::new(SourceKind::Memfd, &bytes[..LONG - 100_000]).unwrap();
    let file = File::from(source.fd.try_clone().unwrap());
    let (reader, sink) = pipe();
    let reader = std::thread::spawn(move || read_to_end(&reader));
    let mut filter = FilterTransfer::new(&sink, |input: Input<'_>, output: &mut [u8]| {
        file.write_all_at(&bytes[LONG - 100_000..], (LONG - 100_000) as u64)
            .unwrap();
        toggle(input, output)
    });
    assert_eq!(filter.run(&source.fd).unwrap().bytes(), LONG as u64);
    drop(filter);
    drop(sink);
    let arrived = reader.join().unwrap();
    assert_same(&arrived, &toggled(&pattern(LONG)), "all of it");
}

#[test]
fn a_long_file_is_read_even_if_the_filter_writes_nothing() {
    let source = Source::new(SourceKind::Memfd, &pattern(LONG)).unwrap();
    let null = null();
    let mut n = 0;
    let mut filter = FilterTransfer::new(&null, |input: Input<'_>, _: &mut [u8]| {
        n += input.bytes.len();
        Filtered {
            consumed: input.bytes.len(),
            produced: 0,
        }
    });
    assert_eq!(filter.run(&source.fd).unwrap().bytes(), 0);
    filter.finish().unwrap();
    assert_eq!((n, cursor(&source.fd)), (LONG, LONG as u64));
}
