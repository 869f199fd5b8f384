//! `RateLimiter`: a rate that several transfers share, one after another or in several threads.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::SeekFrom;
use rustix::net::{SendFlags, SocketType};
use zcopy::{Ended, Progressed, RateLimiter, Reflink, Relay, Strategy, Transfer};

use crate::endpoints::{null, pipe, tcp, unix};
use crate::files::file_in;
use crate::mounts::Fs;
use crate::options::run_also_to;

/// 200 transfers of 1 KB, each far below a burst; some to one sink, some to two.
#[test]
fn transfers_one_after_another_take_no_less_than_their_bytes_divided_by_the_rate() {
    let zeros = File::open("/dev/zero").unwrap();
    let (one, other) = (null(), null());
    let rate_limiter = RateLimiter::new(1_000_000);
    let start = Instant::now();
    for index in 0..200 {
        let transfer = Transfer::new(&zeros, &one)
            .limit(1000)
            .rate_limit(&rate_limiter);
        let others = (index % 2 == 0).then_some(&other);
        assert_eq!(run_also_to(transfer, others).unwrap().bytes(), 1000);
    }
    assert!(start.elapsed() >= Duration::from_millis(190));
}

#[test]
fn a_limiter_and_a_number_replace_each_other() {
    let zeros = File::open("/dev/zero").unwrap();
    let sink = null();
    // At this rate alone the transfer would take eleven days.
    let slow = RateLimiter::new(1);
    let transfer = Transfer::new(&zeros, &sink)
        .limit(1_000_000)
        .rate_limit(&slow);
    transfer.rate_limit(1 << 30).run().unwrap();
    let fast = RateLimiter::new(1 << 30);
    let transfer = Transfer::new(&zeros, &sink).limit(1_000_000).rate_limit(1);
    transfer.rate_limit(&fast).run().unwrap();
}

#[test]
fn a_rate_limited_transfer_clones_nothing() {
    let Some(dir) = Fs::Btrfs.dir() else {
        return;
    };
    let source = file_in(&dir, &vec![7; 300_000]);
    let sink = file_in(&dir, b"");
    let rate_limiter = RateLimiter::new(1 << 30);
    let plan = Transfer::new(&source, &sink)
        .rate_limit(&rate_limiter)
        .plan()
        .unwrap();
    assert_ne!(plan.strategy(), Strategy::Reflink);
    let always = Transfer::new(&source, &sink).reflink(Reflink::Always);
    assert!(
        always
            .rate_limit(&rate_limiter)
            .run()
            .unwrap_err()
            .is_unsuitable()
    );
}

