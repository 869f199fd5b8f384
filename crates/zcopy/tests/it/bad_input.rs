//! Bad input fails with a clear error before any byte moves.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::SocketType;
use zcopy::{Error, Reflink, Side, Strategy, Transfer};

use crate::endpoints::{null, pipe, tcp, unix};
use crate::files::{appending, contents, cursor, file, pattern, reopen, set_cursor, write_all};
use crate::mounts::Fs;
use crate::options::MaybeOptions as _;
use crate::refused::allowed;
use crate::strategies::assert_served;

/// Asserts that the transfer is refused on this side with this errno and a message that contains
/// these words, and that the plan fails with the same message.
#[track_caller]
fn assert_refused(
    transfer: Transfer<'_, impl AsFd, impl AsFd>,
    side: Side,
    errno: Errno,
    words: &str,
) -> Error {
    let planned = transfer.plan().unwrap_err();
    let error = transfer.run().unwrap_err();
    assert_eq!(planned.to_string(), error.to_string());
    assert!(error.is_refused() && !error.is_unsuitable(), "{error:#}");
    assert_eq!(error.side(), side, "{error:#}");
    assert_eq!(
        error.raw_os_error(),
        Some(errno.raw_os_error()),
        "{error:#}"
    );
    assert_eq!((error.bytes(), error.call()), (0, None), "{error:#}");
    assert!(error.undelivered().is_empty());
    assert!(error.to_string().contains(words), "{error}");
    error
}

#[track_caller]
fn assert_unsuitable(transfer: Transfer<'_, impl AsFd, impl AsFd>, strategy: Strategy) {
    let error = transfer.run().unwrap_err();
    assert!(error.is_unsuitable() && !error.is_refused(), "{error:#}");
    assert_eq!((error.side(), error.bytes()), (Side::Neither, 0));
    let words = error.to_string();
    assert!(
        words.starts_with(&format!("{strategy} cannot serve this pair: ")),
        "{words}"
    );
}

#[test]
fn a_descriptor_open_the_wrong_way_is_refused() {
    let file = file(b"hello");
    let write_only = reopen(&file, OFlags::WRONLY);
    let read_only = reopen(&file, OFlags::RDONLY);
    let (reader, writer) = pipe();
    for source in [&write_only, &writer] {
        let (_keep, sink) = pipe();
        let transfer = Transfer::new(source, &sink);
        assert_refused(transfer, Side::Source, Errno::BADF, "open for reading");
    }
    for sink in [&read_only, &reader] {
        let zeros = File::open("/dev/zero").unwrap();
        let transfer = Transfer::new(&zeros, sink);
        assert_refused(transfer, Side::Sink, Errno::BADF, "open for writing");
    }
    assert_eq!(contents(&file), b"hello");
}

#[test]
fn the_report_names_the_refused_one_of_several_sinks() {
    let file = file(b"hello");
    let read_only = reopen(&file, OFlags::RDONLY);
    let zeros = File::open("/dev/zero").unwrap();
    let (_keep, sink) = pipe();
    let transfer = Transfer::new(&zeros, &sink).also_to(&read_only);
    for error in [
        transfer.plan().unwrap_err(),
        transfer.limit(1).run().unwrap_err(),
    ] {
        assert_eq!((error.side(), error.bytes()), (Side::Sink, 0));
        let sinks = error.report().sinks();
        assert_eq!(sinks.len(), 2);
        assert!(sinks[0].error().is_none());
        let cause = sinks[1].error().and_then(|error| error.raw_os_error());
        assert_eq!(cause, Some(Errno::BADF.raw_os_error()));
    }
}

#[test]
fn a_descriptor_that_is_only_a_path_is_refused() {
    let path = |path| -> OwnedFd {
        rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap()
    };
    let null = null();
    let zeros = File::open("/dev/zero").unwrap();
    let (from, to) = (path("/dev/zero"), path("/dev/null"));
    let transfer = Transfer::new(&from, &null);
    assert_refused(transfer, Side::Source, Errno::BADF, "open for reading");
    let transfer = Transfer::new(&zeros, &to);
    assert_refused(transfer, Side::Sink, Errno::BADF, "open for writing");
}

