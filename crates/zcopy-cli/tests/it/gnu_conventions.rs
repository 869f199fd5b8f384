//! The conventions of GNU programs that several tools follow. Each test is one convention, with a
//! table of the scripts that show it.
//!
//! A row is a tool, a script, and what comes of it: the status, standard output and standard error.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};
use std::thread;

use rustix::pipe::{PipeFlags, pipe_with};

use crate::child::{end_of, read_exactly};
use crate::pty::{CONTROL_D, terminal};
use crate::script::{CAT, Outcome, PV, TEE, Tool, YES, big};
use crate::tools::TOOLS;

type Row<'a> = (Tool, &'a str, i32, &'a str, &'a str);

/// Each script comes to what its row says, with ours and with the tool's peers.
#[track_caller]
fn as_peers(rows: &[Row<'_>]) -> Vec<Outcome> {
    let outcomes = rows.iter().map(|(tool, script, status, stdout, stderr)| {
        let outcome = tool.as_peers(script);
        outcome.ended_with(*status, stderr, stdout);
        outcome
    });
    outcomes.collect()
}

/// The same, where the peers do otherwise or would run for ever.
#[track_caller]
fn unlike_peers(rows: &[Row<'_>]) -> Vec<Outcome> {
    let outcomes = rows.iter().map(|(tool, script, status, stdout, stderr)| {
        let outcome = tool.run(script);
        outcome.ended_with(*status, stderr, stdout);
        outcome
    });
    outcomes.collect()
}

/// The files of every script, before it runs.
fn files() -> BTreeMap<String, Vec<u8>> {
    CAT.run(":").files
}

#[test]
fn two_dashes_end_the_options() {
    let outcomes = as_peers(&[
        (CAT, "cat -- f", 0, "hi\n", ""),
        (TEE, "tee -- -a --help < f", 0, "hi\n", ""),
        (YES, "yes -- | head -n 1", 0, "y\n", ""),
        (YES, "yes -- -n | head -n 1", 0, "-n\n", ""),
        (YES, "yes -- -- | head -n 1", 0, "--\n", ""),
        (YES, "yes a -- b | head -n 1", 0, "a b\n", ""),
        (YES, "yes -- a -- b | head -n 1", 0, "a -- b\n", ""),
        (
            YES,
            "yes a -- --version | head -n 1",
            0,
            "a --version\n",
            "",
        ),
        (PV, "pv -q -- f", 0, "hi\n", ""),
        (
            PV,
            "pv -q -- -q f",
            2,
            "hi\n",
            "pv: -q: No such file or directory\n",
        ),
        (
            CAT,
            "cat -- -u --help --",
            1,
            "",
            "cat: -u: No such file or directory\n\
             cat: --help: No such file or directory\n\
             cat: --: No such file or directory\n",
        ),
    ]);
    for name in ["-a", "--help"] {
        assert_eq!(outcomes[1].files[name], b"hi\n");
    }
}

#[test]
fn posixly_correct_ends_the_options_at_the_first_operand() {
    let missing = |tool: Tool, name| format!("{}: {name}: No such file or directory\n", tool.name);
    let outcomes = as_peers(&[
        (TEE, "POSIXLY_CORRECT=1 tee a -i < f", 0, "hi\n", ""),
        (
            CAT,
            "POSIXLY_CORRECT=1 cat -u f -u",
            1,
            "hi\n",
            &missing(CAT, "-u"),
        ),
        (
            PV,
            "POSIXLY_CORRECT=1 pv -q f -q",
            2,
            "hi\n",
            &missing(PV, "-q"),
        ),
        (
            YES,
            "POSIXLY_CORRECT=1 yes a -n | head -n 1",
            0,
            "a -n\n",
            "",
        ),
        (
            YES,
            "POSIXLY_CORRECT=1 yes a --help | head -n 1",
            0,
            "a --help\n",
            "",
        ),
        (
            YES,
            "POSIXLY_CORRECT=1 yes a -- b | head -n 1",
            0,
            "a -- b\n",
            "",
        ),
        (
            YES,
            "POSIXLY_CORRECT=1 yes -- a -- b | head -n 1",
            0,
            "a -- b\n",
            "",
        ),
    ]);
    assert_eq!(outcomes[0].files["-i"], b"hi\n");
}

#[test]
fn an_unknown_option_is_refused_wherever_it_stands_before_anything_is_done() {
    for (tool, script, option) in [
        (CAT, "cat f --foo", "--foo"),
        (CAT, "cat --foo=bar f", "--foo=bar"),
        (CAT, "cat ---", "---"),
        (CAT, "cat f -x", "x"),
        (CAT, "cat -ux f", "x"),
        (CAT, "cat -u- f", "-"),
        // These are not short for --help and --version.
        (CAT, "cat -h", "h"),
        (CAT, "cat -V", "V"),
        (TEE, "tee a --foo < f", "--foo"),
        (TEE, "tee a --foo=b < f", "--foo=b"),
        (TEE, "tee a -x < f", "x"),
        (TEE, "tee -aix a < f", "x"),
        (TEE, "tee -h a < f", "h"),
        (TEE, "tee -V a < f", "V"),
        // -p takes no MODE.
        (TEE, "tee -p=warn a < f", "="),
        (YES, "yes -n", "n"),
        (YES, "yes a -n", "n"),
        (YES, "yes -ab", "a"),
        (YES, "yes -h", "h"),
        (YES, "yes -V", "V"),
        (YES, "yes -x --version", "x"),
        (YES, "yes --foo", "--foo"),
        (YES, "yes --foo=bar", "--foo=bar"),
        (YES, "yes ---", "---"),
        (PV, "pv --foo f", "--foo"),
        (PV, "pv --foo=bar f", "--foo=bar"),
        (PV, "pv -y f", "y"),
        (PV, "pv -qy f", "y"),
        (PV, "pv -q f -y -o f", "y"),
    ] {
        let message = if option.starts_with("--") {
            format!("unrecognized option '{option}'")
        } else {
            format!("invalid option -- '{option}'")
        };
        tool.refuses(script, &message);
    }
}

#[test]
fn a_value_for_an_option_that_takes_none_is_refused() {
    for (tool, script, option) in [
        (CAT, "cat --help=3", "help"),
        (TEE, "tee --append=3 a < f", "append"),
        (TEE, "tee --ignore-interrupts=3 a < f", "ignore-interrupts"),
        (TEE, "tee --help=3 a < f", "help"),
        (TEE, "tee --version=3 a < f", "version"),
        (YES, "yes --help=3", "help"),
        (PV, "pv --quiet=1 f", "quiet"),
    ] {
        tool.refuses(
            script,
            &format!("option '--{option}' doesn't allow an argument"),
        );
    }
}

#[test]
fn the_version_is_the_packages() {
    for (tool, script) in [
        (CAT, "cat --version"),
        (CAT, "cat --vers"),
        (TEE, "tee --version"),
        (TEE, "tee --v"),
        (YES, "yes --version"),
        (YES, "yes --v"),
        (YES, "yes a --version"),
        (YES, "yes --version -x"),
        (PV, "pv --version"),
        (PV, "pv -V"),
        (PV, "pv -q f --version"),
    ] {
        let version = concat!(" ", env!("CARGO_PKG_VERSION"), "\n");
        tool.run(script)
            .succeeds_with(format!("zc-{}{version}", tool.name));
    }
}

#[test]
fn help_names_the_program_as_it_was_called_and_every_option() {
    let table: [(Tool, &[&str], &str, &[&str]); 4] = [
        (
            CAT,
            &["cat --help"],
            "Usage: cat [OPTIONS] [FILE]...",
            &["--explain", "--stable", "-u", "--help", "--version"],
        ),
        (
            TEE,
            &["tee --help", "tee --h"],
            "Usage: tee [OPTIONS] [FILE]...",
            &[
                "-a, --append",
                "-i, --ignore-interrupts",
                "-p ",
                "--output-error[=<MODE>]",
                "-c, --cache[=<WHAT>]",
                "--stable",
                "-v ",
                "--explain",
                "--help",
                "--version",
                "warn ",
                "warn-nopipe ",
                "exit ",
                "exit-nopipe ",
            ],
        ),
        (
            YES,
            &["yes --help", "yes --help extra", "yes --he", "yes a --help"],
            "Usage: yes [OPTIONS] [STRING]...",
            &["--explain", "--help", "--version"],
        ),
        (
            PV,
            &["pv -h", "pv --help", "pv -q f --hel"],
            // It is written by hand.
            "Usage: zc-pv [OPTION]... [FILE]...",
            &[
                "-o, --output <FILE>",
                "-L, --rate-limit <RATE>",
                "--hash <ALGORITHM>",
            ],
        ),
    ];
    for (tool, scripts, usage, words) in table {
        for script in scripts {
            let outcome = tool.run(script);
            let help = String::from_utf8(outcome.stdout.clone()).unwrap();
            outcome.succeeds_with(&help);
            assert!(help.contains(usage), "{help}");
            for word in words {
                assert!(help.contains(word), "{word} is missing:\n{help}");
            }
        }
    }
}

#[test]
fn help_that_cannot_be_written_is_an_error() {
    let full = |tool: Tool| format!("{}: write error: No space left on device\n", tool.name);
    as_peers(&[
        (CAT, "cat --help > /dev/full", 1, "", &full(CAT)),
        (TEE, "tee --help > /dev/full", 1, "", &full(TEE)),
        (YES, "yes --help > /dev/full", 1, "", &full(YES)),
        (
            CAT,
            "cat --version >&-",
            1,
            "",
            "cat: write error: Bad file descriptor\n",
        ),
    ]);
    // pv says nothing, and ends with 0.
    unlike_peers(&[(PV, "pv -h > /dev/full", 1, "", &full(PV))]);
}

/// The shell takes names of files for options. `getopt_long(3)` prints them as they are.
#[test]
fn an_unknown_option_is_shown_without_what_a_terminal_obeys() {
    for (name, program) in TOOLS {
        for (option, shown) in [
            (r"--\033[31mred", r"unrecognized option '--\033[31mred'"),
            (r"-\033", r"invalid option -- '\033'"),
            (r"--\033[31m=\007", r"unrecognized option '--\033[31m=\a'"),
        ] {
            let outcome = CAT.run(&format!(
                "{program} \"$(printf '%b' '{option}')\" < /dev/null"
            ));
            let message = format!("{name}: {shown}\n");
            assert!(outcome.stderr.starts_with(&message), "{outcome:?}");
        }
    }
}

#[test]
fn messages_bear_the_name_that_the_program_was_called_by() {
    for (name, program) in TOOLS {
        for (call, called) in [
            (program.to_owned(), name),
            (format!("ln -s {program} x.y; ./x.y"), "x.y"),
        ] {
            let outcome = CAT.run(&format!("{call} --no-such-option"));
            let message = format!("{called}: unrecognized option '--no-such-option'\n");
            assert!(outcome.stderr.starts_with(&message), "{outcome:?}");
        }
    }
    let cause = "No such file or directory\n";
    for (tool, operands, file, stdout) in [
        (CAT, "missing", "missing", ""),
        (TEE, "no/a < f", "no/a", "hi\n"),
    ] {
        let program = tool.program;
        let called = format!("{program} {operands}");
        let expected = format!("zc-{}: {file}: {cause}", tool.name);
        tool.run(&called).ended_with(1, &expected, stdout);
        let called = format!("ln -s {program} x.y; ./x.y {operands}");
        let expected = format!("x.y: {file}: {cause}");
        tool.run(&called).ended_with(1, &expected, stdout);
    }
}

/// `zc-cat` is asked for every ASCII character alone, first, in the middle and last, beside the
/// ones that are treated together, and what is no character.
#[test]
fn names_are_quoted_as_gnu_quotes_them() {
    let mut names: Vec<Vec<u8>> = Vec::new();
    for byte in (1..0x80).filter(|byte| *byte != b'/') {
        names.extend([vec![byte], vec![b'.', byte], vec![b'a', byte, b'b']]);
        names.extend([vec![byte, b'a'], vec![byte, b'\''], vec![b'\'', byte]]);
        names.extend([
            vec![b'\n', byte],
            vec![byte, b'\n'],
            vec![b'\'', b'"', byte, 0xff],
        ]);
    }
    // Beside an apostrophe GNU cat 9.1 quotes what the locale cannot print otherwise than 9.12.
    let unicode = [
        "", "é", "\u{200b}", "\u{ad}", "\u{85}", "\u{e000}", "字\n", "a\u{301}",
    ];
    names.extend(unicode.map(|name| name.as_bytes().to_vec()));
    names.extend([&b"\xff"[..], b"a\xe2\x80", b"\xe2\x80x", b"\xc3"].map(<[u8]>::to_vec));
    let names: Vec<&OsStr> = names
        .iter()
        .map(|name| OsStr::from_bytes(name))
        // Those are files and directories, or standard input.
        .filter(|name| ![".", "..", "-", "f", "g"].map(OsStr::new).contains(name))
        .collect();
    for locale in ["C.UTF-8", "C", "xx_YY.UTF-8"] {
        let outcome = CAT.as_peers_with(&format!("LC_ALL={locale} cat -- \"$@\""), &names);
        // A name's new line would be a second line of its message.
        assert_eq!(outcome.stderr.lines().count(), names.len(), "in {locale}");
    }
    CAT.as_peers_with("cat \"$1\"", &["it's é".as_ref()])
        .fails_with("cat: \"it's é\": No such file or directory\n");

    let names = ["no/a b", "no/it's", "no/a\nb", "no/a:b", "no/é", "no/*"].map(OsStr::new);
    let names = [&names[..], &[OsStr::from_bytes(b"no/\xff")]].concat();
    TEE.as_peers_with("tee \"$@\" < f", &names);

    // pv quotes nothing.
    let errors = "pv: '': No such file or directory\npv: 'a b': No such file or directory\n";
    unlike_peers(&[(PV, "pv -q '' 'a b' f", 2, "hi\n", errors)]);
}

#[test]
fn closed_standard_error_costs_the_message_alone() {
    let outcomes = as_peers(&[
        (CAT, "cat missing f 2>&-", 1, "hi\n", ""),
        (CAT, "cat missing f 2> /dev/full", 1, "hi\n", ""),
        (YES, "yes > /dev/full 2>&-", 1, "", ""),
        (PV, "pv missing f 2>&-", 2, "hi\n", ""),
        (PV, "pv -q missing/x f 2>&-", 2, "hi\n", ""),
        (TEE, "tee no/a a < f 2>&-", 1, "hi\n", ""),
    ]);
    assert_eq!(outcomes[5].files["a"], b"hi\n");
    let outcomes = unlike_peers(&[
        (PV, "pv -f missing f 2> /dev/full", 2, "hi\n", ""),
        (PV, "pv -n missing f -o new 2>&-", 2, "", ""),
    ]);
    assert_eq!(outcomes[1].files["new"], b"hi\n");
}

#[test]
fn closed_input_does_not_matter_to_who_reads_files() {
    as_peers(&[
        (CAT, "cat f g <&-", 0, "hi\nthere\n", ""),
        (PV, "pv -q f g <&-", 0, "hi\nthere\n", ""),
        (PV, "pv -q -o new f <&-; cat new", 0, "hi\n", ""),
    ]);
    CAT.as_peers("cat f big <&-")
        .succeeds_with([b"hi\n", &big()[..]].concat());
}

#[test]
fn a_file_is_not_appended_to_itself() {
    let own = "input file is output file\n";
    let outcomes = as_peers(&[
        (CAT, "cat f >> f", 1, "", &format!("cat: f: {own}")),
        (CAT, "cat big >> big", 1, "", &format!("cat: big: {own}")),
        (
            PV,
            "pv -q f >> f",
            4,
            "",
            "pv: f: input file is also the output\n",
        ),
        (
            PV,
            "pv -q < f >> f",
            4,
            "",
            "pv: -: input file is also the output\n",
        ),
        (
            PV,
            "pv -q big >> big",
            4,
            "",
            "pv: big: input file is also the output\n",
        ),
    ]);
    assert!(outcomes.iter().all(|outcome| outcome.files == files()));
    // GNU tee fills the disk.
    for name in ["f", "big"] {
        let before = files()[name].clone();
        let outcome = TEE.run(&format!("tee -a a {name} b < {name}"));
        outcome.fails_after(&before, &format!("tee: {name}: {own}"));
        for output in [name, "a", "b"] {
            assert!(outcome.files[output] == before, "{output} of {name}");
        }
    }
    let error = format!("tee: 'standard output': {own}");
    let exit = "tee --output-error=exit -a f a < f";
    let outcomes = unlike_peers(&[
        (TEE, "tee < f >> f", 1, "", &error),
        (TEE, exit, 1, "", &format!("tee: f: {own}")),
    ]);
    assert!(outcomes.iter().all(|outcome| outcome.files["f"] == b"hi\n"));
}

#[test]
fn an_empty_file_may_be_appended_to_itself() {
    as_peers(&[
        (CAT, "cat empty >> empty", 0, "", ""),
        (CAT, "cat f > f", 0, "", ""),
        (TEE, "tee -a empty < empty", 0, "", ""),
        (TEE, "{ cat; tee -a f; } < f", 0, "hi\n", ""),
    ]);
}

/// As GNU cat 9.12 does; 9.1, which may be the one installed, refuses it.
#[test]
fn a_file_may_be_rewritten_in_place() {
    let outcome = CAT.run("cat big 1<> big");
    outcome.succeeds_with("");
    assert!(outcome.files == files());
    for name in ["f", "big"] {
        let outcome = TEE.as_peers(&format!("tee a < {name} 1<> {name}"));
        outcome.succeeds_with("");
        assert!(outcome.files["a"] == files()[name]);
        assert!(outcome.files[name] == files()[name]);
    }
}

/// As above.
#[test]
fn a_file_may_be_shifted_down_within_itself() {
    let tail = &big()[big().len() - 8..];
    for (tool, copy) in [(CAT, "cat"), (TEE, "tee a")] {
        let skip = "dd bs=1 count=8 of=/dev/null 2>&-";
        let outcome = tool.run(&format!("{{ {skip}; {copy}; }} < big 1<> big"));
        outcome.succeeds_with("");
        assert!(outcome.files["big"] == [&big()[8..], tail].concat());
        let copied = outcome.files.get("a");
        assert!(copied.is_none_or(|copied| *copied == big()[8..]));
        assert_eq!(copied.is_some(), tool.name == "tee");
    }
}

/// The peers go round for ever.
#[test]
fn a_pipe_is_not_fed_to_itself() {
    for (tool, call, status, error) in [
        (CAT, "cat", 1, "-: input file is output file"),
        (
            TEE,
            "tee",
            1,
            "'standard output': input file is output file",
        ),
        (PV, "pv -q", 4, "-: input file is also the output"),
    ] {
        let script = format!("mkfifo p; exec 3<> p; echo hi >&3; timeout 60 {call} <&3 >&3");
        let error = format!("{}: {error}\n", tool.name);
        tool.run(&script).ended_with(status, &error, "");
    }
}

/// The peers are killed by `SIGXFSZ` unless that is ignored.
#[test]
fn a_file_that_may_not_grow_is_a_write_error_and_keeps_what_fits() {
    let yes = b"abc\n".repeat(10_000);
    let mut rows = vec![(YES, "yes abc > out".to_owned(), 1, "standard output")];
    for target in ["> out", ">> out"] {
        rows.push((CAT, format!("cat big {target}"), 1, "write error"));
    }
    for options in ["", "-C", "-O", "-Y"] {
        let script = format!("pv -q {options} big f > out");
        rows.push((PV, script, 16, "(stdout): write error"));
    }
    for (tool, script, status, error) in rows {
        let outcome = tool.run(&format!("ulimit -f 16; {script}"));
        let error = format!("{}: {error}: File too large\n", tool.name);
        outcome.ended_with(status, &error, "");
        // Shells count in blocks of 512 or 1024 bytes.
        let kept = &outcome.files["out"];
        assert!(matches!(kept.len(), 8192 | 16384), "{} bytes", kept.len());
        let whole = if tool.name == "yes" { &yes } else { &big() };
        assert!(whole.starts_with(kept), "{script}");
    }
}

/// GNU tee 9.1 loses what does not fit.
#[test]
fn output_that_does_not_block_is_waited_for() {
    for tool in [CAT, TEE] {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        rustix::fs::fcntl_setfl(&reader, rustix::fs::OFlags::empty()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join("a");
        let mut command = Command::new(tool.program);
        if tool.name == "tee" {
            command.arg(&copy);
        }
        command.stdin(Stdio::piped()).stdout(writer);
        let mut child = command.spawn().unwrap();
        drop(command);
        let mut stdin = child.stdin.take().unwrap();
        let feeder = thread::spawn(move || stdin.write_all(&big()).unwrap());
        let mut bytes = Vec::new();
        std::fs::File::from(reader).read_to_end(&mut bytes).unwrap();
        feeder.join().unwrap();
        assert!(end_of(child).success());
        assert!(bytes == big());
        assert!(tool.name != "tee" || std::fs::read(copy).unwrap() == big());
    }
}

#[test]
fn each_line_appears_when_it_is_typed_and_one_control_d_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("a");
    let file = copy.to_str().unwrap();
    for (tool, arguments) in [(CAT, &[][..]), (TEE, &[file]), (TEE, &["-p", file])] {
        let (mut user, tty) = terminal();
        let mut command = Command::new(tool.program);
        command.args(arguments).stdin(tty).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout: OwnedFd = child.stdout.take().unwrap().into();
        for line in [&b"one\n"[..], b"two\n"] {
            user.write_all(line).unwrap();
            let stdout = std::fs::File::from(stdout.try_clone().unwrap());
            assert_eq!(read_exactly(stdout, line.len()), line);
        }
        user.write_all(CONTROL_D).unwrap();
        assert!(end_of(child).success(), "{arguments:?}");
        assert!(tool.name != "tee" || std::fs::read(&copy).unwrap() == b"one\ntwo\n");
    }
}
