//! One line, from a format and a reading.

use std::time::Duration;

use crate::number::{self, Unit};
use crate::pv::bar::{self, BarStyle};
use crate::pv::format::{Format, Layout, Piece};
use crate::pv::reading::Reading;
use crate::pv::text;
use crate::time;

/// How a line looks, whatever is read.
#[derive(Clone, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "two are switches of the command line, two what a terminal can do, each independent of the others"
)]
pub struct Look {
    /// How many columns the terminal has.
    pub width: usize,
    /// What is counted, and how it is named.
    pub unit: Unit,
    /// Whether prefixes are powers of 1000: `-k`.
    pub si: bool,
    /// What bars are drawn with: `-u`.
    pub style: BarStyle,
    /// Whether a bar shows the rate where the total is unknown: `-g`.
    pub gauge: bool,
    /// The name that stands in front: `-N`.
    pub name: Option<String>,
    /// Whether the terminal takes UTF-8; if not, bars are plain.
    pub utf8: bool,
    /// Whether the terminal takes colours.
    pub colour: bool,
}

/// The fewest columns in which a moving marker is shown: a bar's own, and one's that has sides.
const MOVING: (usize, usize) = (5, 6);

/// As many columns as a piece of a numeric line may be given, which has no terminal to fit.
const WIDEST: usize = 10_000;

/// Appends one line, without its end.
///
/// A line for a terminal is never wider than that: what does not fit is cut off, and bars and the
/// lines of data share what the rest leaves them. A numeric line is as wide as its numbers.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use zcopy_cli::pv::bar::BarStyle;
/// use zcopy_cli::pv::format::{Format, Shown};
/// use zcopy_cli::number::Unit;
/// use zcopy_cli::pv::reading::Reading;
/// use zcopy_cli::pv::render::{Look, render};
///
/// let look = Look {
///     width: 60,
///     unit: Unit::Bytes,
///     si: false,
///     style: BarStyle::Plain,
///     gauge: false,
///     name: None,
///     utf8: true,
///     colour: true,
/// };
/// let mut reading = Reading::before(jiff::Zoned::now(), Some(2048));
/// reading.moved = 1024;
/// reading.elapsed = Duration::from_secs(1);
/// reading.rate = 1024.0;
/// reading.remaining = Some(Duration::from_secs(1));
///
/// let mut line = String::new();
/// render(&Format::of(&Shown::by_default()), &reading, &look, &mut line);
/// assert_eq!(line, "1.00KiB 0:00:01 [1.00KiB/s] [=====>       ]  50% ETA 0:00:01");
/// ```
pub fn render(format: &Format, reading: &Reading, look: &Look, out: &mut String) {
    let shown = Line {
        reading,
        look,
        layout: format.layout,
    };
    let pieces: Vec<&Piece> = format.pieces.iter().filter(|p| !shown.omits(p)).collect();
    let gaps = shown.gaps(&pieces);
    let texts: Vec<Option<String>> = pieces.iter().map(|piece| shown.fixed(piece)).collect();
    let taken: usize = texts.iter().flatten().map(|text| text::width(text)).sum();
    let stretched = texts.iter().filter(|text| text.is_none()).count();
    let left = look.width.saturating_sub(taken + gaps);
    let share = left.checked_div(stretched).unwrap_or(0);

    let mut line = String::new();
    for (piece, text) in pieces.iter().zip(texts) {
        if format.layout == Layout::Joined && !line.is_empty() && **piece != Piece::Tab {
            line.push(' ');
        }
        match text {
            Some(text) => line.push_str(&text),
            None => line.push_str(&shown.stretched(piece, share)),
        }
    }
    if leaves_colour(&pieces, look) {
        line.push_str("\x1b[m");
    }
    match format.layout {
        Layout::Numeric => out.push_str(&line),
        Layout::Written | Layout::Joined => out.push_str(&text::cut(&line, look.width)),
    }
}

