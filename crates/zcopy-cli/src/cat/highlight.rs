//! Which stretches of a line are coloured, and how.

use std::ffi::OsStr;
use std::ops::Range;

use regex::bytes::{CaptureLocations, Regex};

use crate::quote;
use log::Log;
use style::{BadStyle, Style};

mod log;
pub mod style;
pub mod when;

/// What a rule cannot be made of.
#[derive(Debug, thiserror::Error)]
pub enum BadRule {
    /// There is no `=` in it.
    #[error("invalid highlight: {0}: neither PATTERN=STYLE nor log")]
    NoStyle(String),
    /// The pattern is not one.
    #[error("invalid pattern: {0}")]
    Pattern(String, #[source] Box<regex::Error>),
    /// The pattern, which would have to be text, is not.
    #[error("invalid pattern: {0}: not UTF-8")]
    NotText(String),
    /// The style is not one.
    #[error("invalid style: {0}")]
    Style(String, #[source] BadStyle),
}

/// Colours stretches of a line.
///
/// Each rule colours what its pattern matches, or, if that has groups, what they do. Where several match, the later rule has
/// its way. Nothing is changed, only the codes for a terminal are put in between, and each stretch ends with the one that
/// resets everything: a line that has brought colours of its own loses them there.
///
/// # Examples
///
/// ```
/// use zcopy_cli::cat::highlight::Paint;
///
/// let mut paint = Paint::new()
///     .rule(r"\w+=bold".as_ref())
///     .unwrap()
///     .rule(r"id=(\d+)=cyan".as_ref())
///     .unwrap();
/// let mut out = Vec::new();
/// let as_it_is = |bytes: &[u8], out: &mut Vec<u8>| {
///     out.extend_from_slice(bytes);
///     0
/// };
/// paint.put(b"-- id=17\n", as_it_is, &mut out);
/// assert_eq!(out, b"-- \x1b[1mid\x1b[0m=\x1b[36m17\x1b[0m\n");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Paint {
    log: Option<Log>,
    rules: Vec<Rule>,
    canvas: Canvas,
}

impl Paint {
    /// Colours nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the value of `--highlight`: a rule, or `log`.
    ///
    /// # Errors
    ///
    /// As [`Paint::rule`].
    pub fn option(self, value: &OsStr) -> Result<Self, BadRule> {
        if value == "log" {
            Ok(self.log())
        } else {
            self.rule(value)
        }
    }

    /// Colours what most logs have in common: the level, if it is an error, a warning or for debugging, and the time.
    ///
    /// Every rule comes after it, in whatever order they are given.
    #[must_use]
    pub fn log(mut self) -> Self {
        let canvas = &mut self.canvas;
        self.log.get_or_insert_with(|| Log::new(canvas));
        self
    }

    /// Colours by `PATTERN=STYLE`, where the last `=` is the one in between.
    ///
    /// # Errors
    ///
    /// [`BadRule`], if it is not a pattern or not a style.
    pub fn rule(mut self, rule: &OsStr) -> Result<Self, BadRule> {
        let quoted = || quote::argument(rule);
        let text = rule.to_str().ok_or_else(|| BadRule::NotText(quoted()))?;
        let (pattern, style) = text
            .rsplit_once('=')
            .ok_or_else(|| BadRule::NoStyle(quoted()))?;
        let style = style
            .parse()
            .map_err(|cause| BadRule::Style(quote::argument(style.as_ref()), cause))?;
        let regex = Regex::new(pattern).map_err(|cause| {
            BadRule::Pattern(quote::argument(pattern.as_ref()), Box::new(cause))
        })?;
        self.rules.push(Rule {
            groups: (regex.captures_len() > 1).then(|| regex.capture_locations()),
            regex,
            colour: self.canvas.mix(style),
        });
        Ok(self)
    }

    /// Puts a line, with colours, behind what is in `out`.
    ///
    /// Patterns see its content, without its end. What is put of a stretch is what `show` makes of it, and says how much of that stands
    /// before the content and is not coloured: a line number. It is shown every byte of the line, in order.
    pub fn put(
        &mut self,
        line: &[u8],
        show: impl FnMut(&[u8], &mut Vec<u8>) -> usize,
        out: &mut Vec<u8>,
    ) {
        let content = match line {
            [content @ .., b'\r', b'\n'] | [content @ .., b'\n'] => content,
            _ => line,
        };
        if let Some(log) = &self.log {
            log.lay(content, &mut self.canvas);
        }
        for rule in &mut self.rules {
            rule.lay(content, &mut self.canvas);
        }
        self.canvas.put(line, show, out);
    }
}

/// A pattern, and the colour of what it matches.
#[derive(Clone, Debug)]
struct Rule {
    regex: Regex,
    /// Where its groups matched, if it has any.
    groups: Option<CaptureLocations>,
    colour: Colour,
}

impl Rule {
    fn lay(&mut self, content: &[u8], canvas: &mut Canvas) {
        let Some(groups) = &mut self.groups else {
            for stretch in self.regex.find_iter(content) {
                canvas.lay(stretch.range(), self.colour);
            }
            return;
        };
        let mut from = 0;
        while from <= content.len()
            && let Some(whole) = self.regex.captures_read_at(groups, content, from)
        {
            for (start, end) in (1..groups.len()).filter_map(|group| groups.get(group)) {
                canvas.lay(start..end, self.colour);
            }
            from = whole.end() + usize::from(whole.is_empty());
        }
    }
}

/// A style that a canvas knows.
type Colour = u32;

/// Which byte of a line gets which style, until it is put.
#[derive(Clone, Debug, Default)]
struct Canvas {
    styles: Vec<Style>,
    /// For each byte up to the last coloured one 0, or one more than the place of its style.
    bytes: Vec<Colour>,
    /// What is shown of the stretch at hand.
    shown: Vec<u8>,
}

impl Canvas {
    fn mix(&mut self, style: Style) -> Colour {
        self.styles.push(style);
        // Each has come by an argument of its own, and arguments end at 2 MiB or 6.
        self.styles.len() as Colour
    }

    fn lay(&mut self, stretch: Range<usize>, colour: Colour) {
        if self.bytes.len() < stretch.end {
            self.bytes.resize(stretch.end, 0);
        }
        self.bytes[stretch].fill(colour);
    }

    /// Puts a line in its colours behind what is in `out`, and is blank again.
    fn put(
        &mut self,
        mut line: &[u8],
        mut show: impl FnMut(&[u8], &mut Vec<u8>) -> usize,
        out: &mut Vec<u8>,
    ) {
        for run in self.bytes.chunk_by(|one, next| one == next) {
            let (stretch, rest) = line.split_at(run.len());
            match run[0].checked_sub(1) {
                Some(style) => {
                    self.shown.clear();
                    let before = show(stretch, &mut self.shown);
                    let (before, content) = self.shown.split_at(before);
                    out.extend_from_slice(before);
                    self.styles[style as usize].put(content, out);
                }
                None => {
                    show(stretch, out);
                }
            }
            line = rest;
        }
        if !line.is_empty() {
            show(line, out);
        }
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests;
