//! Sources that give whole messages or fail: counters, the kernel log, and datagram sockets with
//! other readers.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketType, recv, send};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use zcopy::{Ended, Transfer};

use super::numbered_records::{RECORD, Writer, Wrote, compare};
use crate::concurrency::bounded;
use crate::endpoints::unix;
use crate::files::{contents, file};
use crate::skip::skip;

/// A read of fewer than eight bytes fails on an eventfd.
#[test]
fn a_small_rate_or_limit_does_not_fail_on_an_eventfd() {
    let value = |count: u32| u64::from(count).to_ne_bytes();
    for (rate, limit) in [(100, 8), (3, 8), (1 << 20, 8), (100, 3), (1 << 20, 3)] {
        let source = eventfd(258, EventfdFlags::CLOEXEC).unwrap();
        let sink = file(b"");
        let transfer = Transfer::new(&source, &sink).rate_limit(rate).limit(limit);
        let case = format!("{rate} a second, at most {limit}");
        let report = transfer
            .run()
            .unwrap_or_else(|error| panic!("{case}: {error:#}"));
        assert_eq!(report.bytes(), limit, "{case}");
        let found = [&contents(&sink), report.undelivered()].concat();
        assert_eq!(found, value(258), "{case}");
    }
}

#[test]
fn a_small_rate_does_not_fail_on_a_timerfd() {
    let flags = TimerfdFlags::CLOEXEC;
    let source = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags).unwrap();
    let none = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let soon = Timespec {
        tv_sec: 0,
        tv_nsec: 1,
    };
    let once = Itimerspec {
        it_interval: none,
        it_value: soon,
    };
    rustix::time::timerfd_settime(&source, TimerfdTimerFlags::empty(), &once).unwrap();
    let sink = file(b"");
    let transfer = Transfer::new(&source, &sink).rate_limit(100).limit(8);
    assert_eq!(transfer.run().unwrap().bytes(), 8);
    assert_eq!(contents(&sink), 1_u64.to_ne_bytes());
}

/// A read with too little room for the next record fails.
#[test]
fn a_small_rate_does_not_fail_on_the_kernel_log() {
    let open = || File::options().read(true).open("/dev/kmsg");
    let Ok(source) = open() else {
        skip("/dev/kmsg cannot be read here");
        return;
    };
    let log = crate::files::reopen(&source, OFlags::RDONLY | OFlags::NONBLOCK);
    let mut buffer = [0; 8192];
    let mut records = Vec::new();
    while let Ok(n) = rustix::io::read(&log, &mut buffer) {
        records.push(buffer[..n].to_vec());
    }
    // A full log loses its oldest record with each new one.
    let (oldest, expected) = records.split_at(records.len() / 2);
    let expected = expected.concat();
    if expected.len() < 2000 {
        skip("the kernel log is too short");
        return;
    }
    for (rate, limit) in [(1000, 1000), (100, 50), (1 << 20, 700)] {
        let source = open().unwrap();
        // A blocking read would wait without end for a record that the log has lost.
        fcntl_setfl(&source, OFlags::NONBLOCK).unwrap();
        let is_found = loop {
            match rustix::io::read(&source, &mut buffer) {
                Ok(n) if oldest.last().is_some_and(|last| *last == buffer[..n]) => break true,
                // `EPIPE`: the next record is lost, and the following read gives the oldest one.
                Ok(_) | Err(Errno::PIPE) => {}
                Err(_) => break false,
            }
        };
        if !is_found {
            skip("the kernel log has lost half of its records meanwhile");
            return;
        }
        fcntl_setfl(&source, OFlags::empty()).unwrap();
        let sink = file(b"");
        let transfer = Transfer::new(&source, &sink).rate_limit(rate).limit(limit);
        let report = transfer
            .run()
            .unwrap_or_else(|error| panic!("{rate}, {limit}: {error:#}"));
        assert_eq!(report.bytes(), limit);
        let found = [&contents(&sink), report.undelivered()].concat();
        assert!(
            expected.starts_with(&found),
            "records in order, of {rate}, {limit}"
        );
    }
}

/// Another reader takes messages between two calls of the transfer. Each message must go to one of
/// the two.
fn share_messages(
    socket_type: SocketType,
    configure: impl for<'a> Fn(Transfer<'a>, &'a File) -> Transfer<'a> + Send + 'static,
) {
    bounded(move || {
        let (peer, source) = unix(socket_type);
        let n_records = 20_000;
        let sending = thread::spawn(move || {
            let mut n = 0;
            for records in [1, 5, 2, 40, 3, 1, 1, 17].into_iter().cycle() {
                let last = (n + records).min(n_records);
                let message: Vec<u8> = (n..last).flat_map(|n| Writer(1).record(n)).collect();
                assert_eq!(send(&peer, &message, SendFlags::empty()), Ok(message.len()));
                n = last;
                if n == n_records {
                    break;
                }
            }
            // An empty message for each of the readers.
            for _ in 0..2 {
                let _ = send(&peer, &[], SendFlags::empty());
            }
        });
        let received = Mutex::new(Vec::new());
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut message = vec![0; 64 << 10];
                while let (n @ 1.., _) =
                    recv(&source, &mut message[..], RecvFlags::empty()).unwrap()
                {
                    received.lock().unwrap().extend_from_slice(&message[..n]);
                }
            });
            loop {
                let (sink, other) = (file(b""), file(b""));
                let report = configure(Transfer::new(source.as_fd(), sink.as_fd()), &other)
                    .run()
                    .unwrap();
                // Delivered and undelivered bytes make up whole messages again.
                let whole = [&contents(&sink), report.undelivered()].concat();
                received.lock().unwrap().extend_from_slice(&whole);
                if report.ended() == Ended::Eof {
                    break;
                }
            }
        });
        sending.join().unwrap();
        let received = received.into_inner().unwrap();
        let mut records: Vec<_> = received.chunks(RECORD).collect();
        records.sort_unstable();
        let wrote = [(Writer(1), Wrote::Records(n_records))];
        assert_eq!(compare(&records.concat(), &wrote), Ok(()));
    });
}

#[test]
fn a_limit_cuts_no_datagram_after_another_reader_took_one() {
    share_messages(SocketType::DGRAM, |transfer, _| transfer.limit(5000));
    share_messages(SocketType::SEQPACKET, |transfer, _| transfer.limit(5000));
}

#[test]
fn a_limit_cuts_no_datagram_on_its_way_to_several_sinks() {
    share_messages(SocketType::DGRAM, |transfer, other| {
        transfer.limit(5000).also_to(other)
    });
}

#[test]
fn a_rate_cuts_no_datagram_after_another_reader_took_one() {
    share_messages(SocketType::DGRAM, |transfer, _| {
        transfer.rate_limit(64 << 20)
    });
    share_messages(SocketType::SEQPACKET, |transfer, _| {
        let tick = Duration::from_secs(3600);
        transfer.rate_limit(64 << 20).tick(tick)
    });
}
