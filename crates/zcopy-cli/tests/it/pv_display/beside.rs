//! What is shown beside the line: titles, tabs, statistics, files, commands.

use std::io::Write as _;

use super::{Desk, as_pv, is_like, leaves};

#[test]
fn a_window_gets_the_line_for_its_title_and_then_its_old_one_back() {
    let mut desk = Desk::with("pv -x window -b f > /dev/null");
    assert_eq!(desk.left(), ["2.00KiB"]);
    assert_eq!(desk.seen().titles(), ["2.00KiB"]);
    assert_eq!(desk.seen().title_stack(), [22, 23]);
    let mut desk = Desk::with("pv --extra-display windowtitle:'%b at last' -t f > /dev/null");
    assert!(is_like(&desk.left()[0], "0:00:??"));
    assert_eq!(desk.seen().titles(), ["2.00KiB at last"]);
}

#[test]
fn the_format_of_the_line_is_not_that_of_the_title() {
    let mut desk = Desk::with("pv -x window -F '%b so far' -b f > /dev/null");
    assert_eq!(desk.left(), ["2.00KiB so far"]);
    assert_eq!(desk.seen().titles(), ["2.00KiB"]);
}

#[test]
fn a_window_gets_its_title_also_from_numbers_and_none_from_silence() {
    let mut desk = Desk::with("pv -x window -n f > /dev/null");
    assert_eq!(desk.left(), ["100"]);
    assert_eq!(desk.seen().titles(), ["100"]);
    assert_eq!(desk.seen().title_stack(), [22, 23]);
    let mut desk = Desk::with("pv -x window -q f > /dev/null");
    assert_eq!(desk.left(), [""; 0]);
    assert_eq!(desk.seen().titles(), [""; 0]);
    let mut desk = Desk::with("pv -x window f 2>&1 > /dev/null | cat");
    assert_eq!(desk.left(), [""; 0]);
    assert_eq!(desk.seen().titles(), [""; 0]);
}

#[test]
fn ps_shows_the_line_in_place_of_the_arguments() {
    for spec in [
        "process",
        "window,proc:so far %b",
        "processtitle",
        "proctitle",
    ] {
        let mut desk = Desk::with(&format!(
            "pv -x '{spec}' -b -i 0.1 --name a-name-that-makes-room-for-a-title < in > /dev/null & \
             read line; until grep -qa -- '-- .*1000' /proc/$!/cmdline; do sleep 0.01; done; \
             tr '\\0' ' ' < /proc/$!/cmdline; echo; wait"
        ));
        let mut source = desk.source();
        source.write_all(&[0; 1000]).unwrap();
        desk.wait_for(|seen| seen.rows().iter().any(|row| row.ends_with("1000  B")));
        desk.press(b"\n");
        let title = if spec.contains("so far") {
            "pv -- so far 1000  B"
        } else {
            "pv -- "
        };
        desk.wait_for(|seen| {
            let mut rows = seen.rows().into_iter();
            rows.any(|row| row.starts_with(title) && row.contains("1000  B"))
        });
        drop(source);
        let _ = desk.end();
    }
}

/// The title was cut to the width of the terminal, as the line is.
#[test]
fn no_title_is_cut_to_the_width_of_the_terminal() {
    let title = "a title of fifty columns, which is wider than that";
    let mut desk = Desk::sized(
        8,
        40,
        &format!(
            "pv -Xx 'window,process:{title} %b' -i 0.1 -s 2000 < in & \
             until tr '\\0' '\\n' < /proc/$!/cmdline | grep -a '^pv[ ]-- .*1000' > shown; do sleep 0.01; done; \
             wait"
        ),
    );
    let mut source = desk.source();
    source.write_all(&[0; 1000]).unwrap();
    let shown = desk.line_in("shown");
    drop(source);
    let _ = desk.end();
    assert_eq!(shown, format!("pv -- {title} 1000  B"));
    let titles = desk.seen().titles().to_vec();
    assert!(titles.contains(&format!("{title} 1000  B")), "{titles:?}");
}

