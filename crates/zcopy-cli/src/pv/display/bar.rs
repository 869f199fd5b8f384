//! The progress bar: filled in proportion to the progress, or with a moving marker.

/// The style of a bar.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum BarStyle {
    /// `===>  `, in ASCII.
    #[default]
    Plain,
    /// Whole blocks: `███   `.
    Block,
    /// Whole blocks, and eighths of one: `███▍  `.
    Granular,
    /// Whole blocks, and three shades: `███▒░░`.
    Shaded,
}

impl BarStyle {
    /// The names of the styles, as options and formats use them.
    pub const WORDS: &[(&str, Self)] = &[
        ("plain", Self::Plain),
        ("block", Self::Block),
        ("granular", Self::Granular),
        ("shaded", Self::Shaded),
    ];

    /// Returns the style with this name.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        let mut words = Self::WORDS.iter();
        let known = words.find(|(known, _)| *known == word);
        known.map(|(_, style)| *style)
    }

    /// Returns the style itself, or the plain one if the terminal shows only ASCII.
    #[must_use]
    pub fn where_utf8(self, utf8: bool) -> Self {
        if utf8 { self } else { Self::Plain }
    }
}

/// Returns the sequence that shows progress in a terminal's tab (`ConEmu`'s OSC 9;4): a percentage,
/// or a busy state if the total is unknown.
#[must_use]
pub fn tab(percent: f64, is_known: bool) -> String {
    let state = if is_known { 1 } else { 3 };
    format!("\x1b]9;4;{state};{percent:.0}\x1b\\")
}

/// Returns a bar of `columns` columns that is filled by `percent`.
///
/// Beyond 100 percent a bar stays full. The head of a plain bar disappears when it would be in the
/// column behind the last.
///
/// # Examples
///
/// ```
/// use zcopy_cli::pv::display::bar::{BarStyle, filled};
///
/// assert_eq!(filled(BarStyle::Plain, 10, 50.0), "====>     ");
/// assert_eq!(filled(BarStyle::Plain, 10, 150.0), "==========");
/// assert_eq!(filled(BarStyle::Granular, 10, 55.0), "█████▌    ");
/// assert_eq!(filled(BarStyle::Shaded, 10, 55.0), "█████▒░░░░");
/// ```
#[must_use]
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "columns are few, and a cast of what is less than 0 or no number gives 0"
)]
pub fn filled(style: BarStyle, columns: usize, percent: f64) -> String {
    let cells = columns as f64 * percent / 100.0;
    if style == BarStyle::Plain {
        // The head is the last full cell. It is also shown if no cell is full.
        let body = (cells as usize).saturating_sub(1).min(columns);
        let head = usize::from(body < columns);
        return padded(&"=".repeat(body), &">"[..head], ' ', columns);
    }
    let whole = (cells as usize).min(columns);
    let part = cells - whole as f64;
    let (partial, background): (&[&str], char) = match style {
        BarStyle::Plain | BarStyle::Block => (&[], ' '),
        BarStyle::Granular => (&["▏", "▎", "▍", "▌", "▋", "▊", "▉"], ' '),
        BarStyle::Shaded => (&["▒", "▓"], '░'),
    };
    let step = (part * (partial.len() + 1) as f64) as usize;
    let partial = step
        .checked_sub(1)
        .and_then(|step| partial.get(step).copied());
    // If all cells are full, there is no cell for a part.
    let partial = partial.filter(|_| whole < columns).unwrap_or_default();
    padded(&"█".repeat(whole), partial, background, columns)
}

/// Returns a bar of `columns` columns with a marker that moves to and fro, by two percent of the
/// way at each tick.
///
/// # Examples
///
/// ```
/// use zcopy_cli::pv::display::bar::{BarStyle, moving};
///
/// assert_eq!(moving(BarStyle::Plain, 10, 25), "   <=>    ");
/// assert_eq!(moving(BarStyle::Plain, 10, 50), "       <=>");
/// assert_eq!(moving(BarStyle::Plain, 10, 75), "   <=>    ");
/// assert_eq!(moving(BarStyle::Block, 6, 0), "◀▶    ");
/// ```
#[must_use]
pub fn moving(style: BarStyle, columns: usize, tick: u64) -> String {
    let (marker, taken, background) = match style {
        BarStyle::Plain => ("<=>", 3, ' '),
        BarStyle::Block | BarStyle::Granular => ("◀▶", 2, ' '),
        BarStyle::Shaded => ("▒▓▒", 3, '░'),
    };
    let Some(way) = columns.checked_sub(taken) else {
        return background.to_string().repeat(columns);
    };
    let position = usize::try_from(swing(tick)).unwrap_or_default();
    let percent = position.min(200 - position);
    let before = background
        .to_string()
        .repeat(way.saturating_mul(percent) / 100);
    padded(&before, marker, background, columns)
}

