//! The tools in company: others write to the open file that is their output, as in a shell script
//! whose commands share one.
//!
//! A few rounds by default; `ZCOPY_INTERFERENCE_ROUNDS=200` runs as many as are asked for.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use crate::child::{end_of, zc_cat, zc_pv, zc_tee};
use crate::files::{assert_same, contents, cursor, file_in, write_all};
use crate::numbered::{RECORD, Writer, Wrote, compare};
use crate::scene::{Thread, bounded, scratch_dirs};
use crate::skip::skip;

/// How often a script is run on each file system.
fn rounds() -> usize {
    let asked = std::env::var("ZCOPY_INTERFERENCE_ROUNDS").ok();
    asked.map_or(2, |rounds| rounds.parse().unwrap())
}

/// A program that copies its standard input to its standard output.
#[derive(Clone, Copy, Debug)]
struct Tool {
    /// The program, as a test finds it.
    program: &'static str,
    option: Option<&'static str>,
}

impl Tool {
    const CAT: Self = Self {
        program: env!("CARGO_BIN_EXE_zc-cat"),
        option: None,
    };
    const PV: Self = Self {
        program: env!("CARGO_BIN_EXE_zc-pv"),
        option: Some("-q"),
    };
    const TEE: Self = Self {
        program: env!("CARGO_BIN_EXE_zc-tee"),
        option: None,
    };
    /// The machine's own, which reads and writes.
    const PEER: Self = Self {
        program: "/usr/bin/cat",
        option: None,
    };

    /// As it stands in a script.
    fn words(self) -> String {
        format!("'{}' {}", self.program, self.option.unwrap_or(""))
    }

    fn command(self) -> Command {
        let mut command = match self.program {
            program if program == Self::CAT.program => zc_cat(),
            program if program == Self::PV.program => zc_pv(),
            program if program == Self::TEE.program => zc_tee(),
            program => Command::new(program),
        };
        command.args(self.option);
        command
    }
}

/// Runs a script whose output is one open file, several times on each file system. The script's
/// parameters are the programs.
#[track_caller]
fn run_into_one_file(script: &str, check: impl Fn(&[u8])) {
    for dir in scratch_dirs() {
        for _ in 0..rounds() {
            let out = file_in(&dir, b"");
            let shell = Command::new("sh")
                .args(["-c", script])
                .current_dir(&dir)
                .stdin(Stdio::null())
                .stdout(out.try_clone().unwrap())
                .spawn();
            end_of(shell.unwrap());
            check(&contents(&out));
        }
    }
}

/// The lines of two pipelines; the second's are in letters, so that each byte tells where it comes
/// from.
fn lines() -> (Vec<u8>, Vec<u8>) {
    let seq = |numbers: std::ops::RangeInclusive<u32>| {
        let lines = numbers.flat_map(|n| format!("{n}\n").into_bytes());
        lines.collect::<Vec<u8>>()
    };
    let in_letters = |byte: u8| match byte {
        b'\n' => b'#',
        digit => digit - b'0' + b'a',
    };
    let letters = seq(300_001..=600_000).into_iter().map(in_letters);
    (seq(1..=300_000), letters.collect())
}

/// Two pipelines that end in the tool, in one script with one output.
#[track_caller]
fn two_pipelines(tool: Tool) {
    static LINES: LazyLock<(Vec<u8>, Vec<u8>)> = LazyLock::new(lines);
    let x = tool.words();
    let script =
        format!("seq 1 300000 | {x} & seq 300001 600000 | tr '0-9\\n' 'a-j#' | {x} & wait");
    run_into_one_file(&script, |found| {
        let is_letter = |byte: &u8| byte.is_ascii_lowercase() || *byte == b'#';
        let (letters, digits): (Vec<u8>, Vec<u8>) = found.iter().copied().partition(is_letter);
        let what = format!("{} and {} bytes by {tool:?}", digits.len(), letters.len());
        assert_same(&digits, &LINES.0, &what);
        assert_same(&letters, &LINES.1, &what);
    });
}

#[test]
fn two_pipelines_of_a_script_lose_nothing_with_cat() {
    two_pipelines(Tool::CAT);
}

#[test]
fn two_pipelines_of_a_script_lose_nothing_with_pv() {
    two_pipelines(Tool::PV);
}

#[test]
fn two_pipelines_of_a_script_lose_nothing_with_tee() {
    two_pipelines(Tool::TEE);
}

/// The check itself holds of a program that reads and writes.
#[test]
fn two_pipelines_of_a_script_lose_nothing_with_the_machines_own_cat() {
    if has_peer() {
        two_pipelines(Tool::PEER);
    }
}

