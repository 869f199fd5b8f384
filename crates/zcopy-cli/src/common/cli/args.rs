//! Arguments common to all tools, and usage errors in the wording of GNU.

use std::collections::TryReserveError;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, ArgMatches, Args, Command, CommandFactory, Parser};

use crate::common::cli::generate;
use crate::common::cli::message;
use crate::common::cli::quote::escape_unprintable;
use crate::common::io::fd_writer;

mod attached;

/// The options that every tool has.
#[derive(Debug, Args)]
pub struct Common {
    /// Print to standard error by which system calls the bytes are going to be moved, and why; and
    /// at the end how they were moved
    #[arg(long)]
    pub explain: bool,

    /// Print this help, and exit
    #[arg(long, action = ArgAction::HelpShort)]
    help: Option<bool>,

    /// Print the version, and exit
    #[arg(long, action = ArgAction::Version)]
    version: Option<bool>,
}

/// A tool: the definition of its command line, and the rest of its manual page.
pub trait Tool: Parser {
    /// The sections of the manual page that do not follow from the command line, in the macros of
    /// man(7). The text before the first heading continues the DESCRIPTION.
    const MANUAL: &'static str;

    /// Long options in the order in which the original lists them as candidates for an ambiguous
    /// option, if that is not the order of the help. All others follow.
    const CANDIDATES: &'static [&'static str] = &[];
}

/// Returns the definition of a tool's command line, from which the parser, the manual page and the
/// completions are made.
#[must_use]
pub fn command<T: CommandFactory>() -> Command {
    T::command()
        .disable_help_flag(true)
        .disable_version_flag(true)
        .infer_long_args(true)
        .args_override_self(true)
}

/// Parses the command line as GNU tools do: long options may be shortened and repeated, and
/// options may follow operands, except where `POSIXLY_CORRECT` is set.
///
/// # Errors
///
/// Returns the exit status if the program is to end; all messages have been written. The status is
/// 0 after `--help` and `--version`, and 1 after a usage error or if the help could not be written.
pub fn parse<T: Tool>() -> Result<T, ExitCode> {
    parse_as::<T>(1).map(|(args, _)| args)
}

/// Parses the command line as [`parse`] does, but returns the operands separately. This is for
/// tools that take any number of operands and have no option whose value is a separate argument, so
/// that operands can be recognized without clap.
///
/// clap needs seven milliseconds for ten thousand operands, several times as long as opening them.
///
/// # Errors
///
/// Returns the errors of [`parse`], and status 1 if memory is refused for the list of operands.
pub fn parse_beside_operands<T: Tool>() -> Result<(T, Vec<OsString>), ExitCode> {
    answer_generate::<T>(1)?;
    let divided = divide(std::env::args_os(), is_posixly_correct());
    let (options, operands) = divided.map_err(|_| {
        message::error(&message::memory_exhausted());
        ExitCode::FAILURE
    })?;
    if let Some(name) = options.first() {
        message::set_program(name);
    }
    let (args, _) = parse_from::<T>(options, 1)?;
    Ok((args, operands))
}

/// Parses the command line as [`parse`] does, and also returns the matches, which hold the order of
/// the options. After a usage error the program ends with the status `misuse`.
///
/// # Errors
///
/// Returns the errors of [`parse`].
pub fn parse_as<T: Tool>(misuse: u8) -> Result<(T, ArgMatches), ExitCode> {
    answer_generate::<T>(misuse)?;
    parse_from(std::env::args_os(), misuse)
}

/// Prints the manual page or the completions if that is what the command line asks for.
///
/// # Errors
///
/// Returns the exit status if the command line asks for either.
fn answer_generate<T: Tool>(misuse: u8) -> Result<(), ExitCode> {
    match generate::requested(std::env::args_os()) {
        Ok(None) => Ok(()),
        Ok(Some(format)) => {
            let generated = generate::generate(command::<T>(), T::MANUAL, format);
            Err(finish(
                generated.map_err(Into::into).and_then(|text| print(&text)),
            ))
        }
        Err(message) => {
            message::warn(&message);
            message::refer_to_help();
            Err(misuse.into())
        }
    }
}

