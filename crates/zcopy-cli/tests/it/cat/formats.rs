//! What GNU cat's options make of bytes: random ones, beside GNU cat.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};
use tempfile::TempDir;

use crate::child::{end_of, read_exactly, zc_cat};
use crate::script::{as_gnu, gnus};

/// Each runs two programs or three.
const CASES: u32 = 400;

/// Some files, and where standard input stands among them.
#[derive(Clone, Debug)]
struct Job {
    options: Vec<&'static str>,
    files: Vec<Vec<u8>>,
    stdin: Option<usize>,
}

fn jobs() -> impl Strategy<Value = Job> {
    let option = prop::sample::select(vec![
        "-A",
        "-b",
        "-e",
        "-E",
        "-n",
        "-s",
        "-t",
        "-T",
        "-u",
        "-v",
        "--show-all",
        "--number-nonblank",
        "--show-ends",
        "--number",
        "--squeeze-blank",
        "--show-tabs",
        "--show-nonprinting",
        "-nE",
        "-bs",
        "--number-n",
    ]);
    let byte = prop_oneof![
        6 => Just(b'\n'),
        2 => Just(b'\r'),
        2 => Just(b'\t'),
        3 => b'a'..=b'z',
        1 => any::<u8>(),
        1 => 128_u8..=255,
        1 => 0_u8..32,
        1 => Just(127_u8),
    ];
    let word = prop_oneof![
        8 => prop::collection::vec(byte, 0..200),
        2 => (0..300_usize).prop_map(|n| vec![b'x'; n]),
        1 => (60_000..140_000_usize).prop_map(|n| vec![b'x'; n]),
        1 => (0..4000_usize).prop_map(|n| b"a line\r\n\n\n".repeat(n)),
        1 => (0..100_000_usize).prop_map(|n| vec![b'\n'; n]),
    ];
    let file = prop::collection::vec(word, 0..4).prop_map(|words| words.concat());
    let files = prop::collection::vec(file, 1..4);
    (
        prop::collection::vec(option, 1..4),
        files,
        prop::option::of(0..4_usize),
    )
        .prop_map(|(options, files, stdin)| Job {
            options,
            files,
            stdin,
        })
}

/// What a program makes of it.
fn outcome(program: &mut Command, job: &Job, dir: &Path) -> (Vec<u8>, Vec<u8>, Option<i32>) {
    program.args(&job.options).current_dir(dir);
    let mut stdin = Stdio::null();
    for (index, bytes) in job.files.iter().enumerate() {
        let name = index.to_string();
        fs::write(dir.join(&name), bytes).unwrap();
        if job.stdin == Some(index) {
            stdin = File::open(dir.join(&name)).unwrap().into();
            program.arg("-");
        } else {
            program.arg(name);
        }
    }
    let output = program.stdin(stdin).output().unwrap();
    (output.stdout, output.stderr, output.status.code())
}

#[test]
fn any_options_make_of_any_bytes_what_they_make_with_gnu_cat() {
    let gnus = gnus("cat");
    let dir = TempDir::new().unwrap();
    let mut config = Config {
        // A failure becomes a test of its own, with a name that says what went wrong.
        failure_persistence: None,
        ..Config::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = CASES;
    }
    let result = TestRunner::new(config).run(&jobs(), |job| {
        let ours = outcome(&mut zc_cat(), &job, dir.path());
        for gnu in &gnus {
            let theirs = outcome(&mut Command::new(gnu), &job, dir.path());
            prop_assert!(ours == theirs, "{} makes something else", gnu.display());
        }
        Ok(())
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, job)) => panic!("{why}\n{job:#?}"),
        Err(why) => panic!("{why}"),
    }
}

#[test]
fn a_carriage_return_waits_for_what_comes_after_it() {
    let mut child = zc_cat()
        .arg("-nE")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let stdout: OwnedFd = child.stdout.take().unwrap().into();
    for (typed, appears) in [
        ("a\r", "     1\ta"),
        ("b\r", "\rb"),
        ("\nc", "^M$\n     2\tc"),
    ] {
        stdin.write_all(typed.as_bytes()).unwrap();
        let appeared = read_exactly(File::from(stdout.try_clone().unwrap()), appears.len());
        assert_eq!(String::from_utf8(appeared).unwrap(), appears);
    }
    drop(stdin);
    assert!(end_of(child).success());
}

#[test]
fn a_line_goes_on_in_the_next_file() {
    as_gnu("printf one > a; cat -n a f empty a a g")
        .succeeds_with("     1\tonehi\n     2\toneonethere\n");
    as_gnu("printf 'one\\r' > a; cat -E a f").succeeds_with("one\rhi$\n");
    as_gnu("printf 'one\\r' > a; printf '\\n' > b; cat -E a missing b a")
        .fails_after("one^M$\none\r", "cat: missing: No such file or directory\n");
}

#[test]
fn blank_lines_are_squeezed_across_files() {
    as_gnu("printf 'one\\n\\n' > a; printf '\\n\\ntwo\\n' > b; cat -s a b")
        .succeeds_with("one\n\ntwo\n");
    as_gnu("printf '\\n\\n' > a; cat -sn a a f").succeeds_with("     1\t\n     2\thi\n");
}

#[test]
fn a_file_that_cannot_be_read_does_not_end_the_numbering() {
    as_gnu("cat -n f missing dir g").fails_after(
        "     1\thi\n     2\tthere\n",
        "cat: missing: No such file or directory\ncat: dir: Is a directory\n",
    );
}

#[test]
fn an_output_that_takes_nothing_is_a_write_error() {
    let error = "cat: write error: No space left on device\n";
    as_gnu("cat -n f missing > /dev/full").fails_with(error);
    as_gnu("cat -v big > /dev/full").fails_with(error);
    as_gnu("printf 'a\\r' | cat -E > /dev/full").fails_with(error);
    as_gnu("cat -n empty > /dev/full").succeeds_with("");
    as_gnu("cat -n f >&-").fails_with("cat: standard output: Bad file descriptor\n");
    as_gnu("cat -n f 1< big").fails_with("cat: write error: Bad file descriptor\n");
    as_gnu("cat -n empty 1< big").succeeds_with("");
}

#[test]
fn a_reader_that_leaves_ends_it_silently() {
    as_gnu("{ cat -n big; echo $? >&2; } | head -n 1").succeeded_saying("141\n", "     1\t1\n");
}

#[test]
fn a_file_is_not_numbered_into_itself() {
    as_gnu("cat -n f >> f").fails_with("cat: f: input file is output file\n");
    as_gnu("cat -n empty >> empty").succeeds_with("");
    let outcome = as_gnu("cat -n f empty >> empty");
    assert_eq!(outcome.files["empty"], b"     1\thi\n");
}

#[test]
fn numbers_grow_beyond_their_column() {
    let outcome = as_gnu("seq 1000001 | cat -n | tail -n 3");
    outcome.succeeds_with("999999\t999999\n1000000\t1000000\n1000001\t1000001\n");
}