/// Each thread goes on until all have moved their part, so that one that starved would never end.
#[test]
fn threads_keep_one_cap_and_each_of_them_moves() {
    const RATE: u64 = 4_000_000;
    const PART: u64 = 100_000;
    let rate_limiter = RateLimiter::new(RATE);
    let moved = [(); 6].map(|()| AtomicU64::new(0));
    let start = Instant::now();
    let reports = thread::scope(|scope| {
        let threads = moved.each_ref().map(|own| {
            let rate_limiter = &rate_limiter;
            let all = &moved;
            scope.spawn(move || {
                let zeros = File::open("/dev/zero").unwrap();
                let observe = |progress: &zcopy::Progress| {
                    own.store(progress.bytes(), Ordering::Relaxed);
                    let is_done = |it: &AtomicU64| it.load(Ordering::Relaxed) >= PART;
                    if all.iter().all(is_done) {
                        return ControlFlow::Break(());
                    }
                    ControlFlow::Continue(())
                };
                let transfer = Transfer::new(zeros, null()).rate_limit(rate_limiter);
                transfer.observe(observe).run().unwrap()
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    let elapsed = start.elapsed();
    for report in &reports {
        assert_eq!(report.ended(), Ended::Stopped);
        assert!(report.bytes() >= PART);
    }
    let total: u64 = reports.iter().map(zcopy::Report::bytes).sum();
    // Nothing is allowed in advance: the first burst has to be earned as well.
    let cap = elapsed.as_micros() * u128::from(RATE) / 1_000_000 + 1;
    assert!(u128::from(total) <= cap, "{total} bytes in {elapsed:?}");
}

#[test]
fn a_debt_at_a_low_rate_ends_when_another_thread_raises_it() {
    let (source, sink) = (File::open("/dev/zero").unwrap(), null());
    let rate_limiter = RateLimiter::new(1);
    let transfer = Transfer::new(source, sink).limit(1_000_000);
    // At this rate it would take eleven days.
    let transfer = transfer.rate_limit(&rate_limiter);
    let mut session = transfer.start().unwrap();
    let Progressed::Blocked(interest) = session.step(u64::MAX).unwrap() else {
        panic!("a limiter allows nothing in advance");
    };
    assert!(!interest.source() && !interest.sink());
    assert!(interest.timeout().unwrap() <= Duration::from_millis(100));
    thread::scope(|scope| {
        let running = scope.spawn(|| session.drive().unwrap());
        rate_limiter.set_rate(1 << 30);
        assert_eq!(running.join().unwrap(), Ended::Limit);
    });
    assert_eq!(session.finish().unwrap().bytes(), 1_000_000);
}

/// The session has taken a place in line, and its caller takes no step.
#[test]
fn a_session_without_steps_delays_no_other() {
    let rate_limiter = RateLimiter::new(1_000_000);
    let transfer = || {
        let zeros = File::open("/dev/zero").unwrap();
        Transfer::new(zeros, null()).rate_limit(&rate_limiter)
    };
    let mut idle = transfer().start().unwrap();
    let first = idle.step(u64::MAX).unwrap();
    assert!(matches!(first, Progressed::Blocked(_)));
    assert_eq!(transfer().limit(100_000).run().unwrap().bytes(), 100_000);
    assert_eq!(idle.finish().unwrap().bytes(), 0);
}

#[test]
fn inputs_one_after_another_keep_one_rate_of_lines() {
    let lines = file_in(&std::env::temp_dir(), &b"line\n".repeat(25));
    let sink = null();
    let rate_limiter = RateLimiter::new(1000);
    let start = Instant::now();
    for _ in 0..8 {
        let transfer = Transfer::new(&lines, &sink).source_offset(0);
        let report = transfer.record_rate_limit(&rate_limiter).run().unwrap();
        assert_eq!(report.records(), 25);
    }
    assert!(start.elapsed() >= Duration::from_millis(190));
}

/// The debt for another transfer's message delays every byte by ten seconds.
fn limiter_in_debt() -> RateLimiter {
    let rate_limiter = RateLimiter::new(1000);
    let (source, sender) = unix(SocketType::DGRAM);
    rustix::net::send(&sender, &[7; 10_000], SendFlags::empty()).unwrap();
    let transfer = Transfer::new(source, null()).limit(10_000);
    transfer.rate_limit(&rate_limiter).run().unwrap();
    rate_limiter
}

#[test]
fn the_end_of_a_source_does_not_wait_for_the_rate() {
    let dir = Fs::Ext4.dir().unwrap();
    let file = file_in(&dir, b"abc");
    rustix::fs::seek(&file, SeekFrom::Start(3)).unwrap();
    let ended = |(source, writer)| {
        drop(writer);
        source
    };
    let sources = [
        ("pipe", ended(pipe())),
        ("unix", ended(unix(SocketType::STREAM))),
        ("tcp", ended(tcp())),
        ("file", OwnedFd::from(file)),
    ];
    let rate_limiter = limiter_in_debt();
    for (name, source) in &sources {
        for nonblocking in [false, true] {
            rustix::io::ioctl_fionbio(source, nonblocking).unwrap();
            let start = Instant::now();
            let transfer = || Transfer::new(source, null()).rate_limit(&rate_limiter);
            let mut session = transfer().start().unwrap();
            session.drive().unwrap();
            let io = Transfer::to_writer(source, Vec::new()).rate_limit(&rate_limiter);
            let reports = [
                session.finish().unwrap(),
                transfer().run().unwrap(),
                transfer().also_to(null()).run().unwrap(),
                io.run().unwrap(),
            ];
            for report in reports {
                assert_eq!((report.bytes(), report.ended()), (0, Ended::Eof), "{name}");
            }
            assert!(start.elapsed() < Duration::from_secs(2), "{name}");
        }
    }
}

/// Its own debt, for a prefix, is paid.
#[test]
fn the_end_of_a_source_does_not_wait_for_the_debt_of_another_transfer() {
    let rate_limiter = RateLimiter::new(1000);
    let (source, writer) = pipe();
    let transfer = Transfer::new(&source, null()).prefix(*b"prefix");
    let mut session = transfer.rate_limit(&rate_limiter).start().unwrap();
    rustix::io::write(&writer, b"bytes").unwrap();
    while session.progress().bytes() < 11 {
        let _ = session.step(u64::MAX).unwrap();
        thread::sleep(Duration::from_millis(1));
    }
    let (packets, sender) = unix(SocketType::DGRAM);
    rustix::net::send(&sender, &[7; 10_000], SendFlags::empty()).unwrap();
    let transfer = Transfer::new(packets, null()).limit(10_000);
    transfer.rate_limit(&rate_limiter).run().unwrap();
    drop(writer);
    let start = Instant::now();
    assert_eq!(session.drive().unwrap(), Ended::Eof);
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[test]
fn an_idle_relay_ends_in_its_idle_time_whatever_the_rate() {
    let rate_limiter = limiter_in_debt();
    for nonblocking in [false, true] {
        let [one, other] = [unix(SocketType::STREAM), unix(SocketType::STREAM)];
        for end in [&one.0, &other.0] {
            rustix::io::ioctl_fionbio(end, nonblocking).unwrap();
        }
        let start = Instant::now();
        let relay = Relay::new(&one.0, &other.0).idle_timeout(Duration::from_millis(200));
        relay.rate_limit(&rate_limiter).run().unwrap();
        assert!(start.elapsed() < Duration::from_secs(1), "{nonblocking}");
    }
}

#[test]
fn prefixes_of_sources_that_have_ended_keep_the_rate() {
    let rate_limiter = RateLimiter::new(100_000);
    let start = Instant::now();
    for _ in 0..5 {
        let (source, writer) = pipe();
        drop(writer);
        let transfer = Transfer::new(source, null()).prefix(vec![7; 10_000]);
        transfer.rate_limit(&rate_limiter).run().unwrap();
    }
    assert!(start.elapsed() >= Duration::from_millis(380));
}
