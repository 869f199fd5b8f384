//! What a line consists of: parsed from a format string, or made from the switches.

use serde::{Deserialize, Serialize};

use crate::pv::bar::BarStyle;
use colour::codes;

mod colour;

/// What a line consists of.
#[derive(Clone, Debug, PartialEq)]
pub struct Format {
    /// The pieces, in their order.
    pub pieces: Vec<Piece>,
    /// How they make a line.
    pub layout: Layout,
}

/// How pieces make a line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Layout {
    /// One after the other, in the width of the terminal, as a format string writes them.
    Written,
    /// With a blank in between, in the width of the terminal; what can never be told without a total is left out.
    Joined,
    /// One after the other, as bare numbers, however wide.
    Numeric,
}

/// One piece of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Text as it stands.
    Literal(String),
    /// The name, in nine columns or more, and a colon: `%N`.
    Name,
    /// The amount moved: `%b`.
    Bytes,
    /// How much of the buffer is in use: `%T`.
    Buffer,
    /// The time it has taken: `%t`.
    Timer,
    /// The current rate: `%r`.
    Rate,
    /// The average rate: `%a`.
    AverageRate,
    /// A bar, with its sides and its amount: `%p`. Without columns of its own it fills the line.
    Progress(Option<usize>),
    /// A bar alone, in the style of the look or its own: `%{progress-bar-only}`, `%{bar-block}`.
    Bar(Option<BarStyle>, Option<usize>),
    /// The amount that stands after a bar: `%{progress-amount-only}`.
    Amount,
    /// What the terminal's tab is told: `%{progress-conemu}`.
    Tab,
    /// The time left: `%e`.
    Eta,
    /// The time of finish: `%I`.
    Finish,
    /// What the other side has moved for each byte of this one: `%{ratio}`.
    Ratio,
    /// So many of the last bytes written: `%16A`.
    Tail(usize),
    /// So many columns of the most recent line, or as many as there are: `%40L`.
    Line(Option<usize>),
    /// Colours and the like, as codes with semicolons in between: `%{sgr:red,bold}`.
    Colour(String),
}

/// The switches that say what is shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "they are the switches of the command line, each independent of the others"
)]
pub struct Shown {
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
    /// Whether there is a name, by `-N`.
    pub name: bool,
    /// What the other side of a command has moved, for the output side of `-M both`.
    pub ratio: bool,
}

impl Shown {
    /// What is shown where nothing has been asked for: `-pterb`.
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

    /// Whether no switch asks for anything; a name and a tab leave the default as it is.
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
    /// Parses a format string. What is no sequence stands for itself.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::pv::format::{Format, Piece};
    ///
    /// let format = Format::parse("%b of %20p, 100%% %z");
    /// assert_eq!(format.pieces, [
    ///     Piece::Bytes,
    ///     Piece::Literal(" of ".into()),
    ///     Piece::Progress(Some(20)),
    ///     Piece::Literal(", 100% %z".into()),
    /// ]);
    /// ```
    #[must_use]
    pub fn parse(format: &str) -> Self {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = format;
        while let Some(c) = rest.chars().next() {
            let (text, end) = match sequence(rest) {
                Some((Piece::Literal(text), end)) => (text, end),
                Some((piece, end)) => {
                    if !literal.is_empty() {
                        pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                    }
                    pieces.push(piece);
                    (String::new(), end)
                }
                None => (c.to_string(), c.len_utf8()),
            };
            literal.push_str(&text);
            rest = &rest[end..];
        }
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        Self {
            pieces,
            layout: Layout::Written,
        }
    }

    /// The line that the switches ask for: name, bytes, buffer, timer, rates, bar, times, last bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::pv::format::{Format, Piece, Shown};
    ///
    /// let format = Format::of(&Shown::by_default());
    /// assert_eq!(format.pieces, [Piece::Bytes, Piece::Timer, Piece::Rate, Piece::Progress(None), Piece::Eta]);
    /// ```
    #[must_use]
    pub fn of(shown: &Shown) -> Self {
        let pieces = [
            (shown.name, Piece::Name),
            (shown.bytes, Piece::Bytes),
            (shown.buffer, Piece::Buffer),
            (shown.timer, Piece::Timer),
            (shown.rate, Piece::Rate),
            (shown.average, Piece::AverageRate),
            (shown.progress, Piece::Progress(None)),
            (shown.eta, Piece::Eta),
            (shown.finish, Piece::Finish),
            (shown.tail.is_some(), Piece::Tail(shown.tail.unwrap_or(0))),
            (shown.tab, Piece::Tab),
            (shown.ratio, Piece::Ratio),
        ];
        Self {
            pieces: chosen(pieces),
            layout: Layout::Joined,
        }
    }

