//! The values of options whose effect takes seconds to observe.

use clap::FromArgMatches as _;

use super::*;
use crate::common::cli::args::command;

fn settings(arguments: &[&str]) -> Settings {
    let arguments = [&["zc-pv"], arguments].concat();
    let matches = command::<Args>().get_matches_from(arguments);
    let args = Args::from_arg_matches(&matches).unwrap();
    Settings::from_args(&args, &matches).unwrap()
}

#[test]
fn prefixes_of_a_rate_are_decimal_after_the_option_that_says_so() {
    for (arguments, thousandths) in [
        (&["-L", "1M"][..], 1_048_576_000),
        (&["-L", "1.5K"], 1_536_000),
        (&["-L2"], 2_000),
        (&["-kL", "1M"], 1_000_000_000),
        (&["-k", "--rate-limit=1K"], 1_000_000),
        (&["-L", "1K", "-k"], 1_024_000),
    ] {
        let rate = settings(arguments).rate_limit.map(NonZeroU64::get);
        assert_eq!(rate, Some(thousandths), "{arguments:?}");
    }
    for nothing in ["0", "0K"] {
        assert_eq!(settings(&["-L", nothing]).rate_limit, None);
    }
}

/// Titles were empty.
#[test]
fn titles_beside_objects_have_the_default_line() {
    let title = |arguments: &[&str]| {
        let settings = settings(&[&["-x", "process"], arguments].concat());
        format!("{:?}", settings.format_of_titles())
    };
    assert_eq!(title(&["--json"]), title(&[]));
    assert_ne!(title(&["--json"]), title(&["-b"]));
    assert_eq!(title(&["--json", "-b"]), title(&["-b"]));
}
