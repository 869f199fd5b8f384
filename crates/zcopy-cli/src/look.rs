//! What may be shown: characters beyond ASCII, colours, sequences at all.

use std::ffi::OsString;

/// What the environment says of the terminal and of the user's taste.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "they are independent facts")]
pub struct Look {
    /// Whether characters beyond ASCII are understood.
    pub utf8: bool,
    /// Whether the terminal has colours, and the user wants them.
    pub colour: bool,
    /// Whether the terminal understands more than text and carriage returns.
    pub sequences: bool,
}

impl Look {
    /// What this process's environment says.
    #[must_use]
    pub fn of_environment() -> Self {
        Self::of(|name| std::env::var_os(name))
    }

    /// What some variables say: `LC_ALL`, `LC_CTYPE` and `LANG` of characters, the first that is set; `TERM`
    /// of sequences; `NO_COLOR` of colours (<https://no-color.org>).
    pub fn of(variable: impl Fn(&str) -> Option<OsString>) -> Self {
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
    use super::Look;

    fn of(variables: &[(&str, &str)]) -> Look {
        Look::of(|name| {
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
            let look = of(variables);
            assert_eq!(
                (look.colour, look.sequences),
                (colour, sequences),
                "{variables:?}"
            );
        }
    }
}
