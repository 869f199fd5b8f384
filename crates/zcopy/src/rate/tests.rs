//! The rate of several transfers with one limiter, on simulated time.

use std::collections::BTreeSet;

use super::*;

mod parts;

const RATE: u64 = 1_000_000;

/// Moves one file of `len` bytes and returns the time at its end plus `between`.
fn move_file(
    rate_limiter: &RateLimiter,
    mut now: Duration,
    len: u64,
    between: Duration,
) -> Duration {
    let mut account = Account::open(rate_limiter.clone(), now);
    let mut left = len;
    while left > 0 {
        match account.take(now, left, 0) {
            Ok(n) => {
                account.spend(n);
                left -= n;
            }
            Err(wait) => now += wait,
        }
    }
    now + between
}

/// Returns what a new transfer may move at this time.
fn allowed_at(rate_limiter: &RateLimiter, now: Duration) -> Result<u64, Duration> {
    Account::open(rate_limiter.clone(), now).take(now, u64::MAX, 0)
}

#[test]
fn files_one_after_another_keep_one_rate_and_the_time_between_them_counts() {
    let start = Duration::from_secs(5000);
    // Each transfer takes some time to begin and to end; together they still keep the rate.
    for (len, between) in [(1, 0), (700, 300), (30_000, 20_000), (250_000, 50_000)] {
        let rate_limiter = RateLimiter::new(RATE);
        let n_files = 3_000_000 / len.max(100);
        let mut now = start;
        for _ in 0..n_files {
            now = move_file(&rate_limiter, now, len, Duration::from_micros(between));
        }
        let passed = now.saturating_sub(start);
        let ideal = Duration::from_micros(n_files * len);
        // One quantum is a fiftieth of a second.
        assert!(
            passed.abs_diff(ideal) < Duration::from_millis(80),
            "files of {len}: {passed:?} for {ideal:?}"
        );
    }
}

#[test]
fn a_long_time_between_two_files_saves_up_no_more_than_a_burst() {
    let rate_limiter = RateLimiter::new(1000);
    let hour = Duration::from_secs(3600);
    let now = move_file(&rate_limiter, Duration::ZERO, 1000, hour);
    assert_eq!(allowed_at(&rate_limiter, now), Ok(100));
    // Its tokens have gone back.
    assert_eq!(allowed_at(&rate_limiter, now), Ok(100));
}

#[test]
fn the_time_before_the_first_file_saves_up_nothing() {
    let rate_limiter = RateLimiter::new(1000);
    let allowed = allowed_at(&rate_limiter, Duration::from_secs(3600));
    assert_eq!(allowed, Err(Duration::from_millis(20)));
}

#[test]
fn clones_are_one_limit() {
    let rate_limiter = RateLimiter::new(1000);
    let clone = RateLimiter::from(&rate_limiter);
    clone.set_rate(2000);
    assert_eq!(rate_limiter.rate(), 2000);
    assert_eq!(RateLimiter::from(0).rate(), 1);
}

#[test]
fn a_long_wait_is_bounded_if_somebody_else_can_change_the_rate() {
    for n_clones in [0, 1] {
        let rate_limiter = RateLimiter::new(1);
        let clones = vec![rate_limiter.clone(); n_clones];
        let mut account = Account::open(rate_limiter, Duration::ZERO);
        account.spend(1_000_000);
        let wait = account.take(Duration::ZERO, u64::MAX, 0).unwrap_err();
        let whole = Duration::from_secs(1_000_001);
        let wanted = if n_clones == 0 { whole } else { MAX_WAIT };
        assert_eq!(wait, wanted);
        for clone in clones {
            clone.set_rate(u64::MAX);
            assert!(account.take(MAX_WAIT, u64::MAX, 0).is_ok());
        }
    }
}

/// One transfer of a simulation.
struct Client {
    account: Account,
    /// The time of its step.
    at: Duration,
    moved: u64,
    in_flight: u64,
}

/// Runs transfers until `end`, in the order of their times; those at the same time in the order of
/// their numbers. `step` moves bytes, and returns how long that took.
fn simulate(
    clients: &mut [Client],
    end: Duration,
    mut step: impl FnMut(usize, &mut Client) -> Duration,
) {
    let mut due: BTreeSet<_> = (0..clients.len()).map(|it| (Duration::ZERO, it)).collect();
    while let Some((now, index)) = due.pop_first().filter(|(now, _)| *now < end) {
        let client = &mut clients[index];
        client.at = now;
        due.insert((now + step(index, client), index));
    }
}

fn clients(rate_limiter: &RateLimiter, n: usize) -> Vec<Client> {
    let client = |_| Client {
        account: Account::open(rate_limiter.clone(), Duration::ZERO),
        at: Duration::ZERO,
        moved: 0,
        in_flight: 0,
    };
    (0..n).map(client).collect()
}

/// Moves all that is allowed; returns when to try again.
fn move_all(client: &mut Client, wanted: u64, step_time: Duration) -> Duration {
    match client.account.take(client.at, wanted, 0) {
        Ok(n) => {
            client.account.spend(n);
            client.account.give_back(0);
            client.moved += n;
            step_time
        }
        Err(wait) => wait,
    }
}

