//! Values attached to short options, as `getopt_long(3)` parses them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use clap::{Arg, Command};

/// Doubles the `=` of `-N=x`, because clap removes one, so that the value is `=x` as for
/// `getopt_long(3)`. `options_come_first` says that options end at the first operand.
pub(super) fn keep_equals_signs(
    command: &Command,
    given: impl IntoIterator<Item = OsString>,
    options_come_first: bool,
) -> Vec<OsString> {
    let mut given = given.into_iter();
    let mut kept: Vec<_> = given.by_ref().take(1).collect();
    while let Some(argument) = given.next() {
        let bytes = argument.as_bytes();
        let (argument, is_last, value_follows) = match bytes {
            b"--" => (argument, true, false),
            [b'-', b'-', name @ ..] => {
                let value_follows = long_takes_next(command, name);
                (argument, false, value_follows)
            }
            [b'-', _, ..] => {
                let (argument, value_follows) = short(command, bytes);
                (argument, false, value_follows)
            }
            _ => (argument, options_come_first, false),
        };
        kept.push(argument);
        if value_follows {
            kept.extend(given.next());
        }
        if is_last {
            break;
        }
    }
    kept.extend(given);
    kept
}

/// Doubles the `=` in a bundle of short options, and returns whether the last option takes the next
/// argument as its value.
fn short(command: &Command, bundle: &[u8]) -> (OsString, bool) {
    let as_given = OsStr::from_bytes(bundle).to_owned();
    for (index, letter) in bundle.iter().enumerate().skip(1) {
        let option = command
            .get_arguments()
            .find(|arg| arg.get_short() == Some(char::from(*letter)));
        if !option.is_some_and(takes_value) {
            continue;
        }
        return match &bundle[index + 1..] {
            [] => (as_given, true),
            rest @ [b'=', ..] => {
                let doubled = [&bundle[..=index], b"=", rest].concat();
                (OsString::from_vec(doubled), false)
            }
            _ => (as_given, false),
        };
    }
    (as_given, false)
}

/// Returns whether a long option, which may be abbreviated, takes the next argument as its value.
fn long_takes_next(command: &Command, name: &[u8]) -> bool {
    !name.contains(&b'=')
        && command.get_arguments().any(|arg| {
            let long = arg.get_long().map(str::as_bytes);
            long.is_some_and(|long| long.starts_with(name)) && takes_value(arg)
        })
}

/// Returns whether the option requires a value, attached or as the next argument.
fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::cli::args::command;

    fn kept(given: &[&str], options_come_first: bool) -> Vec<String> {
        let command = command::<crate::pv::Args>();
        let given = std::iter::once("zc-pv").chain(given.iter().copied());
        let kept = keep_equals_signs(&command, given.map(OsString::from), options_come_first);
        kept.into_iter()
            .skip(1)
            .map(|argument| argument.into_string().expect("they are all ASCII"))
            .collect()
    }

    #[test]
    fn the_sign_of_an_attached_value_is_doubled() {
        for (given, expected) in [
            ("-N=x", "-N==x"),
            ("-N=", "-N=="),
            ("-fpN=x", "-fpN==x"),
            ("-d=sh", "-d==sh"),
            ("-Na=x", "-Na=x"),
            ("-p=x", "-p=x"),
            ("--name=x", "--name=x"),
            ("--json=x", "--json=x"),
            ("=x", "=x"),
            ("-", "-"),
        ] {
            assert_eq!(kept(&[given], false), [expected], "{given}");
        }
    }

    #[test]
    fn the_value_of_another_option_and_an_operand_are_left_alone() {
        for (given, options_come_first) in [
            (&["-N", "-N=x"][..], false),
            (&["-pN", "-N=x"], false),
            (&["--name", "-N=x"], false),
            (&["--nam", "-N=x"], false),
            (&["--", "-N=x"], false),
            (&["file", "-N=x"], true),
        ] {
            assert_eq!(kept(given, options_come_first), given);
        }
        assert_eq!(kept(&["file", "-N=x"], false), ["file", "-N==x"]);
        assert_eq!(kept(&["--name=a", "-N=x"], false), ["--name=a", "-N==x"]);
    }
}
