use super::*;

/// Takes for the only transfer of a bucket, whose bytes are never in flight.
fn take(bucket: &mut TokenBucket, held: &mut Held, now: Duration) -> Result<u64, Duration> {
    bucket.take(held, now, u64::MAX, 0, 1)
}

/// Returns how many units the bucket allows within the time, with steps that take no time.
fn moved_in(seconds: u64, rate: u64) -> u64 {
    let end = Duration::from_secs(seconds);
    let (mut now, mut moved) = (Duration::ZERO, 0);
    let mut bucket = TokenBucket::new(NanoRate::per_second(rate), now);
    let mut held = Held::default();
    while now <= end {
        match take(&mut bucket, &mut held, now) {
            Ok(n) => {
                bucket.spend(&mut held, n);
                moved += n;
            }
            Err(wait) => now += wait,
        }
    }
    moved
}

#[test]
fn the_rate_is_kept_at_every_magnitude() {
    for rate in [1, 10, 1_000, 1 << 20, 10 << 30] {
        let moved = moved_in(10, rate);
        let wanted = u128::from(rate) * 10;
        let error = u128::from(moved).abs_diff(wanted);
        assert!(
            error <= wanted / 50 + 1,
            "{moved} bytes in 10 s at {rate} bytes/s"
        );
    }
}

#[test]
fn the_largest_rate_does_not_overflow() {
    for n_accounts in [1, 2] {
        let mut bucket = TokenBucket::new(NanoRate::per_second(u64::MAX), Duration::ZERO);
        let mut held = Held::default();
        for now in [Duration::ZERO, Duration::MAX, Duration::MAX] {
            let taken = bucket.take(&mut held, now, u64::MAX, 0, n_accounts);
            assert_eq!(taken.is_ok(), now == Duration::MAX);
        }
        assert!(held.tokens >= u64::MAX / 20);
        bucket.set_rate(NanoRate::per_second(1));
        bucket.spend(&mut held, u64::MAX);
        bucket.close(&mut held);
    }
}

/// The numbers of the line have room for a hundred bursts of the largest rate.
#[test]
fn steps_at_the_largest_rate_do_not_use_up_the_line() {
    let mut bucket = TokenBucket::new(NanoRate::per_second(u64::MAX), Duration::ZERO);
    let mut held = Held::default();
    for millis in 1..5000 {
        let now = Duration::from_millis(100 + millis);
        take(&mut bucket, &mut held, now).unwrap();
        bucket.spend(&mut held, 1000);
        bucket.give_back(&mut held, 0);
    }
    assert!(bucket.line.last_due().abs() < i128::MAX / 20);
}

#[test]
fn a_pause_earns_no_more_than_a_tenth_of_a_second() {
    let mut bucket = TokenBucket::new(NanoRate::per_second(1000), Duration::ZERO);
    let hour = Duration::from_secs(3600);
    assert_eq!(take(&mut bucket, &mut Held::default(), hour), Ok(100));
}

#[test]
fn a_new_rate_holds_from_the_next_moment_on_in_both_directions() {
    let mut bucket = TokenBucket::new(NanoRate::per_second(10), Duration::ZERO);
    let mut held = Held::default();
    bucket.set_rate(NanoRate::per_second(1_000_000));
    let now = Duration::from_millis(20);
    assert_eq!(take(&mut bucket, &mut held, now), Ok(20_000));
    bucket.give_back(&mut held, 0);
    // Tokens saved at the old rate are cut to a tenth of a second's worth of the new one.
    bucket.set_rate(NanoRate::per_second(1000));
    assert_eq!(take(&mut bucket, &mut held, now), Ok(100));
}

#[test]
fn a_new_rate_makes_no_debt_longer() {
    let second = Duration::from_secs(1);
    for (rate, wait) in [(1000, 10), (100, 10), (10_000, 1)] {
        let mut bucket = TokenBucket::new(NanoRate::per_second(1000), Duration::ZERO);
        let mut held = Held::default();
        bucket.spend(&mut held, 10_000);
        bucket.set_rate(NanoRate::per_second(rate));
        let left = bucket.take(&mut held, Duration::ZERO, 0, 0, 1);
        assert_eq!(left, Err(second * wait), "{rate} bytes/s");
    }
}

#[test]
fn a_lower_rate_makes_no_debt_of_a_step_that_has_begun() {
    let mut bucket = TokenBucket::new(NanoRate::per_second(1_000_000), Duration::ZERO);
    let mut held = Held::default();
    let now = Duration::from_secs(1);
    assert_eq!(take(&mut bucket, &mut held, now), Ok(100_000));
    bucket.set_rate(NanoRate::per_second(1000));
    bucket.spend(&mut held, 100_000);
    let quantum = Duration::from_millis(20);
    assert_eq!(take(&mut bucket, &mut held, now), Err(quantum));
}

