//! Formats of amounts and rates in a fixed width, and the parser of sizes.

use byte_unit::{Byte, Unit as ByteUnit};

/// The unit of amounts, and its name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unit {
    /// Bytes: `1.50KiB`.
    Bytes,
    /// Bytes, shown as eight times as many bits: `12.0Kib`.
    Bits,
    /// Lines, in thousands and without a letter: `1.50k`.
    Lines,
}

/// Formats an amount in four columns, with its prefix and its letter: ` 999  B`, `1.00KiB`.
///
/// # Examples
///
/// ```
/// use zcopy_cli::common::progress::units::{Unit, amount};
///
/// assert_eq!(amount(1023, Unit::Bytes, false), "1023  B");
/// assert_eq!(amount(1024, Unit::Bytes, false), "1.00KiB");
/// assert_eq!(amount(1000, Unit::Bytes, true), "1.00kB");
/// assert_eq!(amount(1000, Unit::Lines, false), "1.00k");
/// ```
#[must_use]
#[allow(
    clippy::cast_precision_loss,
    reason = "three digits of the amount are shown"
)]
pub fn amount(count: u64, unit: Unit, si: bool) -> String {
    quantity(count as f64, unit, si)
}

/// Formats a rate in four columns, with its prefix and its letter: ` 157MiB/s`.
///
/// # Examples
///
/// ```
/// use zcopy_cli::common::progress::units::{Unit, rate};
///
/// assert_eq!(rate(1.5e6, Unit::Bytes, false), "1.43MiB/s");
/// assert_eq!(rate(0.5, Unit::Lines, false), " 500m/s");
/// ```
#[must_use]
pub fn rate(per_second: f64, unit: Unit, si: bool) -> String {
    format!("{}/s", quantity(per_second, unit, si))
}

/// Formats an amount as a number of bytes, lines or bits.
#[must_use]
pub fn bare_amount(count: u64, unit: Unit) -> String {
    // In bits, 64 bits could overflow.
    (u128::from(count) * u128::from(unit.factor())).to_string()
}

/// Formats a rate as a number with four decimals.
#[must_use]
pub fn bare_rate(per_second: f64, unit: Unit) -> String {
    format!("{:.4}", sound(per_second) * f64::from(unit.factor()))
}

impl Unit {
    /// Returns the number of shown units per counted unit: 8 bits per byte.
    pub(crate) fn factor(self) -> u32 {
        match self {
            Self::Bits => 8,
            Self::Bytes | Self::Lines => 1,
        }
    }
}

