//! `zc-cat`.

use super::{LARGE, SMALL, explanations_count_what_arrived, pattern, text};
use crate::programs::Program;
use crate::scenario::{Scenario, Stdin, Stdout};

/// The program with these arguments.
fn cat(args: &[&'static str]) -> Scenario {
    Scenario::new(Program::Tool("zc-cat"), args)
}

pub(super) fn scenarios() -> Vec<Scenario> {
    let (small, large, text) = (&pattern(SMALL), &pattern(LARGE), &text(SMALL));
    let stdin = |bytes: &[u8]| Stdin::File {
        bytes: bytes.to_vec(),
        cursor: 0,
    };
    let mut scenarios = Vec::new();
    // Plain copies from every kind of source to every kind of sink.
    for bytes in [small, large] {
        for stdout in [Stdout::File, Stdout::Pipe, Stdout::Unix, Stdout::Tcp] {
            let from_file = cat(&["source"]).file("source", bytes);
            scenarios.push(from_file.stdout(stdout.clone(), bytes));
            for stdin in [Stdin::Pipe(bytes.clone()), Stdin::Tcp(bytes.clone())] {
                scenarios.push(cat(&[]).stdin(stdin).stdout(stdout.clone(), bytes));
            }
        }
    }
    let with_hole = &[&small[..], &vec![0; 200_000], small].concat();
    let joined = |parts: &[&[u8]]| parts.concat();
    let several = cat(&["a", "-", "fifo", "b"]);
    let several = several
        .file("a", large)
        .file("b", small)
        .fifo("fifo", &text[1..]);
    let several = several.stdin(Stdin::Pipe(text.clone()));
    scenarios.extend([
        several.joins(Stdout::Pipe, &[large, text, &text[1..], small]),
        cat(&["-"])
            .stdin(Stdin::Unix(large.clone()))
            .stdout(Stdout::Unix, large),
        cat(&["fifo"])
            .fifo("fifo", large)
            .stdout(Stdout::File, large),
        cat(&["source"]).file("source", large),
        cat(&["source"])
            .file("source", with_hole)
            .stdout(Stdout::File, with_hole),
        cat(&["source"])
            .file("source", large)
            .stdout(Stdout::Append(text.clone()), &joined(&[text, large])),
        cat(&[])
            .stdin(Stdin::File {
                bytes: large.clone(),
                cursor: 1_000,
            })
            .stdout(Stdout::Pipe, &large[1_000..]),
        cat(&["--strict", "a", "b"])
            .file("a", small)
            .file("b", large)
            .joins(Stdout::Pipe, &[small, large]),
        cat(&["--stable", "a"])
            .file("a", large)
            .stdout(Stdout::Pipe, large),
        cat(&["--explain", "a", "b"])
            .file("a", large)
            .file("b", small)
            .joins(Stdout::Pipe, &[large, small])
            .check(explanations_count_what_arrived),
        // Formatting.
        cat(&["-E", "a"])
            .file("a", &plain(LARGE))
            .stdout(Stdout::File, &ends(&plain(LARGE))),
        cat(&["-E"])
            .stdin(Stdin::Pipe(plain(LARGE)))
            .stdout(Stdout::Pipe, &ends(&plain(LARGE))),
        cat(&["-n", "a"])
            .file("a", &plain(SMALL))
            .stdout(Stdout::Pipe, &numbered(&plain(SMALL))),
        cat(&["-n"])
            .stdin(stdin(&plain(LARGE)))
            .stdout(Stdout::File, &numbered(&plain(LARGE))),
        cat(&["--highlight=text=red", "--color=always", "a"])
            .file("a", &plain(SMALL))
            .stdout(Stdout::Pipe, &coloured(&plain(SMALL))),
    ]);
    scenarios
}

/// Lines of which each ends in a newline.
fn plain(len: usize) -> Vec<u8> {
    let lines = (0..).map(|n| format!("line {n} of a text\n"));
    let mut size = 0;
    let lines = lines.take_while(|line| {
        size += line.len();
        size <= len
    });
    lines.collect::<String>().into_bytes()
}

fn ends(text: &[u8]) -> Vec<u8> {
    text.split_inclusive(|byte| *byte == b'\n')
        .flat_map(|line| [&line[..line.len() - 1], b"$\n"].concat())
        .collect()
}

fn numbered(text: &[u8]) -> Vec<u8> {
    text.split_inclusive(|byte| *byte == b'\n')
        .zip(1..)
        .flat_map(|(line, n)| [format!("{n:6}\t").as_bytes(), line].concat())
        .collect()
}

fn coloured(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    text.replace("text", "\x1b[31mtext\x1b[0m").into_bytes()
}
