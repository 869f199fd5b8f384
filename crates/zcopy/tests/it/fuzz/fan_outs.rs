//! Random transfers to several sinks. Some sinks are slow, and some fail.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::SocketType;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::pipe::fcntl_setpipe_size;
use zcopy::{Ended, OnSinkError, Transfer};

use super::fuzz;
use crate::endpoints::{pipe, tcp, unix};
use crate::files::{assert_same, contents, file, pattern, read_to_end, write_all};
use crate::random::Random;

#[derive(Clone, Copy, Debug)]
enum SourceType {
    File,
    Pipe,
    UnixStream,
    Tcp,
}

/// A kind of sink.
#[derive(Clone, Copy, Debug)]
enum SinkType {
    File,
    Pipe,
    TinyPipe,
    UnixStream,
    TinySocket,
    Tcp,
    Null,
    Full,
}

#[derive(Clone, Copy, Debug)]
struct Sink {
    to: SinkType,
    /// The bytes that its reader takes before it closes, if it does.
    closes_after: Option<usize>,
    is_slow: bool,
}

#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "builder switches")]
struct Case {
    from: SourceType,
    len: usize,
    sinks: Vec<Sink>,
    limit: Option<u64>,
    stops_after: Option<u64>,
    on_error: OnSinkError,
    has_tick: bool,
    grows_pipes: bool,
    buffer_size: Option<usize>,
    is_stable: bool,
    is_inspected: bool,
    is_watched: bool,
}

/// The reader of a sink.
enum SinkReader {
    File(File),
    Thread(JoinHandle<Vec<u8>>),
    Discarded,
}

impl Sink {
    fn draw(random: &mut Random) -> Self {
        use SinkType::*;
        let kinds = [
            File, Pipe, Pipe, TinyPipe, UnixStream, TinySocket, Tcp, Null, Full,
        ];
        Self {
            to: *random.pick(&kinds),
            closes_after: random.one_in(5).then(|| random.below_len(200_000)),
            is_slow: random.one_in(4),
        }
    }

    fn open(self) -> (OwnedFd, SinkReader) {
        let device = |path| {
            let device = File::options().write(true).open(path).unwrap();
            (device.into(), SinkReader::Discarded)
        };
        let (reader, writer) = match self.to {
            SinkType::File => {
                let file = file(b"");
                return (file.try_clone().unwrap().into(), SinkReader::File(file));
            }
            SinkType::Null => return device("/dev/null"),
            SinkType::Full => return device("/dev/full"),
            SinkType::Pipe | SinkType::TinyPipe => pipe(),
            SinkType::UnixStream | SinkType::TinySocket => unix(SocketType::STREAM),
            SinkType::Tcp => tcp(),
        };
        match self.to {
            SinkType::TinyPipe => drop(fcntl_setpipe_size(&writer, 4096).unwrap()),
            SinkType::TinySocket => set_socket_send_buffer_size(&writer, 1).unwrap(),
            _ => {}
        }
        let reading = thread::spawn(move || self.read(&reader));
        (writer, SinkReader::Thread(reading))
    }

    fn read(self, reader: &OwnedFd) -> Vec<u8> {
        let mut read = Vec::new();
        let mut buffer = vec![0; if self.is_slow { 3000 } else { 256 << 10 }];
        loop {
            let room = self
                .closes_after
                .map_or(buffer.len(), |n| (n - read.len()).min(buffer.len()));
            if room == 0 {
                return read;
            }
            match rustix::io::read(reader, &mut buffer[..room]).unwrap() {
                0 => return read,
                n => read.extend_from_slice(&buffer[..n]),
            }
            if self.is_slow {
                thread::yield_now();
            }
        }
    }
}

impl Case {
    fn draw(random: &mut Random) -> Self {
        let len = match random.below(4) {
            0 => random.below_len(5000),
            1 => random.below_len(100_000),
            _ => random.below_len(700_000),
        };
        Self {
            from: *random.pick(&[
                SourceType::File,
                SourceType::Pipe,
                SourceType::Pipe,
                SourceType::UnixStream,
                SourceType::Tcp,
            ]),
            len,
            sinks: (0..=1 + random.below(3))
                .map(|_| Sink::draw(random))
                .collect(),
            limit: random.one_in(4).then(|| random.below(len as u64 + 100)),
            stops_after: random.one_in(5).then(|| random.below(len as u64 + 1)),
            on_error: *random.pick(&[OnSinkError::Stop, OnSinkError::Detach, OnSinkError::Detach]),
            has_tick: random.one_in(3),
            grows_pipes: !random.one_in(3),
            buffer_size: random.one_in(4).then(|| 1 + random.below_len(200_000)),
            is_stable: random.one_in(6),
            is_inspected: random.one_in(6),
            is_watched: random.one_in(4),
        }
    }

