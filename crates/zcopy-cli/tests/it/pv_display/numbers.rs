//! `-n` and `--json`: lines for programs to read.

use std::io::{Read as _, Write as _};

use serde_json::Value;

use super::{Desk, as_pv, leaves};

/// What a script prints, as whole words: numbers with a point are `#`.
fn words(script: &str) -> Vec<String> {
    let rows = super::left_by(script);
    let masked = |word: &str| {
        let is_measured = word.contains('.') && word.parse::<f64>().is_ok();
        if is_measured {
            "#".to_owned()
        } else {
            word.to_owned()
        }
    };
    rows.iter()
        .map(|row| row.split(' ').map(masked).collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn a_percentage_a_line_is_printed_at_every_interval() {
    let mut desk = Desk::with("pv -n -s 10 -i 0.1 < in > /dev/null");
    let mut source = desk.source();
    source.write_all(b"12345").unwrap();
    desk.wait_for_row("50");
    source.write_all(b"678").unwrap();
    desk.wait_for_row("80");
    drop(source);
    let rows = desk.left();
    assert_eq!(rows.last().map(String::as_str), Some("80"), "{rows:?}");
    assert!(!desk.seen().raw.contains(&b'\x1b'));
}

#[test]
fn bytes_rates_and_seconds_are_bare_numbers() {
    for (switches, line) in [
        ("", "100"),
        ("-b", "2048"),
        ("-t", "# 100"),
        ("-r", "#"),
        ("-bt", "# 2048"),
        ("-btr", "# 2048 #"),
        ("-b8", "16384"),
        ("-pea", "100"),
    ] {
        let script = format!("pv -n {switches} f > /dev/null");
        assert_eq!(words(&script), [line], "{script}");
        if let Some(pv) = crate::peer::pv() {
            let mut theirs = Desk::of(&pv, 8, 72, &script);
            let n_words = |row: &str| row.split(' ').count();
            assert_eq!(n_words(&theirs.left()[0]), n_words(line), "{script}");
        }
    }
}

#[test]
fn a_format_has_bare_numbers_too() {
    let script = "pv -n -F '{\"b\":%b,\"p\":%{progress-amount-only},\"x\":\"%%\"}' f > /dev/null";
    leaves(script, &["{\"b\":2048,\"p\":100,\"x\":\"%\"}"]);
    as_pv(script);
    assert_eq!(words("pv -n -F '%t %r %a' f > /dev/null"), ["# # #"]);
}

#[test]
fn of_nothing_nothing_is_told() {
    as_pv("pv -n empty > /dev/null; pv -n < /dev/null > /dev/null; cat f | pv -n > /dev/null");
}

#[test]
fn numbers_are_printed_wherever_standard_error_leads() {
    leaves("pv -n f 2>&1 > /dev/null | cat", &["100"]);
    leaves("pv -n f 2> log > /dev/null; cat log", &["100"]);
    leaves("pv --json f 2>&1 > /dev/null | grep -c bytes", &["1"]);
}

#[test]
fn every_line_of_json_is_an_object_that_says_it_all() {
    let mut desk = Desk::with("pv --json -N foo -s 10 -i 0.1 < in 2> log > out");
    let (mut source, mut sink) = (desk.source(), desk.sink());
    source.write_all(b"12345").unwrap();
    sink.read_exact(&mut [0; 5]).unwrap();
    let begin = std::time::Instant::now();
    while !desk.read("log").contains("\"percent\":50.0") {
        assert!(begin.elapsed() < super::PATIENCE, "{}", desk.read("log"));
        std::thread::yield_now();
    }
    drop(source);
    assert!(desk.end().success());
    let lines = objects(&desk.read("log"));
    let (last, before) = lines.split_last().unwrap();
    for line in before {
        assert_eq!(line["over"], false);
    }
    assert_eq!(last["over"], true);
    assert_eq!(last["name"], "foo");
    assert_eq!((&last["bytes"], &last["total"]), (&5.into(), &10.into()));
    assert_eq!(last["percent"], 50.0);
    assert!(last["route"].is_string(), "{last}");
    for number in ["elapsed", "rate", "average"] {
        assert!(
            last[number].as_f64().is_some_and(|number| number > 0.0),
            "{last}"
        );
    }
    let half = lines.iter().find(|line| line["bytes"] == 5);
    assert!(half.is_some_and(|half| half["eta"].as_f64().is_some()));
}

#[test]
fn files_and_statistics_are_objects_as_well() {
    let mut desk =
        Desk::with("cp f 'two words'; pv --json --per-file -v 'two words' g 2> log > /dev/null");
    assert!(desk.end().success());
    let lines = objects(&desk.read("log"));
    let find = |key: &str| {
        lines
            .iter()
            .filter(|line| line.get(key).is_some())
            .collect::<Vec<_>>()
    };
    let files: Vec<_> = find("file")
        .iter()
        .map(|line| (&line["file"], &line["bytes"]))
        .collect();
    assert_eq!(
        files,
        [
            (&"two words".into(), &2048.into()),
            (&"g".into(), &3072.into())
        ]
    );
    assert_eq!(find("rates").len(), 1);
    assert!(find("rates")[0]["rates"]["max"].is_number());
}

#[test]
fn of_an_unknown_size_neither_percent_nor_total_is_told() {
    let mut desk = Desk::with("cat f | pv --json 2> log > /dev/null");
    assert!(desk.end().success());
    let last = objects(&desk.read("log")).pop().unwrap();
    assert_eq!(last["bytes"], 2048);
    for unknown in ["total", "percent", "eta"] {
        assert_eq!(last[unknown], Value::Null, "{last}");
    }
}

fn objects(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect()
}
