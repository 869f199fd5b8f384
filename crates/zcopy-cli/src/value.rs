//! Values of options that are no words out of a list: taken, and refused in the words of GNU's tools.

use std::ffi::OsStr;

use clap::builder::TypedValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

use crate::quote;

/// Returns the message about a value that is refused: `invalid number of bytes: ‘x’`.
pub(crate) fn invalid(what: &str, value: &OsStr) -> String {
    format!("invalid {what}: {}", quote::argument(value))
}

/// Takes a value by a function that refuses it by returning `None`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueParser<T> {
    what: &'static str,
    range: &'static str,
    parse: fn(&str) -> Option<T>,
}

/// The parser of an option whose value is called `what` in messages, which add the range that it has to be in.
pub(crate) fn parser<T>(
    what: &'static str,
    range: &'static str,
    parse: fn(&str) -> Option<T>,
) -> ValueParser<T> {
    ValueParser { what, range, parse }
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for ValueParser<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &Command,
        _option: Option<&Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        value.to_str().and_then(self.parse).ok_or_else(|| {
            let message = format!("{}: {}", invalid(self.what, value), self.range);
            let mut error = clap::Error::new(ErrorKind::ValueValidation).with_cmd(command);
            error.insert(ContextKind::Custom, ContextValue::String(message));
            error
        })
    }
}