fn has_peer() -> bool {
    let is_there = std::path::Path::new(Tool::PEER.program).exists();
    if !is_there {
        skip("there is no /usr/bin/cat");
    }
    is_there
}

#[test]
fn different_tools_and_the_shell_lose_nothing_of_one_output() {
    three_pipelines_and_the_shell([Tool::CAT, Tool::PV, Tool::TEE]);
}

#[test]
fn the_machines_own_cat_and_the_shell_lose_nothing_of_one_output() {
    if has_peer() {
        three_pipelines_and_the_shell([Tool::PEER; 3]);
    }
}

/// Several tools and the shell itself, in one script with one output.
#[track_caller]
fn three_pipelines_and_the_shell(tools: [Tool; 3]) {
    let [first, second, third] = tools.map(Tool::words);
    // Bytes of four alphabets: capitals by the shell, a line at a time.
    let script = format!(
        "seq 1 100000 | {first} & \
         seq 100001 200000 | tr '0-9\\n' 'a-j#' | {second} & \
         seq 200001 300000 | tr '0-9\\n' 'k-t%' | {third} & \
         i=0; while [ $i -lt 500 ]; do echo ABCDEFGH; i=$((i + 1)); done | tr '\\n' Z >&1 & \
         i=0; while [ $i -lt 500 ]; do printf STUVWXY_; i=$((i + 1)); done; \
         wait"
    );
    run_into_one_file(&script, |found| {
        let counts = |wanted: fn(&u8) -> bool| found.iter().copied().filter(wanted).count();
        let n_digits = counts(|byte| byte.is_ascii_digit() || *byte == b'\n');
        let n_first = counts(|byte| (b'a'..=b'j').contains(byte) || *byte == b'#');
        let n_second = counts(|byte| (b'k'..=b't').contains(byte) || *byte == b'%');
        let n_echoed = counts(|byte| (b'A'..=b'H').contains(byte) || *byte == b'Z');
        let n_printed = counts(|byte| (b'S'..=b'Y').contains(byte) || *byte == b'_');
        let numbers = |from: u32| -> usize {
            let lines = (from..from + 100_000).map(|n| n.to_string().len() + 1);
            lines.sum()
        };
        assert_eq!(
            [n_digits, n_first, n_second, n_echoed, n_printed],
            [numbers(1), numbers(100_001), numbers(200_001), 4500, 4000],
        );
        let all = n_digits + n_first + n_second + n_echoed + n_printed;
        assert_eq!(found.len(), all, "zeros, perhaps");
    });
}

/// The tool sleeps, because nothing has come, while the shell writes to the output. Then something
/// comes.
#[track_caller]
fn wait_while_the_shell_writes(tool: Tool, n_before: u32) {
    bounded(move || {
        for dir in scratch_dirs() {
            let out = file_in(&dir, b"");
            let (input, feed) = std::io::pipe().unwrap();
            let child = tool
                .command()
                .stdin(input)
                .stdout(out.try_clone().unwrap())
                .spawn()
                .unwrap();
            let thread = Thread::of_process(child.id());
            let (piped, written) = (Writer(1), Writer(2));
            assert!(write_all(&feed, &piped.records(n_before)));
            for n in 0..4 {
                thread.until_asleep();
                assert!(write_all(&out, &written.record(n)));
                assert!(write_all(&feed, &piped.record(n_before + n)));
            }
            thread.until_asleep();
            assert!(write_all(&out, &written.record(4)));
            drop(feed);
            assert!(end_of(child).success());
            let wrote = [
                (piped, Wrote::Stream(n_before + 4)),
                (written, Wrote::Records(5)),
            ];
            let found = contents(&out);
            let case = format!("{tool:?} in {}", dir.display());
            assert_eq!(compare(&found, &wrote), Ok(()), "{case}");
            assert_eq!(cursor(&out), found.len() as u64, "{case}");
            assert_eq!(found.len() % RECORD, 0);
        }
    });
}

#[test]
fn what_the_shell_writes_is_not_overwritten_when_cat_gets_something_from_its_pipe() {
    wait_while_the_shell_writes(Tool::CAT, 0);
    wait_while_the_shell_writes(Tool::CAT, 3);
    wait_while_the_shell_writes(Tool::CAT, 10_000);
}

#[test]
fn what_the_shell_writes_is_not_overwritten_when_pv_gets_something_from_its_pipe() {
    wait_while_the_shell_writes(Tool::PV, 0);
    wait_while_the_shell_writes(Tool::PV, 3);
    wait_while_the_shell_writes(Tool::PV, 10_000);
}

