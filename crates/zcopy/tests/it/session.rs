//! A transfer in steps: it moves what `run` moves, and never waits for another process.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::SocketType;
use zcopy::{Ended, FanOut, Interest, Progressed, Report, Session, Side, Strategy, Transfer};

use crate::endpoints::{fifo, pipe, tcp, unix};
use crate::files::{assert_same, contents, cursor, file, pattern, read_to_end, write_all};
use crate::refused::is_allowed;

/// Waits for what a session is interested in, as a program with other work would.
fn wait(session: &Session<'_, OwnedFd, OwnedFd>, interest: Interest) {
    let (source, sink) = (session.source().unwrap(), session.sink().unwrap());
    let mut fds = Vec::new();
    if interest.source() {
        fds.push(PollFd::new(source, PollFlags::IN));
    }
    if interest.sink() {
        fds.push(PollFd::new(sink, PollFlags::OUT));
    }
    assert!(
        !fds.is_empty() || interest.timeout().is_some(),
        "it waits for nothing"
    );
    let timeout = interest
        .timeout()
        .map(|timeout| Timespec::try_from(timeout).unwrap());
    poll(&mut fds, timeout.as_ref()).unwrap();
}

/// Takes steps of at most `max` bytes to the end.
fn run_in_steps(mut session: Session<'_, OwnedFd, OwnedFd>, max: u64) -> Report {
    let mut moved = 0;
    loop {
        match session.step(max).unwrap() {
            Progressed::Moved(n) => {
                assert!(n > 0);
                moved += n;
                assert_eq!(session.progress().bytes(), moved);
            }
            Progressed::Blocked(interest) => wait(&session, interest),
            Progressed::Ended(ended) => {
                assert_eq!(session.step(max).unwrap(), Progressed::Ended(ended));
                let report = session.finish().unwrap();
                assert_eq!((report.bytes(), report.ended()), (moved, ended));
                return report;
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The kinds of ends that other processes fill and empty.
const CHANNELS: [&str; 4] = ["pipe", "fifo", "tcp", "unix"];

/// Returns the end that a transfer reads, and the one that a thread writes.
fn channel(kind: &str) -> (OwnedFd, OwnedFd) {
    match kind {
        "pipe" => pipe(),
        "fifo" => fifo(),
        "tcp" => tcp(),
        _ => unix(SocketType::STREAM),
    }
}

fn set_nonblocking(fd: &OwnedFd) {
    let flags = rustix::fs::fcntl_getfl(fd).unwrap();
    rustix::fs::fcntl_setfl(fd, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
}

#[test]
fn steps_move_what_a_run_moves_whatever_the_ends_their_mode_and_the_length_of_a_step() {
    for (from, to) in CHANNELS
        .iter()
        .flat_map(|from| CHANNELS.map(|to| (*from, to)))
    {
        for (len, max) in [
            (0, 100),
            (1, 1),
            (5000, 1),
            (300_001, 4096),
            (3 << 20, u64::MAX),
        ] {
            for nonblocking in [false, true] {
                let what = format!("{from} to {to}, {len} by {max}, nonblocking: {nonblocking}");
                let bytes = pattern(len);
                let (source, writer) = channel(from);
                let (reader, sink) = channel(to);
                if nonblocking {
                    set_nonblocking(&source);
                    set_nonblocking(&sink);
                }
                let written = bytes.clone();
                let writing = thread::spawn(move || {
                    // In pieces of a TCP segment: a pipe is full long before its bytes are.
                    written.chunks(1448).all(|piece| write_all(&writer, piece))
                });
                let reading = thread::spawn(move || read_to_end(&reader));
                let session = Transfer::new(source, sink).start().unwrap();
                let report = run_in_steps(session, max);
                assert!(writing.join().unwrap(), "{what}");
                assert_same(&reading.join().unwrap(), &bytes, &what);
                assert_eq!(report.ended(), Ended::Eof, "{what}");
            }
        }
    }
}

#[test]
fn steps_move_files_too() {
    for len in [0, 1, 4096, 40_000, 3 << 20] {
        let bytes = pattern(len);
        let (reader, sink) = pipe();
        let reading = thread::spawn(move || read_to_end(&reader));
        let session = Transfer::new(OwnedFd::from(file(&bytes)), sink)
            .start()
            .unwrap();
        run_in_steps(session, 10_000);
        assert_same(&reading.join().unwrap(), &bytes, "file to pipe");

        let copy = file(b"");
        let sink = OwnedFd::from(copy.try_clone().unwrap());
        let session = Transfer::new(OwnedFd::from(file(&bytes)), sink)
            .start()
            .unwrap();
        run_in_steps(session, u64::MAX);
        assert_same(&contents(&copy), &bytes, "file to file");
    }
}

#[test]
fn a_step_returns_at_once_while_nothing_is_ready() {
    for kind in CHANNELS {
        // An empty source.
        let (source, _writer) = channel(kind);
        let mut session = Transfer::new(source, file(b"")).start().unwrap();
        for _ in 0..100 {
            let Progressed::Blocked(interest) = session.step(u64::MAX).unwrap() else {
                panic!()
            };
            assert!(
                interest.source() && !interest.sink(),
                "{kind}: {interest:?}"
            );
        }
        let report = session.finish().unwrap();
        assert_eq!((report.bytes(), report.ended()), (0, Ended::Stopped));
        let mut attempts = report.attempts().iter();
        assert!(
            attempts.all(|attempt| attempt.error().is_none()),
            "{kind}: {report:#}"
        );

        // A sink that is full.
        let (_reader, sink) = channel(kind);
        let mut session = Transfer::new(file(&pattern(32 << 20)), sink)
            .start()
            .unwrap();
        while let Progressed::Moved(_) = session.step(u64::MAX).unwrap() {}
        for _ in 0..100 {
            let Progressed::Blocked(interest) = session.step(u64::MAX).unwrap() else {
                panic!()
            };
            assert!(
                interest.sink() && !interest.source(),
                "{kind}: {interest:?}"
            );
        }
        assert!(session.progress().bytes() > 0);
    }
}

/// The file keeps what has not moved, and a pipe's bytes come back with the report.
#[test]
fn a_session_that_is_finished_early_gives_back_what_did_not_arrive() {
    let bytes = pattern(1 << 20);
    for n_steps in [0, 1, 2, 7] {
        let source = file(&bytes);
        let (_reader, sink) = pipe();
        let mut session = Transfer::new(&source, &sink).start().unwrap();
        for _ in 0..n_steps {
            let _ = session.step(10_000).unwrap();
        }
        let report = session.finish().unwrap();
        assert_eq!(cursor(&source), report.bytes(), "{report:#}");

        let (source, writer) = tcp();
        assert!(write_all(&writer, &bytes[..100_000]));
        drop(writer);
        let (reader, sink) = pipe();
        let mut session = Transfer::new(&source, &sink).start().unwrap();
        for _ in 0..n_steps {
            let _ = session.step(10_000).unwrap();
        }
        let report = session.finish().unwrap();
        drop(sink);
        let found = [
            read_to_end(&reader),
            report.undelivered().to_vec(),
            read_to_end(&source),
        ];
        assert_same(&found.concat(), &bytes[..100_000], &format!("{report:#}"));
    }
}

#[test]
fn a_session_that_is_dropped_leaves_the_cursor_behind_what_arrived() {
    let bytes = pattern(1 << 20);
    let source = file(&bytes);
    let (reader, sink) = pipe();
    let mut session = Transfer::new(&source, sink).start().unwrap();
    let Progressed::Moved(_) = session.step(u64::MAX).unwrap() else {
        panic!()
    };
    drop(session);
    let arrived = read_to_end(&reader);
    assert_eq!(cursor(&source), arrived.len() as u64);
    assert_same(
        &[arrived, read_to_end(&source)].concat(),
        &bytes,
        "both parts",
    );
}

#[test]
fn a_session_owns_its_ends_and_goes_on_in_another_thread() {
    fn begin() -> (Session<'static, File, TcpStream>, TcpStream) {
        let (here, there) = tcp();
        let mut version = File::open("/proc/version").unwrap();
        version.rewind().unwrap();
        (
            Transfer::new(version, TcpStream::from(here))
                .start()
                .unwrap(),
            there.into(),
        )
    }
    let (mut session, mut peer) = begin();
    let session = thread::spawn(move || {
        assert_eq!(session.drive().unwrap(), Ended::Eof);
        session.finish().unwrap()
    });
    let report = session.join().unwrap();
    let mut found = String::new();
    peer.read_to_string(&mut found).unwrap();
    assert_eq!(found.len() as u64, report.bytes());
    assert_eq!(found, std::fs::read_to_string("/proc/version").unwrap());
}

#[test]
fn a_failed_step_tells_everything_and_the_session_is_over() {
    let (source, writer) = pipe();
    assert!(write_all(&writer, b"hello"));
    let full = crate::endpoints::full();
    let mut session = Transfer::new(&source, &full).start().unwrap();
    let error = session.step(100).unwrap_err();
    assert_eq!((error.bytes(), error.undelivered()), (0, &b"hello"[..]));
    assert_eq!(session.step(100).unwrap(), Progressed::Ended(Ended::Failed));
    assert_eq!(session.progress().bytes(), 0);
    assert!(session.source().is_none());
    let report = session.finish().unwrap();
    assert_eq!(
        (report.ended(), report.undelivered()),
        (Ended::Failed, &b"hello"[..])
    );
}

/// Between two steps the caller may do whatever it likes, with a value that stays in its thread.
#[test]
fn a_display_that_cannot_be_sent_follows_a_session() {
    let shown = std::rc::Rc::new(std::cell::Cell::new(0));
    let zeros = File::open("/dev/zero").unwrap();
    let (null, limit) = (crate::endpoints::null(), 1 << 20);
    let mut session = Transfer::new(&zeros, &null).limit(limit).start().unwrap();
    while let Progressed::Moved(_) = session.step(100_000).unwrap() {
        shown.set(session.progress().bytes());
    }
    assert_eq!(shown.get(), limit);
}

#[test]
fn a_tick_and_a_rate_come_with_the_interest() {
    let (reader, _writer) = pipe();
    let sink = file(b"");
    let mut n_ticks = 0;
    let mut session = Transfer::new(&reader, &sink)
        .tick(Duration::from_millis(1))
        .observe(|_| {
            n_ticks += 1;
            std::ops::ControlFlow::Continue(())
        })
        .start()
        .unwrap();
    for _ in 0..3 {
        let Progressed::Blocked(interest) = session.step(100).unwrap() else {
            panic!()
        };
        let timeout = interest.timeout().unwrap();
        assert!(timeout <= Duration::from_millis(1));
        thread::sleep(timeout);
    }
    let _ = session.step(100).unwrap();
    drop(session);
    assert!(n_ticks >= 3);
}

#[test]
fn the_first_steps_of_a_stream_need_no_pipe() {
    let (source, writer) = unix(SocketType::STREAM);
    assert!(write_all(&writer, b"hello"));
    let mut session = Transfer::new(source.as_fd(), file(b"")).start().unwrap();
    assert_eq!(session.step(100).unwrap(), Progressed::Moved(5));
    assert_eq!(
        session.finish().unwrap().strategy(),
        Some(Strategy::Buffered)
    );
    let mut writer = File::from(writer);
    assert!(writer.write_all(b"the source is still open").is_ok());
}

#[test]
fn the_progress_names_the_side_that_a_session_waits_for() {
    let (source, mut writer) = std::io::pipe().unwrap();
    let (_reader, sink) = std::io::pipe().unwrap();
    let mut session = Transfer::new(source, sink)
        .grow_pipes(false)
        .start()
        .unwrap();
    assert!(matches!(session.step(1), Ok(Progressed::Blocked(_))));
    assert_eq!(session.progress().blocked(), Some(Side::Source));

    writer.write_all(&[0; 1000]).unwrap();
    assert!(matches!(session.step(10), Ok(Progressed::Moved(10 | 1000))));
    assert_eq!(session.progress().blocked(), None);
    thread::spawn(move || writer.write_all(&vec![0; 1 << 20]));
    while !matches!(session.step(1 << 20), Ok(Progressed::Blocked(it)) if it.sink()) {}
    assert_eq!(session.progress().blocked(), Some(Side::Sink));
}

#[test]
fn the_bound_of_a_step_holds_after_a_wait_with_several_sinks() {
    let (source, mut writer) = std::io::pipe().unwrap();
    let null = || File::create("/dev/null").unwrap();
    let mut session = FanOut::new(source, null()).also_to(null()).start().unwrap();
    assert!(matches!(session.step(1 << 20), Ok(Progressed::Blocked(_))));
    writer.write_all(&[0; 5000]).unwrap();
    // Without splice, a read takes a whole page, which may be a packet.
    let bound = if is_allowed(Strategy::Splice) {
        10
    } else {
        4096
    };
    assert_eq!(session.step(10).unwrap(), Progressed::Moved(bound));
    drop(writer);
    assert_eq!(session.drive().unwrap(), Ended::Eof);
    assert_eq!(session.finish().unwrap().bytes(), 5000);
}

#[test]
fn a_session_whose_callback_has_panicked_moves_no_further_byte() {
    let zeros = File::open("/dev/zero").unwrap();
    let (mut reader, sink) = std::io::pipe().unwrap();
    let panics = |_: &[u8]| panic!("a test of panics");
    let transfer = Transfer::new(zeros, sink).prefix(vec![0; 100]);
    let mut session = transfer.inspect(panics).start().unwrap();
    let stepped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = session.step(100);
    }));
    assert!(stepped.is_err());
    assert_eq!(session.step(100).unwrap(), Progressed::Ended(Ended::Failed));
    let error = session.finish().unwrap_err();
    assert_eq!(error.side(), Side::Neither);
    let mut received = Vec::new();
    reader.read_to_end(&mut received).unwrap();
    assert_eq!(
        received.len(),
        100,
        "only the step that panicked has moved bytes"
    );
}