/// Parses the command line as [`parse_as`] does, but reads `-N=x` as the value `=x`, as
/// `getopt_long(3)` does. clap alone would read `x`.
///
/// # Errors
///
/// Returns the errors of [`parse`].
pub fn parse_with_equals_signs<T: Tool>(misuse: u8) -> Result<(T, ArgMatches), ExitCode> {
    answer_generate::<T>(misuse)?;
    let given =
        attached::keep_equals_signs(&command::<T>(), std::env::args_os(), is_posixly_correct());
    parse_from(given, misuse)
}

fn parse_from<T: Tool>(
    given: impl IntoIterator<Item = OsString>,
    misuse: u8,
) -> Result<(T, ArgMatches), ExitCode> {
    let mut command = command::<T>().bin_name(message::program().to_string_lossy());
    if is_posixly_correct() {
        command = command.mut_args(|arg| {
            let is_operand = arg.is_positional();
            arg.trailing_var_arg(is_operand)
        });
    }
    let mut long: Vec<String> = command
        .get_arguments()
        .filter_map(|arg| arg.get_long().map(str::to_owned))
        .collect();
    let place = |long: &String| T::CANDIDATES.iter().position(|first| first == long);
    long.sort_by_key(|long| place(long).unwrap_or(usize::MAX));
    command
        .try_get_matches_from_mut(given)
        .and_then(|matches| Ok((T::from_arg_matches(&matches)?, matches)))
        .map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp => finish(print_help(command)),
            _ => answer(&error, &long, misuse),
        })
}

/// Returns whether options end at the first operand.
fn is_posixly_correct() -> bool {
    std::env::var_os("POSIXLY_CORRECT").is_some()
}

/// Divides a command line into the program's name with the options, and the operands, as
/// `getopt_long(3)` does. No option may have a value that is a separate argument.
///
/// # Errors
///
/// Memory is refused.
fn divide(
    given: impl IntoIterator<Item = OsString>,
    options_come_first: bool,
) -> Result<(Vec<OsString>, Vec<OsString>), TryReserveError> {
    let mut given = given.into_iter();
    let mut options: Vec<_> = given.by_ref().take(1).collect();
    let mut operands = Vec::new();
    for argument in given.by_ref() {
        let bytes = argument.as_bytes();
        if bytes == b"--" {
            break;
        }
        if bytes.starts_with(b"-") && bytes != b"-" {
            options.try_reserve(1)?;
            options.push(argument);
            continue;
        }
        operands.try_reserve(1)?;
        operands.push(argument);
        if options_come_first {
            break;
        }
    }
    for operand in given {
        operands.try_reserve(1)?;
        operands.push(operand);
    }
    Ok((options, operands))
}

/// Prints the help, wrapped to the width of the terminal.
fn print_help(command: Command) -> anyhow::Result<()> {
    let help = command.term_width(help_width()).render_help();
    print(help.to_string().as_bytes())
}

/// Returns the width of the help: `COLUMNS`, or the width of the terminal, at most 100 columns
/// [default: 80].
fn help_width() -> usize {
    let columns = std::env::var("COLUMNS").ok();
    let columns = columns.and_then(|columns| columns.parse().ok());
    let terminal = || {
        let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
        Some(usize::from(size.ws_col))
    };
    let is_known = |columns: &usize| *columns > 0;
    let columns = columns.filter(is_known);
    let columns = columns.or_else(|| terminal().filter(is_known));
    columns.map_or(80, |columns| columns.min(100))
}

