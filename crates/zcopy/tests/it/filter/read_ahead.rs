//! Long files, which a thread of its own reads ahead.

use std::fs::File;
use std::os::unix::fs::FileExt;

use zcopy::{FilterTransfer, Filtered, Input};

use super::{Quote, quoted, toggle, toggled};
use crate::endpoints::{Sink, SinkKind, Source, SourceKind, full, null, pipe};
use crate::files::{assert_same, contents, cursor, file_in, pattern, read_to_end, set_cursor};
use crate::mounts::{Fs, mount_tmpfs};
use crate::skip::skip;

/// Read ahead for long.
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
            let mut filter = FilterTransfer::new(&sink.fd, Quote::default());
            filter.run(&source.fd).unwrap();
            filter.finish().unwrap();
            assert_eq!(cursor(&source.fd), LONG.max(start) as u64);
            let expected = quoted(&bytes[start.min(LONG)..]);
            assert_same(&sink.into_bytes(0).unwrap(), &expected, "a long file");
        }
    }
}

/// By 256 KiB at once, which only the thread does.
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
        assert_eq!(calls(&source), (8 << 20, 32 + 32 + 1), "{:?}", source.kind);
    }
    let short = Source::new(SourceKind::Memfd, &vec![0; (1 << 20) - 1]).unwrap();
    assert_eq!(calls(&short), ((1 << 20) - 1, 16 + 16 + 1));
    let nearly_read = Source::new(SourceKind::Memfd, &vec![0; 8 << 20]).unwrap();
    set_cursor(&nearly_read.fd, (8 << 20) - (128 << 10));
    assert_eq!(calls(&nearly_read), (128 << 10, 2 + 2 + 1));
}

/// The source is where the filter has left it, however far it was read ahead.
#[test]
fn a_sink_that_fails_leaves_the_cursor_behind_what_was_taken() {
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
            let error = FilterTransfer::new(sink, Quote::default())
                .run(&source.fd)
                .unwrap_err();
            assert_eq!(error.side(), zcopy::Side::Sink, "{what}");
            assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{what}");
            let arrived = if *name == "tmpfs" {
                contents(sink)
            } else {
                Vec::new()
            };
            assert_eq!(error.bytes(), arrived.len() as u64, "{what}");
            assert!(*name != "tmpfs" || arrived.len() > 2 << 20, "{what}");
            let made = [&arrived[..], error.undelivered()].concat();
            let taken = usize::try_from(cursor(&source.fd)).unwrap();
            assert_same(&made, &quoted(&bytes[..taken]), &what);
            assert_eq!(bytes[taken - 1], b'\n', "{what}");
        }
    }
}

#[test]
fn a_reader_that_goes_away_leaves_the_cursor_behind_what_was_taken() {
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
        assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
        let expected = toggled(&bytes);
        assert_same(&reader.join().unwrap(), &expected[..n], "the start");
        let taken = usize::try_from(cursor(&source.fd)).unwrap();
        let accepted = usize::try_from(error.bytes()).unwrap();
        assert_same(error.undelivered(), &expected[accepted..taken], "the rest");
    }
}

/// What was given back is read again, and filtered as if nothing had happened.
#[test]
fn after_a_failure_the_same_file_goes_on() {
    let bytes = pattern(LONG);
    let source = Source::new(SourceKind::Memfd, &bytes).unwrap();
    let Some(root) = mount_tmpfs(3) else {
        return;
    };
    let sink = file_in(&root.dir(), b"");
    let mut filter = FilterTransfer::new(&sink, Quote::default());
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
fn a_filter_that_panics_ends_the_thread_and_the_panic_goes_on() {
    let bytes = pattern(LONG);
    let source = Source::new(SourceKind::Memfd, &bytes).unwrap();
    let null = null();
    let mut n_calls = 0;
    let mut filter = FilterTransfer::new(&null, |input: Input<'_>, room: &mut [u8]| {
        n_calls += 1;
        assert!(n_calls != 5, "enough");
        toggle(input, room)
    });
    let run = std::panic::AssertUnwindSafe(|| filter.run(&source.fd));
    let panic = std::panic::catch_unwind(run).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"enough"));
    let stopped_at = cursor(&source.fd);
    assert!(stopped_at < LONG as u64);
    // It can be used again, with what is left.
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
    let mut filter = FilterTransfer::new(&sink.fd, |input: Input<'_>, room: &mut [u8]| {
        file.set_len(cut).unwrap();
        toggle(input, room)
    });
    let report = filter.run(&source.fd).unwrap();
    assert_eq!(report.bytes(), cut);
    drop(filter);
    let cut = usize::try_from(cut).unwrap();
    let arrived = sink.into_bytes(0).unwrap();
    assert_same(&arrived, &toggled(&bytes[..cut]), "what was left");
}

#[test]
fn a_file_that_grows_is_read_to_where_it_ends_then() {
    let bytes = pattern(LONG);
    let source = Source::new(SourceKind::Memfd, &bytes[..LONG - 100_000]).unwrap();
    let file = File::from(source.fd.try_clone().unwrap());
    let (reader, sink) = pipe();
    let reader = std::thread::spawn(move || read_to_end(&reader));
    let mut filter = FilterTransfer::new(&sink, |input: Input<'_>, room: &mut [u8]| {
        file.write_all_at(&bytes[LONG - 100_000..], (LONG - 100_000) as u64)
            .unwrap();
        toggle(input, room)
    });
    assert_eq!(filter.run(&source.fd).unwrap().bytes(), LONG as u64);
    drop(filter);
    drop(sink);
    let arrived = reader.join().unwrap();
    assert_same(&arrived, &toggled(&pattern(LONG)), "all of it");
}

#[test]
fn a_long_file_that_is_dropped_is_read_all_the_same() {
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
