use std::fs::File;
use std::thread;

use super::*;

fn version(n: u64) -> Version {
    let stat = rustix::fs::stat("/proc/self").unwrap();
    Version {
        size: n,
        ..Version::new(&stat, None)
    }
}

fn sink() -> Arc<OwnedFd> {
    Arc::new(File::create("/dev/null").unwrap().into())
}

/// A size for which a run waits for seconds.
const LONG: u64 = 8 << 30;

fn result() -> Arc<SharedResult> {
    let (source, sink) = (
        File::open("/dev/null").unwrap(),
        File::create("/dev/null").unwrap(),
    );
    Arc::new(SharedResult {
        read: zcopy::Transfer::new(&source, &sink).run(),
        digest: None,
    })
}

/// Offers the same file in a thread for each run, and has the host do `host`. Returns the number
/// of hosts, of guests with a result, and of those who read alone.
fn offer_to_all(n_runs: usize, host: impl Fn(Guests) + Sync) -> [usize; 3] {
    let reads = SharedReads::new(n_runs, 0);
    let interrupt = Interrupt::default();
    thread::scope(|scope| {
        let offers = (0..n_runs).map(|run| {
            let (reads, interrupt, host) = (&reads, &interrupt, &host);
            scope.spawn(move || {
                let sink = sink();
                let offered = reads
                    .member(run)
                    .offer(&version(LONG), &sink, interrupt, |_| {});
                match offered {
                    Offered::Host(guests) => {
                        host(guests);
                        [1, 0, 0]
                    }
                    Offered::Read(_, index) => {
                        assert!((1..n_runs).contains(&index));
                        assert!(Arc::into_inner(sink).is_some(), "nothing else holds it");
                        [0, 1, 0]
                    }
                    Offered::Alone | Offered::Abandoned => [0, 0, 1],
                }
            })
        });
        let offers: Vec<_> = offers.collect();
        offers.into_iter().fold([0; 3], |sums, offer| {
            let mut counts = offer.join().unwrap().into_iter();
            sums.map(|sum| sum + counts.next().unwrap())
        })
    })
}

#[test]
fn one_reads_for_all() {
    let all = |guests: Guests| {
        assert_eq!(guests.sinks().count(), 3);
        guests.end(&result());
    };
    assert_eq!(offer_to_all(4, all), [1, 3, 0]);
}

#[test]
fn guests_of_a_host_that_gives_up_read_alone() {
    assert_eq!(offer_to_all(3, drop), [1, 0, 2]);
}

#[test]
fn guests_count_what_the_host_has_read() {
    let reads = SharedReads::new(2, 0);
    let (host, guest) = (reads.member(0), reads.member(1));
    let interrupt = Interrupt::default();
    let passed = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let sink = sink();
            let count = |n| {
                passed.fetch_add(n, Ordering::SeqCst);
            };
            let offered = guest.offer(&version(LONG), &sink, &interrupt, count);
            assert!(matches!(offered, Offered::Host(_) | Offered::Read(..)));
            if let Offered::Host(mut guests) = offered {
                guests.pass(3 * STEP);
                guests.end(&result());
                passed.store(3 * STEP, Ordering::SeqCst);
            }
        });
        let offered = host.offer(&version(LONG), &sink(), &interrupt, |_| {});
        if let Offered::Host(mut guests) = offered {
            guests.pass(STEP);
            guests.pass(3 * STEP);
            guests.end(&result());
        }
    });
    assert_eq!(passed.into_inner(), 3 * STEP);
}

#[test]
fn nobody_waits_for_a_run_that_has_ended() {
    let reads = SharedReads::new(2, 0);
    let interrupt = Interrupt::default();
    let member = reads.member(0);
    drop(reads.member(1));
    let offered = member.offer(&version(LONG), &sink(), &interrupt, |_| {});
    assert!(matches!(offered, Offered::Alone));
}

#[test]
fn who_waits_for_a_run_that_ends_reads_alone() {
    let reads = SharedReads::new(2, 0);
    let interrupt = Interrupt::default();
    let (member, other) = (reads.member(0), reads.member(1));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let offered = member.offer(&version(LONG), &sink(), &interrupt, |_| {});
            assert!(matches!(offered, Offered::Alone));
        });
        while reads.lock().offers.is_empty() {
            thread::yield_now();
        }
        other.end();
        waiting.join().unwrap();
    });
    assert!(reads.lock().offers.is_empty());
}

#[test]
fn nobody_waits_for_a_run_that_does_not_read_the_file() {
    let reads = SharedReads::new(2, 0);
    let interrupt = Interrupt::default();
    let (member, other) = (reads.member(0), reads.member(1));
    for _ in 0..2 * MAX_PASSED {
        other.pass((0, 0));
    }
    other.pass(version(LONG).file);
    assert_eq!(reads.lock().runs[1].passed.len(), MAX_PASSED);
    let offered = member.offer(&version(LONG), &sink(), &interrupt, |_| {});
    assert!(matches!(offered, Offered::Alone));
    // That was known before the wait, and no wait was in vain.
    assert_eq!(reads.lock().runs[0].n_halvings, 0);
}

#[test]
fn another_version_is_another_file() {
    let reads = SharedReads::new(2, 0);
    let interrupt = Interrupt::default();
    let (one, other) = (reads.member(0), reads.member(1));
    thread::scope(|scope| {
        for (member, size) in [(&one, 1), (&other, 2)] {
            let interrupt = &interrupt;
            scope.spawn(move || {
                let offered = member.offer(&version(size), &sink(), interrupt, |_| {});
                assert!(matches!(offered, Offered::Alone));
            });
        }
    });
}

#[test]
fn waits_in_vain_become_shorter_and_a_signal_ends_them() {
    assert_eq!(wait_for(1 << 20, 0), WAITS[0]);
    assert_eq!(wait_for(1 << 30, 0).as_secs(), 1);
    assert_eq!(wait_for(u64::MAX, 0), WAITS[1]);
    assert_eq!(wait_for(1 << 40, 1), WAITS[1] / 2);
    let reads = SharedReads::new(2, 0);
    let (member, _other) = (reads.member(0), reads.member(1));
    let interrupt = Interrupt::default();
    for halvings in 1..=3 {
        let offered = member.offer(&version(1), &sink(), &interrupt, |_| {});
        assert!(matches!(offered, Offered::Alone));
        assert_eq!(reads.lock().runs[0].n_halvings, halvings);
    }
    interrupt.flag().store(true, Ordering::SeqCst);
    let offered = member.offer(&version(u64::MAX), &sink(), &interrupt, |_| {});
    assert!(matches!(offered, Offered::Alone));
}
