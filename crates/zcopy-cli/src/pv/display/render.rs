//! The formatting of a line, from a format and a reading.

use std::time::Duration;

use crate::common::progress::duration;
use crate::common::progress::units::{self, Unit};
use crate::common::terminal::{ansi, sgr};
use crate::pv::display::bar::{self, BarStyle};
use crate::pv::display::format::{Format, Layout, Segment};
use crate::pv::display::reading::Reading;

/// The options of a line that do not depend on the reading.
#[derive(Clone, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "two are switches of the command line, two what a terminal can do, each independent of the others"
)]
pub struct RenderOptions {
    /// The width of the terminal, in columns.
    pub width: usize,
    /// The unit of amounts.
    pub unit: Unit,
    /// Whether prefixes are powers of 1000: `-k`.
    pub si: bool,
    /// The style of bars: `-u`.
    pub style: BarStyle,
    /// Whether a bar shows the rate if the total is unknown: `-g`.
    pub gauge: bool,
    /// The name in front: `-N`.
    pub name: Option<String>,
    /// Whether the terminal shows UTF-8. Otherwise bars are plain.
    pub utf8: bool,
    /// Whether the terminal shows colours.
    pub colour: bool,
}

/// The fewest columns of a bar with a moving marker.
const MIN_MARKER_COLUMNS: usize = 5;

/// The fewest columns of a bar with a moving marker, its sides included.
const MIN_BRACKETED_COLUMNS: usize = 6;

/// The widest segment of a numeric line, which is not limited by a terminal.
const MAX_COLUMNS: usize = 10_000;

/// Appends one line, without the newline.
///
/// A line is never wider than the terminal: the excess is cut off, and bars and lines of data share
/// the columns that the other segments leave. A numeric line has any width.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use zcopy_cli::pv::display::bar::BarStyle;
/// use zcopy_cli::pv::display::format::{Format, Switches};
/// use zcopy_cli::common::progress::units::Unit;
/// use zcopy_cli::pv::display::reading::Reading;
/// use zcopy_cli::pv::display::render::{RenderOptions, render};
///
/// let options = RenderOptions {
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
/// render(&Format::from_switches(&Switches::by_default()), &reading, &options, &mut line);
/// assert_eq!(line, "1.00KiB 0:00:01 [1.00KiB/s] [=====>       ]  50% ETA 0:00:01");
/// ```
pub fn render(format: &Format, reading: &Reading, options: &RenderOptions, out: &mut String) {
    let line = uncut(format, reading, options);
    match format.layout {
        Layout::Numeric => out.push_str(&line),
        Layout::Written | Layout::Joined => out.push_str(&ansi::cut(&line, options.width)),
    }
}

/// Returns the line of [`render`] before it is cut to the width of the terminal.
pub(crate) fn uncut(format: &Format, reading: &Reading, options: &RenderOptions) -> String {
    let shown = Line {
        reading,
        options,
        layout: format.layout,
    };
    let segments: Vec<&Segment> = format.segments.iter().filter(|p| !shown.omits(p)).collect();
    let gaps = shown.gaps(&segments);
    let texts: Vec<Option<String>> = segments
        .iter()
        .map(|segment| shown.fixed(segment))
        .collect();
    let taken: usize = texts.iter().flatten().map(|text| ansi::width(text)).sum();
    let stretched = texts.iter().filter(|text| text.is_none()).count();
    let left = options.width.saturating_sub(taken + gaps);
    let share = left.checked_div(stretched).unwrap_or(0);

    let mut line = String::new();
    for (segment, text) in segments.iter().zip(texts) {
        if format.layout == Layout::Joined && !line.is_empty() && **segment != Segment::Tab {
            line.push(' ');
        }
        match text {
            Some(text) => line.push_str(&text),
            None => line.push_str(&shown.stretched(segment, share)),
        }
    }
    if leaves_colour(&segments, options) {
        line.push_str(sgr::RESET);
    }
    line
}