/// The title takes the place of the environment, too, as with pv. Commands keep theirs.
#[test]
fn a_title_is_as_long_as_arguments_and_environment_together() {
    let mut desk = Desk::with(
        "ROOM=\"$(printf %200s end)\" pv -x process -X -i 0.1 -s 1000 --on-progress 'echo $ROOM > room' < in & \
         until tr '\\0' '\\n' < /proc/$!/cmdline | grep -a '^pv[ ]-- .*1000' > title; do sleep 0.01; done; \
         wait",
    );
    let mut source = desk.source();
    source.write_all(&[0; 1000]).unwrap();
    let title = desk.line_in("title");
    drop(source);
    let _ = desk.end();
    // As wide as the line on the screen, but for blanks at the end.
    assert!(title.starts_with("pv -- ") && title.len() > 60, "{title}");
    assert!(title.contains("] 100%"), "{title}");
    assert_eq!(desk.read("room"), "end\n");
}

#[test]
fn a_tab_is_told_how_far_it_is_and_at_the_end_nothing_any_more() {
    let mut desk = Desk::with(
        "pv -9 -s 4K f > /dev/null; pv --conemu -b < f > /dev/null; cat f | pv -9 > /dev/null",
    );
    let _ = desk.left();
    assert_eq!(
        desk.seen().progress(),
        ["1;50", "0;0", "1;100", "0;0", "3;2", "0;0"]
    );
    as_pv("pv -9 f > /dev/null");
}

#[test]
fn statistics_are_of_all_intervals() {
    let mut desk = Desk::sized(8, 99, "pv -v -bi 0.1 < in > /dev/null");
    let source = super::fed(&desk, 4096);
    desk.wait_for(|seen| {
        seen.raw
            .windows(7)
            .filter(|frame| frame == b"4.00KiB")
            .count()
            > 3
    });
    drop(source);
    let rows = desk.left();
    let rates = rows[1].strip_prefix("rate min/avg/max/mdev = ").unwrap();
    let rates = rates.strip_suffix(" B/s").unwrap();
    let rates: Vec<f64> = rates.split('/').map(|rate| rate.parse().unwrap()).collect();
    let [min, mean, max, deviation] = rates[..] else {
        panic!("{rates:?}");
    };
    assert!(min < mean && mean < max && deviation > 0.0, "{rates:?}");
    assert!(min.abs() < f64::EPSILON, "in most intervals nothing came");
}

#[test]
fn statistics_are_as_exact_where_nothing_else_is_shown() {
    let script = "pv -qvi 0.5 -SL 2M -s 4M /dev/zero > /dev/null";
    let rows = Desk::sized(8, 99, script).left();
    let rates = rows[0].strip_prefix("rate min/avg/max/mdev = ").unwrap();
    assert!(!rates.starts_with("0.000/"), "{rates}");
}

#[test]
fn statistics_are_told_whatever_else_is_shown() {
    for (script, shown) in [
        ("pv --stats -b f > /dev/null", 2),
        ("pv -vq f > /dev/null", 1),
        ("pv -vn f > /dev/null", 2),
        ("pv -v f 2>&1 > /dev/null | cat", 1),
        ("pv -vD 600 f > /dev/null", 1),
    ] {
        let rows = Desk::sized(8, 99, script).left();
        assert_eq!(rows.len(), shown, "{script}: {rows:?}");
        assert!(
            rows[shown - 1].starts_with("rate min/avg/max/mdev = "),
            "{script}: {rows:?}"
        );
    }
    let rows = Desk::sized(8, 99, "pv -v8 f > /dev/null").left();
    assert!(rows[1].ends_with(" b/s"), "{rows:?}");
}

#[test]
fn every_file_leaves_a_line_and_all_of_them_one() {
    leaves(
        "pv -b --per-file f g nope empty > /dev/null",
        &[
            "2.00KiB 0:00:00 [??????B/s] f",
            "3.00KiB 0:00:00 [??????B/s] g",
            "pv: nope: No such file or directory",
            "0.00  B 0:00:00 [0.00  B/s] empty",
            "5.00KiB",
        ],
    );
    leaves("pv -q --per-file f > /dev/null", &[]);
}