    /// The numbers that `-n` prints: seconds, amount and rate, as far as they are asked for, and the
    /// percentage if neither amount nor rate is.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::pv::format::{Format, Shown};
    ///
    /// let timer = Shown { timer: true, ..Shown::default() };
    /// assert_eq!(Format::numeric(&timer), Format::parse("%t %{progress-amount-only}").in_numbers());
    /// ```
    #[must_use]
    pub fn numeric(shown: &Shown) -> Self {
        let pieces = [
            (shown.timer, Piece::Timer),
            (shown.bytes, Piece::Bytes),
            (shown.rate, Piece::Rate),
            (!shown.bytes && !shown.rate, Piece::Amount),
            (shown.ratio, Piece::Ratio),
        ];
        let blank = Piece::Literal(" ".to_owned());
        let mut spaced = Vec::new();
        for piece in chosen(pieces) {
            if !spaced.is_empty() {
                spaced.push(blank.clone());
            }
            spaced.push(piece);
        }
        Self {
            pieces: spaced,
            layout: Layout::Numeric,
        }
    }

    /// The same with the name in front, of a line that the switches ask for.
    #[must_use]
    pub fn named(mut self) -> Self {
        if self.layout == Layout::Joined && !self.pieces.contains(&Piece::Name) {
            self.pieces.insert(0, Piece::Name);
        }
        self
    }

    /// The same in bare numbers, as `-n` with `-F` prints it.
    #[must_use]
    pub fn in_numbers(self) -> Self {
        Self {
            layout: Layout::Numeric,
            ..self
        }
    }

    /// Whether something is shown of the data itself, which then has to pass through a buffer.
    #[must_use]
    pub fn needs_bytes(&self) -> bool {
        self.tail_bytes() > 0 || self.needs_line()
    }

    /// How many of the last bytes are shown.
    #[must_use]
    pub fn tail_bytes(&self) -> usize {
        let shown = self.pieces.iter().map(|piece| match piece {
            Piece::Tail(n) => *n,
            _ => 0,
        });
        shown.max().unwrap_or(0)
    }

    /// Whether the most recent line is shown.
    #[must_use]
    pub fn needs_line(&self) -> bool {
        self.pieces
            .iter()
            .any(|piece| matches!(piece, Piece::Line(_)))
    }

    /// Whether the time of day is shown, for which the time zones have to be looked through.
    #[must_use]
    pub fn tells_time(&self) -> bool {
        self.pieces.contains(&Piece::Finish)
    }

    /// Whether the terminal's tab is told, which has to be told of the end as well.
    #[must_use]
    pub fn tells_tab(&self) -> bool {
        self.pieces.contains(&Piece::Tab)
    }
}

fn chosen<const N: usize>(pieces: [(bool, Piece); N]) -> Vec<Piece> {
    let chosen = pieces.into_iter().filter(|(is_chosen, _)| *is_chosen);
    chosen.map(|(_, piece)| piece).collect()
}

/// The sequence that the text begins with, and where it ends.
fn sequence(text: &str) -> Option<(Piece, usize)> {
    let after = text.strip_prefix('%')?;
    if after.starts_with('%') {
        return Some((Piece::Literal("%".to_owned()), 2));
    }
    let digits = after.find(|c: char| !c.is_ascii_digit())?;
    let (number, after) = after.split_at(digits);
    // Without digits, and with nothing but zeros, as wide as there is room; with too many, as wide as can be.
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
    let piece = match (is_word, word) {
        (false, "p") | (true, "progress") => Piece::Progress(columns),
        (true, "progress-bar-only") => Piece::Bar(None, columns),
        (true, "progress-amount-only") => Piece::Amount,
        (true, "progress-conemu") => Piece::Tab,
        (false, "t") | (true, "timer") => Piece::Timer,
        (false, "e") | (true, "eta") => Piece::Eta,
        (false, "I") | (true, "fineta") => Piece::Finish,
        (false, "r") | (true, "rate") => Piece::Rate,
        (false, "a") | (true, "average-rate") => Piece::AverageRate,
        (false, "b") | (true, "bytes" | "transferred") => Piece::Bytes,
        (true, "ratio") => Piece::Ratio,
        (false, "T") | (true, "buffer-percent") => Piece::Buffer,
        (false, "A") | (true, "last-written") => Piece::Tail(columns.unwrap_or(0)),
        (false, "L") | (true, "previous-line") => Piece::Line(columns),
        (false, "N") | (true, "name") => Piece::Name,
        (true, word) => {
            if let Some(style) = word.strip_prefix("bar-") {
                Piece::Bar(Some(BarStyle::named(style)?), columns)
            } else {
                Piece::Colour(codes(word.strip_prefix("sgr:")?))
            }
        }
        _ => return None,
    };
    Some((piece, 1 + digits + length))
}

#[cfg(test)]
mod tests;
