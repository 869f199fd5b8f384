//! The format of a line, parsed from a format string or made from the switches.

use serde::{Deserialize, Serialize};

use crate::pv::display::bar::BarStyle;
use colour::codes;

mod colour;

/// The format of a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Format {
    /// The segments, in order.
    pub segments: Vec<Segment>,
    /// The way in which the segments form a line.
    pub layout: Layout,
}

/// The way in which segments form a line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Layout {
    /// Concatenated, in the width of the terminal, as a format string gives them.
    Written,
    /// Separated by blanks, in the width of the terminal. If the total is unknown, the segments
    /// that need it are left out.
    Joined,
    /// Concatenated, as bare numbers of any width.
    Numeric,
}

/// One segment of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum Segment {
    /// Literal text.
    Literal(String),
    /// The name, in nine columns or more, and a colon: `%N`.
    Name,
    /// The amount moved: `%b`.
    Bytes,
    /// The share of the buffer that is in use: `%T`.
    Buffer,
    /// The elapsed time: `%t`.
    Timer,
    /// The current rate: `%r`.
    Rate,
    /// The average rate: `%a`.
    AverageRate,
    /// A bar with brackets and its amount: `%p`. Without a width it fills the line.
    Progress(Option<usize>),
    /// A bar alone, in the style of the options or its own: `%{progress-bar-only}`, `%{bar-block}`.
    Bar(Option<BarStyle>, Option<usize>),
    /// The amount after a bar: `%{progress-amount-only}`.
    Amount,
    /// The progress in the terminal's tab: `%{progress-conemu}`.
    Tab,
    /// The time left: `%e`.
    Eta,
    /// The time of finish: `%I`.
    Finish,
    /// The amount that the other side has moved for each byte of this one: `%{ratio}`.
    Ratio,
    /// This number of the last bytes written: `%16A`.
    Tail(usize),
    /// This number of columns of the most recent line, or as many as there are: `%40L`.
    Line(Option<usize>),
    /// Colours and attributes, as codes separated by semicolons: `%{sgr:red,bold}`.
    Colour(String),
}

/// The switches that select what is shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "they are the switches of the command line, each independent of the others"
)]
pub struct Switches {
    /// `-p`.
    pub progress: bool,
    /// `-t`.
    pub timer: bool,
    /// `-e`.
    pub eta: bool,
    /// `-I`.
    pub finish: bool,
    /// `-r`.
    pub rate: bool,
    /// `-a`.
    pub average: bool,
    /// `-b`.
    pub bytes: bool,
    /// `-T`.
    pub buffer: bool,
    /// `-A`.
    pub tail: Option<usize>,
    /// `-9`.
    pub tab: bool,
    /// Whether `-N` gives a name.
    pub name: bool,
    /// The ratio to the other side of a command, for the output side of `-M both`.
    pub ratio: bool,
}

impl Switches {
    /// Returns the default switches: `-pterb`.
    #[must_use]
    pub fn by_default() -> Self {
        Self {
            progress: true,
            timer: true,
            eta: true,
            rate: true,
            bytes: true,
            ..Self::default()
        }
    }

    /// Returns whether no switch selects anything. A name and a tab do not count, because they add
    /// to the default.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        let plain = Self {
            name: false,
            tab: false,
            ratio: false,
            ..self.clone()
        };
        plain == Self::default()
    }
}

impl Format {
    /// Parses a format string. Text that is not a sequence is literal.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::pv::display::format::{Format, Segment};
    ///
    /// let format = Format::parse("%b of %20p, 100%% %z");
    /// assert_eq!(format.segments, [
    ///     Segment::Bytes,
    ///     Segment::Literal(" of ".into()),
    ///     Segment::Progress(Some(20)),
    ///     Segment::Literal(", 100% %z".into()),
    /// ]);
    /// ```
    #[must_use]
    pub fn parse(format: &str) -> Self {
        let mut segments = Vec::new();
        let mut literal = String::new();
        let mut rest = format;
        while let Some(c) = rest.chars().next() {
            let (text, end) = match sequence(rest) {
                Some((Segment::Literal(text), end)) => (text, end),
                Some((segment, end)) => {
                    if !literal.is_empty() {
                        segments.push(Segment::Literal(std::mem::take(&mut literal)));
                    }
                    segments.push(segment);
                    (String::new(), end)
                }
                None => (c.to_string(), c.len_utf8()),
            };
            literal.push_str(&text);
            rest = &rest[end..];
        }
        if !literal.is_empty() {
            segments.push(Segment::Literal(literal));
        }
        Self {
            segments,
            layout: Layout::Written,
        }
    }

    /// Creates the format that the switches select: name, bytes, buffer, timer, rates, bar, times,
    /// last bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::pv::display::format::{Format, Segment, Switches};
    ///
    /// let format = Format::from_switches(&Switches::by_default());
    /// assert_eq!(format.segments, [Segment::Bytes, Segment::Timer, Segment::Rate, Segment::Progress(None), Segment::Eta]);
    /// ```
    #[must_use]
    pub fn from_switches(switches: &Switches) -> Self {
        let segments = [
            (switches.name, Segment::Name),
            (switches.bytes, Segment::Bytes),
            (switches.buffer, Segment::Buffer),
            (switches.timer, Segment::Timer),
            (switches.rate, Segment::Rate),
            (switches.average, Segment::AverageRate),
            (switches.progress, Segment::Progress(None)),
            (switches.eta, Segment::Eta),
            (switches.finish, Segment::Finish),
            (
                switches.tail.is_some(),
                Segment::Tail(switches.tail.unwrap_or(0)),
            ),
            (switches.tab, Segment::Tab),
            (switches.ratio, Segment::Ratio),
        ];
        Self {
            segments: chosen(segments),
            layout: Layout::Joined,
        }
    }

