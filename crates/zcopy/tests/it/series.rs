//! `Series`: each of its transfers does what it would do alone.

use std::fs::File;
use std::io::Write as _;

use rustix::fs::OFlags;
use zcopy::{Ended, Series, Side, Strategy, Transfer};

use crate::endpoints::pipe;
use crate::every_pair::LARGE;
use crate::files::{appending, assert_same, contents, cursor, file, pattern, read_to_end, reopen};
use crate::refused::first_allowed;

/// Short, long and empty files, and `/proc/version`, which claims to be empty.
fn sources() -> Vec<File> {
    let lengths = [1024, 1, 0, 32 << 10, (32 << 10) + 1, LARGE, 7, 0, 1024];
    let mut sources: Vec<_> = lengths.iter().map(|len| file(&pattern(*len))).collect();
    sources.insert(4, File::open("/proc/version").unwrap());
    sources
}

#[test]
fn each_transfer_of_a_series_does_what_it_would_do_alone() {
    let (together, alone) = (file(b""), file(b""));
    let series = Series::new(&together);
    for (nth, source) in sources().iter().enumerate() {
        let again = File::from(reopen(source, OFlags::RDONLY));
        let report = series.transfer(source).run().unwrap();
        let expected = Transfer::new(&again, &alone).run().unwrap();
        let summary = |report: &zcopy::Report| {
            let attempts = report.attempts().iter();
            let attempts = attempts.map(|a| (a.strategy(), a.bytes(), a.calls()));
            (report.bytes(), report.ended(), attempts.collect::<Vec<_>>())
        };
        assert_eq!(summary(&report), summary(&expected), "{nth}");
        assert_eq!(cursor(source), cursor(&again), "{nth}");
    }
    assert_same(&contents(&together), &contents(&alone), "the sinks");
}

#[test]
fn a_series_into_a_pipe_arrives_in_order() {
    let (reader, writer) = pipe();
    let reading = std::thread::spawn(move || read_to_end(&reader));
    let mut expected = Vec::new();
    {
        let series = Series::new(&writer);
        for source in sources() {
            series.transfer(&source).run().unwrap();
            expected.extend(read_to_end(&reopen(&source, OFlags::RDONLY)));
        }
    }
    drop(writer);
    assert_same(&reading.join().unwrap(), &expected, "the pipe");
}

/// The facts that a series keeps about its sink do not hide that the sink is the source, too.
#[test]
fn a_series_does_not_copy_its_sink_into_itself() {
    let sink = file(b"");
    let series = Series::new(&sink);
    series.transfer(&file(b"hello")).run().unwrap();
    let itself = reopen(&sink, OFlags::RDONLY);
    let error = series.transfer(&itself).run().unwrap_err();
    assert_eq!((error.is_refused(), error.side()), (true, Side::Neither));
    assert_eq!(contents(&sink), b"hello");
    series.transfer(&file(b" there")).run().unwrap();
    assert_eq!(contents(&sink), b"hello there");
}

#[test]
fn a_transfer_of_a_series_takes_options() {
    let (reader, writer) = pipe();
    let source = file(b"hello world");
    let series = Series::new(&writer);
    let report = series.transfer(&source).limit(5).run().unwrap();
    assert_eq!((report.bytes(), report.ended()), (5, Ended::Limit));
    let requested = first_allowed(&[Strategy::Splice, Strategy::Sendfile]);
    let transfer = series.transfer(&source).strategy(requested);
    assert_eq!(transfer.run().unwrap().strategy(), Some(requested));
    drop(writer);
    assert_eq!(read_to_end(&reader), b"hello world");
}

/// A log grows while its first part waits for a reader. The short read ended at the end of the
/// file, which has moved since.
#[test]
fn bytes_appended_to_a_small_file_while_the_sink_is_full_are_copied_too() {
    let (reader, writer) = pipe();
    let capacity = rustix::pipe::fcntl_getpipe_size(&writer).unwrap();
    let full = vec![b'.'; capacity];
    assert_eq!(rustix::io::write(&writer, &full), Ok(capacity));
    let log = file(b"first ");
    let mut end = File::from(appending(&log));
    let report = std::thread::scope(|scope| {
        let copying = scope.spawn(|| Transfer::new(&log, &writer).run());
        // The transfer has read the log, and waits to write.
        while cursor(&log) == 0 {
            std::thread::yield_now();
        }
        end.write_all(b"second").unwrap();
        let mut drained = full.clone();
        assert_eq!(rustix::io::read(&reader, &mut drained), Ok(capacity));
        copying.join().unwrap().unwrap()
    });
    assert_eq!(report.bytes(), 12);
    drop(writer);
    assert_eq!(read_to_end(&reader), b"first second");
}