/// Prefixes below one and above, in steps of 1024: two columns each.
const BINARY: ([&str; 3], [&str; 7]) = (
    ["mi", "ui", "ni"],
    ["  ", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"],
);

/// Prefixes below one and above, in steps of 1000: one column each.
const DECIMAL: ([&str; 3], [&str; 7]) = (["m", "u", "n"], [" ", "k", "M", "G", "T", "P", "E"]);

fn quantity(count: f64, unit: Unit, si: bool) -> String {
    let (step, (below, above)) = match (unit, si) {
        (Unit::Lines, _) | (_, true) => (1000.0, DECIMAL),
        (_, false) => (1024.0, BINARY),
    };
    let letter = match unit {
        Unit::Bytes => "B",
        Unit::Bits => "b",
        Unit::Lines => "",
    };
    let mut value = sound(count) * f64::from(unit.factor());
    let mut prefix = above[0];
    if value >= 1.0 {
        let mut larger = above[1..].iter();
        while value >= step
            && let Some(next) = larger.next()
        {
            (value, prefix) = (value / step, next);
        }
    } else {
        let mut smaller = below.iter();
        while value > 0.0 && value < 1.0 {
            // Rates below the smallest prefix are shown as 0, in the same columns.
            (value, prefix) = match smaller.next() {
                Some(next) => (value * step, *next),
                None => (0.0, above[0]),
            };
        }
    }
    format!("{}{prefix}{letter}", four_columns(value))
}

/// Formats a value by three digits and a point, or by four digits, which are never rounded up to
/// five.
fn four_columns(value: f64) -> String {
    // Above this, one decimal would be rounded up to 100.0, which is too wide.
    if value > 99.9 {
        return format!("{:>4.0}", value.trunc().min(9999.0));
    }
    let fine = format!("{value:.2}");
    if fine.len() == 4 {
        fine
    } else {
        format!("{value:.1}")
    }
}

/// Replaces infinities, NaN and negative values by 0.
fn sound(value: f64) -> f64 {
    if value.is_finite() {
        value.max(0.0)
    } else {
        0.0
    }
}

/// The error of text that is not a size.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("numeric value not understood")]
pub struct ParseSizeError;

/// Parses a size as options take it: digits, decimals if need be, and a suffix.
///
/// `K`, `M`, `G`, `T`, `P` and `E` are powers of 1024, or of 1000 with `si`. `Ki`, `KiB` and so on
/// are always powers of 1024, and `KB` powers of 1000. Upper and lower case are the same. A size is
/// rounded down to whole bytes, and one that is too large for 64 bits becomes the largest.
///
/// # Examples
///
/// ```
/// use zcopy_cli::common::progress::units::parse_size;
///
/// assert_eq!(parse_size("1.5K", false), Ok(1536));
/// assert_eq!(parse_size("1.5K", true), Ok(1500));
/// assert_eq!(parse_size("1.5KiB", true), Ok(1536));
/// assert_eq!(parse_size("1.5Ki", true), Ok(1536));
/// assert_eq!(parse_size("1.5KB", false), Ok(1500));
/// assert!(parse_size("1KiBs", false).is_err());
/// ```
///
/// # Errors
///
/// [`ParseSizeError`] for a sign, a number without a digit before the point, and every other
/// suffix.
pub fn parse_size(text: &str, si: bool) -> Result<u64, ParseSizeError> {
    parse(text, si, 1)
}

/// Parses a rate as [`parse_size`] parses a size, and returns it in thousandths. Any rate but 0 is
/// at least one thousandth. 0 stands for no limit.
///
/// # Examples
///
/// ```
/// use zcopy_cli::common::progress::units::parse_rate;
///
/// assert_eq!(parse_rate("1.5", false), Ok(1500));
/// assert_eq!(parse_rate("0.00001", false), Ok(1));
/// assert_eq!(parse_rate("1K", false), Ok(1_024_000));
/// ```
///
/// # Errors
///
/// Returns the errors of [`parse_size`].
pub fn parse_rate(text: &str, si: bool) -> Result<u64, ParseSizeError> {
    let rate = parse(text, si, 1000)?;
    let is_nothing = !text.contains(|c: char| matches!(c, '1'..='9'));
    Ok(if is_nothing { 0 } else { rate.max(1) })
}

/// Parses a size and multiplies it by `factor` before it is rounded down.
fn parse(text: &str, si: bool, factor: u64) -> Result<u64, ParseSizeError> {
    let text = text.trim_start_matches([' ', '\t']);
    let (whole, rest) = digits(text);
    if whole.is_empty() {
        return Err(ParseSizeError);
    }
    let (decimals, rest) = match rest.strip_prefix(['.', ',']) {
        Some(rest) => digits(rest),
        None => ("", rest),
    };
    let unit = suffix(rest.trim_start_matches([' ', '\t']), rest, si)?;
    // A number of digits that does not parse is too large.
    let Ok(count) = whole.parse::<u64>() else {
        return Ok(u64::MAX);
    };
    let one = Byte::from_u64_with_unit(1, unit).map_or(1, Byte::as_u64);
    // The product of the two is below 2^70.
    let one = u128::from(one) * u128::from(factor);
    let size = u128::from(count)
        .saturating_mul(one)
        .saturating_add(share(decimals, one));
    Ok(u64::try_from(size).unwrap_or(u64::MAX))
}

fn digits(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

fn suffix(suffix: &str, as_given: &str, si: bool) -> Result<ByteUnit, ParseSizeError> {
    let mut letters = suffix.chars();
    let (binary, decimal) = match letters.next().map(|letter| letter.to_ascii_uppercase()) {
        // Blanks are allowed before a suffix, but not at the end.
        None if as_given.is_empty() => return Ok(ByteUnit::B),
        Some('B') if letters.as_str().is_empty() => return Ok(ByteUnit::B),
        Some('K') => (ByteUnit::KiB, ByteUnit::KB),
        Some('M') => (ByteUnit::MiB, ByteUnit::MB),
        Some('G') => (ByteUnit::GiB, ByteUnit::GB),
        Some('T') => (ByteUnit::TiB, ByteUnit::TB),
        Some('P') => (ByteUnit::PiB, ByteUnit::PB),
        Some('E') => (ByteUnit::EiB, ByteUnit::EB),
        _ => return Err(ParseSizeError),
    };
    match letters.as_str().to_ascii_uppercase().as_str() {
        "" if si => Ok(decimal),
        "" | "I" | "IB" => Ok(binary),
        "B" => Ok(decimal),
        _ => Err(ParseSizeError),
    }
}

/// Returns the share of a unit that decimals stand for, rounded down.
fn share(decimals: &str, unit: u128) -> u128 {
    // Each digit adds its tenths to the whole units of the share behind it. Rounding that share down
    // before does not change the result, since the digit's own part is a whole number.
    let digits = decimals.bytes().rev().map(|digit| u128::from(digit - b'0'));
    digits.fold(0, |share, digit| (digit * unit + share) / 10)
}

#[cfg(test)]
mod tests;
