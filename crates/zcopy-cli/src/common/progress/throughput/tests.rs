use super::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn throughput(samples: &[(u64, u64)]) -> Throughput {
    let mut throughput = Throughput::over(Duration::from_secs(30));
    for (at, moved) in samples {
        throughput.sample(ms(*at), *moved);
    }
    throughput
}

fn is(rate: f64, expected: f64) -> bool {
    (rate - expected).abs() < 1e-9
}

#[test]
fn the_rate_is_that_of_the_last_interval() {
    let throughput = throughput(&[(1000, 100), (2000, 300), (3000, 350)]);
    assert!(is(throughput.rate(), 50.0));
    assert!(is(throughput.fastest(), 200.0));
    assert!(is(throughput.average(), 350.0 / 3.0));
}

#[test]
fn a_very_short_last_interval_leaves_the_rate_as_it_was() {
    let mut throughput = throughput(&[(1000, 100), (2000, 300), (2001, 300)]);
    assert!(is(throughput.rate(), 200.0), "not 0");
    throughput.sample(ms(2002), 1_000_000);
    assert!(is(throughput.rate(), 200.0), "not a billion");
    throughput.sample(ms(3000), 1_000_000);
    assert!(is(throughput.rate(), 999_700.0), "nothing is lost");
}

#[test]
fn what_has_left_the_window_is_forgotten() {
    let mut throughput = Throughput::over(Duration::from_secs(5));
    for second in 1..=20 {
        throughput.sample(
            ms(second * 1000),
            if second <= 10 { second * 100 } else { 1000 },
        );
    }
    assert!(is(throughput.average(), 0.0));
    assert_eq!(throughput.remaining(Some(2000)), None);
    assert_eq!(throughput.remaining(Some(1000)), Some(Duration::ZERO));
    assert_eq!(throughput.remaining(Some(10)), Some(Duration::ZERO));
    assert_eq!(throughput.remaining(None), None);
}

#[test]
fn the_average_moves_with_every_sample() {
    let mut throughput = Throughput::over(Duration::from_secs(5));
    for second in 1..=19_u64 {
        throughput.sample(ms(second * 1000), second * second);
    }
    // 19² - 14² in the last 5 s.
    assert!(is(throughput.average(), 33.0));
}

#[test]
fn a_long_window_takes_no_more_memory_than_a_short_one() {
    let mut throughput = Throughput::over(Duration::from_secs(1_000_000));
    for tenth in 1..=100_000 {
        throughput.sample(ms(tenth * 100), tenth);
    }
    assert!(throughput.within.len() < 300);
    assert!(is(throughput.average(), 10.0));
    let mut throughput = Throughput::over(Duration::ZERO);
    for tenth in 1..=1000 {
        throughput.sample(ms(tenth * 100), tenth * tenth);
    }
    assert!(throughput.within.len() < 3);
    assert!(is(throughput.average(), throughput.rate()));
}

#[test]
fn at_the_end_both_rates_are_of_the_whole() {
    let mut throughput = throughput(&[(1000, 100), (2000, 300), (3000, 350), (4010, 350)]);
    throughput.finish(ms(4500), 350);
    assert!(is(throughput.rate(), 350.0 / 4.5));
    assert!(is(throughput.average(), 350.0 / 4.5));
}

#[test]
fn after_a_reset_nothing_of_before_counts() {
    let mut throughput = throughput(&[(1000, 1_000_000)]);
    throughput.reset(ms(5000), 1_000_000);
    assert!(is(throughput.fastest(), 0.0));
    assert_eq!(throughput.statistics(), Statistics::NotMeasured);
    throughput.sample(ms(6000), 1_000_100);
    assert_eq!(throughput.elapsed(), ms(1000));
    assert!(is(throughput.rate(), 100.0));
    assert!(is(throughput.average(), 100.0));
}

#[test]
fn the_marker_moves_only_with_the_data() {
    let mut throughput = throughput(&[(1000, 5), (2000, 9), (3000, 9), (4000, 9)]);
    assert_eq!(throughput.tick(), 2);
    throughput.sample(ms(5000), 10);
    assert_eq!(throughput.tick(), 3);
    throughput.finish(ms(6000), 10);
    assert_eq!(throughput.tick(), 4, "but for the last line");
}

#[test]
fn statistics_are_as_pv_prints_them() {
    for (samples, end, line) in [
        (
            &[(1000, 100), (2000, 300), (3000, 350), (4010, 350)][..],
            (4500, 350),
            "0.000/70.000/200.000/74.833",
        ),
        (&[(1000, 100)], (1500, 100), "0.000/50.000/100.000/50.000"),
        (&[], (700, 10), "14.286/14.286/14.286/0.000"),
        (&[], (1000, 0), "0.000/0.000/0.000/0.000"),
        (
            &[(1000, 100), (2000, 300), (3000, 500), (4000, 600)],
            (4500, 5000),
            "100.000/1880.000/8800.000/3460.289",
        ),
    ] {
        let mut throughput = throughput(samples);
        throughput.finish(ms(end.0), end.1);
        let expected = format!("rate min/avg/max/mdev = {line} B/s");
        assert_eq!(throughput.statistics().to_string(), expected);
    }
}

#[test]
fn what_took_no_time_was_not_measured() {
    let mut throughput = throughput(&[]);
    throughput.finish(Duration::ZERO, 10);
    assert_eq!(throughput.statistics().to_string(), "rate not measured");
    assert_eq!(throughput.statistics().in_bits(), "rate not measured");
}

#[test]
fn a_transfer_shorter_than_an_interval_is_one_interval() {
    let mut throughput = throughput(&[]);
    throughput.finish(ms(10), 100);
    assert!(is(throughput.rate(), 10_000.0));
    assert!(is(throughput.fastest(), 10_000.0));
}

#[test]
fn clocks_and_counts_that_go_backwards_do_no_harm() {
    let mut throughput = throughput(&[(2000, 500), (1000, 400), (3000, 300)]);
    assert!(is(throughput.rate(), 0.0));
    throughput.sample(Duration::MAX, u64::MAX);
    throughput.sample(Duration::MAX, 0);
    assert!(throughput.rate().is_finite());
}
