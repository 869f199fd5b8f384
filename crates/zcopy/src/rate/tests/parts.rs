//! What part of a common rate each transfer gets.

use super::*;

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

/// The first of `n` transfers moves messages, the others move all that is allowed. Wakes come late
/// by up to a millisecond.
#[test]
fn transfers_get_equal_parts_whatever_the_length_of_their_messages() {
    for n in [2, 3, 10] {
        for rate in [200_000, RATE, 5 * RATE] {
            for len in [100, 1500, 65_000, 1_000_000] {
                let rate_limiter = RateLimiter::new(rate);
                let mut clients = clients(&rate_limiter, n);
                let mut random = random_numbers(7);
                let seconds = if len < 10_000 { 20 } else { 100 };
                simulate(&mut clients, Duration::from_secs(seconds), |index, it| {
                    let wait = if index == 0 {
                        move_message(it, len)
                    } else {
                        move_all(it, u64::MAX, Duration::ZERO)
                    };
                    let late = if wait.is_zero() { 10 } else { random(1000) };
                    wait + Duration::from_micros(late)
                });
                let moved: Vec<u64> = clients.iter().map(|client| client.moved).collect();
                let case = format!("{n} at {rate}, messages of {len}: {moved:?}");
                let total: u64 = moved.iter().sum();
                assert!(total <= rate * seconds + len, "{case}");
                assert!(total >= rate * seconds * 98 / 100, "{case}");
                let part = total / n as u64;
                for moved in moved {
                    assert!(moved.abs_diff(part) <= part / 20 + 2 * len, "{case}");
                }
            }
        }
    }
}

/// The rate changes every 20 ms.
#[test]
fn rates_that_alternate_starve_no_transfer() {
    for n in [10, 1000] {
        let rate_limiter = RateLimiter::new(RATE);
        let mut clients = clients(&rate_limiter, n);
        let mut n_changes = 0;
        simulate(&mut clients, Duration::from_secs(20), |_, it| {
            if it.at >= Duration::from_millis(20 * n_changes) {
                n_changes += 1;
                rate_limiter.set_rate(RATE / (1 + n_changes % 2));
            }
            move_all(it, u64::MAX, Duration::ZERO)
        });
        let moved = || clients.iter().map(|client| client.moved);
        let (least, most) = (moved().min().unwrap(), moved().max().unwrap());
        let total: u64 = moved().sum();
        let case = format!("{n}: {least} to {most}, {total}");
        assert!(total >= RATE * 20 * 70 / 100, "{case}");
        assert!(most - least <= most / 5 + 1024, "{case}");
    }
}