/// Prints the version, or a usage error, and returns the exit status.
fn answer(error: &clap::Error, long: &[String], misuse: u8) -> ExitCode {
    if error.kind() == ErrorKind::DisplayVersion {
        return finish(print(error.render().to_string().as_bytes()));
    }
    message::warn(&usage_error(error, long));
    message::refer_to_help();
    misuse.into()
}

/// Returns the usage error in the wording of `getopt_long(3)`.
fn usage_error(error: &clap::Error, known: &[String]) -> String {
    // The value's parser has written the message itself.
    if let Some(ContextValue::String(message)) = error.get(ContextKind::Custom) {
        return message.clone();
    }
    let argument = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) => argument.as_str(),
        _ => "",
    };
    // The letter `-` in a bundle comes as `--`.
    let long = argument.strip_prefix("--").filter(|name| !name.is_empty());
    match (error.kind(), long, argument.chars().nth(1)) {
        (ErrorKind::UnknownArgument, Some(name), _) => {
            let given = escape_unprintable(&as_given(argument));
            let meant: Vec<_> = known.iter().filter(|long| long.starts_with(name)).collect();
            if meant.len() < 2 {
                return format!("unrecognized option '{given}'");
            }
            let meant = meant.iter().map(|long| format!(" '--{long}'"));
            let meant: String = meant.collect();
            format!("option '{given}' is ambiguous; possibilities:{meant}")
        }
        (ErrorKind::UnknownArgument, None, Some(letter)) => {
            format!(
                "invalid option -- '{}'",
                escape_unprintable(&letter.to_string())
            )
        }
        (ErrorKind::InvalidValue, ..) if lacks_value(error) => requires_an_argument(argument),
        (ErrorKind::NoEquals, Some(_), _) => {
            let name = argument.split('=').next().unwrap_or_default();
            // GNU tools have no such option.
            let argument = escape_unprintable(argument);
            format!("option '{name}' requires an argument: {argument}")
        }
        (ErrorKind::TooManyValues, Some(_), _) => {
            format!("option '{argument}' doesn't allow an argument")
        }
        // clap writes each missing argument on its own line.
        (ErrorKind::MissingRequiredArgument, ..) => match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::Strings(missing)) => format!("{} expected", missing.join(", ")),
            _ => "an option is missing".to_owned(),
        },
        _ => {
            let rendered = error.render().to_string();
            let line = rendered.lines().next().unwrap_or_default();
            escape_unprintable(line.trim_start_matches("error: "))
        }
    }
}

/// Returns whether the command line ends where a value is expected.
fn lacks_value(error: &clap::Error) -> bool {
    matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(value)) if value.is_empty())
}

/// Returns the message about a missing value, with the option as it was written last: its letter or
/// its long name.
fn requires_an_argument(argument: &str) -> String {
    let last = std::env::args_os().last().unwrap_or_default();
    let last = last.to_string_lossy();
    if last.starts_with("--") {
        let name = argument.split([' ', '=']).next().unwrap_or_default();
        return format!("option '{name}' requires an argument");
    }
    let letter = last.chars().next_back().unwrap_or_default();
    format!("option requires an argument -- '{letter}'")
}

/// Returns the argument with the value after `=`, which clap removes.
fn as_given(argument: &str) -> String {
    std::env::args_os()
        .map(|given| given.to_string_lossy().into_owned())
        .find(|given| given.split('=').next() == Some(argument))
        .unwrap_or_else(|| argument.to_owned())
}

/// Returns the exit status after the requested text has been printed, or could not be.
fn finish(printed: anyhow::Result<()>) -> ExitCode {
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            message::error(&error);
            ExitCode::FAILURE
        }
    }
}

