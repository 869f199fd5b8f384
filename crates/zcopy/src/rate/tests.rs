//! The rate of several transfers with one limiter, on simulated time.

use std::collections::BTreeSet;

use super::*;

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

/// At the same time, the same transfer always asks first.
#[test]
fn transfers_that_share_a_rate_get_the_same_part_of_it_and_together_all_of_it() {
    for (n, rate) in [
        (2, 1000),
        (7, RATE),
        (30, 50),
        (200, RATE),
        (200, 1 << 30),
        (1000, 100 << 20),
    ] {
        for step_times in [[0, 0], [0, 300], [1000, 1]] {
            let rate_limiter = RateLimiter::new(rate);
            let mut clients = clients(&rate_limiter, n);
            let seconds = 10;
            simulate(&mut clients, Duration::from_secs(seconds), |index, it| {
                let micros = step_times[index % 2];
                move_all(it, u64::MAX, Duration::from_micros(micros))
            });
            let moved = || clients.iter().map(|client| client.moved);
            let (least, most) = (moved().min().unwrap(), moved().max().unwrap());
            let case = format!("{n} at {rate}, {step_times:?}: {least} to {most}");
            // Some have had one turn more than others.
            let quantum = (rate / 50).clamp(1, 256 << 10);
            assert!(most - least <= most / 10 + quantum, "{case}");
            assert!(least > 0, "{case}");
            let (total, cap) = (moved().sum::<u64>(), rate * seconds);
            assert!(total <= cap, "{case}: {total}");
            assert!(total >= cap - cap / 50 - n as u64, "{case}: {total}");
        }
    }
}

#[test]
fn a_transfer_that_wants_little_gets_it_beside_greedy_ones() {
    let rate_limiter = RateLimiter::new(RATE);
    let mut clients = clients(&rate_limiter, 10);
    simulate(&mut clients, Duration::from_secs(10), |index, it| {
        let wanted = if index == 9 { 100 } else { u64::MAX };
        // It waits for a tenth of a second between two requests.
        let step_time = Duration::from_millis(if index == 9 { 100 } else { 0 });
        move_all(it, wanted, step_time)
    });
    // Each request waits for no more than one turn of each other.
    let polite = clients[9].moved;
    assert!(polite >= 100 * 10_000 / 200, "{polite}");
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

#[test]
fn whole_messages_exceed_the_rate_by_one_message_and_take_no_more_than_streams() {
    // The message is longer than an equal part of a burst.
    for (n, len) in [(20, 65_000), (20, 8192), (100, 8192), (500, 8192)] {
        let rate_limiter = RateLimiter::new(RATE);
        let mut clients = clients(&rate_limiter, n);
        let seconds = 20;
        let (mut moved_in_all, mut most_ahead) = (0, 0);
        simulate(&mut clients, Duration::from_secs(seconds), |index, it| {
            let moved = it.moved;
            let wait = if index % 2 == 0 {
                move_message(it, len)
            } else {
                move_all(it, u64::MAX, Duration::ZERO)
            };
            moved_in_all += it.moved - moved;
            let earned = earned_in(it.at, RATE);
            most_ahead = most_ahead.max(moved_in_all.saturating_sub(earned));
            wait
        });
        let case = format!("{n} with {len} bytes");
        assert!(most_ahead <= len, "{case}: {most_ahead}");
        assert!(
            moved_in_all >= RATE * seconds * 49 / 50,
            "{case}: {moved_in_all}"
        );
        let moved = || clients.iter().map(|client| client.moved);
        let (least, most) = (moved().min().unwrap(), moved().max().unwrap());
        assert!(
            most - least <= most / 10 + len + 5000,
            "{case}: {least} to {most}"
        );
    }
}

#[test]
fn transfers_that_ask_once_and_end_do_not_starve_one_that_stays() {
    for micros in [100, 1000, 10_000] {
        let rate_limiter = RateLimiter::new(RATE);
        let mut clients = clients(&rate_limiter, 2);
        simulate(&mut clients, Duration::from_secs(3), |index, it| {
            if index == 0 {
                return move_all(it, u64::MAX, Duration::ZERO);
            }
            let wait = Duration::from_micros(micros);
            it.account = Account::open(rate_limiter.clone(), it.at);
            let _ = move_all(it, u64::MAX, wait);
            wait
        });
        let (stays, end) = (clients[0].moved, clients[1].moved);
        assert!(
            stays + end >= 3 * RATE * 49 / 50,
            "{micros}: {stays} and {end}"
        );
        assert!(stays >= 3 * RATE / 3, "{micros}: {stays} and {end}");
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
        let mut state: u64 = 7;
        let seconds = 100;
        simulate(&mut clients, Duration::from_secs(seconds), |_, it| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let late = Duration::from_nanos((state >> 33) % 100_000);
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

fn earned_in(time: Duration, rate: u64) -> u64 {
    u64::try_from(time.as_nanos() * u128::from(rate) / 1_000_000_000).unwrap()
}

/// Steps that block, move a part, and leave bytes in flight; transfers that end; new rates.
#[test]
fn no_byte_is_paid_for_twice_or_never() {
    for seed in 1..30 {
        let mut state: u64 = seed;
        let mut random = move |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
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