#[test]
fn a_directory_is_refused() {
    let directory = File::open("/").unwrap();
    let file = file(b"hello");
    let transfer = Transfer::new(&directory, &file);
    assert_refused(transfer, Side::Source, Errno::ISDIR, "directory");
    let transfer = Transfer::new(&file, &directory);
    assert_refused(transfer, Side::Sink, Errno::ISDIR, "directory");
    assert_eq!((contents(&file), cursor(&file)), (b"hello".to_vec(), 0));
}

#[test]
fn an_offset_without_positions_is_refused() {
    let file = file(b"hello");
    let (pipe_reader, pipe_writer) = pipe();
    assert!(write_all(&pipe_writer, b"waiting"));
    let (here, there) = tcp();
    let (left, right) = unix(SocketType::DGRAM);
    let zeros: OwnedFd = File::open("/dev/zero").unwrap().into();
    for source in [&pipe_reader, &here, &left, &zeros] {
        let transfer = Transfer::new(source, &file).source_offset(1);
        assert_refused(transfer, Side::Source, Errno::SPIPE, "no positions");
    }
    let null = null();
    for sink in [&pipe_writer, &there, &right, &null] {
        let transfer = Transfer::new(&file, sink).sink_offset(1);
        assert_refused(transfer, Side::Sink, Errno::SPIPE, "no positions");
    }
    assert_eq!(cursor(&file), 0);
    let mut waiting = [0; 20];
    assert_eq!(rustix::io::read(&pipe_reader, &mut waiting), Ok(7));
}

#[test]
fn an_offset_beyond_the_largest_is_refused() {
    let (file, sink) = (file(b"hello"), file(b""));
    for offset in [1 << 63, u64::MAX] {
        let transfer = Transfer::new(&file, &sink).source_offset(offset);
        assert_refused(transfer, Side::Source, Errno::INVAL, "largest");
        let transfer = Transfer::new(&file, &sink).sink_offset(offset);
        assert_refused(transfer, Side::Sink, Errno::INVAL, "largest");
    }
    assert_eq!(contents(&sink), b"");
}

#[test]
fn an_offset_into_an_appending_sink_is_refused() {
    let (source, file) = (file(b"hello"), file(b"there"));
    let sink = appending(&file);
    let transfer = Transfer::new(&source, &sink).sink_offset(0);
    assert_refused(transfer, Side::Sink, Errno::INVAL, "appends");
    assert_eq!(contents(&file), b"there");
}

#[test]
fn a_pipe_at_both_ends_is_refused() {
    let (reader, writer) = pipe();
    assert!(write_all(&writer, b"round"));
    let transfer = Transfer::new(&reader, &writer);
    assert_refused(transfer, Side::Neither, Errno::INVAL, "same pipe");
    let (fifo_reader, fifo_writer) = crate::endpoints::fifo();
    let transfer = Transfer::new(&fifo_reader, &fifo_writer);
    assert_refused(transfer, Side::Neither, Errno::INVAL, "same pipe");
    let mut bytes = [0; 20];
    assert_eq!(rustix::io::read(&reader, &mut bytes), Ok(5));
}

#[test]
fn ranges_of_one_file_that_overlap_are_refused_and_others_are_moved() {
    let bytes = pattern(400_000);
    for fs in Fs::ALL {
        let Some(dir) = fs.dir() else {
            continue;
        };
        let file = crate::files::file_in(&dir, &bytes);
        // A second opening, with a cursor of its own.
        let sink = reopen(&file, OFlags::WRONLY);
        let overlap = |from, to, limit| {
            let transfer = Transfer::new(&file, &sink)
                .source_offset(from)
                .sink_offset(to);
            let transfer = transfer.limit(limit);
            assert_refused(transfer, Side::Neither, Errno::INVAL, "overlap");
        };
        overlap(0, 100_000, 100_001);
        overlap(100_000, 0, 100_001);
        overlap(5, 5, 1);
        overlap(0, 399_999, u64::MAX);
        let transfer = Transfer::new(&file, &sink);
        assert_refused(transfer, Side::Neither, Errno::INVAL, "overlap");
        let appending = appending(&file);
        let transfer = Transfer::new(&file, &appending);
        assert_refused(transfer, Side::Neither, Errno::INVAL, "overlap");
        assert_eq!(contents(&file), bytes, "{fs:?}: nothing moved");

        for strategy in allowed([
            None,
            Some(Strategy::CopyFileRange),
            Some(Strategy::SplicePipe),
            Some(Strategy::Buffered),
        ]) {
            let transfer = Transfer::new(&file, &sink)
                .source_offset(0)
                .sink_offset(300_000)
                .maybe_strategy(strategy);
            let report = transfer.limit(100_000).run().unwrap();
            assert_eq!(report.bytes(), 100_000);
            assert_served(&report, strategy, &format!("{strategy:?}"));
            let expected = [&bytes[..300_000], &bytes[..100_000]].concat();
            assert_eq!(contents(&file), expected, "{fs:?}, {strategy:?}");
            std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).unwrap();
        }
    }
}

