//! Promise 5: a tick does not wait for a descriptor that never becomes ready.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::net::TcpListener;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::mpsc;
use std::time::Duration;

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fs::{Mode, OFlags};
use rustix::net::SocketType;
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
use zcopy::{Ended, FanOut, Relay, Side, Strategy, Transfer};

use crate::endpoints::{dir_in_memory, named_pipe, null, pipe, unix};
use crate::files::{assert_same, file, pattern, read_to_end, write_all};
use crate::options::{MaybeOptions as _, run_also_to};
use crate::refused::allowed;
use crate::skip::{has_program, skip};

/// A tick that never comes during a test.
const HOUR: Duration = Duration::from_secs(3600);

/// Runs a transfer that must not wait. Panics if it takes 20 seconds.
fn without_waiting<T: Send + 'static>(what: &str, run: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || drop(sender.send(run())));
    let outcome = receiver.recv_timeout(Duration::from_secs(20));
    outcome.unwrap_or_else(|_| panic!("{what}: the transfer waits"))
}

/// The reader of a FIFO in non-blocking mode. No process has opened the FIFO for writing.
fn fifo_without_writer() -> OwnedFd {
    let (_dir, path) = named_pipe();
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(&path, flags, Mode::empty()).unwrap()
}

/// Each of these cases without a tick, and with a tick that never comes.
fn with_and_without_a_tick<T: Copy>(
    cases: impl IntoIterator<Item = T>,
) -> impl Iterator<Item = (T, Option<Duration>)> {
    let each = cases.into_iter();
    each.flat_map(|case| [(case, None), (case, Some(HOUR))])
}

/// Asserts that a FIFO that nobody has opened for writing is at its end, whatever the strategy.
fn assert_fifo_without_writer_ends(
    strategies: &[Option<Strategy>],
    sink: fn() -> OwnedFd,
    to_two: bool,
) {
    for (strategy, tick) in with_and_without_a_tick(allowed(strategies.iter().copied())) {
        let what = format!("{strategy:?}, {tick:?}");
        let report = without_waiting(&what, move || {
            let (source, sink, (_reader, other)) = (fifo_without_writer(), sink(), pipe());
            let transfer = Transfer::new(&source, &sink);
            let transfer = transfer.maybe_strategy(strategy).maybe_tick(tick);
            run_also_to(transfer, to_two.then_some(&other))
        });
        let report = report.unwrap_or_else(|error| panic!("{what}: {error:#}"));
        assert_eq!((report.bytes(), report.ended()), (0, Ended::Eof), "{what}");
    }
}

#[test]
fn promise_5_a_fifo_without_a_writer_ends_with_and_without_a_tick() {
    let strategies = [
        None,
        Some(Strategy::Buffered),
        Some(Strategy::SplicePipe),
        Some(Strategy::Splice),
    ];
    assert_fifo_without_writer_ends(&strategies, null, false);
}

#[test]
fn promise_5_a_fifo_without_a_writer_ends_a_fan_out_with_and_without_a_tick() {
    let strategies = [None, Some(Strategy::Buffered), Some(Strategy::Tee)];
    assert_fifo_without_writer_ends(&strategies, || file(b"").into(), true);
}

/// Descriptors that take no write, and never poll as writable.
fn unwritable(nth: usize) -> OwnedFd {
    match nth {
        0 => timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::empty()).unwrap(),
        1 => epoll::create(epoll::CreateFlags::empty()).unwrap(),
        _ => pidfd_open(getpid(), PidfdFlags::empty()).unwrap(),
    }
}

/// Asserts that a descriptor that can never serve on this side fails the transfer at once, also
/// beside another sink.
fn assert_fails(side: Side, descriptors: std::ops::Range<usize>) {
    for (nth, tick) in with_and_without_a_tick(descriptors) {
        for to_two in [false, true] {
            let what = format!("{side:?} {nth}, {tick:?}, {to_two}");
            let outcome = without_waiting(&what, move || {
                let (inert, other) = (unwritable(nth), file(b""));
                let ((waiting, writer), log) = (pipe(), file(b""));
                assert!(write_all(&writer, b"hello"));
                let transfer = match side {
                    Side::Source => Transfer::new(inert.as_fd(), log.as_fd()),
                    _ => Transfer::new(waiting.as_fd(), inert.as_fd()),
                };
                run_also_to(transfer.maybe_tick(tick), to_two.then_some(&other))
            });
            let error = outcome.unwrap_err();
            assert_eq!(error.side(), side, "{what}: {error:#}");
            let kind = std::io::Error::from(error).kind();
            assert_eq!(kind, ErrorKind::InvalidInput, "{what}");
        }
    }
}