#[test]
fn a_lower_rate_shortens_reservations() {
    let mut bucket = TokenBucket::new(NanoRate::per_second(1 << 30), Duration::ZERO);
    let mut held: [Held; 5] = Default::default();
    for held in &mut held {
        let taken = bucket.take(held, Duration::ZERO, u64::MAX, 0, 5);
        assert!(taken.is_err());
    }
    bucket.set_rate(NanoRate::per_second(1000));
    let turns = held.each_mut().map(|held| {
        let taken = bucket.take(held, Duration::ZERO, u64::MAX, 0, 5);
        taken.unwrap_err().as_millis()
    });
    // After 70 ms there are half of a burst and 20 tokens more if nobody has come.
    assert_eq!(turns, [20, 40, 60, 70, 70]);
}

#[test]
fn the_last_bytes_need_not_fill_a_quantum() {
    let mut bucket = TokenBucket::new(NanoRate::per_second(1000), Duration::ZERO);
    let mut held = Held::default();
    let now = Duration::from_millis(1);
    assert_eq!(bucket.take(&mut held, now, 1, 0, 1), Ok(1));
    bucket.give_back(&mut held, 0);
    let taken = bucket.take(&mut held, now, 100, 0, 1);
    assert_eq!(taken, Err(Duration::from_millis(19)));
}

#[test]
fn a_transfer_that_has_asked_for_nothing_lately_makes_no_share_smaller() {
    let mut bucket = TokenBucket::new(NanoRate::per_second(1000), Duration::ZERO);
    let mut held: [Held; 2] = Default::default();
    for held in &mut held {
        bucket.open(held, Duration::ZERO);
    }
    let mut take = |now| {
        let taken = bucket.take(&mut held[0], Duration::from_secs(now), u64::MAX, 0, 2);
        bucket.give_back(&mut held[0], 0);
        taken
    };
    assert_eq!((take(1), take(2)), (Ok(50), Ok(100)));
}

#[test]
fn two_transfers_never_take_the_same_tokens() {
    let mut bucket = TokenBucket::new(NanoRate::per_second(1000), Duration::ZERO);
    let now = Duration::from_secs(1);
    let mut held: [Held; 3] = Default::default();
    for held in &mut held[..2] {
        bucket.open(held, now);
    }
    let taken = held
        .each_mut()
        .map(|held| bucket.take(held, now, u64::MAX, 0, 2).ok());
    assert_eq!(taken, [Some(50), Some(50), None]);
}

#[test]
fn unspent_tokens_go_back() {
    let mut bucket = TokenBucket::new(NanoRate::per_second(1000), Duration::ZERO);
    let now = Duration::from_secs(1);
    let (mut one, mut other) = (Held::default(), Held::default());
    assert_eq!(bucket.take(&mut one, now, 50, 0, 2), Ok(50));
    bucket.spend(&mut one, 10);
    // Of 40 that did not arrive, 15 have left the source.
    bucket.give_back(&mut one, 15);
    assert_eq!(one.tokens(), 15);
    assert_eq!(bucket.take(&mut other, now, u64::MAX, 0, 1), Ok(75));
    bucket.close(&mut one);
    bucket.spend(&mut other, 75);
    assert_eq!(
        bucket.take(&mut other, now, u64::MAX, 0, 1),
        Err(Duration::from_millis(5))
    );
}

/// The bytes that wait for a complete block of a direct sink may be more than a burst.
#[test]
fn bytes_in_flight_do_not_keep_others_from_leaving_the_source() {
    let mut bucket = TokenBucket::new(NanoRate::per_second(100), Duration::ZERO);
    let mut held = Held::default();
    let mut now = Duration::ZERO;
    for in_flight in (0..100).step_by(2) {
        let wait = bucket.take(&mut held, now, 2, in_flight, 1).unwrap_err();
        now += wait;
        assert_eq!(bucket.take(&mut held, now, 2, in_flight, 1), Ok(2));
        bucket.give_back(&mut held, in_flight + 2);
    }
    assert_eq!((now, held.tokens()), (Duration::from_secs(1), 100));
    // All are paid for, and delay nothing that follows.
    bucket.spend(&mut held, 100);
    let quantum = Duration::from_millis(20);
    assert_eq!(take(&mut bucket, &mut held, now), Err(quantum));
}

#[test]
fn tokens_taken_before_a_long_wait_are_no_second_burst() {
    let mut bucket = TokenBucket::new(NanoRate::per_second(1000), Duration::ZERO);
    let mut now = Duration::from_secs(1);
    let (mut idle, mut busy) = (Held::default(), Held::default());
    bucket.open(&mut idle, now);
    bucket.open(&mut busy, now);
    assert_eq!(bucket.take(&mut idle, now, u64::MAX, 0, 2), Ok(50));
    now += Duration::from_secs(1);
    assert_eq!(bucket.take(&mut busy, now, 1, 0, 2), Ok(1));
    bucket.give_back(&mut busy, 0);
    bucket.spend(&mut idle, 50);
    assert_eq!(bucket.take(&mut busy, now, u64::MAX, 0, 1), Ok(50));
}

