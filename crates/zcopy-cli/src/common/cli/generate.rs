//! Manual pages and shell completions, made from the definition that parses the command line.

use std::ffi::OsString;
use std::io;

use clap::{Command, ValueHint};
use clap_complete::Shell;

use crate::common::cli::keyword::{self, Keyword};

mod bash;
mod fish;
mod man;
mod zsh;

/// A format that a program can generate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A manual page.
    Man,
    /// Completions for a shell.
    Completions(Shell),
}

impl Keyword for Format {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("man", Format::Man),
        ("bash", Format::Completions(Shell::Bash)),
        ("zsh", Format::Completions(Shell::Zsh)),
        ("fish", Format::Completions(Shell::Fish)),
        ("elvish", Format::Completions(Shell::Elvish)),
        ("powershell", Format::Completions(Shell::PowerShell)),
    ];
}

/// Returns the format that a command line of `--generate FORMAT` alone asks for.
///
/// The help does not list the option, and clap does not know it: it would make abbreviations of
/// other options ambiguous, such as `--g` of `zc-pv`.
///
/// # Errors
///
/// Returns the usage error if FORMAT is missing or unknown.
pub(crate) fn requested(
    mut arguments: impl Iterator<Item = OsString>,
) -> Result<Option<Format>, String> {
    let Some(option) = arguments.by_ref().nth(1) else {
        return Ok(None);
    };
    let Some(attached) = option
        .to_str()
        .and_then(|option| option.strip_prefix("--generate"))
    else {
        return Ok(None);
    };
    let format = match attached.strip_prefix('=') {
        Some(format) => format.into(),
        None if attached.is_empty() => arguments
            .next()
            .ok_or("option '--generate' requires an argument")?,
        None => return Ok(None),
    };
    if arguments.next().is_some() {
        return Ok(None);
    }
    keyword::parse(&format, "generate").map(Some)
}

/// Makes the manual page or the completions of a program. `manual` holds the sections of the page
/// that do not follow from the command line.
///
/// # Errors
///
/// None is known: all output goes to memory.
// Out of line, so that the programs start as fast as without this function.
#[cold]
#[inline(never)]
pub(crate) fn generate(command: Command, manual: &str, format: Format) -> io::Result<Vec<u8>> {
    match format {
        Format::Man => {
            let mut command = command;
            command.build();
            Ok(man::page(&command, manual).into_bytes())
        }
        Format::Completions(shell) => {
            let mut command = with_hints(command);
            command.build();
            Ok(match shell {
                Shell::Bash => bash::script(&command).into_bytes(),
                Shell::Zsh => {
                    zsh::correct(&command, &clap_complete_script(shell, &command)?).into_bytes()
                }
                Shell::Fish => {
                    fish::correct(&command, &clap_complete_script(shell, &command)?).into_bytes()
                }
                _ => clap_complete_script(shell, &command)?.into_bytes(),
            })
        }
    }
}

/// Returns the completions that `clap_complete` makes.
fn clap_complete_script(shell: Shell, command: &Command) -> io::Result<String> {
    let mut script = Vec::new();
    let mut command = command.clone();
    let name = command.get_name().to_owned();
    clap_complete::generate(shell, &mut command, name, &mut script);
    String::from_utf8(script).map_err(io::Error::other)
}

/// Returns the command with a hint for every value: a value without a hint is not completed with
/// file names.
fn with_hints(command: Command) -> Command {
    command.mut_args(|arg| {
        let is_unknown =
            arg.get_action().takes_values() && arg.get_value_hint() == ValueHint::Unknown;
        if is_unknown {
            arg.value_hint(ValueHint::Other)
        } else {
            arg
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested_by(arguments: &[&str]) -> Result<Option<Format>, String> {
        let arguments = std::iter::once("zc-pv").chain(arguments.iter().copied());
        requested(arguments.map(OsString::from))
    }

    #[test]
    fn a_format_is_attached_or_the_next_argument() {
        assert_eq!(requested_by(&["--generate", "man"]), Ok(Some(Format::Man)));
        assert_eq!(
            requested_by(&["--generate=fish"]),
            Ok(Some(Format::Completions(Shell::Fish)))
        );
    }

    #[test]
    fn any_other_command_line_is_left_to_the_parser() {
        for arguments in [
            &[][..],
            &["--g"],
            &["--generated"],
            &["a", "--generate", "man"],
            &["--", "--generate", "man"],
            &["--generate", "man", "a"],
        ] {
            assert_eq!(requested_by(arguments), Ok(None), "{arguments:?}");
        }
    }

    #[test]
    fn a_wrong_format_is_refused_with_the_valid_ones() {
        assert_eq!(
            requested_by(&["--generate"]),
            Err("option '--generate' requires an argument".to_owned())
        );
        let error = requested_by(&["--generate=tcsh"]).unwrap_err();
        assert!(error.contains("zsh"), "{error}");
    }
}
