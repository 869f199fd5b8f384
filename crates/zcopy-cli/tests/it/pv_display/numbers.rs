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
fn more_than_was_expected_is_more_than_100_percent() {
    for (script, row) in [
        ("pv -n -s 1K f > /dev/null", "200"),
        ("pv -n -s 1000 f > /dev/null", "205"),
        ("pv -n -s @f dir/b > /dev/null", "146"),
        ("pv -n -s @dir f g > /dev/null", "128"),
        ("pv -ln -s 418 lines > /dev/null", "239"),
        ("pv -bn -s 1K f > /dev/null", "2048"),
        ("pv -n -s 1 f > /dev/null", "100000"),
        ("pv -Sn -s 1000 f > /dev/null", "100"),
        (
            "pv -n -F '%{progress-amount-only}|%e|' -s 1K f > /dev/null",
            "200|           |",
        ),
    ] {
        assert_eq!(as_pv(script), [row], "{script}");
    }
    let mut desk = Desk::with(
        "pv --json -s 1K f 2> log > /dev/null; pv --json -l -s 418 lines 2>> log > /dev/null; \
         pv --json -s 1 f 2>> log > /dev/null",
    );
    assert!(desk.end().success());
    let told: Vec<_> = objects(&desk.read("log"))
        .into_iter()
        .filter(|line| line["over"] == true)
        .map(|line| (line["percent"].as_f64().unwrap(), line["eta"].clone()))
        .collect();
    let percent: Vec<_> = told.iter().map(|(percent, _)| *percent).collect();
    assert_eq!(percent, [200.0, 239.234, 100_000.0]);
    assert!(told.iter().all(|(_, eta)| *eta == 0.0), "{told:?}");
}

#[test]
fn a_format_has_bare_numbers_too() {
    let script = "pv -n -F '{\"b\":%b,\"p\":%{progress-amount-only},\"x\":\"%%\"}' f > /dev/null";
    leaves(script, &["{\"b\":2048,\"p\":100,\"x\":\"%\"}"]);
    as_pv(script);
    assert_eq!(words("pv -n -F '%t %r %a' f > /dev/null"), ["# # #"]);
}

#[test]
fn without_a_size_the_number_is_where_the_marker_would_be() {
    let script =
        "pv -n empty > /dev/null; pv -n < /dev/null > /dev/null; cat f | pv -n > /dev/null";
    assert_eq!(as_pv(script), ["0", "0", "2"]);
}

#[test]
fn numbers_are_printed_wherever_standard_error_leads() {
    leaves("pv -n f 2>&1 > /dev/null | cat", &["100"]);
    leaves("pv -n f 2> log > /dev/null; cat log", &["100"]);
    leaves("pv --json f 2>&1 > /dev/null | grep -c bytes", &["1"]);
    leaves("pv -q --json f 2>&1 > /dev/null | grep -c bytes", &["1"]);
}

/// It waits for a second. The reader of the pipe has read nothing by then.
#[test]
fn an_ending_that_nobody_reads_in_time_is_a_failure() {
    for option in ["--json", "--json=3"] {
        let (_reader, writer) = std::io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        while rustix::io::write(&writer, &[b'x'; 4096]).is_ok() {}
        rustix::io::ioctl_fionbio(&writer, false).unwrap();
        let mut pv = crate::child::zc_pv();
        pv.args([option, "/dev/null"]);
        let mut pv = with_objects_on_stderr(&pv, option);
        let pv = pv.stdin(std::process::Stdio::null());
        let status = pv.stderr(writer).status().unwrap();
        assert_eq!(status.code(), Some(8), "{option}");
    }
}

