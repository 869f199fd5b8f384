//! Arguments: what every tool takes, and usage errors as GNU words them.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, ArgMatches, Args, Command, CommandFactory, Parser};

use crate::exit;

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
pub fn parse<T: Parser>() -> Result<T, ExitCode> {
    parse_as::<T>(1).map(|(args, _)| args)
}

/// Parses the command line as [`parse`] does, and gives what the order of options is told by too. A usage error
/// ends with the status `misuse`.
///
/// # Errors
///
/// As [`parse`].
pub fn parse_as<T: Parser>(misuse: u8) -> Result<(T, ArgMatches), ExitCode> {
    let mut command = command::<T>().bin_name(exit::program().to_string_lossy());
    if std::env::var_os("POSIXLY_CORRECT").is_some() {
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
        .try_get_matches()
        .and_then(|matches| Ok((T::from_arg_matches(&matches)?, matches)))
        .map_err(|error| answer(&error, &long, misuse))
}

/// Answers a command line that asks for nothing else to be done.
fn answer(error: &clap::Error, long: &[String], misuse: u8) -> ExitCode {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        return match print(&error.render().to_string()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                exit::complain(&error);
                ExitCode::FAILURE
            }
        };
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

fn print(text: &str) -> anyhow::Result<()> {
    let stdout = rustix::stdio::stdout();
    let mut left = text.as_bytes();
    // Not by `std::io::stdout`, to which a closed descriptor is as good as `/dev/null`.
    while !left.is_empty() {
        let n = rustix::io::retry_on_intr(|| rustix::io::write(stdout, left))
            .map_err(std::io::Error::from)
            .context("write error")?;
        left = &left[n..];
    }
    Ok(())
}