    /// A source with these bytes, and the thread that feeds it.
    fn open_source(&self, bytes: &[u8], random: &mut Random) -> (OwnedFd, Option<JoinHandle<()>>) {
        let (source, feed) = match self.from {
            SourceType::File => return (file(bytes).into(), None),
            SourceType::Pipe => pipe(),
            SourceType::UnixStream => unix(SocketType::STREAM),
            SourceType::Tcp => tcp(),
        };
        let (bytes, mut random) = (bytes.to_vec(), random.clone());
        let feeding = thread::spawn(move || {
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let most = *random.pick(&[100, 5000, 300_000]);
                let (piece, later) = rest.split_at(rest.len().min(1 + random.below_len(most)));
                assert!(write_all(&feed, piece), "the source is read to its end");
                rest = later;
            }
        });
        (source, Some(feeding))
    }

    fn configure<'a>(&self, sinks: &'a [OwnedFd], source: &'a OwnedFd) -> Transfer<'a> {
        let mut transfer = Transfer::new(source.as_fd(), sinks[0].as_fd());
        for sink in &sinks[1..] {
            transfer = transfer.also_to(sink);
        }
        if let Some(limit) = self.limit {
            transfer = transfer.limit(limit);
        }
        if let Some(n) = self.stops_after {
            transfer = transfer.observe(move |progress| {
                if progress.bytes() < n {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
        }
        if self.has_tick {
            transfer = transfer.tick(Duration::from_millis(1));
        }
        if let Some(bytes) = self.buffer_size {
            transfer = transfer.buffer_size(bytes);
        }
        transfer
            .on_sink_error(self.on_error)
            .grow_pipes(self.grows_pipes)
            .stable(self.is_stable)
            .watch_readers(self.is_watched)
    }

    fn run(&self, random: &mut Random) {
        let bytes = pattern(self.len);
        let (source, feeding) = self.open_source(&bytes, random);
        let (sinks, readers): (Vec<_>, Vec<_>) = self.sinks.iter().map(|sink| sink.open()).unzip();
        let mut seen = Vec::new();
        let transfer = self.configure(&sinks, &source);
        let transfer = if self.is_inspected {
            transfer.inspect(|bytes| seen.extend_from_slice(bytes))
        } else {
            transfer
        };
        let outcome = transfer.run();
        drop(sinks);
        let (report, failed) = match outcome {
            Ok(report) => (report, None),
            Err(error) => (error.report().clone(), Some(error)),
        };
        let case = format!("{self:?}\n{report}\n{failed:?}");
        let left = read_to_end(&source);
        if let Some(feeding) = feeding {
            feeding.join().unwrap();
        }

        // No byte is lost, whatever the outcome.
        let n = usize::try_from(report.bytes()).unwrap();
        let all = [&bytes[..n], report.undelivered(), &left].concat();
        assert_same(&all, &bytes, &case);
        if self.is_inspected {
            assert_same(&seen, &bytes[..n], &case);
        }
        assert_eq!(report.sinks().len(), readers.len(), "{case}");
        for ((sink_report, reader), sink) in report.sinks().iter().zip(readers).zip(&self.sinks) {
            let accepted = usize::try_from(sink_report.bytes()).unwrap();
            assert!(accepted <= self.len, "{case}");
            let is_alive = sink_report.error().is_none();
            assert!(!is_alive || accepted >= n, "{case}: {sink_report}");
            match reader {
                SinkReader::File(file) => assert_same(&contents(&file), &bytes[..accepted], &case),
                SinkReader::Thread(reading) => {
                    let read = reading.join().unwrap();
                    let reads_all = sink.closes_after.is_none();
                    let expected = if reads_all { accepted } else { read.len() };
                    assert_same(&read, &bytes[..expected], &case);
                    assert!(reads_all || read.len() <= accepted, "{case}: {sink_report}");
                }
                SinkReader::Discarded => {}
            }
        }
        self.assert_end_is_true(&report, failed.as_ref(), &case);
    }

    fn assert_end_is_true(
        &self,
        report: &zcopy::Report,
        failed: Option<&zcopy::Error>,
        case: &str,
    ) {
        let can_fail =
            |sink: &Sink| matches!(sink.to, SinkType::Full) || sink.closes_after.is_some();
        match report.ended() {
            Ended::Eof => assert_eq!(report.bytes(), self.len as u64, "{case}"),
            Ended::Limit => assert_eq!(Some(report.bytes()), self.limit, "{case}"),
            Ended::Stopped => assert!(self.stops_after <= Some(report.bytes()), "{case}"),
            Ended::NoSink => assert!(self.sinks.iter().all(can_fail), "{case}"),
            _ => {
                let stops = self.on_error == OnSinkError::Stop;
                assert!(stops && self.sinks.iter().any(can_fail), "{case}");
                assert_eq!(
                    failed.map(zcopy::Error::side),
                    Some(zcopy::Side::Sink),
                    "{case}"
                );
            }
        }
        for (sink_report, sink) in report.sinks().iter().zip(&self.sinks) {
            assert!(
                sink_report.error().is_none() || can_fail(sink),
                "{case}: {sink_report}"
            );
        }
    }
}

#[test]
fn fan_outs() {
    fuzz("fan_outs::fan_outs", 600, |random| {
        let case = Case::draw(random);
        case.run(random);
    });
}