/// Objects that did not fit into the pipe were dropped, and the status was 0.
#[test]
fn a_reader_that_pauses_gets_every_object() {
    const FILES: usize = 10_000;
    for option in ["--json", "--json=3"] {
        let (objects, status) = read_late(option, FILES);
        assert_eq!(status, Some(0), "{option}");
        let of_files = objects.lines().filter(|line| line.contains(r#""file":"#));
        assert_eq!(of_files.count(), FILES + 1, "{option}");
    }
}

/// More than the queue holds.
#[test]
fn objects_that_are_dropped_are_a_failure() {
    for option in ["--json", "--json=3"] {
        let (objects, status) = read_late(option, 20_000);
        assert_eq!(status, Some(8), "{option}");
        let last = objects.lines().rfind(|line| line.starts_with('{')).unwrap();
        assert!(last.contains(r#""state":"failed""#), "{last}");
        assert!(last.contains("No buffer space available"), "{last}");
    }
}

/// Waits until all threads of a process have slept for a while: the display thread has queued all
/// objects.
fn wait_until_idle(pid: u32) {
    let is_asleep = |task: std::io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(task.unwrap().path().join("stat"));
        stat.is_ok_and(|stat| stat.contains(") S "))
    };
    let mut n_asleep = 0;
    while n_asleep < 40 {
        let mut tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        n_asleep = if tasks.all(is_asleep) {
            n_asleep + 1
        } else {
            0
        };
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Returns the command that writes its objects to standard error, also if this option says
/// descriptor 3.
fn with_objects_on_stderr(pv: &std::process::Command, option: &str) -> std::process::Command {
    match option {
        "--json" => crate::child::under(&["env"], pv),
        _ => crate::child::with_stderr_as_3(pv),
    }
}

/// Runs `zc-pv` on many empty files, whose objects are read when it has come to the last operand.
/// Returns them and its exit status.
fn read_late(option: &str, files: usize) -> (String, Option<i32>) {
    let dir = tempfile::tempdir().unwrap();
    let (empty, fifo) = (dir.path().join("empty"), dir.path().join("fifo"));
    std::fs::File::create(&empty).unwrap();
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
    )
    .unwrap();
    let mut pv = crate::child::zc_pv();
    pv.args([option, "--per-file"]);
    pv.args(std::iter::repeat_n(&empty, files));
    pv.arg(&fifo);
    let mut pv = with_objects_on_stderr(&pv, option);
    pv.stdout(std::process::Stdio::null());
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut child = pv.stderr(writer).spawn().unwrap();
    drop(pv);
    // It is opened for reading after the other files.
    let last = std::fs::File::options().write(true).open(&fifo).unwrap();
    wait_until_idle(child.id());
    drop(last);
    let mut objects = String::new();
    reader.read_to_string(&mut objects).unwrap();
    (objects, child.wait().unwrap().code())
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
    assert_eq!(last["state"], "done");
    assert!(before.iter().all(|line| line.get("state").is_none()));
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

/// What a script leaves in `log`, object by object.
fn logged(script: &str) -> Vec<Value> {
    let mut desk = Desk::with(script);
    let _ = desk.end();
    objects(&desk.read("log"))
}

#[test]
fn the_last_object_says_how_it_ended() {
    for (script, state, error) in [
        ("pv --json f 2> log > /dev/null", "done", None),
        ("pv --json < /dev/null 2> log > /dev/null", "done", None),
        (
            "pv --json -v --per-file f g 2> log > /dev/null",
            "done",
            None,
        ),
        ("pv --json -W f 2> log > /dev/null", "done", None),
        ("pv --json -D 600 f 2> log > /dev/null", "done", None),
        ("pv --json -U - f 2> log > /dev/null", "done", None),
        (
            "pv --json=log f nope g 2> messages > /dev/null",
            "failed",
            Some("nope: No such file or directory"),
        ),
        (
            "pv --json=log f 2> messages > /dev/full",
            "failed",
            Some("(stdout): write error: No space left on device"),
        ),
        (
            "pv --json=log -o nowhere/x f 2> messages",
            "failed",
            Some("nowhere/x: No such file or directory"),
        ),
        (
            "pv --json=log -s @nope f 2> messages > /dev/null",
            "failed",
            Some("nope: No such file or directory"),
        ),
        (
            "pv --json=log f -o f 2> messages",
            "failed",
            Some("f: input file is also the output"),
        ),
        (
            "pv --json=log lines 2> messages | true",
            "failed",
            Some("(stdout): write error: Broken pipe"),
        ),
    ] {
        let script = script.replace("lines 2", "/dev/zero 2");
        let lines = logged(&script);
        let last = lines.last().unwrap();
        assert_eq!(
            (&last["state"], &last["over"]),
            (&state.into(), &true.into()),
            "{script}"
        );
        assert_eq!(last.get("error").and_then(Value::as_str), error, "{script}");
        let n_ends = lines.iter().filter(|line| line.get("state").is_some());
        assert_eq!(n_ends.count(), 1, "{script}: {lines:?}");
    }
}

#[test]
fn the_last_object_has_the_digest() {
    let digest = "98ea6e4f216f2fb4b69fff9b3a44842c38686ca685f3f55dc48c5d3fb1107be4";
    let lines = logged("printf 'hi\\n' > h; pv --json --hash sha256 h 2> log > /dev/null");
    assert_eq!(lines.last().unwrap()["digest"], digest);
    let mut desk =
        Desk::with("printf 'hi\\n' > h; pv -q --json=log --hash sha256 h 2> messages > /dev/null");
    let _ = desk.end();
    assert_eq!(objects(&desk.read("log")).last().unwrap()["digest"], digest);
    assert_eq!(desk.read("messages"), format!("{digest}  h\n"));
    // What did not arrive has none.
    let lines = logged("pv --json=log --hash sha256 f 2> messages > /dev/full");
    assert_eq!(lines.last().unwrap().get("digest"), None);
}

#[test]
fn objects_go_to_a_descriptor_or_a_file_beside_what_is_shown() {
    for destination in ["--json=3 3> log", "--json=log", "--json=./7"] {
        let mut desk = Desk::with(&format!(
            "pv -b {destination} f > /dev/null; test -e 7 && mv 7 log"
        ));
        assert_eq!(desk.left(), ["2.00KiB"]);
        let last = objects(&desk.read("log")).pop().unwrap();
        assert_eq!(
            (&last["bytes"], &last["state"]),
            (&2048.into(), &"done".into())
        );
    }
    let mut desk = Desk::with("pv -q --json=3 f 3>&1 > /dev/null | cat > log");
    assert_eq!(desk.left(), [""; 0]);
    assert_eq!(objects(&desk.read("log")).len(), 1);
    // What stood in a file is replaced, and what a shell appends to is kept.
    let mut desk = Desk::with(
        "cp lines log; pv -q --json=log f > /dev/null; pv -q --json=9 g 9>> log > /dev/null",
    );
    let _ = desk.end();
    let lines = objects(&desk.read("log"));
    let bytes: Vec<_> = lines.iter().map(|line| &line["bytes"]).collect();
    assert_eq!(bytes, [2048, 3072]);
    leaves("pv -q -X --json=1 f | grep -c state", &["1"]);
    leaves("pv --json=2 f 2>&1 > /dev/null | grep -c state", &["1"]);
}

#[test]
fn a_place_for_objects_that_cannot_be_had_is_refused_before_anything_is_moved() {
    for (script, message) in [
        ("pv --json=9 f -o new", "pv: --json=9: Bad file descriptor"),
        (
            "pv --json=3 f -o new 3< g",
            "pv: --json=3: Bad file descriptor",
        ),
        (
            "pv --json=no/where f -o new",
            "pv: no/where: No such file or directory",
        ),
        (
            "pv --json=f f -o new",
            "pv: f: input file is also the output",
        ),
        (
            "pv --json=./new f -o new",
            "pv: new: file of --json is also the output",
        ),
    ] {
        let script = format!("{script}; wc -c < f; test -s new || echo nothing");
        leaves(&script, &[message, "2048", "nothing"]);
    }
    // Neither the input nor what the output holds is written over.
    leaves(
        "cp g new; pv --json=new f -o new; wc -c < new; pv --json=g g -o x; wc -c < g",
        &[
            "pv: new: file of --json is also the output",
            "3072",
            "pv: g: input file is also the output",
            "3072",
        ],
    );
    leaves(
        "cp g new; pv --json=new f > new; wc -c < new; pv --json=spool -U spool f; wc -c < spool",
        &[
            "pv: new: file of --json is also the output",
            "0",
            "pv: spool: file of --json is also that of -U",
            "0",
        ],
    );
    // The file that another display watches, by its path or by its process.
    leaves(
        "pv -d ./g -s 3K --json=g; sleep 60 7< f & \
         until test -e /proc/$!/fd/7; do :; done; \
         pv -d $!:7 --json=f; pv -d $! --json=f; wc -c < g; wc -c < f; kill $!",
        &[
            "pv: g: file of --json is watched",
            "pv: f: file of --json is watched",
            "pv: f: file of --json is watched",
            "3072",
            "2048",
        ],
    );
    leaves(
        "pv -bq --json=full/log f > /dev/null",
        &["pv: full/log: No such file or directory"],
    );
}

#[test]
fn objects_that_cannot_be_written_are_an_error() {
    for (options, name) in [
        ("--json=/dev/full f", "/dev/full"),
        ("--json=3 f", "--json=3"),
        ("--json=3 f -U - --per-file", "--json=3"),
        ("-M both --json=3 -- cat < f", "--json=3"),
        ("-d ./f -s 2K --json=3", "--json=3"),
    ] {
        leaves(
            &format!("pv -q {options} 3> /dev/full > copy; echo $?; wc -c < copy"),
            &[
                &format!("pv: {name}: write error: No space left on device"),
                "8",
                if options.starts_with("-d") {
                    "0"
                } else {
                    "2048"
                },
            ],
        );
    }
    // If the transfer fails too, zc-pv reports both errors.
    leaves(
        "pv -q --json=/dev/full nope; echo $?",
        &[
            "pv: nope: No such file or directory",
            "pv: /dev/full: write error: No space left on device",
            "10",
        ],
    );
    leaves(
        "pv -q --json=/dev/full f -o no/where; echo $?",
        &[
            "pv: no/where: No such file or directory",
            "pv: /dev/full: write error: No space left on device",
            "2",
        ],
    );
    // If standard error cannot be written, the status alone tells the failure of the objects. A
    // reader that has left causes no failure.
    leaves(
        "pv --json f 2> /dev/full > /dev/null; echo $?; pv -n f 2> /dev/full > /dev/null; echo $?; \
         { pv --json f > /dev/null; echo $? >&3; } 2>&1 3> status | :; cat status; \
         pv -q --json=3 f 3> >(:) > /dev/null; echo $?",
        &["8", "0", "0", "0"],
    );
    // The command of --on-progress gets the state failed, too.
    leaves(
        "pv -q -i 0.1 -L 10K --json=/dev/full --on-progress 'echo $ZC_PV_STATE >> states' f \
         2> /dev/null > /dev/null; tail -n 1 states",
        &["failed"],
    );
}

/// If SIGPIPE is ignored, the status is 0.
#[test]
fn state_and_status_agree_after_the_reader_has_gone() {
    for options in [
        "/dev/zero",
        "-M out -- cat /dev/zero",
        "-M both -- cat < /dev/zero",
    ] {
        for (trap, status, state) in [("", "141", "failed"), ("trap '' PIPE; ", "0", "done")] {
            let script = format!(
                "{trap}pv -q --json=log --on-progress 'echo $ZC_PV_STATE > hook' --every 100 {options} \
                 2> /dev/null | :; echo ${{PIPESTATUS[0]}}"
            );
            let script = if options.contains("both") {
                script.replace("--on-progress 'echo $ZC_PV_STATE > hook' --every 100", "")
            } else {
                script
            };
            let mut desk = Desk::with(&script);
            assert_eq!(desk.left(), [status], "{script}");
            let last = objects(&desk.read("log")).pop().unwrap();
            assert_eq!(last["state"], state, "{script}");
            assert_eq!(last.get("error").is_some(), state == "failed", "{script}");
        }
    }
}

/// Its reader may have stopped, or have gone.
#[test]
fn nobody_waits_for_a_reader_of_objects() {
    let mut desk = Desk::with(
        "mkfifo o; sleep 60 < o & exec 3> o; reader=$!; \
         for i in $(seq 9); do yes 1234567890 | head -c 20000 >&3 & done; sleep 0.2; \
         pv -q --json=3 f | wc -c; kill $reader; wait 2> /dev/null; true",
    );
    desk.wait_for_row("2048");
    let _ = desk.end();
    let mut desk = Desk::with("pv -q --json=3 -i 0.1 -L 10K f f 3> >(:) | wc -c");
    desk.wait_for_row("4096");
    let _ = desk.end();
}

fn objects(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect()
}