/// One transfer always moves. The others take a step each second, at the same time or not.
#[test]
fn transfers_that_sleep_cost_one_that_does_not_neither_rate_nor_its_part() {
    for n in [10, 100, 1000] {
        for spread in [0, 1] {
            let rate_limiter = RateLimiter::new(RATE);
            let mut clients = clients(&rate_limiter, n);
            let seconds = 20;
            simulate(&mut clients, Duration::from_secs(seconds), |index, it| {
                if index == 0 {
                    return move_all(it, u64::MAX, Duration::ZERO);
                }
                let _ = move_all(it, 1024, Duration::ZERO);
                let phase = spread * 1_000_000 * index as u64 / n as u64;
                let second = it.at.as_secs() + 1;
                Duration::from_micros(second * 1_000_000 + phase).saturating_sub(it.at)
            });
            let total: u64 = clients.iter().map(|client| client.moved).sum();
            let busy = clients[0].moved;
            let case = format!("{n}, {spread}: {busy} of {total}");
            // A tenth of a second's worth is saved up while all wait for their turns.
            assert!(total >= RATE * seconds * 9 / 10, "{case}");
            assert!(busy >= RATE * seconds * 9 / 10 / n as u64, "{case}");
        }
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

/// Moves 100 and 1500 bytes at a time beside one that moves all that is allowed.
#[test]
fn short_messages_beside_longer_ones_get_equal_parts() {
    for (rate, lens) in [
        (RATE, &[100, 1500, 1500, 0][..]),
        (5 * RATE, &[100, 0, 1500, 1500, 1500, 1500, 1500, 1500][..]),
    ] {
        let rate_limiter = RateLimiter::new(rate);
        let mut clients = clients(&rate_limiter, lens.len());
        let mut random = random_numbers(3);
        let seconds = 10;
        simulate(&mut clients, Duration::from_secs(seconds), |index, it| {
            let wait = match lens[index] {
                0 => move_all(it, u64::MAX, Duration::ZERO),
                len => move_message(it, len),
            };
            let late = if wait.is_zero() { 3 } else { random(2000) };
            wait + Duration::from_micros(late)
        });
        let moved: Vec<u64> = clients.iter().map(|client| client.moved).collect();
        let part = rate * seconds / lens.len() as u64;
        for n in &moved {
            assert!(n.abs_diff(part) <= part / 10, "{moved:?}");
        }
    }
}

/// Nine sinks hold a burst, and the tenth transfer's steps take their time.
#[test]
fn steps_beside_stalled_sinks_grow_to_what_the_rate_needs() {
    for (rate, step_time) in [(RATE, 5000), (RATE, 20_000), (100 * RATE, 100)] {
        let rate_limiter = RateLimiter::new(rate);
        let mut stalled = clients(&rate_limiter, 9);
        for (client, millis) in stalled.iter_mut().zip((1000..).step_by(100)) {
            let _ = client
                .account
                .take(Duration::from_millis(millis), u64::MAX, 0);
        }
        let n_held: u64 = stalled.iter().map(|client| client.account.held()).sum();
        assert!(n_held >= rate * 99 / 1000, "{n_held}");
        let mut busy = clients(&rate_limiter, 1);
        let seconds = 10;
        simulate(&mut busy, Duration::from_secs(seconds), |_, it| {
            it.at += Duration::from_secs(3);
            move_all(it, u64::MAX, Duration::from_micros(step_time))
        });
        let moved = busy[0].moved;
        assert!(
            moved >= rate * seconds * 95 / 100,
            "{rate}, {step_time} us: {moved}"
        );
    }
}

/// A series opens an account for each of its files; other transfers are idle.
#[test]
fn a_series_of_files_gets_the_part_of_one_transfer() {
    for n_idle in [0, 10, 500] {
        for len in [100, 5000, 20_000] {
            let rate_limiter = RateLimiter::new(RATE);
            let _idle = clients(&rate_limiter, n_idle);
            let mut clients = clients(&rate_limiter, 2);
            let mut left = 0;
            let seconds = 10;
            simulate(&mut clients, Duration::from_secs(seconds), |index, it| {
                if index == 0 {
                    return move_all(it, u64::MAX, Duration::ZERO);
                }
                if left == 0 {
                    left = len;
                    it.account = Account::open(rate_limiter.clone(), it.at);
                }
                let moved = it.moved;
                let wait = move_all(it, left, Duration::ZERO);
                left -= it.moved - moved;
                wait
            });
            let (long, series) = (clients[0].moved, clients[1].moved);
            let case = format!("{n_idle} idle, files of {len}: {long} and {series}");
            assert!(long + series >= RATE * seconds * 95 / 100, "{case}");
            assert!(long >= RATE * seconds * 4 / 10, "{case}");
        }
    }
}

/// A debt is paid off in the time that it takes at the higher rate.
#[test]
fn rates_that_alternate_allow_no_more_than_the_higher_one() {
    for (low, high, millis, len) in [
        (900_000, RATE, 10, 1_000_000),
        (500_000, RATE, 100, 65_000),
        (180_000, 200_000, 1, 65_000),
    ] {
        for n in [1, 4] {
            let rate_limiter = RateLimiter::new(high);
            let mut clients = clients(&rate_limiter, n);
            let mut n_changes = 0;
            let seconds = 30;
            simulate(&mut clients, Duration::from_secs(seconds), |_, it| {
                while it.at >= Duration::from_millis(millis * n_changes) {
                    n_changes += 1;
                    rate_limiter.set_rate([low, high][n_changes as usize % 2]);
                }
                move_message(it, len).min(Duration::from_millis(millis))
            });
            let moved: Vec<u64> = clients.iter().map(|client| client.moved).collect();
            let total: u64 = moved.iter().sum();
            let cap = high * seconds;
            let case = format!("{low} and {high} each {millis} ms: {moved:?} of {cap}");
            assert!(total <= cap + len, "{case}");
            assert!(
                moved.iter().all(|it| it + 2 * len >= total / n as u64),
                "{case}"
            );
        }
    }
}

/// The steps of the first transfer take longer than half of a burst.
#[test]
fn a_transfer_with_slow_steps_gets_what_the_other_does_not_want() {
    for step_time in [60, 80, 90] {
        let rate_limiter = RateLimiter::new(RATE);
        let mut clients = clients(&rate_limiter, 2);
        let seconds = 20;
        simulate(&mut clients, Duration::from_secs(seconds), |index, it| {
            if index == 0 {
                return move_all(it, u64::MAX, Duration::from_millis(step_time));
            }
            let wait = move_all(it, 100, Duration::from_millis(500));
            wait.max(Duration::from_millis(1))
        });
        let moved = clients[0].moved;
        assert!(
            moved >= RATE * seconds * 90 / 100,
            "{step_time} ms: {moved}"
        );
    }
}

/// A loop looks at its transfers in one order. Every other one is late each time by up to half a
/// second.
#[test]
fn transfers_that_are_not_late_share_what_late_ones_leave() {
    for (n, rate) in [(10, RATE), (100, RATE), (500, 20 * RATE)] {
        // The microseconds from one look to the next.
        for pass in [1, 5000] {
            let rate_limiter = RateLimiter::new(rate);
            let mut clients = clients(&rate_limiter, n);
            let mut random = random_numbers(5);
            let (mut n_refused, seconds) = (0, 10);
            simulate(&mut clients, Duration::from_secs(seconds), |index, it| {
                let late = Duration::from_millis(index as u64 % 2 * random(500));
                let wait = move_all(it, u64::MAX, Duration::ZERO);
                n_refused += u64::from(!wait.is_zero());
                let at = u64::try_from((it.at + wait + late).as_micros()).unwrap();
                let next = Duration::from_micros((at + 1).next_multiple_of(pass));
                next.saturating_sub(it.at)
            });
            let punctual = || clients.iter().step_by(2).map(|client| client.moved);
            let (least, most) = (punctual().min().unwrap(), punctual().max().unwrap());
            let total: u64 = clients.iter().map(|client| client.moved).sum();
            let case = format!("{n} at {rate}, {pass} us: {least} to {most}, {total}");
            assert!(total >= rate * seconds * 99 / 100, "{case}");
            assert!(most - least <= most / 20, "{case}");
            // They need not ask all the time.
            assert!(n_refused <= 50 * seconds * n as u64, "{case}: {n_refused}");
        }
    }
}

/// The first ten transfers move ten bytes at a time. The rate changes, or does not.
#[test]
fn the_smallest_messages_get_equal_parts_beside_any_number_of_streams() {
    for (n, rates, seconds) in [
        (30, [5 * RATE; 2], 10),
        (200, [5 * RATE; 2], 10),
        (30, [5 * RATE, RATE], 40),
        (30, [RATE, 2 * RATE], 10),
        (200, [RATE, 2 * RATE], 10),
    ] {
        let rate_limiter = RateLimiter::new(rates[0]);
        let mut clients = clients(&rate_limiter, n);
        let mut n_changes = 0;
        let mut random = random_numbers(7);
        simulate(&mut clients, Duration::from_secs(seconds), |index, it| {
            if it.at >= Duration::from_millis(10 * n_changes) {
                n_changes += 1;
                rate_limiter.set_rate(rates[n_changes as usize % 2]);
            }
            let wait = if index < 10 {
                move_message(it, 10)
            } else {
                move_all(it, u64::MAX, Duration::ZERO)
            };
            let late = if wait.is_zero() { 1 } else { random(1000) };
            wait + Duration::from_micros(late)
        });
        let total: u64 = clients.iter().map(|client| client.moved).sum();
        let small: u64 = clients[..10].iter().map(|client| client.moved).sum();
        let part = total * 10 / n as u64;
        let case = format!("{n} at {rates:?}: {small} of {part}");
        let mean = u64::midpoint(rates[0], rates[1]);
        assert!(total >= mean * seconds * 98 / 100, "{case}: {total}");
        // A rate that changes by a factor each 10 ms costs them some of their turns.
        let percent = if rates[0] == rates[1] { 95 } else { 75 };
        assert!(small >= part * percent / 100, "{case}");
    }
}

#[test]
fn a_transfer_that_comes_back_gets_no_part_of_the_time_before() {
    let rate_limiter = RateLimiter::new(RATE);
    let mut clients = clients(&rate_limiter, 2);
    let pause = Duration::from_secs(30);
    simulate(&mut clients[..1], pause, |_, it| {
        move_all(it, u64::MAX, Duration::ZERO)
    });
    clients[0].moved = 0;
    let seconds = 2;
    simulate(&mut clients, Duration::from_secs(seconds), |_, it| {
        it.at += pause;
        move_all(it, u64::MAX, Duration::ZERO)
    });
    let moved = [clients[0].moved, clients[1].moved];
    assert!(moved[0].abs_diff(moved[1]) <= RATE / 10, "{moved:?}");
}

/// It was ahead by a second's worth of the old rate, and waits no longer at the new one.
#[test]
fn a_lower_rate_keeps_no_transfer_waiting_for_the_others_any_longer() {
    let rate_limiter = RateLimiter::new(RATE);
    let mut clients = clients(&rate_limiter, 2);
    let mut moved_again = None;
    simulate(&mut clients, Duration::from_secs(20), |index, it| {
        if index == 1 {
            return move_all(it, u64::MAX, Duration::ZERO);
        }
        if it.moved == 0 {
            let wait = move_message(it, RATE);
            rate_limiter.set_rate(if it.moved == 0 { RATE } else { 1000 });
            return wait;
        }
        let moved = it.moved;
        let wait = move_all(it, u64::MAX, Duration::ZERO);
        if it.moved > moved {
            moved_again.get_or_insert(it.at);
        }
        wait
    });
    let at = moved_again.unwrap();
    assert!(at > Duration::from_secs(1), "{at:?}");
    assert!(at < Duration::from_secs(3), "{at:?}");
}

/// One loop takes steps of all sessions in one order, and is held up between two passes.
#[test]
fn a_loop_that_is_held_up_starves_none_of_its_transfers() {
    for (n, rate) in [(2, RATE), (4, RATE), (10, RATE), (100, 1000 * RATE)] {
        for millis in [1, 20, 50, 70, 90, 120, 150, 250, 1000] {
            for is_stepped_until_blocked in [true, false] {
                let rate_limiter = RateLimiter::new(rate);
                let mut clients = clients(&rate_limiter, n);
                let (pass, n_passes) = (Duration::from_millis(millis), 20_000 / millis);
                for index in 0..n_passes as u32 {
                    for client in &mut clients {
                        client.at = pass * index;
                        while move_all(client, u64::MAX, Duration::ZERO).is_zero()
                            && is_stepped_until_blocked
                        {}
                    }
                }
                let moved = || clients.iter().map(|client| client.moved);
                let (least, most) = (moved().min().unwrap(), moved().max().unwrap());
                let total: u64 = moved().sum();
                let case = format!("{n} at {rate}, {millis} ms, {is_stepped_until_blocked}");
                // No more than two bursts.
                assert!(most - least <= rate / 5, "{case}: {least} to {most}");
                // A pass moves no more than one burst. Transfers that wait for the others may miss
                // a pass, in which some tokens are discarded.
                let possible = (rate / 10 * (n_passes - 1)).min(rate * 20);
                let percent = if is_stepped_until_blocked { 80 } else { 65 };
                assert!(
                    total >= possible * percent / 100,
                    "{case}: {total} of {possible}"
                );
            }
        }
    }
}

/// The others want little, and have not been refused when the first one comes late.
#[test]
fn a_transfer_that_wakes_late_gets_what_the_others_do_not_want() {
    for (late, n, percent) in [
        (20, 2, 95),
        (20, 10, 95),
        (30, 10, 90),
        (60, 2, 70),
        (60, 10, 70),
    ] {
        let rate_limiter = RateLimiter::new(RATE);
        let mut clients = clients(&rate_limiter, n);
        let seconds = 30;
        simulate(&mut clients, Duration::from_secs(seconds), |index, it| {
            if index > 0 {
                let wait = move_all(it, 100, Duration::ZERO);
                return if wait.is_zero() {
                    Duration::from_millis(500)
                } else {
                    wait
                };
            }
            let wait = move_all(it, u64::MAX, Duration::ZERO);
            let is_refused = !wait.is_zero();
            wait + if is_refused {
                Duration::from_millis(late)
            } else {
                Duration::from_micros(10)
            }
        });
        let moved = clients[0].moved;
        assert!(
            moved >= RATE * seconds * percent / 100,
            "{late} ms, {n}: {moved}"
        );
    }
}
