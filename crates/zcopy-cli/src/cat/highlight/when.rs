//! [`ColorWhen`]: when to colour lines.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::choice::Choice;

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

impl Choice for ColorWhen {
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

/// Returns whether to colour lines.
///
/// With [`ColorWhen::Auto`] it returns true if standard output is a terminal, `NO_COLOR` is unset or
/// empty, and `TERM` is set to something other than `dumb`, as in GNU grep.
///
/// # Examples
///
/// ```
/// use zcopy_cli::cat::highlight::when::{ColorWhen, is_wanted};
///
/// let xterm = Some("xterm".as_ref());
/// assert!(is_wanted(ColorWhen::Auto, true, None, xterm));
/// assert!(!is_wanted(ColorWhen::Auto, false, None, xterm));
/// assert!(!is_wanted(ColorWhen::Auto, true, Some("1".as_ref()), xterm));
/// assert!(is_wanted(ColorWhen::Always, false, Some("1".as_ref()), None));
/// ```
///
/// # References
/// - <https://no-color.org>
#[must_use]
pub fn is_wanted(
    when: ColorWhen,
    is_terminal: bool,
    no_color: Option<&OsStr>,
    term: Option<&OsStr>,
) -> bool {
    match when {
        ColorWhen::Always => true,
        ColorWhen::Never => false,
        ColorWhen::Auto => {
            is_terminal
                && no_color.is_none_or(OsStr::is_empty)
                && term.is_some_and(|term| term != "dumb")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_colours_a_terminal_unless_no_color_or_term_forbids_it() {
        let xterm = Some("xterm");
        for (is_terminal, no_color, term, wanted) in [
            (true, None, xterm, true),
            (true, Some(""), xterm, true),
            (true, Some("0"), xterm, false),
            (true, None, Some("dumb"), false),
            (true, None, None, false),
            (false, None, xterm, false),
        ] {
            let is_wanted = |when| {
                is_wanted(
                    when,
                    is_terminal,
                    no_color.map(OsStr::new),
                    term.map(OsStr::new),
                )
            };
            let case = (is_terminal, no_color, term);
            assert_eq!(is_wanted(ColorWhen::Auto), wanted, "{case:?}");
            assert!(is_wanted(ColorWhen::Always), "{case:?}");
            assert!(!is_wanted(ColorWhen::Never), "{case:?}");
        }
    }
}
