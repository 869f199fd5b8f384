use crate::cat::highlight::Highlighter;
use crate::cat::highlight::tests::unformatted;

/// A line with its time between `‹` and `›`, and its level between `E`, `W` or `D` and braces.
fn shown(line: &str) -> String {
    let mut out = Vec::new();
    let mut highlighter = Highlighter::new().log();
    highlighter.push(line.as_bytes(), unformatted, &mut out);
    let out = String::from_utf8(out).unwrap();
    let mut marked = String::new();
    let mut close = ' ';
    let mut rest = out.as_str();
    while let Some((text, code)) = rest.split_once("\x1b[") {
        marked += text;
        let (code, text) = code.split_once('m').unwrap();
        rest = text;
        let (open, closing) = match code {
            "2" => ("‹", '›'),
            "1;31" => ("E{", '}'),
            "1;33" => ("W{", '}'),
            "1;34" => ("D{", '}'),
            "0" => {
                marked.push(close);
                continue;
            }
            other => panic!("{other}"),
        };
        marked += open;
        close = closing;
    }
    marked + rest
}

#[test]
fn lines_of_well_known_logs_are_understood() {
    for (line, marked) in [
        // Applications of all kinds.
        (
            "2026-11-21T18:54:51.800875+0000 host4 app[8358]: INFO server",
            "‹2026-11-21T18:54:51.800875+0000› host4 app[8358]: INFO server",
        ),
        (
            "2026-11-21 18:54:51,800 ERROR [main] it broke",
            "‹2026-11-21 18:54:51,800› E{ERROR} [main] it broke",
        ),
        (
            "[2026-11-21 18:54:51 +0100] [1] [WARNING] Worker",
            "[‹2026-11-21 18:54:51 +0100›] [1] [W{WARNING}] Worker",
        ),
        (
            "2026-11-21T18:54:51Z DEBUG x",
            "‹2026-11-21T18:54:51Z› D{DEBUG} x",
        ),
        ("2026-11-21 18:54 TRACE x", "‹2026-11-21 18:54› D{TRACE} x"),
        ("18:54:51.123 WARN x", "‹18:54:51.123› W{WARN} x"),
        ("[18:54:51] FATAL x", "‹[18:54:51]› E{FATAL} x"),
        ("CRITICAL:root:x", "E{CRITICAL}:root:x"),
        ("SEVERE: x", "E{SEVERE}: x"),
        ("FINE: x", "D{FINE}: x"),
        ("PANIC: x", "E{PANIC}: x"),
        // Fields.
        (
            r#"time="2026-11-21T18:54:51Z" level=error msg="no""#,
            r#"time="‹2026-11-21T18:54:51Z›" level=E{error} msg="no""#,
        ),
        (
            r#"{"level":"warn","ts":"2026-11-21T18:54:51.1+01:00","msg":"error"}"#,
            r#"{"level":"W{warn}","ts":"‹2026-11-21T18:54:51.1+01:00›","msg":"error"}"#,
        ),
        (r#"{"log.level": "ERROR"}"#, r#"{"log.level": "E{ERROR}"}"#),
        (r#"{"severity":"debug"}"#, r#"{"severity":"D{debug}"}"#),
        // syslog, with a priority and without.
        (
            "Nov 21 18:14:38 host sshd[12]: error: no",
            "‹Nov 21 18:14:38› host sshd[12]: E{error}: no",
        ),
        (
            "<34>Nov  1 18:14:38 host su: x",
            "E{<34>}‹Nov  1 18:14:38› host su: x",
        ),
        // Web servers.
        (
            r#"::1 - - [21/Nov/2026:18:14:38 +0000] "GET /error HTTP/1.1" 200"#,
            r#"::1 - - ‹[21/Nov/2026:18:14:38 +0000]› "GET /error HTTP/1.1" 200"#,
        ),
        (
            "[Sat Nov 21 18:14:38.123456 2026] [core:error] [pid 1] x",
            "[‹Sat Nov 21 18:14:38.123456 2026›] [core:E{error}] [pid 1] x",
        ),
        (
            "2026/11/21 18:14:38 [warn] 1#1: x",
            "‹2026/11/21 18:14:38› [W{warn}] 1#1: x",
        ),
        // klog.
        (
            "E0102 15:04:05.123456       1 main.go:3] ERROR",
            "E{E}‹0102 15:04:05.123456›       1 main.go:3] ERROR",
        ),
        (
            "I0102 15:04:05.123456       1 main.go:3] ERROR",
            "‹I0102 15:04:05.123456›       1 main.go:3] ERROR",
        ),
        ("W0102 15:04:05.1 x", "W{W}‹0102 15:04:05.1› x"),
        // The kernel.
        ("[  123.456789] usb 1-1: x", "‹[  123.456789]› usb 1-1: x"),
        ("<4>[12345.678901] x", "W{<4>}‹[12345.678901]› x"),
        // Compilers.
        (
            "file.c:3:5: error: expected",
            "file.c:3:5: E{error}: expected",
        ),
        (
            "file.c:3:5: fatal error: x.h",
            "file.c:3:5: fatal E{error}: x.h",
        ),
        ("ld: warning: x", "ld: W{warning}: x"),
        ("error[E0308]: mismatched", "E{error}[E0308]: mismatched"),
        ("warning: unused", "W{warning}: unused"),
        ("file.c:3:5: note: an ERROR", "file.c:3:5: note: an ERROR"),
    ] {
        assert_eq!(shown(line), marked);
    }
}

#[test]
fn failures_and_priorities_are_understood() {
    for (line, marked) in [
        // syslog, and services of systemd.
        (
            "<165>1 2026-11-21T18:14:38.003Z host app: an ERROR",
            "‹<165>›1 ‹2026-11-21T18:14:38.003Z› host app: an ERROR",
        ),
        ("<3>unit failed", "E{<3>}unit failed"),
        ("<4>slow", "W{<4>}slow"),
        ("<7>x", "D{<7>}x"),
        // Test runners.
        ("--- FAIL: TestX (0.00s)", "--- E{FAIL}: TestX (0.00s)"),
        ("FAIL\tpkg\t0.1s", "E{FAIL}\tpkg\t0.1s"),
        ("test a::b ... FAILED", "test a::b ... E{FAILED}"),
        // Levels of three letters.
        (
            "2026-11-21T18:14:38Z WRN slow",
            "‹2026-11-21T18:14:38Z› W{WRN} slow",
        ),
        ("[18:14:38 DBG] x", "[18:14:38 D{DBG}] x"),
        ("FTL gone", "E{FTL} gone"),
        ("TRC in", "D{TRC} in"),
        ("INF an ERROR", "INF an ERROR"),
        // Messages of programs that crash.
        (
            "panic: runtime error: index",
            "E{panic}: runtime error: index",
        ),
        (
            "2026/11/21 18:14:38 http: panic serving ::1",
            "‹2026/11/21 18:14:38› http: E{panic} serving ::1",
        ),
        (
            "thread 'main' (7) panicked at src/main.rs:2:5:",
            "thread 'main' (7) E{panicked} at src/main.rs:2:5:",
        ),
        (
            "Traceback (most recent call last):",
            "E{Traceback} (most recent call last):",
        ),
        // The kernel.
        ("<6>[   12.678901] x", "‹<6>[   12.678901]› x"),
        (
            "[    1.000000] BUG: unable to handle page fault",
            "‹[    1.000000]› E{BUG}: unable to handle page fault",
        ),
        (
            "[    1.000000][  T123] kernel BUG at mm/slub.c:9!",
            "‹[    1.000000]›[  T123] kernel E{BUG} at mm/slub.c:9!",
        ),
        (
            "[    1.000000] Kernel panic - not syncing: x",
            "‹[    1.000000]› Kernel E{panic} - not syncing: x",
        ),
        (
            "[    1.000000] Oops: 0000 [#1]",
            "‹[    1.000000]› E{Oops}: 0000 [#1]",
        ),
        (
            "[Sat Nov 21 18:14:38 2026] WARNING: CPU: 0",
            "[‹Sat Nov 21 18:14:38 2026›] W{WARNING}: CPU: 0",
        ),
        (
            "2026-11-21T18:14:38,123456+00:00 usb 1-1: x",
            "‹2026-11-21T18:14:38,123456+00:00› usb 1-1: x",
        ),
        (
            "kern  :err   : [    1.000000] ata1: x",
            "kern  :E{err}   : ‹[    1.000000]› ata1: x",
        ),
        (
            "daemon:info  : [    1.000000] an ERROR",
            "daemon:‹info›  : ‹[    1.000000]› an ERROR",
        ),
        ("3,1204,5140900,-;ata1: x", "E{3},1204,5140900,-;ata1: x"),
        ("6,339,5140900,-;NET: x", "‹6›,339,5140900,-;NET: x"),
    ] {
        assert_eq!(shown(line), marked);
    }
}

#[test]
fn words_in_a_message_are_no_levels() {
    for line in [
        "no terror in here",
        "this is a warning: do not",
        "the error was found",
        "TERROR ERRORS WARN_ON MY_ERROR",
        "level=none",
        "[errors] [error handling]",
        "do not panic, panic=5 kernel.panic",
        "a panic in here",
        "see BUG 12, DEBUG_ FAILS",
        "<2026>x",
        "<x>y",
        "1,2 and 3;",
        "kern:errors",
        "loglevel-error",
        "INFO and then an ERROR",
        "x: errors: 3",
        "12345-01-02",
        "at 18:14:38",
        "note that 1/2/3 12:34:56",
        "[123.4]",
        "E0102",
        "",
    ] {
        assert_eq!(shown(line), line);
    }
}

#[test]
fn only_the_first_level_and_the_first_time_count() {
    assert_eq!(shown("WARN then ERROR"), "W{WARN} then ERROR");
    assert_eq!(
        shown("2026-11-21 18:14 2026-11-21 18:14"),
        "‹2026-11-21 18:14› 2026-11-21 18:14"
    );
}

#[test]
fn levels_are_looked_for_in_front_of_the_message() {
    let pad = |n: usize| "x ".repeat(n / 2);
    assert_eq!(shown(&(pad(250) + "ERROR x")), pad(250) + "E{ERROR} x");
    for line in [pad(252) + "ERROR x", pad(252) + "ERR x", pad(300) + "ERROR"] {
        let marked = shown(&line);
        let is_far = line.find("ERR ").is_none();
        assert_eq!(marked == line, is_far, "{marked}");
    }
    // The word does not end where the front does.
    assert_eq!(shown(&(pad(250) + " ERRORS")), pad(250) + " ERRORS");
    let word = "x".repeat(300);
    assert_eq!(shown(&word), word);
}
