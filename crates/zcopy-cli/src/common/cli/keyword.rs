//! Option values that are keywords. Abbreviations and messages are those of gnulib's `argmatch`.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::marker::PhantomData;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

use crate::common::cli::quote;

/// A type whose values have keywords.
pub trait Keyword: Copy + PartialEq + Send + Sync + 'static {
    /// The keywords with their values, in the order of the help.
    const WORDS: &'static [(&'static str, Self)];

    /// Returns a line to add below the list of keywords if this value is refused.
    #[must_use]
    fn hint(_refused: &OsStr) -> Option<&'static str> {
        None
    }
}

/// Parser of a keyword. Unlike clap's own list of values, it accepts abbreviations.
#[derive(Clone, Copy, Debug)]
pub struct KeywordParser<T>(PhantomData<T>);

/// Returns the parser of an option whose value is one of `T`'s keywords.
///
/// # Examples
///
/// ```
/// use clap::builder::TypedValueParser as _;
/// use zcopy_cli::common::cli::keyword::{Keyword, parser};
///
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// enum Answer {
///     Yes,
///     No,
/// }
///
/// impl Keyword for Answer {
///     const WORDS: &'static [(&'static str, Self)] = &[("yes", Answer::Yes), ("no", Answer::No)];
/// }
///
/// let answer = |word: &str| parser::<Answer>().parse_ref(&clap::Command::new("ask"), None, word.as_ref());
/// assert_eq!(answer("yes").unwrap(), Answer::Yes);
/// assert_eq!(answer("n").unwrap(), Answer::No);
/// assert!(answer("").is_err(), "it could be either");
/// assert!(answer("never").is_err());
/// ```
#[must_use]
pub fn parser<T: Keyword>() -> KeywordParser<T> {
    KeywordParser(PhantomData)
}

impl<T: Keyword> TypedValueParser for KeywordParser<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &Command,
        option: Option<&Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        let option = option.and_then(Arg::get_long).unwrap_or_default();
        parse(value, option).map_err(|message| {
            let mut error = clap::Error::new(ErrorKind::ValueValidation).with_cmd(command);
            error.insert(ContextKind::Custom, ContextValue::String(message));
            error
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let is_synonym = |i: usize| {
            T::WORDS[..i]
                .iter()
                .any(|(_, value)| *value == T::WORDS[i].1)
        };
        let words = T::WORDS.iter().enumerate();
        Some(Box::new(words.map(move |(i, (word, _))| {
            PossibleValue::new(*word).hide(is_synonym(i))
        })))
    }
}

/// Returns what the keyword `value` of the long option `option` stands for.
///
/// # Errors
///
/// Returns the message if `value` is no keyword or is ambiguous.
pub(crate) fn parse<T: Keyword>(value: &OsStr, option: &str) -> Result<T, String> {
    find(value).map_err(|refusal| message::<T>(refusal, value, option))
}

/// Parser that accepts any value, and lists words for completions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suggestions(&'static [&'static str]);

/// Returns the parser of an option whose value is checked later.
pub(crate) fn suggest(words: &'static [&'static str]) -> Suggestions {
    Suggestions(words)
}

impl TypedValueParser for Suggestions {
    type Value = OsString;

    fn parse_ref(
        &self,
        _: &Command,
        _: Option<&Arg>,
        value: &OsStr,
    ) -> Result<OsString, clap::Error> {
        Ok(value.to_owned())
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(PossibleValue::new)))
    }
}

/// The reason why a word is refused.
#[derive(Clone, Copy, Debug)]
enum Refusal {
    Invalid,
    Ambiguous,
}

/// Finds the keyword: a whole word, or an abbreviation if all words that begin with it have the
/// same value.
fn find<T: Keyword>(value: &OsStr) -> Result<T, Refusal> {
    let value = value.to_str().ok_or(Refusal::Invalid)?;
    if let Some((_, exact)) = T::WORDS.iter().find(|(word, _)| *word == value) {
        return Ok(*exact);
    }
    let mut meant = T::WORDS.iter().filter(|(word, _)| word.starts_with(value));
    let (_, first) = meant.next().ok_or(Refusal::Invalid)?;
    if meant.all(|(_, other)| other == first) {
        Ok(*first)
    } else {
        Err(Refusal::Ambiguous)
    }
}

fn message<T: Keyword>(refusal: Refusal, value: &OsStr, option: &str) -> String {
    let refusal = match refusal {
        Refusal::Invalid => "invalid",
        Refusal::Ambiguous => "ambiguous",
    };
    let option = format!("--{option}");
    let mut message = format!(
        "{refusal} argument {} for {}\nValid arguments are:",
        quote::argument(value),
        quote::argument(option.as_ref())
    );
    for (word, _) in T::WORDS {
        // Writing to a string cannot fail.
        let _ = write!(message, "\n  - {}", quote::argument(word.as_ref()));
    }
    if let Some(hint) = T::hint(value) {
        message.push('\n');
        message.push_str(hint);
    }
    message
}