    /// Creates the format of `-n`: the selected ones of seconds, amount and rate, and the
    /// percentage if neither amount nor rate is selected.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::pv::display::format::{Format, Switches};
    ///
    /// let timer = Switches { timer: true, ..Switches::default() };
    /// assert_eq!(Format::numeric(&timer), Format::parse("%t %{progress-amount-only}").in_numbers());
    /// ```
    #[must_use]
    pub fn numeric(switches: &Switches) -> Self {
        let segments = [
            (switches.timer, Segment::Timer),
            (switches.bytes, Segment::Bytes),
            (switches.rate, Segment::Rate),
            (!switches.bytes && !switches.rate, Segment::Amount),
            (switches.ratio, Segment::Ratio),
        ];
        let blank = Segment::Literal(" ".to_owned());
        let mut spaced = Vec::new();
        for segment in chosen(segments) {
            if !spaced.is_empty() {
                spaced.push(blank.clone());
            }
            spaced.push(segment);
        }
        Self {
            segments: spaced,
            layout: Layout::Numeric,
        }
    }

    /// Puts the name first, in a format that is made from switches.
    #[must_use]
    pub fn with_name(mut self) -> Self {
        if self.layout == Layout::Joined && !self.segments.contains(&Segment::Name) {
            self.segments.insert(0, Segment::Name);
        }
        self
    }

    /// Makes all segments bare numbers, as `-n` with `-F` prints them.
    #[must_use]
    pub fn in_numbers(self) -> Self {
        Self {
            layout: Layout::Numeric,
            ..self
        }
    }

    /// Returns whether the format shows bytes of the data, which then have to pass through a
    /// buffer.
    #[must_use]
    pub fn needs_bytes(&self) -> bool {
        self.tail_bytes() > 0 || self.needs_line()
    }

    /// Returns how many of the last bytes are shown.
    #[must_use]
    pub fn tail_bytes(&self) -> usize {
        let shown = self.segments.iter().map(|segment| match segment {
            Segment::Tail(n) => *n,
            _ => 0,
        });
        shown.max().unwrap_or(0)
    }

    /// Returns whether the most recent line is shown.
    #[must_use]
    pub fn needs_line(&self) -> bool {
        self.segments
            .iter()
            .any(|segment| matches!(segment, Segment::Line(_)))
    }

    /// Returns whether the time of day is shown, which requires the time zone.
    #[must_use]
    pub fn shows_time(&self) -> bool {
        self.segments.contains(&Segment::Finish)
    }

    /// Returns whether the terminal's tab shows progress, which has to be cleared at the end.
    #[must_use]
    pub fn shows_tab(&self) -> bool {
        self.segments.contains(&Segment::Tab)
    }
}

fn chosen<const N: usize>(segments: [(bool, Segment); N]) -> Vec<Segment> {
    let chosen = segments.into_iter().filter(|(is_chosen, _)| *is_chosen);
    chosen.map(|(_, segment)| segment).collect()
}

/// Parses the sequence at the beginning of the text, and returns its end.
fn sequence(text: &str) -> Option<(Segment, usize)> {
    let after = text.strip_prefix('%')?;
    if after.starts_with('%') {
        return Some((Segment::Literal("%".to_owned()), 2));
    }
    let digits = after.find(|c: char| !c.is_ascii_digit())?;
    let (number, after) = after.split_at(digits);
    // No digits, or only zeros, mean the available width. A number that is too large means the
    // largest.
    let columns = match number.trim_start_matches('0') {
        "" => None,
        number => Some(number.parse().unwrap_or(usize::MAX)),
    };
    let (word, length) = match after.strip_prefix('{') {
        Some(word) => {
            let end = word.find('}')?;
            (&word[..end], end + 2)
        }
        None => (&after[..after.chars().next()?.len_utf8()], 1),
    };
    let is_word = length > 1;
    let segment = match (is_word, word) {
        (false, "p") | (true, "progress") => Segment::Progress(columns),
        (true, "progress-bar-only") => Segment::Bar(None, columns),
        (true, "progress-amount-only") => Segment::Amount,
        (true, "progress-conemu") => Segment::Tab,
        (false, "t") | (true, "timer") => Segment::Timer,
        (false, "e") | (true, "eta") => Segment::Eta,
        (false, "I") | (true, "fineta") => Segment::Finish,
        (false, "r") | (true, "rate") => Segment::Rate,
        (false, "a") | (true, "average-rate") => Segment::AverageRate,
        (false, "b") | (true, "bytes" | "transferred") => Segment::Bytes,
        (true, "ratio") => Segment::Ratio,
        (false, "T") | (true, "buffer-percent") => Segment::Buffer,
        (false, "A") | (true, "last-written") => Segment::Tail(columns.unwrap_or(0)),
        (false, "L") | (true, "previous-line") => Segment::Line(columns),
        (false, "N") | (true, "name") => Segment::Name,
        (true, word) => {
            if let Some(style) = word.strip_prefix("bar-") {
                Segment::Bar(Some(BarStyle::parse(style)?), columns)
            } else {
                Segment::Colour(codes(word.strip_prefix("sgr:")?))
            }
        }
        _ => return None,
    };
    Some((segment, 1 + digits + length))
}

#[cfg(test)]
mod tests;
