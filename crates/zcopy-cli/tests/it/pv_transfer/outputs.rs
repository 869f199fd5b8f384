//! `-o`, `-X`, and outputs that take nothing more.

use super::{as_pv, ends, run};
use crate::script::big;
use crate::skip::has_program;

#[test]
fn a_new_file_is_made() {
    // As a shell's `>` makes it; pv's is for its owner alone.
    run("umask 022; pv -q -o new f; stat -c %a new").succeeds_with("644\n");
    let outcome = as_pv("pv -q -o new big g");
    outcome.succeeds_with("");
    assert!(outcome.files["new"] == [&big()[..], b"there\n"].concat());
    assert_eq!(as_pv("pv -q --output=new f").files["new"], b"hi\n");
    assert_eq!(as_pv("pv f -q g --outp new").files["new"], b"hi\nthere\n");
}

#[test]
fn a_longer_file_is_emptied_first() {
    let outcome = as_pv("pv -q -o big f");
    outcome.succeeds_with("");
    assert_eq!(outcome.files["big"], b"hi\n");
    assert_eq!(as_pv("pv -q -o big empty").files["big"], b"");
    let missing = as_pv("pv -q -o big missing");
    assert_eq!((missing.status, &missing.files["big"][..]), (2, &b""[..]));
}

#[test]
fn an_error_that_only_closing_tells_is_told() {
    if !has_program("strace") {
        return;
    }
    for (options, name) in [("-o new", "new"), ("> new", "(stdout)")] {
        let inject = "strace -qq -P new -e trace=close -e inject=close:error=EIO:when=1";
        let outcome = run(&format!("touch new; {inject} -o trace pv -q f {options}"));
        let error = format!("pv: {name}: Input/output error\n");
        assert_eq!(outcome.status, 8, "{options}: {}", outcome.stderr);
        // strace has its say first.
        assert!(outcome.stderr.ends_with(&error), "{}", outcome.stderr);
        assert_eq!(outcome.files["new"], b"hi\n", "{options}");
    }
}

#[test]
fn a_dash_is_standard_output() {
    let outcome = as_pv("pv -q -o - f");
    outcome.succeeds_with("hi\n");
    assert!(!outcome.files.contains_key("-"));
}

#[test]
fn of_several_the_last_counts() {
    let outcome = as_pv("pv -q -o a -o b f");
    outcome.succeeds_with("");
    assert_eq!(outcome.files["b"], b"hi\n");
}

#[test]
fn an_output_that_cannot_be_opened_is_told() {
    ends(&as_pv("pv -q -o dir f"), 2, "pv: dir: Is a directory\n", "");
    let error = "pv: missing/x: No such file or directory\n";
    ends(&as_pv("pv -q -o missing/x f"), 2, error, "");
    let error = "pv: '': No such file or directory\n";
    ends(&run("pv -q -o '' f"), 2, error, "");
}

#[test]
fn standard_output_does_not_matter_to_who_writes_elsewhere() {
    let outcome = run("pv -q -o new f - g < empty >&-");
    outcome.succeeds_with("");
    assert_eq!(outcome.files["new"], b"hi\nthere\n");
    run("pv -q -X f >&-").succeeds_with("");
}

#[test]
fn what_is_discarded_is_read_but_not_written() {
    as_pv("pv -q -X f big").succeeds_with("");
    as_pv("pv -q --discard f > /dev/full").succeeds_with("");
    as_pv("{ pv -q -X -S -s 3; cat; } < g").succeeds_with("re\n");
    let error = "pv: missing: No such file or directory\n";
    ends(&as_pv("pv -q -X f missing"), 2, error, "");
}

#[test]
fn a_full_device_is_a_write_error_and_the_end() {
    let error = "pv: (stdout): write error: No space left on device\n";
    ends(&as_pv("pv -q f missing > /dev/full"), 16, error, "");
    ends(&as_pv("pv -q big f > /dev/full"), 16, error, "");
    ends(&as_pv("cat big | pv -q > /dev/full"), 16, error, "");
    let error = "pv: /dev/full: write error: No space left on device\n";
    ends(&as_pv("pv -q -o /dev/full f g"), 16, error, "");
    for options in [
        "-C", "-B 1", "-L 10M", "-Y", "-K", "-E", "-O", "-S -s 3", "-f", "--stable",
    ] {
        let outcome = run(&format!("pv -q {options} big f > /dev/full"));
        let error = "pv: (stdout): write error: No space left on device\n";
        ends(&outcome, 16, error, "");
    }
}

#[test]
fn output_that_is_open_for_reading_is_a_write_error() {
    let error = "pv: (stdout): write error: Bad file descriptor\n";
    ends(&as_pv("pv -q f g 1< big"), 16, error, "");
}

#[test]
fn a_reader_that_has_gone_is_sigpipe_or_the_end_where_that_is_ignored() {
    let gone = "mkfifo p; { : < p & }; exec 3> p; wait;";
    for options in ["", "-C", "-L 1G", "-U -", "-E", "-f -D 9"] {
        let outcome = run(&format!("{gone} pv -q {options} f big >&3"));
        ends(&outcome, 141, "", "");
        let outcome = run(&format!("trap '' PIPE; {gone} pv -q {options} f big >&3"));
        ends(&outcome, 0, "", "");
    }
}

#[test]
fn a_named_pipe_is_an_output() {
    as_pv("mkfifo p; cat p & pv -q -o p f big; wait")
        .succeeds_with([&b"hi\n"[..], &big()].concat());
}

#[test]
fn the_file_of_o_is_made_even_if_the_bytes_are_discarded() {
    let outcome = as_pv("pv -q -X -o big f");
    outcome.succeeds_with("");
    assert_eq!(outcome.files["big"], b"");
    ends(
        &as_pv("pv -q -X -o dir f"),
        2,
        "pv: dir: Is a directory\n",
        "",
    );
    // pv has emptied it before it says so.
    let outcome = run("pv -q -X -o f f");
    let said = "pv: f: input file is also the output\n";
    assert_eq!((outcome.status, outcome.stderr.as_str()), (4, said));
    assert_eq!(outcome.files["f"], b"hi\n");
    assert_eq!(
        as_pv("pv -q -X -o - f").files.len(),
        run("true").files.len()
    );
}
