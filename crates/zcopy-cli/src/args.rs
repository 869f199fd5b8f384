//! Arguments: what every tool takes, and usage errors as GNU words them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, ArgMatches, Args, Command, CommandFactory, Parser};

use crate::{exit, generate, outlet};

mod attached;

/// What every tool takes.
#[derive(Debug, Args)]
pub struct Common {
    /// Print how each input is going to be moved, and how it was, to standard error
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
}

/// The command line of a tool: what is parsed, and what its manual page and completions are made from.
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
/// The status to end with, when everything has been said: 0 after `--help` and `--version`, 1
/// after a usage error or if the help could not be written.
pub fn parse<T: Tool>() -> Result<T, ExitCode> {
    parse_as::<T>(1).map(|(args, _)| args)
}

/// Parses the command line as [`parse`] does, of a tool that takes any number of operands and has no option whose value
/// is an argument of its own: then what is an operand shows without parsing, and comes back beside the rest.
///
/// Of ten thousand operands clap makes seven milliseconds, several times what opening them costs.
///
/// # Errors
///
/// As [`parse`].
pub fn parse_beside_operands<T: Tool>() -> Result<(T, Vec<OsString>), ExitCode> {
    answer_generate::<T>(1)?;
    let (options, operands) = divide(std::env::args_os(), is_posixly_correct());
    if let Some(name) = options.first() {
        exit::was_called(name);
    }
    let (args, _) = parse_from::<T>(options, 1)?;
    Ok((args, operands))
}

/// Parses the command line as [`parse`] does, and gives what the order of options is told by too. A usage error
/// ends with the status `misuse`.
///
/// # Errors
///
/// As [`parse`].
pub fn parse_as<T: Tool>(misuse: u8) -> Result<(T, ArgMatches), ExitCode> {
    answer_generate::<T>(misuse)?;
    parse_from(std::env::args_os(), misuse)
}

/// Prints the manual page or the completions if that is what the command line asks for.
///
/// # Errors
///
/// The status to end with, if it does.
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
            exit::say(&message);
            exit::refer_to_help();
            Err(misuse.into())
        }
    }
}

/// Parses the command line as [`parse_as`] does, and takes `-N=x` for the value `=x` as
/// `getopt_long(3)` does, where clap's value is `x`.
///
/// # Errors
///
/// As [`parse`].
pub fn parse_with_equals_signs<T: Tool>(misuse: u8) -> Result<(T, ArgMatches), ExitCode> {
    answer_generate::<T>(misuse)?;
    let given =
        attached::keep_equals_signs(&command::<T>(), std::env::args_os(), is_posixly_correct());
    parse_from(given, misuse)
}

fn parse_from<T: Parser>(
    given: impl IntoIterator<Item = OsString>,
    misuse: u8,
) -> Result<(T, ArgMatches), ExitCode> {
    let mut command = command::<T>().bin_name(exit::program().to_string_lossy());
    if is_posixly_correct() {
        command = command.mut_args(|arg| {
            let is_operand = arg.is_positional();
            arg.trailing_var_arg(is_operand)
        });
    }
    let long: Vec<String> = command
        .get_arguments()
        .filter_map(|arg| arg.get_long().map(str::to_owned))
        .collect();
    command
        .try_get_matches_from_mut(given)
        .and_then(|matches| Ok((T::from_arg_matches(&matches)?, matches)))
        .map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp => finish(print_help(command)),
            _ => answer(&error, &long, misuse),
        })
}

/// Whether options end at the first operand.
fn is_posixly_correct() -> bool {
    std::env::var_os("POSIXLY_CORRECT").is_some()
}

/// Divides a command line into the program's name with the options, and the operands, as `getopt_long(3)` does
/// where no option's value is an argument of its own.
fn divide(
    given: impl IntoIterator<Item = OsString>,
    options_come_first: bool,
) -> (Vec<OsString>, Vec<OsString>) {
    let mut given = given.into_iter();
    let mut options: Vec<_> = given.by_ref().take(1).collect();
    let mut operands = Vec::new();
    for argument in given.by_ref() {
        let bytes = argument.as_bytes();
        if bytes == b"--" {
            break;
        }
        if bytes.starts_with(b"-") && bytes != b"-" {
            options.push(argument);
            continue;
        }
        operands.push(argument);
        if options_come_first {
            break;
        }
    }
    operands.extend(given);
    (options, operands)
}

