//! Where the display is shown besides the terminal's line.

use super::format::Format;

/// Where else the display is shown (`-x`).
#[derive(Clone, Debug)]
pub(crate) struct Extra {
    pub(crate) window: bool,
    pub(crate) process: bool,
    /// What is shown there, if not the same.
    pub(crate) format: Option<Format>,
}

impl Extra {
    /// Reads `window,process:FORMAT`; nothing if a word is none of those that are known.
    pub(crate) fn parse(spec: &str) -> Option<Self> {
        let (places, format) = match spec.split_once(':') {
            Some((places, format)) => (places, Some(Format::parse(format))),
            None => (spec, None),
        };
        let mut extra = Self {
            window: false,
            process: false,
            format,
        };
        for place in places.split(',') {
            match place {
                "window" | "windowtitle" => extra.window = true,
                "process" | "processtitle" | "proc" | "proctitle" => extra.process = true,
                _ => return None,
            }
        }
        Some(extra)
    }

    /// Whether somebody has to see the bytes for it.
    pub(crate) fn needs_bytes(&self) -> bool {
        self.format.as_ref().is_some_and(Format::needs_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::Extra;

    #[test]
    fn every_name_of_a_place_is_known_and_no_other() {
        for (spec, expected) in [
            ("window", Some((true, false, false))),
            ("windowtitle", Some((true, false, false))),
            ("proc,window", Some((true, true, false))),
            ("processtitle:%t", Some((false, true, true))),
            ("process,proctitle:a:b", Some((false, true, true))),
            ("windows", None),
            ("", None),
            ("window,", None),
        ] {
            let found = Extra::parse(spec);
            let found = found.map(|x| (x.window, x.process, x.format.is_some()));
            assert_eq!(found, expected, "{spec}");
        }
    }
}