#[test]
fn promise_5_a_sink_that_is_never_writable_fails_with_and_without_a_tick() {
    assert_fails(Side::Sink, 0..3);
}

#[test]
fn promise_5_a_source_that_is_never_readable_fails_with_and_without_a_tick() {
    assert_fails(Side::Source, 1..3);
}

#[test]
fn promise_5_a_socket_that_listens_fails_with_and_without_a_tick() {
    for (nth, tick) in with_and_without_a_tick(0..4) {
        let (to_listener, is_unix) = (nth % 2 == 0, nth / 2 == 0);
        let what = format!("{to_listener}, {is_unix}, {tick:?}");
        let dir = dir_in_memory();
        let listener: OwnedFd = if is_unix {
            UnixListener::bind(dir.path().join("socket"))
                .unwrap()
                .into()
        } else {
            TcpListener::bind("127.0.0.1:0").unwrap().into()
        };
        let outcome = without_waiting(&what, move || {
            let (here, there) = (file(b"hello"), file(b""));
            let transfer = if to_listener {
                Transfer::new(here.as_fd(), listener.as_fd())
            } else {
                Transfer::new(listener.as_fd(), there.as_fd())
            };
            transfer.maybe_tick(tick).run()
        });
        let side = if to_listener {
            Side::Sink
        } else {
            Side::Source
        };
        assert_eq!(outcome.unwrap_err().side(), side, "{what}");
    }
}

/// `/dev/kmsg` never polls as writable.
#[test]
fn promise_5_the_kernel_log_is_written_to_with_and_without_a_tick() {
    for (_, tick) in with_and_without_a_tick(0..1) {
        let Ok(log) = File::options().write(true).open("/dev/kmsg") else {
            return skip("/dev/kmsg cannot be opened for writing");
        };
        let what = format!("{tick:?}");
        let outcome = without_waiting(&what, move || {
            let source = file(b"<7>zcopy: a line of its tests\n");
            Transfer::new(&source, &log).maybe_tick(tick).run()
        });
        assert_eq!(outcome.unwrap().bytes(), 30, "{what}");
    }
}

/// A transfer waits for a full eventfd, because an eventfd has a write operation.
#[test]
fn promise_5_a_counter_that_is_full_is_waited_for() {
    let counter: OwnedFd = eventfd(0, EventfdFlags::empty()).unwrap();
    let max_count = u64::MAX - 1;
    assert!(write_all(&counter, &max_count.to_ne_bytes()));
    let (source, writer) = pipe();
    assert!(write_all(&writer, &5_u64.to_ne_bytes()));
    drop(writer);
    let reader = counter.try_clone().unwrap();
    let mut ticks = 0;
    let transfer = Transfer::new(&source, &counter).tick(Duration::from_millis(1));
    let report = transfer.observe(|progress| {
        ticks += u32::from(progress.blocked() == Some(Side::Sink));
        if ticks == 3 && progress.bytes() == 0 {
            let mut count = [0; 8];
            assert_eq!(rustix::io::read(&reader, &mut count), Ok(8));
            assert_eq!(u64::from_ne_bytes(count), max_count);
        }
        ControlFlow::Continue(())
    });
    assert_eq!(report.run().unwrap().bytes(), 8);
    assert!(ticks >= 3);
}

/// `EAGAIN` of a socket without a time-out does not end the transfer: another thread changes the
/// mode of the socket.
#[test]
fn promise_5_a_socket_whose_mode_changes_meanwhile_is_waited_for() {
    let bytes = pattern(20_000);
    for toggles_source in [true, false] {
        let (source, peer) = unix(SocketType::STREAM);
        let (sink, reader) = unix(SocketType::STREAM);
        let (is_over, sent) = (std::sync::atomic::AtomicBool::new(false), bytes.clone());
        let toggled = if toggles_source { &source } else { &sink };
        let toggled = toggled.try_clone().unwrap();
        let (report, arrived) = std::thread::scope(|scope| {
            scope.spawn(|| {
                let flags = [OFlags::NONBLOCK, OFlags::empty()];
                let mut modes = flags.iter().cycle();
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    let mode = modes.next().unwrap();
                    rustix::fs::fcntl_setfl(&toggled, *mode).unwrap();
                }
            });
            scope.spawn(move || {
                for piece in sent.chunks(10) {
                    assert!(write_all(&peer, piece));
                    std::thread::yield_now();
                }
            });
            let reading = scope.spawn(move || read_to_end(&reader));
            let report = Transfer::new(&source, &sink).run();
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            rustix::net::shutdown(&sink, rustix::net::Shutdown::Write).unwrap();
            (report, reading.join().unwrap())
        });
        let report = report.unwrap_or_else(|error| panic!("{toggles_source}: {error:#}"));
        assert_eq!(report.ended(), Ended::Eof);
        assert_same(&arrived, &bytes, "toggled");
    }
}