/// Returns whether the last segment that sets a colour leaves one set.
fn leaves_colour(segments: &[&Segment], options: &RenderOptions) -> bool {
    let mut codes = segments.iter().rev().filter_map(|segment| match segment {
        Segment::Colour(codes) if !codes.is_empty() => Some(codes),
        _ => None,
    });
    let last = codes.next().and_then(|codes| codes.rsplit(';').next());
    options.colour && last.is_some_and(|code| code.bytes().any(|digit| digit != b'0'))
}

/// The input of the segments of a line.
struct Line<'a> {
    reading: &'a Reading,
    options: &'a RenderOptions,
    layout: Layout,
}

impl Line<'_> {
    /// Returns whether a segment is left out, with its blank.
    fn omits(&self, segment: &Segment) -> bool {
        self.layout == Layout::Joined
            && matches!(segment, Segment::Eta | Segment::Finish)
            && self.reading.percent().is_none()
    }

    /// Returns the number of blanks between segments.
    fn gaps(&self, segments: &[&Segment]) -> usize {
        let seen = segments
            .iter()
            .filter(|segment| ***segment != Segment::Tab)
            .count();
        match self.layout {
            Layout::Joined => seen.saturating_sub(1),
            Layout::Written | Layout::Numeric => 0,
        }
    }

    /// Formats a segment of a fixed width. Returns `None` if the segment fills the line.
    fn fixed(&self, segment: &Segment) -> Option<String> {
        let Self {
            reading, options, ..
        } = self;
        let is_numeric = self.layout == Layout::Numeric;
        Some(match segment {
            Segment::Literal(text) if is_numeric => text.clone(),
            Segment::Literal(text) => ansi::harmless(text),
            Segment::Name => self.name(),
            Segment::Bytes if is_numeric => units::bare_amount(reading.moved, options.unit),
            Segment::Bytes => units::amount(reading.moved, options.unit, options.si),
            Segment::Buffer => reading.buffer.shown(),
            Segment::Timer if is_numeric => duration::bare(reading.elapsed),
            Segment::Timer => duration::duration(reading.elapsed),
            Segment::Rate if is_numeric => units::bare_rate(reading.rate, options.unit),
            Segment::Rate => format!("[{}]", self.rate(reading.rate)),
            Segment::AverageRate if is_numeric => units::bare_rate(reading.average, options.unit),
            Segment::AverageRate => format!("({})", self.rate(reading.average)),
            Segment::Progress(columns) => self.progress(self.limit_columns(*columns)?),
            Segment::Bar(style, columns) => {
                self.bar(*style, self.limit_columns(*columns)?, MIN_MARKER_COLUMNS)
            }
            Segment::Amount if is_numeric => {
                let percent = reading.percent();
                format!("{:.0}", percent.unwrap_or_else(|| self.swing()))
            }
            Segment::Amount => self.amount().unwrap_or_default(),
            Segment::Tab => bar::tab(self.bar_percent(), self.is_known()),
            Segment::Eta => self.eta(),
            Segment::Finish if reading.percent().is_none() => String::new(),
            Segment::Finish if reading.is_over => {
                duration::finish(&reading.now, Some(Duration::ZERO))
            }
            Segment::Finish => duration::finish(&reading.now, reading.remaining),
            Segment::Ratio => ratio(reading.ratio),
            Segment::Tail(bytes) => ansi::dotted(&reading.tail, self.limit_columns(Some(*bytes))?),
            Segment::Line(columns) => self.data(self.limit_columns(*columns)?),
            Segment::Colour(codes) if options.colour && !codes.is_empty() => sgr::sequence(codes),
            Segment::Colour(_) => String::new(),
        })
    }

    /// Formats a segment that fills its share of the remaining columns.
    fn stretched(&self, segment: &Segment, columns: usize) -> String {
        match segment {
            Segment::Progress(_) => self.progress(columns),
            Segment::Bar(style, _) => self.bar(*style, columns, MIN_MARKER_COLUMNS),
            Segment::Line(_) => self.data(columns),
            // Other segments have no share.
            _ => String::new(),
        }
    }

    /// Limits the width of a segment to the available one.
    fn limit_columns(&self, columns: Option<usize>) -> Option<usize> {
        let max = match self.layout {
            Layout::Numeric => MAX_COLUMNS,
            Layout::Written | Layout::Joined => self.options.width,
        };
        columns.map(|columns| columns.min(max))
    }

    fn name(&self) -> String {
        let Some(name) = &self.options.name else {
            return String::new();
        };
        let name = ansi::plain(name.as_bytes(), None, true);
        let padding = " ".repeat(9_usize.saturating_sub(ansi::width(&name)));
        format!("{padding}{name}:")
    }

    fn rate(&self, per_second: f64) -> String {
        units::rate(per_second, self.options.unit, self.options.si)
    }

    fn data(&self, columns: usize) -> String {
        ansi::plain(&self.reading.line, Some(columns), self.options.utf8)
    }

    /// Formats the time left. At the end it is replaced by blanks, so that later segments keep
    /// their columns.
    fn eta(&self) -> String {
        if self.reading.percent().is_none() {
            return String::new();
        }
        let eta = duration::eta(self.reading.remaining);
        if self.reading.is_over {
            " ".repeat(eta.len())
        } else {
            eta
        }
    }

    /// Formats a bar in brackets, and its amount. Returns nothing if there is no room for both.
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
        if amount.is_empty() && columns < MIN_BRACKETED_COLUMNS {
            return String::new();
        }
        format!("[{}]{amount}", self.bar(None, inner, 0))
    }

    /// Formats a bar alone. A bar with a marker needs at least `min_columns`.
    fn bar(&self, style: Option<BarStyle>, columns: usize, min_columns: usize) -> String {
        let style = style
            .unwrap_or(self.options.style)
            .where_utf8(self.options.utf8);
        if self.is_known() || self.is_gauge() {
            bar::filled(style, columns, self.bar_percent())
        } else if columns >= min_columns {
            bar::moving(style, columns, self.reading.tick)
        } else {
            String::new()
        }
    }

    /// Returns the amount after a bar: the percentage, or the rate of a full gauge.
    fn amount(&self) -> Option<String> {
        if let Some(percent) = self.reading.percent() {
            return Some(format!("{:>3.0}%", percent.floor()));
        }
        self.is_gauge().then(|| self.rate(self.reading.fastest))
    }

    /// Returns the percentage of a bar that is filled, or the position of its marker.
    fn bar_percent(&self) -> f64 {
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
        bar::swing(self.reading.tick) as f64
    }

    /// Returns whether a bar is filled in proportion, and has no marker.
    fn is_known(&self) -> bool {
        self.reading.percent().is_some() || self.options.gauge
    }

    fn is_gauge(&self) -> bool {
        self.options.gauge && self.reading.percent().is_none()
    }
}

/// Formats the amount of the other side for one unit of this one, or the inverse if that is less:
/// `2.782:1`, `1:2`.
fn ratio(ratio: Option<f64>) -> String {
    match ratio {
        Some(ratio) if ratio.is_finite() && ratio >= 1.0 => format!("{}:1", four_digits(ratio)),
        Some(ratio) if ratio.is_finite() && ratio > 0.0 => {
            format!("1:{}", four_digits(1.0 / ratio))
        }
        _ => "-:-".to_owned(),
    }
}

/// Formats a value by four digits, without trailing zeros.
fn four_digits(value: f64) -> String {
    let decimals = match value {
        _ if value < 9.9995 => 3,
        _ if value < 99.995 => 2,
        _ if value < 999.95 => 1,
        // Larger values are shown without decimals.
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