#[test]
fn a_reservation_that_nobody_returns_for_delays_nobody_else() {
    let mut bucket = TokenBucket::new(NanoRate::per_second(1000), Duration::ZERO);
    let (mut gone, mut other) = (Held::default(), Held::default());
    let ms = Duration::from_millis;
    assert_eq!(bucket.take(&mut gone, ms(0), u64::MAX, 0, 2), Err(ms(20)));
    assert_eq!(bucket.take(&mut other, ms(0), u64::MAX, 0, 2), Err(ms(40)));
    assert_eq!(bucket.take(&mut other, ms(40), u64::MAX, 0, 2), Ok(20));
    bucket.spend(&mut other, 20);
    assert_eq!(bucket.take(&mut other, ms(40), u64::MAX, 0, 2), Err(ms(20)));
    // The reservation stays, and those that come later get what it returns.
    bucket.close(&mut gone);
    assert_eq!(bucket.take(&mut other, ms(40), u64::MAX, 0, 2), Ok(20));
}

#[test]
fn a_cancelled_reservation_makes_none_in_front_of_it_due() {
    let mut bucket = TokenBucket::new(NanoRate::per_second(1_000_000), Duration::ZERO);
    let mut held: Vec<Held> = (0..1000).map(|_| Held::default()).collect();
    let n_accounts = held.len() as u64;
    for held in &mut held {
        assert!(
            bucket
                .take(held, Duration::ZERO, u64::MAX, 0, n_accounts)
                .is_err()
        );
    }
    for held in &mut held[500..] {
        bucket.close(held);
    }
    let now = Duration::from_millis(101);
    let taken = held[..500]
        .iter_mut()
        .map(|held| bucket.take(held, now, u64::MAX, 0, 500));
    let taken: u64 = taken.flatten().sum();
    assert!((90_000..=101_000).contains(&taken), "{taken}");
}

#[test]
fn a_cancelled_reservation_delays_none_behind_it() {
    let mut bucket = TokenBucket::new(NanoRate::per_second(1000), Duration::ZERO);
    let mut held: [Held; 3] = Default::default();
    for held in &mut held {
        assert!(bucket.take(held, Duration::ZERO, u64::MAX, 0, 3).is_err());
    }
    bucket.close(&mut held[0]);
    bucket.close(&mut held[1]);
    let mut take =
        |millis| bucket.take(&mut held[2], Duration::from_millis(millis), u64::MAX, 0, 1);
    assert!(take(19).is_err());
    assert!(take(20).is_ok(), "the first reservation is due");
}

#[test]
fn the_tokens_of_sleeping_transfers_leave_the_others_a_quantum() {
    let mut bucket = TokenBucket::new(NanoRate::per_second(1000), Duration::ZERO);
    let mut held: [Held; 3] = Default::default();
    // Each sleeps with what it has taken.
    let mut take = |index: usize, seconds| {
        let n_accounts = index as u64 + 1;
        let now = Duration::from_secs(seconds);
        bucket.take(&mut held[index], now, u64::MAX, 0, n_accounts)
    };
    assert_eq!(
        (take(0, 10), take(1, 20), take(2, 30)),
        (Ok(100), Ok(20), Ok(20))
    );
}

#[test]
fn times_in_another_order_earn_nothing_twice() {
    let mut bucket = TokenBucket::new(NanoRate::per_second(1000), Duration::ZERO);
    let mut held = Held::default();
    let ms = Duration::from_millis;
    let mut moved = 0;
    for now in [50, 10, 50, 20, 50, 70] {
        if let Ok(taken) = bucket.take(&mut held, ms(now), u64::MAX, 0, 1) {
            bucket.spend(&mut held, taken);
            moved += taken;
        }
    }
    assert_eq!(moved, 70);
}

#[test]
fn no_step_waits_for_more_than_a_buffer() {
    for rate in [1 << 30, 1 << 40, u64::MAX] {
        let mut bucket = TokenBucket::new(NanoRate::per_second(rate), Duration::ZERO);
        let wait = take(&mut bucket, &mut Held::default(), Duration::ZERO);
        let nanos = u128::from(MAX_QUANTUM) * 1_000_000_000;
        let a_buffer = nanos.div_ceil(u128::from(rate));
        assert_eq!(wait.unwrap_err().as_nanos(), a_buffer, "{rate}");
    }
}

/// A debt that was paid off at a lower rate leaves nothing for a later one.
#[test]
fn a_higher_rate_restores_nothing_of_an_earlier_debt() {
    let second = Duration::from_secs(1);
    let mut bucket = TokenBucket::new(NanoRate::per_second(1000), Duration::ZERO);
    let mut held = Held::default();
    bucket.spend(&mut held, 10_000);
    bucket.set_rate(NanoRate::per_second(100));
    let now = 11 * second;
    assert_eq!(take(&mut bucket, &mut held, now), Ok(10));
    bucket.spend(&mut held, 10 + 100);
    bucket.set_rate(NanoRate::per_second(1000));
    let left = bucket.take(&mut held, now, 0, 0, 1);
    assert_eq!(left, Err(second / 10));
}
