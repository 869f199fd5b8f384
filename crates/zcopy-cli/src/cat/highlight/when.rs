//! [`ColorWhen`]: when to colour lines.

use crate::common::terminal::capabilities::Capabilities;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::common::cli::keyword::Keyword;

/// When to colour lines: the words of GNU's `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColorWhen {
    /// If standard output is a terminal with colours.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Keyword for ColorWhen {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("always", Self::Always),
        ("yes", Self::Always),
        ("force", Self::Always),
        ("never", Self::Never),
        ("no", Self::Never),
        ("none", Self::Never),
        ("auto", Self::Auto),
        ("tty", Self::Auto),
        ("if-tty", Self::Auto),
    ];

    fn hint(refused: &OsStr) -> Option<&'static str> {
        let is_highlight = refused == "log" || refused.as_bytes().contains(&b'=');
        is_highlight.then_some("Patterns and log are arguments of --highlight")
    }
}

impl ColorWhen {
    /// Returns whether to colour lines: with [`ColorWhen::Auto`], whether standard output is a
    /// terminal that has colours.
    #[must_use]
    pub fn is_wanted(self, is_terminal: bool, capabilities: Capabilities) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => is_terminal && capabilities.colour,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_colours_a_terminal_that_has_colours() {
        for (is_terminal, colour) in [(true, true), (true, false), (false, true)] {
            let capabilities = Capabilities {
                utf8: true,
                colour,
                sequences: true,
            };
            let is_wanted = |when: ColorWhen| when.is_wanted(is_terminal, capabilities);
            assert_eq!(is_wanted(ColorWhen::Auto), is_terminal && colour);
            assert!(is_wanted(ColorWhen::Always));
            assert!(!is_wanted(ColorWhen::Never));
        }
    }
}