#[test]
fn one_block_device_at_both_ends_is_one_file() {
    let Some(device) = crate::mounts::Device::ForSink.get() else {
        return;
    };
    let device = device
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let (source, sink) = (
        reopen(&*device, OFlags::RDONLY),
        reopen(&*device, OFlags::WRONLY),
    );
    let transfer = Transfer::new(&source, &sink);
    assert_refused(transfer, Side::Neither, Errno::INVAL, "overlap");
}

#[test]
fn an_impossible_strategy_is_unsuitable_and_moves_nothing() {
    let file = file(&pattern(100_000));
    let (reader, writer) = pipe();
    assert!(write_all(&writer, b"hello"));
    let sink = crate::files::file(b"");
    let (_peer, socket) = tcp();
    let appending = appending(&sink);
    let assert_unsuitable_by = |source: &dyn AsFd, sink: &dyn AsFd, strategy| {
        assert_unsuitable(Transfer::new(source, sink).strategy(strategy), strategy);
    };
    assert_unsuitable_by(&file, &sink, Strategy::Splice);
    assert_unsuitable_by(&reader, &sink, Strategy::Sendfile);
    assert_unsuitable_by(&reader, &sink, Strategy::CopyFileRange);
    assert_unsuitable_by(&reader, &sink, Strategy::Reflink);
    assert_unsuitable_by(&file, &socket, Strategy::CopyFileRange);
    for strategy in [
        Strategy::CopyFileRange,
        Strategy::Sendfile,
        Strategy::SplicePipe,
    ] {
        assert_unsuitable_by(&file, &appending, strategy);
    }
    let transfer = Transfer::new(&file, &sink).reflink(Reflink::Never);
    assert_unsuitable(
        transfer.strategy(Strategy::CopyFileRange),
        Strategy::CopyFileRange,
    );
    let transfer = Transfer::new(&file, &sink).reflink(Reflink::Always);
    assert_unsuitable(transfer.strategy(Strategy::Buffered), Strategy::Buffered);
    let transfer = Transfer::new(&file, &sink).inspect(|_| ());
    assert_unsuitable(
        transfer.strategy(Strategy::SplicePipe),
        Strategy::SplicePipe,
    );
    let transfer = Transfer::new(&file, &sink).sink_offset(0);
    assert_unsuitable(transfer.strategy(Strategy::Sendfile), Strategy::Sendfile);
    assert_unsuitable_by(&file, &sink, Strategy::Sendfile);
    assert_unsuitable_by(&reader, &sink, Strategy::Splice);

    assert_eq!((cursor(&file), cursor(&sink)), (0, 0));
    assert_eq!(contents(&sink), b"");
    assert_eq!(rustix::io::ioctl_fionread(&reader), Ok(5));
}

#[test]
fn a_cursor_beyond_the_end_is_the_end() {
    let source = file(b"hello");
    set_cursor(&source, 1 << 40);
    let sink = file(b"");
    let report = Transfer::new(&source, &sink).run().unwrap();
    assert_eq!((report.bytes(), report.ended()), (0, zcopy::Ended::Eof));
    assert_eq!(report.strategy(), Strategy::Buffered);
    assert_eq!(cursor(&source), 1 << 40);
}
