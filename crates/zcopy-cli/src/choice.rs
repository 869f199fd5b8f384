//! Words out of a list, as values of options: taken and refused as gnulib's `argmatch` does it.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::marker::PhantomData;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

use crate::quote;

/// Something that a word stands for.
pub trait Choice: Copy + PartialEq + Send + Sync + 'static {
    /// The words, in the order in which they are listed, with what they stand for.
    const WORDS: &'static [(&'static str, Self)];

    /// A line that follows the list of words if this value is refused.
    #[must_use]
    fn hint(_refused: &OsStr) -> Option<&'static str> {
        None
    }
}

/// Takes a word for what it stands for; clap's own list of values knows no abbreviations.
#[derive(Clone, Copy, Debug)]
pub struct ChoiceParser<T>(PhantomData<T>);

/// The parser of an option whose value is one of `T`'s words.
///
/// # Examples
///
/// ```
/// use clap::builder::TypedValueParser as _;
/// use zcopy_cli::choice::{Choice, parser};
///
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// enum Answer {
///     Yes,
///     No,
/// }
///
/// impl Choice for Answer {
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
pub fn parser<T: Choice>() -> ChoiceParser<T> {
    ChoiceParser(PhantomData)
}

impl<T: Choice> TypedValueParser for ChoiceParser<T> {
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

/// Returns the choice that the word `value` of the long option `option` names.
///
/// # Errors
///
/// The message, if `value` names no choice or several.
pub(crate) fn parse<T: Choice>(value: &OsStr, option: &str) -> Result<T, String> {
    find(value).map_err(|refusal| message::<T>(refusal, value, option))
}

/// Takes any value, and lists words that completions suggest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suggestions(&'static [&'static str]);

/// The parser of an option whose value is checked later.
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

/// A word in full is taken at once; the beginning of one, if all that begin so mean the same.
fn find<T: Choice>(value: &OsStr) -> Result<T, Refusal> {
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

fn message<T: Choice>(refusal: Refusal, value: &OsStr, option: &str) -> String {
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