/// Moves one message whole, however little is allowed.
fn move_message(client: &mut Client, len: u64) -> Duration {
    match client.account.take(client.at, u64::MAX, 0) {
        Ok(_) => {
            client.account.spend(len);
            client.account.give_back(0);
            client.moved += len;
            Duration::ZERO
        }
        Err(wait) => wait,
    }
}

/// The callers of a thousand sessions take no step for some seconds.
#[test]
fn turns_that_were_missed_are_no_more_than_one_burst() {
    let rate_limiter = RateLimiter::new(RATE);
    let mut clients = clients(&rate_limiter, 1000);
    for client in &mut clients {
        assert!(client.account.take(Duration::ZERO, u64::MAX, 0).is_err());
    }
    let mut moved = 0;
    for client in &mut clients {
        client.at = Duration::from_secs(5);
        move_all(client, u64::MAX, Duration::ZERO);
        moved += client.moved;
    }
    assert_eq!(moved / 1024, 100_000 / 1024);
}

/// Sinks accept nothing, one after the other.
#[test]
fn bytes_in_flight_at_stalled_sinks_add_up_to_little_more_than_a_burst() {
    let rate_limiter = RateLimiter::new(RATE);
    let mut clients = clients(&rate_limiter, 10);
    let mut n_in_flight = 0;
    for (client, seconds) in clients.iter_mut().zip(1..) {
        let now = Duration::from_secs(seconds);
        n_in_flight += client.account.take(now, u64::MAX, 0).unwrap_or(0);
    }
    assert!(n_in_flight <= 100_000 + 10 * 1024, "{n_in_flight}");
    // They do not keep others from moving.
    let mut other = self::clients(&rate_limiter, 1);
    simulate(&mut other, Duration::from_secs(20), |_, it| {
        it.at += Duration::from_secs(11);
        move_all(it, u64::MAX, Duration::ZERO)
    });
    assert!(other[0].moved >= 9 * RATE, "{}", other[0].moved);
}

/// Wakes come late by up to a tenth of a millisecond.
#[test]
fn late_wakes_cost_neither_rate_nor_turns() {
    // (transfers, rate, units that a stalled transfer holds)
    for (n, rate, n_held) in [
        (2, 10, 0),
        (3, 15, 0),
        (5, 19, 0),
        (3, 1000, 0),
        (3, 50_000, 5000),
        (5, 50_000, 5000),
        (50, RATE, 0),
        (50, RATE, 100_000),
    ] {
        let rate_limiter = RateLimiter::new(rate);
        let mut stalled = clients(&rate_limiter, 1);
        let start = Duration::from_secs(1);
        if n_held > 0 {
            let taken = stalled[0].account.take(start, n_held, 0);
            assert_eq!(taken, Ok(n_held));
        }
        let mut clients = clients(&rate_limiter, n);
        let mut random = random_numbers(7);
        let seconds = 100;
        simulate(&mut clients, Duration::from_secs(seconds), |_, it| {
            let late = Duration::from_nanos(random(100_000));
            it.at += start;
            move_all(it, u64::MAX, Duration::ZERO) + late
        });
        let moved = || clients.iter().map(|client| client.moved);
        let (least, most) = (moved().min().unwrap(), moved().max().unwrap());
        let total = moved().sum::<u64>();
        let case = format!("{n} at {rate} beside {n_held}: {least} to {most}, {total}");
        assert!(total >= rate * seconds * 97 / 100, "{case}");
        assert!(most - least <= most / 10 + (rate / 50).max(1), "{case}");
    }
}

/// One sink after the other accepts what comes for a while, and then nothing.
#[test]
fn sinks_that_stall_after_a_while_hold_little_more_than_two_bursts() {
    for n in [10, 50, 100] {
        for millis in [100, 300] {
            let rate_limiter = RateLimiter::new(RATE);
            let turn = Duration::from_millis(millis);
            let mut held = 0;
            let mut open = clients(&rate_limiter, n);
            for (client, index) in open.iter_mut().zip(0..) {
                let client = std::slice::from_mut(client);
                simulate(client, 3 * turn, |_, it| {
                    let accepts = it.at < turn;
                    it.at += turn * index;
                    if accepts {
                        return move_all(it, u64::MAX, Duration::from_micros(10));
                    }
                    match it.account.take(it.at, u64::MAX, 0) {
                        Ok(_) => 3 * turn,
                        Err(wait) => wait,
                    }
                });
                held += client[0].account.held();
            }
            let case = format!("{n}, {millis} ms: {held}");
            assert!(held >= 100_000, "{case}");
            assert!(held <= 200_000 + 1024 * n as u64, "{case}");
        }
    }
}

