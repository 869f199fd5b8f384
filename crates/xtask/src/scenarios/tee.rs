//! `zc-tee`.

use super::{LARGE, SMALL, pattern, text};
use crate::programs::Program;
use crate::scenario::{Observed, STDOUT, Scenario, Stdin, Stdout};

/// The program with these arguments.
fn tee(args: &[&'static str]) -> Scenario {
    Scenario::new(Program::Tool("zc-tee"), args)
}

pub(super) fn scenarios() -> Vec<Scenario> {
    let (small, large, text) = (&pattern(SMALL), &pattern(LARGE), &text(SMALL));
    let file = |bytes: &[u8]| Stdin::File {
        bytes: bytes.to_vec(),
        cursor: 0,
    };
    let mut scenarios = Vec::new();
    for bytes in [small, large] {
        let sources = [
            file(bytes),
            Stdin::Pipe(bytes.clone()),
            Stdin::Unix(bytes.clone()),
        ];
        for stdin in sources {
            for stdout in [Stdout::Pipe, Stdout::File, Stdout::Unix] {
                let tee = tee(&["-v", "one", "two"]).stdin(stdin.clone());
                let tee = tee.stdout(stdout, bytes).writes("one", bytes);
                scenarios.push(
                    tee.writes("two", bytes)
                        .check(counts_are_those_of_the_outputs),
                );
            }
        }
    }
    for option in [
        "-p",
        "--output-error=exit",
        "--output-error=warn",
        "--cache",
        "--stable",
    ] {
        let tee = tee(&[option, "one"]).stdin(Stdin::Pipe(large.clone()));
        scenarios.push(tee.stdout(Stdout::Pipe, large).writes("one", large));
    }
    let append = tee(&["-a", "one"])
        .file("one", text)
        .stdin(Stdin::Pipe(large.clone()));
    scenarios.push(
        append
            .stdout(Stdout::Pipe, large)
            .writes("one", &[&text[..], large].concat()),
    );
    scenarios.push(
        tee(&[])
            .stdin(Stdin::Pipe(large.clone()))
            .stdout(Stdout::Pipe, large),
    );
    scenarios
}

/// With `-v` it says of each output how many bytes went there.
fn counts_are_those_of_the_outputs(scenario: &Scenario, observed: &Observed) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, _) in &scenario.outputs {
        let shown = if *name == STDOUT {
            "'standard output'"
        } else {
            name
        };
        let begin = format!("zc-tee: {shown}: ");
        let count = observed.stderr.lines().find_map(|line| {
            let (count, _) = line.strip_prefix(&begin)?.split_once(" bytes")?;
            count.parse::<usize>().ok()
        });
        let arrived = observed.output(name).len();
        match count {
            Some(count) if count != arrived => wrong.push(format!(
                "it counted {count} bytes for {name}, and {arrived} arrived"
            )),
            None if scenario.has_succeeded(observed) && observed.is_heard() => {
                wrong.push(format!("it told no count for {name}"));
            }
            _ => {}
        }
    }
    wrong
}