/// Sends ten bytes with `MSG_ZEROCOPY`, and leaves the completion in the error queue.
fn leave_completions(sink: &OwnedFd) {
    // 1 is SOL_SOCKET, 60 is SO_ZEROCOPY, and 0x4000000 is MSG_ZEROCOPY.
    let script = "import socket; s = socket.socket(fileno=0); \
                  s.setsockopt(1, 60, 1); s.send(b'x' * 10, 0x4000000)";
    let status = std::process::Command::new("python3")
        .args(["-c", script])
        .stdin(sink.try_clone().unwrap())
        .status();
    assert!(status.unwrap().success());
}

/// The socket polls as broken and is full, so that a call on it would sleep.
#[test]
fn promise_5_a_full_socket_with_unread_completions_can_be_stopped() {
    if !has_program("python3") {
        return;
    }
    let timeout = Duration::from_millis(50);
    let (sink, _reader) = crate::endpoints::tcp();
    leave_completions(&sink);
    let source = file(&pattern(32 << 20));
    let transfer = Transfer::new(&source, &sink).idle_timeout(timeout);
    assert_eq!(transfer.run().unwrap().ended(), Ended::TimedOut);

    let null = File::create("/dev/null").unwrap();
    let fan_out = FanOut::new(&source, &sink).also_to(null);
    let report = fan_out.idle_timeout(timeout).run().unwrap();
    assert_eq!(report.ended(), Ended::TimedOut);

    let (mut client, front) = std::os::unix::net::UnixStream::pair().unwrap();
    let sending = std::thread::spawn(move || client.write_all(&pattern(32 << 20)));
    let back = std::net::TcpStream::from(sink);
    let relay = Relay::new(front, back).idle_timeout(timeout);
    assert_eq!(relay.run().unwrap().ended(), Ended::TimedOut);
    assert!(
        sending.join().unwrap().is_err(),
        "the relay has closed its end"
    );
}

/// Another process has sent with `MSG_ZEROCOPY` on the socket and has not read the completions, so
/// that the socket polls as broken.
#[test]
fn promise_5_unread_completions_are_not_taken_for_a_closed_reader() {
    if !has_program("python3") {
        return;
    }
    let (sink, reader) = crate::endpoints::tcp();
    leave_completions(&sink);
    let mut sent = [0; 10];
    assert_eq!(rustix::io::read(&reader, &mut sent), Ok(10));
    let revents = || {
        let no_events = rustix::event::PollFlags::empty();
        let mut fds = [rustix::event::PollFd::new(&sink, no_events)];
        rustix::event::poll(&mut fds, None).unwrap();
        fds[0].revents()
    };
    assert_eq!(revents(), rustix::event::PollFlags::ERR);

    let (source, writer) = pipe();
    let mut n_idle = 0;
    let fan_out = FanOut::new(&source, &sink).watch_readers(true);
    let report = fan_out.tick(Duration::from_millis(1)).observe(|progress| {
        // The source is idle for a while.
        let is_idle = progress.blocked() == Some(Side::Source);
        n_idle += u32::from(is_idle);
        if is_idle && n_idle == 3 {
            assert!(write_all(&writer, b"hello"));
        }
        if progress.bytes() < 5 {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    let report = report.run().unwrap();
    assert_eq!((report.bytes(), report.ended()), (5, Ended::Stopped));

    // A session looks again later, and returns to its caller meanwhile.
    let fan_out = FanOut::new(&source, &sink).watch_readers(true);
    let mut session = fan_out.start().unwrap();
    for _ in 0..3 {
        let zcopy::Progressed::Blocked(interest) = session.step(u64::MAX).unwrap() else {
            panic!("the source is idle");
        };
        assert!(interest.source() && !interest.sink());
        assert!(
            interest
                .timeout()
                .is_some_and(|timeout| timeout <= Duration::from_secs(1))
        );
    }
    drop(session);

    // Once the reader has closed, the fan-out fails. Bytes that it has not read reset the
    // connection.
    drop(reader);
    let error = FanOut::new(&source, &sink)
        .watch_readers(true)
        .run()
        .unwrap_err();
    assert_eq!(
        std::io::Error::from(error).kind(),
        ErrorKind::ConnectionReset
    );
}