fn print(text: &[u8]) -> anyhow::Result<()> {
    fd_writer::write_all(rustix::stdio::stdout(), text)
        .map_err(std::io::Error::from)
        .context("write error")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(given: &[&str], options_come_first: bool) -> (Vec<OsString>, Vec<OsString>) {
        let given = std::iter::once("zc-cat").chain(given.iter().copied());
        let divided = divide(given.map(OsString::from), options_come_first);
        let (mut options, operands) = divided.unwrap();
        assert_eq!(options.remove(0), "zc-cat");
        (options, operands)
    }

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn options_are_found_among_operands() {
        let (options, operands) = divided(&["a", "-u", "-", "--stable", "", "b"], false);
        assert_eq!(options, words(&["-u", "--stable"]));
        assert_eq!(operands, words(&["a", "-", "", "b"]));
    }

    #[test]
    fn two_dashes_end_the_options_and_are_no_operand() {
        let (options, operands) = divided(&["-u", "--", "-u", "--", "a"], false);
        assert_eq!(options, words(&["-u"]));
        assert_eq!(operands, words(&["-u", "--", "a"]));
    }

    #[test]
    fn where_posix_rules_the_first_operand_ends_the_options() {
        let (options, operands) = divided(&["-u", "-", "-u", "--"], true);
        assert_eq!(options, words(&["-u"]));
        assert_eq!(operands, words(&["-", "-u", "--"]));
        let (options, operands) = divided(&["-u", "--", "-u", "--"], true);
        assert_eq!(options, words(&["-u"]));
        assert_eq!(operands, words(&["-u", "--"]));
    }

    #[test]
    fn no_option_of_zc_cat_or_zc_yes_takes_an_argument_of_its_own() {
        for command in [command::<crate::cat::Args>(), command::<crate::yes::Args>()] {
            for option in command.get_arguments().filter(|arg| !arg.is_positional()) {
                let takes_value = option.get_action().takes_values();
                assert!(!takes_value || option.is_require_equals_set(), "{option}");
            }
        }
    }

    /// Asserts that a tool has `n_original` options of its original and those in `added`. Each
    /// abbreviation of the original's options must stay unambiguous beside the added ones.
    fn keeps_abbreviations(mut command: Command, n_original: usize, added: &[&str]) {
        command.build();
        let long = command.get_arguments().filter_map(|arg| arg.get_long());
        let (ours, theirs): (Vec<_>, Vec<_>) = long.partition(|long| added.contains(long));
        assert_eq!((theirs.len(), ours.len()), (n_original, added.len()));
        for &option in &theirs {
            for abbreviation in (1..option.len()).map(|end| &option[..end]) {
                let has_it = |long: &&&str| long.starts_with(abbreviation);
                if theirs.iter().filter(has_it).count() > 1 || !ours.iter().any(|o| has_it(&o)) {
                    continue;
                }
                let mut options = command.get_arguments();
                let original = options.find(|arg| arg.get_long() == Some(option));
                let aliases = original.and_then(clap::Arg::get_all_aliases);
                let is_alias = aliases.is_some_and(|aliases| aliases.contains(&abbreviation));
                assert!(is_alias, "--{abbreviation} is ambiguous beside {ours:?}");
            }
        }
    }

    #[test]
    fn options_of_our_own_leave_the_abbreviations_of_the_original_unambiguous() {
        let cat = [
            "color",
            "explain",
            "highlight",
            "stable",
            "strict",
            "timestamp",
            "timestamp-delta",
            "utc",
        ];
        keeps_abbreviations(command::<crate::cat::Args>(), 9, &cat);
        let tee = ["cache", "explain", "stable"];
        keeps_abbreviations(command::<crate::tee::Args>(), 5, &tee);
        keeps_abbreviations(command::<crate::yes::Args>(), 2, &["explain"]);
        let pv = [
            "every",
            "explain",
            "hash",
            "json",
            "on-progress",
            "per-file",
            "stable",
        ];
        keeps_abbreviations(command::<crate::pv::Args>(), 51, &pv);
    }

    #[test]
    fn a_command_line_without_anything_has_nothing() {
        let (options, operands) = divide([], false).unwrap();
        assert_eq!((options.len(), operands.len()), (0, 0));
    }
}
