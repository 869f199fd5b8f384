//! The window title and the process title, as further places for the display (`-x`).

use crate::pv::display::format::Format;

/// The further places of the display (`-x`).
#[derive(Clone, Debug)]
pub(crate) struct ExtraDisplay {
    pub(crate) window: bool,
    pub(crate) process: bool,
    /// The format, if one was given.
    format: Option<Format>,
}

impl ExtraDisplay {
    /// Parses `window,process:FORMAT`. Returns `None` if a word is unknown.
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

    /// Returns the format of the titles, or `default` if none was given.
    pub(crate) fn format<'f>(&'f self, default: &'f Format) -> &'f Format {
        self.format.as_ref().unwrap_or(default)
    }
}

#[cfg(test)]
mod tests {
    use super::ExtraDisplay;

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
            let found = ExtraDisplay::parse(spec);
            let found = found.map(|x| (x.window, x.process, x.format.is_some()));
            assert_eq!(found, expected, "{spec}");
        }
    }
}
