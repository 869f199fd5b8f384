//! [`Highlighter`]: colours the parts of a line that match patterns.

use std::ffi::{OsStr, OsString};
use std::ops::Range;

use regex::bytes::{CaptureLocations, Regex};

use crate::common::cli::value::invalid;
use log::Log;
use style::{Style, StyleError};

mod log;
pub mod style;
pub mod when;

/// The value of `--highlight` is invalid.
#[derive(Debug, thiserror::Error)]
pub enum RuleError {
    /// It contains no `=`.
    #[error("{}: neither PATTERN=STYLE nor log", invalid("highlight", .0))]
    NoStyle(OsString),
    /// The regular expression is invalid.
    #[error("{}", invalid("pattern", .0))]
    Pattern(OsString, #[source] Box<regex::Error>),
    /// The pattern is not UTF-8.
    #[error("{}: not UTF-8", invalid("pattern", .0))]
    NotText(OsString),
    /// The style is invalid.
    #[error("{}", invalid("style", .0))]
    Style(OsString, #[source] StyleError),
}

/// Colours parts of a line by escape sequences for a terminal.
///
/// Each rule colours the matches of its pattern, or, if the pattern has groups, those of the
/// groups. Where several rules match, the last one applies. Each coloured part ends with the
/// sequence that resets all attributes, so that colours in the line itself end there, too.
///
/// # Examples
///
/// ```
/// use zcopy_cli::cat::highlight::Highlighter;
///
/// let mut highlighter = Highlighter::new()
///     .rule(r"\w+=bold".as_ref())
///     .unwrap()
///     .rule(r"id=(\d+)=cyan".as_ref())
///     .unwrap();
/// let mut out = Vec::new();
/// let unformatted = |bytes: &[u8], out: &mut Vec<u8>| {
///     out.extend_from_slice(bytes);
///     0
/// };
/// highlighter.push(b"-- id=17\n", unformatted, &mut out);
/// assert_eq!(out, b"-- \x1b[1mid\x1b[0m=\x1b[36m17\x1b[0m\n");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Highlighter {
    log: Option<Log>,
    rules: Vec<Rule>,
    styles: StyleMap,
}

impl Highlighter {
    /// Returns one without rules.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the value of `--highlight`: a rule, or `log`.
    ///
    /// # Errors
    ///
    /// Those of [`rule`](Self::rule).
    pub fn spec(self, spec: &OsStr) -> Result<Self, RuleError> {
        if spec == "log" {
            Ok(self.log())
        } else {
            self.rule(spec)
        }
    }

    /// Adds the rules for logs: they colour the time, and the level of errors, warnings and
    /// debugging messages. All other rules override these, wherever they are added.
    #[must_use]
    pub fn log(mut self) -> Self {
        let styles = &mut self.styles;
        self.log.get_or_insert_with(|| Log::new(styles));
        self
    }

    /// Adds a rule `PATTERN=STYLE`, which is split at the last `=`.
    ///
    /// # Errors
    ///
    /// The rule has no `=`, or its pattern or style is invalid.
    pub fn rule(mut self, rule: &OsStr) -> Result<Self, RuleError> {
        let text = rule
            .to_str()
            .ok_or_else(|| RuleError::NotText(rule.into()))?;
        let (pattern, style) = text
            .rsplit_once('=')
            .ok_or_else(|| RuleError::NoStyle(rule.into()))?;
        let style = style
            .parse()
            .map_err(|cause| RuleError::Style(style.into(), cause))?;
        let regex = Regex::new(pattern)
            .map_err(|cause| RuleError::Pattern(pattern.into(), Box::new(cause)))?;
        self.rules.push(Rule {
            groups: (regex.captures_len() > 1).then(|| regex.capture_locations()),
            regex,
            style: self.styles.add(style),
        });
        Ok(self)
    }

    /// Appends a coloured line to `out`.
    ///
    /// Patterns match the content of the line, without its end. `format` appends the line, and
    /// returns the length of the line number that it appended first: a number is not coloured.
    pub fn push(
        &mut self,
        line: &[u8],
        format: impl FnMut(&[u8], &mut Vec<u8>) -> usize,
        out: &mut Vec<u8>,
    ) {
        let content = match line {
            [content @ .., b'\r', b'\n'] | [content @ .., b'\n'] => content,
            _ => line,
        };
        if let Some(log) = &self.log {
            log.mark(content, &mut self.styles);
        }
        for rule in &mut self.rules {
            rule.mark(content, &mut self.styles);
        }
        self.styles.push(line, format, out);
    }
}

/// A pattern, and the style of its matches.
#[derive(Clone, Debug)]
struct Rule {
    regex: Regex,
    /// The space for the matches of its groups, if it has any.
    groups: Option<CaptureLocations>,
    style: StyleId,
}

impl Rule {
    fn mark(&mut self, content: &[u8], styles: &mut StyleMap) {
        let Some(groups) = &mut self.groups else {
            for found in self.regex.find_iter(content) {
                styles.mark(found.range(), self.style);
            }
            return;
        };
        let mut from = 0;
        while from <= content.len()
            && let Some(whole) = self.regex.captures_read_at(groups, content, from)
        {
            for (start, end) in (1..groups.len()).filter_map(|group| groups.get(group)) {
                styles.mark(start..end, self.style);
            }
            from = whole.end() + usize::from(whole.is_empty());
        }
    }
}

/// A style of a [`StyleMap`]: its index plus one, and 0 for none.
type StyleId = u32;

/// The style of each byte of a line.
#[derive(Clone, Debug, Default)]
struct StyleMap {
    styles: Vec<Style>,
    /// One for each byte up to the last one with a style.
    bytes: Vec<StyleId>,
    /// The formatted bytes of one coloured part.
    formatted: Vec<u8>,
}

impl StyleMap {
    fn add(&mut self, style: Style) -> StyleId {
        self.styles.push(style);
        // Each style is an argument, and all arguments are shorter than 6 MiB.
        self.styles.len() as StyleId
    }

    fn mark(&mut self, range: Range<usize>, style: StyleId) {
        if self.bytes.len() < range.end {
            self.bytes.resize(range.end, 0);
        }
        self.bytes[range].fill(style);
    }

    /// Appends a line in its styles to `out`, and clears the map.
    fn push(
        &mut self,
        mut line: &[u8],
        mut format: impl FnMut(&[u8], &mut Vec<u8>) -> usize,
        out: &mut Vec<u8>,
    ) {
        for run in self.bytes.chunk_by(|one, next| one == next) {
            let (part, rest) = line.split_at(run.len());
            match run[0].checked_sub(1) {
                Some(style) => {
                    self.formatted.clear();
                    let number_len = format(part, &mut self.formatted);
                    let (number, content) = self.formatted.split_at(number_len);
                    out.extend_from_slice(number);
                    self.styles[style as usize].push(content, out);
                }
                None => {
                    format(part, out);
                }
            }
            line = rest;
        }
        if !line.is_empty() {
            format(line, out);
        }
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests;