/// Whether the colour of the last piece that sets one is not the terminal's own.
fn leaves_colour(pieces: &[&Piece], look: &Look) -> bool {
    let mut codes = pieces.iter().rev().filter_map(|piece| match piece {
        Piece::Colour(codes) if !codes.is_empty() => Some(codes),
        _ => None,
    });
    let last = codes.next().and_then(|codes| codes.rsplit(';').next());
    look.colour && last.is_some_and(|code| code.bytes().any(|digit| digit != b'0'))
}

/// What the pieces of one line are made from.
struct Line<'a> {
    reading: &'a Reading,
    look: &'a Look,
    layout: Layout,
}

impl Line<'_> {
    /// Whether a piece is left out together with its blank.
    fn omits(&self, piece: &Piece) -> bool {
        self.layout == Layout::Joined
            && matches!(piece, Piece::Eta | Piece::Finish)
            && self.reading.percent().is_none()
    }

    /// How many columns the blanks between pieces take.
    fn gaps(&self, pieces: &[&Piece]) -> usize {
        let seen = pieces.iter().filter(|piece| ***piece != Piece::Tab).count();
        match self.layout {
            Layout::Joined => seen.saturating_sub(1),
            Layout::Written | Layout::Numeric => 0,
        }
    }

    /// A piece that takes as many columns as it takes; nothing if it is to fill the line.
    fn fixed(&self, piece: &Piece) -> Option<String> {
        let Self { reading, look, .. } = self;
        let is_numeric = self.layout == Layout::Numeric;
        Some(match piece {
            Piece::Literal(text) if is_numeric => text.clone(),
            Piece::Literal(text) => text::harmless(text),
            Piece::Name => self.name(),
            Piece::Bytes if is_numeric => number::bare_amount(reading.moved, look.unit),
            Piece::Bytes => number::amount(reading.moved, look.unit, look.si),
            Piece::Buffer => reading.buffer.shown(),
            Piece::Timer if is_numeric => time::bare(reading.elapsed),
            Piece::Timer => time::duration(reading.elapsed),
            Piece::Rate if is_numeric => number::bare_rate(reading.rate, look.unit),
            Piece::Rate => format!("[{}]", self.rate(reading.rate)),
            Piece::AverageRate if is_numeric => number::bare_rate(reading.average, look.unit),
            Piece::AverageRate => format!("({})", self.rate(reading.average)),
            Piece::Progress(columns) => self.progress(self.given(*columns)?),
            Piece::Bar(style, columns) => self.bar(*style, self.given(*columns)?, MOVING.0),
            Piece::Amount if is_numeric => {
                let percent = reading.percent();
                format!("{:.0}", percent.unwrap_or_else(|| self.swing()))
            }
            Piece::Amount => self.amount().unwrap_or_default(),
            Piece::Tab => bar::tab(self.extent(), self.is_known()),
            Piece::Eta => self.eta(),
            Piece::Finish if reading.percent().is_none() => String::new(),
            Piece::Finish if reading.is_over => time::finish(&reading.now, Some(Duration::ZERO)),
            Piece::Finish => time::finish(&reading.now, reading.remaining),
            Piece::Ratio => ratio(reading.ratio),
            Piece::Tail(bytes) => text::dotted(&reading.tail, self.given(Some(*bytes))?),
            Piece::Line(columns) => self.data(self.given(*columns)?),
            Piece::Colour(codes) if look.colour && !codes.is_empty() => format!("\x1b[{codes}m"),
            Piece::Colour(_) => String::new(),
        })
    }

    /// A piece that fills its share of what the others leave.
    fn stretched(&self, piece: &Piece, columns: usize) -> String {
        match piece {
            Piece::Progress(_) => self.progress(columns),
            Piece::Bar(style, _) => self.bar(*style, columns, MOVING.0),
            Piece::Line(_) => self.data(columns),
            // No other piece has a share.
            _ => String::new(),
        }
    }

    /// The columns that a piece has been given, as far as there are so many.
    fn given(&self, columns: Option<usize>) -> Option<usize> {
        let most = match self.layout {
            Layout::Numeric => WIDEST,
            Layout::Written | Layout::Joined => self.look.width,
        };
        columns.map(|columns| columns.min(most))
    }

    fn name(&self) -> String {
        let Some(name) = &self.look.name else {
            return String::new();
        };
        let name = text::plain(name.as_bytes(), None, true);
        let padding = " ".repeat(9_usize.saturating_sub(text::width(&name)));
        format!("{padding}{name}:")
    }

    fn rate(&self, per_second: f64) -> String {
        number::rate(per_second, self.look.unit, self.look.si)
    }

    fn data(&self, columns: usize) -> String {
        text::plain(&self.reading.line, Some(columns), self.look.utf8)
    }

    /// The time left; when it is over, as many blanks, so that what stands behind stays where it is.
    fn eta(&self) -> String {
        if self.reading.percent().is_none() {
            return String::new();
        }
        let eta = time::eta(self.reading.remaining);
        if self.reading.is_over {
            " ".repeat(eta.len())
        } else {
            eta
        }
    }

    /// A bar between its sides, and what it shows in figures; nothing where there is no room for both.
    fn progress(&self, columns: usize) -> String {
        let amount = match self.amount() {
            Some(amount) if self.is_gauge() => format!("/{amount}"),
            Some(amount) => format!(" {amount}"),
            None => String::new(),
        };
        let sides = "[]".len();
        let Some(inner) = columns.checked_sub(sides + amount.len()) else {
            return String::new();
        };
        if amount.is_empty() && columns < MOVING.1 {
            return String::new();
        }
        format!("[{}]{amount}", self.bar(None, inner, 0))
    }

    /// A bar alone; where it has a marker, only if it has so many columns.
    fn bar(&self, style: Option<BarStyle>, columns: usize, least: usize) -> String {
        let style = style.unwrap_or(self.look.style).where_utf8(self.look.utf8);
        if self.is_known() || self.is_gauge() {
            bar::filled(style, columns, self.extent())
        } else if columns >= least {
            bar::moving(style, columns, self.reading.beat)
        } else {
            String::new()
        }
    }

    /// What stands after a bar: the percentage, or the rate that a full gauge means.
    fn amount(&self) -> Option<String> {
        if let Some(percent) = self.reading.percent() {
            return Some(format!("{:>3.0}%", percent.floor()));
        }
        self.is_gauge().then(|| self.rate(self.reading.fastest))
    }

    /// How many percent a bar is filled, or its marker has gone.
    fn extent(&self) -> f64 {
        let Reading { rate, fastest, .. } = self.reading;
        match self.reading.percent() {
            Some(percent) => percent,
            None if !self.is_gauge() => self.swing(),
            None if *fastest > 0.0 => (rate * 100.0 / fastest).clamp(0.0, 100.0),
            None => 0.0,
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "it is less than 200")]
    fn swing(&self) -> f64 {
        bar::swing(self.reading.beat) as f64
    }

    /// Whether a bar shows how much of something there is, instead of a marker.
    fn is_known(&self) -> bool {
        self.reading.percent().is_some() || self.look.gauge
    }

    fn is_gauge(&self) -> bool {
        self.look.gauge && self.reading.percent().is_none()
    }
}

/// What the other side has moved for one unit of this one, or the other way round if that is less: `2.782:1`, `1:2`.
fn ratio(ratio: Option<f64>) -> String {
    match ratio {
        Some(ratio) if ratio.is_finite() && ratio >= 1.0 => format!("{}:1", four_digits(ratio)),
        Some(ratio) if ratio.is_finite() && ratio > 0.0 => {
            format!("1:{}", four_digits(1.0 / ratio))
        }
        _ => "-:-".to_owned(),
    }
}

/// Four digits, without zeros at the end of the decimals.
fn four_digits(value: f64) -> String {
    let decimals = match value {
        _ if value < 9.9995 => 3,
        _ if value < 99.995 => 2,
        _ if value < 999.95 => 1,
        // More than can be told by four digits is of no interest.
        _ => return format!("{:.0}", value.min(1e9)),
    };
    let digits = format!("{value:.decimals$}");
    digits
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}

#[cfg(test)]
mod tests;
