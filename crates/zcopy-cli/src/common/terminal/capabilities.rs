//! The capabilities of the terminal: characters beyond ASCII, colours, control sequences.

use std::ffi::OsString;

/// The capabilities that the environment gives, and the user's preferences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "they are independent facts")]
pub struct Capabilities {
    /// Whether the terminal can show characters beyond ASCII.
    pub utf8: bool,
    /// Whether the terminal has colours, and the user wants them.
    pub colour: bool,
    /// Whether the terminal interprets more than text and carriage returns.
    pub sequences: bool,
}

impl Capabilities {
    /// Reads the capabilities from the environment of this process.
    #[must_use]
    pub fn from_env() -> Self {
        Self::from_variables(|name| std::env::var_os(name))
    }

    /// Reads the capabilities from variables: characters from the first of `LC_ALL`, `LC_CTYPE` and
    /// `LANG` that is set, sequences from `TERM`, and colours from `NO_COLOR`
    /// (<https://no-color.org>).
    pub fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let variable = |name| variable(name).filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(variable)
            .map(|locale| locale.to_string_lossy().to_ascii_lowercase());
        let utf8 = locale.is_some_and(|locale| locale.contains("utf-8") || locale.contains("utf8"));
        let sequences = variable("TERM").is_some_and(|terminal| terminal != "dumb");
        Self {
            utf8,
            colour: sequences && variable("NO_COLOR").is_none(),
            sequences,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Capabilities;

    fn of(variables: &[(&str, &str)]) -> Capabilities {
        Capabilities::from_variables(|name| {
            let variable = variables.iter().find(|(known, _)| *known == name);
            variable.map(|(_, value)| value.into())
        })
    }

    #[test]
    fn the_first_variable_of_the_locale_that_is_set_decides() {
        for (variables, expected) in [
            (&[][..], false),
            (&[("LANG", "en_GB.UTF-8")], true),
            (&[("LANG", "de_DE.utf8@euro")], true),
            (&[("LC_ALL", "C"), ("LANG", "en_GB.UTF-8")], false),
            (&[("LC_ALL", ""), ("LC_CTYPE", "C.UTF-8")], true),
            (&[("LC_CTYPE", "C.UTF-8"), ("LANG", "C")], true),
        ] {
            assert_eq!(of(variables).utf8, expected, "{variables:?}");
        }
    }

    #[test]
    fn colours_need_a_terminal_that_has_them_and_nobody_who_minds() {
        for (variables, colour, sequences) in [
            (&[][..], false, false),
            (&[("TERM", "dumb")], false, false),
            (&[("TERM", "xterm-256color")], true, true),
            (&[("TERM", "xterm"), ("NO_COLOR", "1")], false, true),
            (&[("TERM", "xterm"), ("NO_COLOR", "")], true, true),
        ] {
            let capabilities = of(variables);
            assert_eq!(
                (capabilities.colour, capabilities.sequences),
                (colour, sequences),
                "{variables:?}"
            );
        }
    }
}