#[test]
fn what_the_shell_writes_is_not_overwritten_when_tee_gets_something_from_its_pipe() {
    wait_while_the_shell_writes(Tool::TEE, 0);
    wait_while_the_shell_writes(Tool::TEE, 3);
    wait_while_the_shell_writes(Tool::TEE, 10_000);
}

#[test]
fn what_the_shell_writes_is_not_overwritten_when_the_machines_own_cat_gets_something() {
    if has_peer() {
        wait_while_the_shell_writes(Tool::PEER, 3);
    }
}

/// A file that tee writes to and others append to, each by an opening of its own.
#[test]
fn tee_that_appends_overwrites_nothing_that_others_append() {
    bounded(|| {
        for dir in scratch_dirs() {
            let dir = tempfile::tempdir_in(dir).unwrap();
            let path = dir.path().join("log");
            let (first, second) = (Writer(1), Writer(2));
            let n_records = 5000;
            let tees = [first, second].map(|writer| {
                let (input, feed) = std::io::pipe().unwrap();
                let tee = zc_tee()
                    .arg("-a")
                    .arg(&path)
                    .stdin(input)
                    .stdout(Stdio::null())
                    .spawn()
                    .unwrap();
                let feeding = std::thread::spawn(move || {
                    assert!(write_all(&feed, &writer.records(n_records)));
                });
                (tee, feeding)
            });
            for (tee, feeding) in tees {
                feeding.join().unwrap();
                assert!(end_of(tee).success());
            }
            let found = std::fs::read(&path).unwrap();
            let wrote = [first, second].map(|writer| (writer, Wrote::Stream(n_records)));
            assert_eq!(compare(&found, &wrote), Ok(()));
        }
    });
}

/// Three of them share an input, and each byte goes to one.
#[test]
fn three_tools_that_read_one_file_by_one_cursor_take_each_byte_once() {
    let n_records = 60_000;
    for tool in [Tool::CAT, Tool::PV, Tool::TEE] {
        for dir in scratch_dirs() {
            let input = file_in(&dir, &Writer(1).records(n_records));
            let children = [(); 3].map(|()| {
                let (reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
                let child = tool
                    .command()
                    .stdin(input.try_clone().unwrap())
                    .stdout(OwnedFd::from(writer))
                    .spawn()
                    .unwrap();
                let reading = std::thread::spawn(move || crate::files::read_to_end(&reader));
                (child, reading)
            });
            let mut total = 0;
            for (child, reading) in children {
                assert!(end_of(child).success());
                total += reading.join().unwrap().len();
            }
            let case = format!("{tool:?} in {}", dir.display());
            assert_eq!(total, n_records as usize * RECORD, "{case}");
        }
    }
}

/// Two endless patterns and the shell, until the file may not become longer.
#[track_caller]
fn two_patterns(yes: &str) {
    // The limit is counted in blocks of 512 bytes; programs that ignore the signal are told EFBIG.
    let (a, b) = ("a".repeat(31), "b".repeat(63));
    let script = format!("ulimit -f 16384; ('{yes}' {a} & '{yes}' {b} & wait) 2>/dev/null");
    run_into_one_file(&script, |found| {
        assert_eq!(found.len(), 16_384 * 512, "{yes}");
        let n_a = memchr::memchr_iter(b'a', found).count();
        let n_b = memchr::memchr_iter(b'b', found).count();
        let n_ends = memchr::memchr_iter(b'\n', found).count();
        assert_eq!(n_a + n_b + n_ends, found.len(), "{yes}: zeros, perhaps");
        // At the end two lines may be cut, one of each.
        let whole = n_a / 31 + n_b / 63;
        assert!(
            n_ends.abs_diff(whole) <= 2,
            "{yes}: {n_ends} line ends, {whole} lines"
        );
        let torn = found.split(|byte| *byte == b'\n').filter(|line| {
            let is_a = line.len() == 31 && line.iter().all(|byte| *byte == b'a');
            let is_b = line.len() == 63 && line.iter().all(|byte| *byte == b'b');
            !(is_a || is_b)
        });
        assert!(torn.count() <= 2, "{yes}: lines that nobody wrote");
    });
}

#[test]
fn two_patterns_of_a_script_lose_nothing_with_yes() {
    two_patterns(env!("CARGO_BIN_EXE_zc-yes"));
}

#[test]
fn two_patterns_of_a_script_lose_nothing_with_the_machines_own_yes() {
    let yes = PathBuf::from("/usr/bin/yes");
    if File::open(&yes).is_err() {
        skip("there is no /usr/bin/yes");
        return;
    }
    two_patterns("/usr/bin/yes");
}