#[test]
fn a_command_runs_at_every_step_and_at_the_end() {
    let mut desk = Desk::with(
        "pv -q -s 100 -i 0.1 --every 25% --on-progress 'echo $ZC_PV_PERCENT $ZC_PV_MOVED $ZC_PV_TOTAL >> log' < in > /dev/null",
    );
    let mut source = desk.source();
    let steps = [
        (30, "30 30 100"),
        (30, "60 60 100"),
        (10, ""),
        (25, "95 95 100"),
        (5, ""),
    ];
    let mut told = String::new();
    for (bytes, line) in steps {
        source.write_all(&vec![0; bytes]).unwrap();
        if !line.is_empty() {
            told = format!("{told}{line}\n");
            desk.wait_for_file("log", &told);
        }
    }
    drop(source);
    assert_eq!(desk.left(), [""; 0]);
    assert_eq!(desk.read("log"), format!("{told}100 100 100\n"));
}

#[test]
fn without_a_step_a_command_runs_ten_times() {
    let mut desk = Desk::with(
        "pv -q -s 10 -i 0.1 --on-progress 'echo $ZC_PV_PERCENT >> log' < in > /dev/null",
    );
    let mut source = desk.source();
    let mut told = String::new();
    for n in 1..=10 {
        source.write_all(b"x").unwrap();
        told = format!("{told}{n}0\n");
        desk.wait_for_file("log", &told);
    }
    drop(source);
    assert_eq!(desk.left(), [""; 0]);
    assert_eq!(desk.read("log"), told);
}

#[test]
fn the_first_stage_of_two_is_called_the_input() {
    leaves(
        "pv -b -U spool f > /dev/null; pv -bN foo -U spool f > /dev/null",
        &[
            "  (input): 2.00KiB",
            "2.00KiB",
            "  (input): 2.00KiB",
            "      foo: 2.00KiB",
        ],
    );
    leaves(
        "cat f | pv -pbw 40 -U spool > /dev/null",
        &[
            "  (input): 2.00KiB [<=>                ]",
            "2.00KiB [========================>] 100%",
        ],
    );
}

/// Steps were looked for when the display was drawn.
#[test]
fn a_command_runs_at_every_step_whatever_the_interval_is() {
    for options in ["-q -i 600", "-f -i 600", "-q -D 600", "-n -i 600"] {
        let mut desk = Desk::with(&format!(
            "pv {options} -s 100 --every 25 --on-progress 'echo $ZC_PV_PERCENT $ZC_PV_STATE >> log' < in 2> err > /dev/null"
        ));
        let mut source = desk.source();
        let mut told = String::new();
        for percent in [25, 50, 75, 100] {
            source.write_all(&[0; 25]).unwrap();
            told = format!("{told}{percent} running\n");
            desk.wait_for_file("log", &told);
        }
        drop(source);
        let _ = desk.end();
        assert_eq!(desk.read("log"), told, "{options}");
    }
}

#[test]
fn the_steps_of_the_output_are_told_after_those_of_the_spool() {
    let mut desk = Desk::with(
        "pv -q -U - --every 50 --on-progress 'echo $ZC_PV_PERCENT $ZC_PV_STATE >> log' f > /dev/null",
    );
    let _ = desk.end();
    assert!(
        desk.read("log").ends_with("100 done\n"),
        "{}",
        desk.read("log")
    );
}

#[test]
fn a_command_runs_once_if_the_transfer_fails() {
    let hook = "--on-progress 'echo $ZC_PV_STATE:$ZC_PV_PERCENT:$ZC_PV_TOTAL >> log'";
    for (arguments, told) in [
        ("f nope > /dev/null", "failed::\n"),
        ("f > /dev/full", "failed:0:2048\n"),
        ("nope > /dev/null", "failed::\n"),
        ("f -o no/where", "failed::\n"),
        ("f > /dev/null", "done:100:2048\n"),
    ] {
        let mut desk = Desk::with(&format!("pv -q {hook} {arguments}"));
        let _ = desk.end();
        // The last step may have been told before.
        let log = desk.read("log");
        let log = log.strip_prefix("running:100:2048\n").unwrap_or(&log);
        assert_eq!(log, if log.is_empty() { "" } else { told }, "{arguments}");
        assert!(!log.is_empty() || told.starts_with("done"), "{arguments}");
    }
}
