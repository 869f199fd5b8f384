//! The examples of the library.

use super::{LARGE, SMALL, pattern, sha256, text};
use crate::programs::Program;
use crate::scenario::{Scenario, Stdin, Stdout, UPSTREAM};

pub(super) fn scenarios() -> Vec<Scenario> {
    let example = |name, args: &[&'static str]| Scenario::new(Program::Example(name), args);
    let (small, large, text) = (&pattern(SMALL), &pattern(LARGE), &text(SMALL));
    let lines = String::from_utf8_lossy(text).replace('\r', "");
    let numbered = lines.split_inclusive('\n').zip(1..);
    let numbered = numbered.map(|(line, n)| format!("{n:6}\t{line}"));
    let numbered = numbered.collect::<Vec<_>>().concat();
    let digest = format!("{}  out\n", sha256(large));
    let (there, back) = (large.clone(), small.clone());
    vec![
        example("copy", &["a", "out"])
            .file("a", large)
            .writes("out", large),
        example("copy", &["a", "out"])
            .file("a", small)
            .writes("out", small),
        example("explain", &["a", "b"])
            .file("a", large)
            .file("b", b""),
        example("hash_while_copying", &["a", "out"])
            .file("a", large)
            .stdout(Stdout::File, digest.as_bytes())
            .writes("out", large),
        example("number_lines", &["a"])
            .file("a", lines.as_bytes())
            .stdout(Stdout::Pipe, numbered.as_bytes()),
        example("number_lines", &[])
            .stdin(Stdin::Pipe(lines.clone().into_bytes()))
            .stdout(Stdout::File, numbered.as_bytes()),
        example("cat", &["a"])
            .file("a", large)
            .stdout(Stdout::Pipe, large),
        example("tee", &["out"])
            .stdin(Stdin::Pipe(large.clone()))
            .stdout(Stdout::File, large)
            .writes("out", large),
        example("pv", &["a"])
            .file("a", large)
            .stdout(Stdout::Pipe, large),
        example("resume_copy", &["a", "out"])
            .file("a", large)
            .writes("out", large),
        example("serve_file", &[".", "127.0.0.1:0", "0", "1"])
            .file("a", large)
            .stdout(Stdout::Http, large),
        example("relay", &["127.0.0.1:0", "UPSTREAM", "60", "1"])
            .stdout(
                Stdout::BothWays {
                    there: there.clone(),
                    back: back.clone(),
                },
                &back,
            )
            .writes(UPSTREAM, &there),
    ]
}
