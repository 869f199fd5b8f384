//! Option values that are not keywords, and messages about invalid ones in the wording of GNU
//! tools.

use std::ffi::OsStr;

use clap::builder::TypedValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

use crate::common::cli::quote;

/// Returns the message about an invalid value: `invalid number of bytes: ‘x’`.
pub(crate) fn invalid(what: &str, value: &OsStr) -> String {
    format!("invalid {what}: {}", quote::argument(value))
}

/// Parser of a value by a function that returns `None` for invalid ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueParser<T> {
    what: &'static str,
    range: &'static str,
    parse: fn(&str) -> Option<T>,
}

/// Returns the parser of an option. Messages call its value `what`, and add the valid range.
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
