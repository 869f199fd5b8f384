//! Wrong outcomes that are known, with the reason why they stay.

use crate::programs::Program;
use crate::scenario::{Observed, STDOUT, Scenario};
use crate::strace::Call;

/// Why a wrong outcome stays, if it is known.
pub(super) fn reason(
    scenario: &Scenario,
    observed: &Observed,
    injected: &[Call],
    wrong: &[String],
) -> Option<&'static str> {
    // A panic leaves what a killed program leaves. It explains no wrong bytes.
    let begins = [
        "it panicked",
        "signal ",
        "it failed without ",
        "the status is neither ",
    ];
    let is_about_panic = |text: &String| {
        text.contains("no message ")
            || text.ends_with(" was left behind")
            || begins.iter().any(|begin| text.starts_with(begin))
    };
    let has_panicked = wrong.iter().all(is_about_panic);
    if has_panicked && observed.stderr.contains("unexpected error during closedir") {
        return Some("`std::fs::ReadDir` asserts that a directory can be closed");
    }
    if has_panicked && observed.stderr.contains("IO Safety violation") {
        return Some(
            "a debug build asks for the flags of each descriptor that it closes, and takes EBADF for a bug",
        );
    }
    let is_unheard = |call: &Call| {
        call.name == "write" && call.text.starts_with("1<") && call.text.contains("EBADF")
    };
    // These print by the standard library. Their output is then short, and nothing else is wrong.
    // The client of a server does not receive its address.
    let prints = ["explain", "hash_while_copying", "relay", "serve_file"];
    let prints = matches!(scenario.program, Program::Example(name) if prints.contains(&name));
    let is_short =
        |text: &String| text.starts_with(STDOUT) && text.ends_with(" bytes, and success");
    let is_unknown = scenario.is_server() && wrong == ["it did not end"];
    if prints && injected.iter().any(is_unheard) && (is_unknown || wrong.iter().all(is_short)) {
        return Some(
            "`std::io::Stdout` ignores EBADF, so that an example cannot know that its output is lost",
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strace;

    #[test]
    fn only_a_short_output_of_a_program_that_prints_is_accepted() {
        let injected = strace::parse(
            "1 write(1<pipe:[1]>, \"\"..., 5) = -1 EBADF (Bad file descriptor) (INJECTED)",
        );
        let short = "standard output: 0 of 5 bytes, and success";
        let observed = Observed::example(0, "", b"");
        for (program, wrong, is_accepted) in [
            ("hash_while_copying", short, true),
            (
                "hash_while_copying",
                "standard output: byte 3 of 9 is wrong; 5 were expected",
                false,
            ),
            ("hash_while_copying", "it did not end", false),
            ("number_lines", short, false),
        ] {
            let scenario = Scenario::new(Program::Example(program), &[]);
            let reason = reason(&scenario, &observed, &injected, &[wrong.to_owned()]);
            assert_eq!(reason.is_some(), is_accepted, "{program}: {wrong}");
        }
    }
}
