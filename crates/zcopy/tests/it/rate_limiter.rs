//! `RateLimiter`: a rate that several transfers share.

use std::fs::File;
use std::time::{Duration, Instant};

use zcopy::{RateLimiter, Reflink, Strategy, Transfer};

use crate::endpoints::null;
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
            .rate_limiter(&rate_limiter);
        let others = (index % 2 == 0).then_some(&other);
        assert_eq!(run_also_to(transfer, others).unwrap().bytes(), 1000);
    }
    assert!(start.elapsed() >= Duration::from_millis(190));
}

#[test]
fn a_rate_limiter_and_a_rate_limit_replace_each_other() {
    let zeros = File::open("/dev/zero").unwrap();
    let sink = null();
    // At this rate alone the transfer would take eleven days.
    let slow = RateLimiter::new(1);
    let transfer = Transfer::new(&zeros, &sink)
        .limit(1_000_000)
        .rate_limiter(&slow);
    transfer.rate_limit(1 << 30).run().unwrap();
    let fast = RateLimiter::new(1 << 30);
    let transfer = Transfer::new(&zeros, &sink).limit(1_000_000).rate_limit(1);
    transfer.rate_limiter(&fast).run().unwrap();
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
        .rate_limiter(&rate_limiter)
        .plan()
        .unwrap();
    assert_ne!(plan.strategy(), Strategy::Reflink);
    let always = Transfer::new(&source, &sink).reflink(Reflink::Always);
    assert!(
        always
            .rate_limiter(&rate_limiter)
            .run()
            .unwrap_err()
            .is_unsuitable()
    );
}