/// Returns the position of the marker, from 0 to 198: 100 steps in each direction.
#[must_use]
pub fn swing(tick: u64) -> u64 {
    tick % 100 * 2
}

fn padded(before: &str, marker: &str, background: char, columns: usize) -> String {
    let mut bar = String::with_capacity(columns * background.len_utf8());
    bar.push_str(before);
    bar.push_str(marker);
    // All characters of bars are one column wide.
    let taken = bar.chars().count();
    bar.extend(std::iter::repeat_n(
        background,
        columns.saturating_sub(taken),
    ));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_pv_draws_them() {
        for (style, columns, percent, bar) in [
            (BarStyle::Plain, 0, 30.0, ""),
            (BarStyle::Plain, 1, 1.0, ">"),
            (BarStyle::Plain, 1, 100.0, ">"),
            (BarStyle::Plain, 2, 50.0, "> "),
            (BarStyle::Plain, 2, 100.0, "=>"),
            (BarStyle::Plain, 3, 99.0, "=> "),
            (BarStyle::Plain, 4, 50.0, "=>  "),
            (BarStyle::Plain, 13, 33.0, "===>         "),
            (BarStyle::Plain, 20, 99.0, "==================> "),
            (BarStyle::Plain, 20, 100.0, "===================>"),
            (BarStyle::Plain, 1, 199.0, ">"),
            (BarStyle::Plain, 1, 200.0, "="),
            (BarStyle::Plain, 13, 107.1, "============>"),
            (BarStyle::Plain, 13, 107.9, "============="),
            (BarStyle::Plain, 20, 104.9, "===================>"),
            (BarStyle::Plain, 20, 105.0, "===================="),
            (BarStyle::Plain, 20, 100_000.0, "===================="),
            (BarStyle::Block, 10, 204.8, "██████████"),
            (BarStyle::Granular, 10, 204.8, "██████████"),
            (BarStyle::Block, 10, 9.9, "          "),
            (BarStyle::Block, 10, 10.0, "█         "),
            (BarStyle::Block, 10, 55.0, "█████     "),
            (BarStyle::Block, 10, 100.0, "██████████"),
            (BarStyle::Granular, 10, 1.0, "          "),
            (BarStyle::Granular, 10, 4.0, "▍         "),
            (BarStyle::Granular, 10, 6.0, "▌         "),
            (BarStyle::Granular, 10, 12.0, "█▏        "),
            (BarStyle::Granular, 10, 99.0, "█████████▉"),
            (BarStyle::Granular, 10, 100.0, "██████████"),
            (BarStyle::Granular, 13, 30.0, "███▉         "),
            (BarStyle::Shaded, 10, 1.0, "░░░░░░░░░░"),
            (BarStyle::Shaded, 10, 33.3, "███░░░░░░░"),
            (BarStyle::Shaded, 10, 33.4, "███▒░░░░░░"),
            (BarStyle::Shaded, 10, 36.6, "███▒░░░░░░"),
            (BarStyle::Shaded, 10, 36.7, "███▓░░░░░░"),
            (BarStyle::Shaded, 10, 100.0, "██████████"),
            (BarStyle::Shaded, 10, 204.8, "██████████"),
        ] {
            assert_eq!(filled(style, columns, percent), bar, "{style:?} {percent}");
        }
    }

    #[test]
    fn the_marker_goes_to_and_fro_as_pv_moves_it() {
        let at = |tick| moving(BarStyle::Plain, 43, tick).find('<').unwrap();
        let there: Vec<_> = (1..=12).map(at).collect();
        assert_eq!(there, [0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 9]);
        let turn: Vec<_> = (47..=56).map(at).collect();
        assert_eq!(turn, [37, 38, 39, 40, 39, 38, 37, 36, 36, 35]);
        let back: Vec<_> = (95..=105).map(at).collect();
        assert_eq!(back, [4, 3, 2, 1, 0, 0, 0, 1, 2, 3, 4]);
    }

    #[test]
    fn every_bar_is_as_wide_as_it_is_asked_to_be() {
        for (_, style) in BarStyle::WORDS {
            for columns in 0..200 {
                for percent in [
                    -1.0,
                    0.0,
                    0.1,
                    33.3,
                    50.0,
                    99.99,
                    100.0,
                    150.0,
                    100_000.0,
                    f64::INFINITY,
                    f64::NAN,
                ] {
                    assert_eq!(filled(*style, columns, percent).chars().count(), columns);
                }
                for tick in [0, 1, 49, 50, 51, 99, 100, u64::MAX] {
                    assert_eq!(moving(*style, columns, tick).chars().count(), columns);
                }
            }
        }
    }

    #[test]
    fn the_tab_is_told_whole_percent() {
        assert_eq!(tab(87.5, true), "\x1b]9;4;1;88\x1b\\");
        assert_eq!(tab(2.0, false), "\x1b]9;4;3;2\x1b\\");
    }
}
