use super::format::{Against, Contestant, Curve, Job, Mover, Pair, Raw, Run, Unit};
use super::*;

fn mover(name: &str, nanoseconds: u64) -> Mover {
    Mover {
        name: name.to_owned(),
        nanoseconds: vec![nanoseconds; 5],
        cpu_nanoseconds: vec![nanoseconds; 5],
        system_calls: Some(7),
    }
}

fn contestant(name: &str, nanoseconds: u64) -> Contestant {
    Contestant {
        name: name.to_owned(),
        nanoseconds: vec![nanoseconds; 5],
        cpu_nanoseconds: vec![nanoseconds; 5],
        others_cpu_nanoseconds: vec![nanoseconds; 5],
        system_calls: Some(123),
        peak_kib: Some(2048),
        residue_kib: None,
    }
}

/// A record with one of each.
fn raw() -> Raw {
    Raw {
        pairs_apart: Vec::new(),
        pairs: [64 << 10, 64 << 20]
            .map(|bytes| Pair {
                name: "file_to_tcp".to_owned(),
                bytes,
                movers: vec![mover("plan", bytes / 8), mover("std_io_copy", bytes / 2)],
            })
            .into(),
        jobs: vec![Job {
            name: "written_pipe_to_null".to_owned(),
            title: "writer | X > /dev/null".to_owned(),
            group: "pipes".to_owned(),
            bytes: 1 << 30,
            unit: Unit::Throughput,
            contestants: vec![contestant("zc-cat", 1 << 28), contestant("cat", 1 << 27)],
        }],
        curves: vec![Curve {
            figure: "Answer, p99".to_owned(),
            unit: "µs".to_owned(),
            against: Against::Transfers,
            name: "zcopy::Relay::run_async".to_owned(),
            points: vec![(1, 40.0), (256, 160.0)],
        }],
    }
}

fn machine() -> Machine {
    let run = |date: &str| Run {
        started: format!("{date}T21:00:00Z"),
        ..Run::default()
    };
    Machine {
        kernel: "Linux".to_owned(),
        runs: [
            ("ratios", "2026-11-26"),
            ("tools", "2026-11-28"),
            ("scale", "2026-11-27"),
        ]
        .map(|(name, date)| (name.to_owned(), run(date)))
        .into(),
        ..Machine::default()
    }
}

fn svg<'a>(charts: &'a [Chart], name: &str) -> &'a str {
    let chart = charts.iter().find(|chart| chart.name == name);
    &chart.unwrap_or_else(|| panic!("{name} is drawn")).svg
}

#[test]
fn each_kind_of_figure_has_its_chart_with_units() -> anyhow::Result<()> {
    let charts = draw(&raw(), &machine())?;
    let names: Vec<&str> = charts.iter().map(|chart| chart.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "overview",
            "pairs-files-out",
            "tools-pipes",
            "scale-answer-p99"
        ]
    );
    for (name, words) in [
        (
            "overview",
            &[
                "ext4 file → TCP, 64MiB",
                "4.00",
                "0.50",
                "2026-11-28 · Linux",
            ][..],
        ),
        (
            "pairs-files-out",
            &[
                "ext4 file → TCP",
                "GB/s",
                "bytes of a transfer (K = 1024)",
                "64K",
                "64M",
                "std::io::copy",
                "2026-11-26",
            ],
        ),
        (
            "tools-pipes",
            &[
                "2026-11-28",
                "writer | X &gt; /dev/null",
                "GB/s",
                "CPU s/GB",
                "calls/GiB",
                "123",
                "2.0",
                "4.00",
            ],
        ),
        (
            "scale-answer-p99",
            &[
                "Answer, p99",
                "concurrent transfers",
                "µs",
                "256",
                "2026-11-27",
            ],
        ),
    ] {
        for word in words {
            assert!(svg(&charts, name).contains(word), "{name} lacks {word}");
        }
    }
    Ok(())
}

#[test]
fn a_chart_has_colours_for_dark_mode() -> anyhow::Result<()> {
    for Chart { name, svg } in draw(&raw(), &machine())? {
        let (style, drawn) = svg.split_once("</style>").unwrap_or_default();
        assert!(
            style.contains("@media (prefers-color-scheme:dark)"),
            "{name}"
        );
        // What is black or white in one mode is named in the rules of the other.
        for color in ["#FFFFFF", "#1F2328"] {
            assert!(
                style.contains(color) && drawn.contains(color),
                "{name}: {color}"
            );
        }
        assert!(
            !drawn.contains("#000000"),
            "{name} has a colour that dark mode keeps"
        );
    }
    Ok(())
}

#[test]
fn a_record_without_figures_has_no_charts() -> anyhow::Result<()> {
    assert!(draw(&Raw::default(), &machine())?.is_empty());
    Ok(())
}

#[test]
fn the_interval_of_a_median_holds_it_and_narrows_with_agreement() {
    let ratio = statistics::speed_ratio(&[100; 9], &[200; 9]);
    assert_eq!((ratio.low, ratio.median, ratio.high), (2.0, 2.0, 2.0));
    let mixed = [100, 200, 300, 400, 500, 600, 700, 800, 900];
    let ratio = statistics::speed_ratio(&[100; 9], &mixed);
    assert!(ratio.low < 5.0 && ratio.high > 5.0, "{ratio:?}");
    assert!((ratio.median - 5.0).abs() < 1e-9, "{ratio:?}");
    let all = statistics::spread((0..=10).map(f64::from));
    assert_eq!((all.low, all.median, all.high), (1.0, 5.0, 9.0));
}

#[test]
fn an_axis_has_three_to_ten_ticks() {
    for most in [0.003, 0.9, 1.0, 1.1, 3.9, 7.0, 9.9, 42.0, 275.0, 1395.0] {
        let n_ticks = most / jobs::step(most);
        assert!((2.0..=10.0).contains(&n_ticks), "{most}: {n_ticks}");
    }
}