/// A limiter that limits nothing at first, for months.
#[test]
fn a_rate_after_months_without_one_gives_equal_parts() {
    let months = Duration::from_secs(107 * 24 * 3600);
    for n in [1, 4] {
        let rate_limiter = RateLimiter::new(u64::MAX);
        let mut clients = clients(&rate_limiter, n);
        for client in &mut clients {
            client.at = months;
            move_all(client, u64::MAX, Duration::ZERO);
            client.moved = 0;
        }
        rate_limiter.set_rate(RATE);
        let seconds = 10;
        simulate(&mut clients, Duration::from_secs(seconds), |_, it| {
            it.at += months;
            move_all(it, u64::MAX, Duration::ZERO)
        });
        for client in &clients {
            let part = RATE * seconds / n as u64;
            assert!(
                client.moved.abs_diff(part) <= part / 20,
                "{n}: {}",
                client.moved
            );
        }
    }
}

#[test]
fn messages_at_stalled_sinks_count_when_they_leave_their_sources() {
    const LEN: u64 = 65_000;
    let rate_limiter = RateLimiter::new(RATE);
    let mut clients = clients(&rate_limiter, 100);
    let (mut n_left, mut most_ahead) = (0, 0);
    simulate(&mut clients, Duration::from_secs(3), |_, it| {
        let never = Duration::from_secs(60);
        match it.account.take(it.at, u64::MAX, 0) {
            Ok(_) => {
                it.account.give_back(LEN);
                assert_eq!(it.account.held(), LEN);
                n_left += LEN;
                let earned = earned_in(it.at, RATE);
                most_ahead = most_ahead.max(n_left.saturating_sub(earned));
                never
            }
            Err(wait) => wait,
        }
    });
    assert!(most_ahead <= LEN, "{most_ahead}");
    assert!(n_left >= 2 * RATE, "{n_left}");
    for client in &mut clients {
        client.account.spend(client.account.held());
    }
    drop(clients);
    assert_eq!(rate_limiter.spent_in_all(), n_left);
}

/// Each sees fewer users than there will be.
#[test]
fn transfers_that_open_one_after_another_hold_little_more_than_a_burst() {
    for n in [20, 100] {
        let rate_limiter = RateLimiter::new(RATE);
        let mut open = Vec::new();
        for index in 0..n {
            let now = Duration::from_micros(index);
            let mut account = Account::open(rate_limiter.clone(), now);
            let _ = account.take(now, u64::MAX, 0);
            open.push(account);
        }
        for millis in 1..600 {
            for account in &mut open {
                let in_flight = account.held();
                if in_flight == 0 {
                    let _ = account.take(Duration::from_millis(millis), u64::MAX, 0);
                }
            }
        }
        let n_held: u64 = open.iter().map(Account::held).sum();
        assert!(n_held <= 100_000 + n * 1024, "{n}: {n_held}");
    }
}

/// Returns a function that draws numbers below its argument.
fn random_numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    }
}

fn earned_in(time: Duration, rate: u64) -> u64 {
    u64::try_from(time.as_nanos() * u128::from(rate) / 1_000_000_000).unwrap()
}

/// Steps that block, move a part, and leave bytes in flight; transfers that end; new rates.
#[test]
fn no_byte_is_paid_for_twice_or_never() {
    for seed in 1..30 {
        let mut random = random_numbers(seed);
        let changes_rate = seed % 2 == 0;
        let rate_limiter = RateLimiter::new(RATE);
        let mut clients = clients(&rate_limiter, 8);
        let (mut cap, mut rate, mut changed_at) = (0, RATE, Duration::ZERO);
        let mut moved_in_all = 0;
        let end = Duration::from_secs(10);
        simulate(&mut clients, end, |index, it| {
            let now = it.at;
            let earned = earned_in(now.saturating_sub(changed_at), rate);
            if changes_rate && random(100) == 0 {
                cap += earned;
                changed_at = now;
                rate = [RATE, RATE / 100, RATE * 10][random(3) as usize];
                rate_limiter.set_rate(rate);
                // It holds also for the time since a transfer last asked, for at most a burst.
                cap += rate / 10;
            }
            if random(50) == 0 {
                it.account = Account::open(rate_limiter.clone(), now);
                it.in_flight = 0;
            }
            if it.in_flight == 0 || random(4) == 0 {
                match it.account.take(now, 1 + random(40_000), it.in_flight) {
                    // A call takes a part from the source, or blocks.
                    Ok(n) => it.in_flight += random(n + 1),
                    Err(wait) => return wait,
                }
            }
            let moved = random(it.in_flight + 1);
            it.account.spend(moved);
            it.in_flight -= moved;
            it.account.give_back(it.in_flight);
            it.moved += moved;
            moved_in_all += moved;
            assert_eq!(it.account.held(), it.in_flight);
            let earned = earned_in(now.saturating_sub(changed_at), rate);
            assert!(moved_in_all <= cap + earned + 1, "{seed}: {now:?}");
            // The last of them alone is slow.
            Duration::from_micros(if index == 7 {
                random(300_000)
            } else {
                random(100)
            })
        });
        if !changes_rate {
            let least = RATE * 10 - RATE * 10 / 20;
            assert!(moved_in_all >= least, "{seed}: {moved_in_all}");
        }
        // All that they have not moved has gone back.
        drop(clients);
        let quantum = Duration::from_millis(20);
        assert!(allowed_at(&rate_limiter, end + quantum).is_ok(), "{seed}");
        assert_eq!(rate_limiter.spent_in_all(), moved_in_all);
    }
}