/// Prints the help, wrapped to the width of the terminal, which only this asks for.
fn print_help(command: Command) -> anyhow::Result<()> {
    let help = command.term_width(help_width()).render_help();
    print(help.to_string().as_bytes())
}

/// How wide help may be: what COLUMNS says, or the terminal, up to 100 columns [default: 80].
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

/// Answers a command line that asks for the version or makes no sense.
fn answer(error: &clap::Error, long: &[String], misuse: u8) -> ExitCode {
    if error.kind() == ErrorKind::DisplayVersion {
        return finish(print(error.render().to_string().as_bytes()));
    }
    exit::say(&usage_error(error, long));
    exit::refer_to_help();
    misuse.into()
}

/// What is wrong with the command line, in the words of `getopt_long(3)`.
fn usage_error(error: &clap::Error, known: &[String]) -> String {
    // What a value's parser has worded itself.
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
            let given = as_given(argument);
            let meant: Vec<_> = known.iter().filter(|long| long.starts_with(name)).collect();
            if meant.len() < 2 {
                return format!("unrecognized option '{given}'");
            }
            let meant = meant.iter().map(|long| format!(" '--{long}'"));
            let meant: String = meant.collect();
            format!("option '{given}' is ambiguous; possibilities:{meant}")
        }
        (ErrorKind::UnknownArgument, None, Some(letter)) => format!("invalid option -- '{letter}'"),
        (ErrorKind::InvalidValue, ..) if lacks_value(error) => requires_an_argument(argument),
        (ErrorKind::NoEquals, Some(_), _) => {
            let name = argument.split('=').next().unwrap_or_default();
            format!("option '{name}' requires an argument")
        }
        (ErrorKind::TooManyValues, Some(_), _) => {
            format!("option '{argument}' doesn't allow an argument")
        }
        // clap names what is missing on a line of its own.
        (ErrorKind::MissingRequiredArgument, ..) => match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::Strings(missing)) => format!("{} expected", missing.join(", ")),
            _ => "an option is missing".to_owned(),
        },
        _ => {
            let rendered = error.render().to_string();
            let line = rendered.lines().next().unwrap_or_default();
            line.trim_start_matches("error: ").to_owned()
        }
    }
}

/// Whether the command line ends where a value should stand.
fn lacks_value(error: &clap::Error) -> bool {
    matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(value)) if value.is_empty())
}

/// As the option was written last: by its letter or in full.
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

/// The argument with the value that was given after `=`, which clap leaves out.
fn as_given(argument: &str) -> String {
    std::env::args_os()
        .map(|given| given.to_string_lossy().into_owned())
        .find(|given| given.split('=').next() == Some(argument))
        .unwrap_or_else(|| argument.to_owned())
}

/// The status to end with when all that was asked for has been printed, or could not be.
fn finish(printed: anyhow::Result<()>) -> ExitCode {
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            exit::complain(&error);
            ExitCode::FAILURE
        }
    }
}

fn print(text: &[u8]) -> anyhow::Result<()> {
    outlet::write_all(rustix::stdio::stdout(), text)
        .map_err(std::io::Error::from)
        .context("write error")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(given: &[&str], options_come_first: bool) -> (Vec<OsString>, Vec<OsString>) {
        let given = std::iter::once("zc-cat").chain(given.iter().copied());
        let (mut options, operands) = divide(given.map(OsString::from), options_come_first);
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
    fn no_option_of_zc_cat_takes_an_argument_of_its_own() {
        let command = command::<crate::cat::Args>();
        for option in command.get_arguments().filter(|arg| !arg.is_positional()) {
            let takes_value = option.get_action().takes_values();
            assert!(!takes_value || option.is_require_equals_set(), "{option}");
        }
    }

    #[test]
    fn a_command_line_without_anything_has_nothing() {
        let (options, operands) = divide([], false);
        assert_eq!((options.len(), operands.len()), (0, 0));
    }
}
