//! Amounts and rates, as wide at every magnitude, and the sizes that options take.

use byte_unit::{Byte, Unit as ByteUnit};

/// What is counted, and how it is named.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unit {
    /// Bytes: `1.50KiB`.
    Bytes,
    /// Bytes, shown as eight times as many bits: `12.0Kib`.
    Bits,
    /// Lines, in thousands and without a letter: `1.50k`.
    Lines,
}

/// An amount in four columns, its prefix and its letter: ` 999  B`, `1.00KiB`.
///
/// # Examples
///
/// ```
/// use zcopy_cli::number::{Unit, amount};
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

/// A rate in four columns, its prefix and its letter: ` 157MiB/s`.
///
/// # Examples
///
/// ```
/// use zcopy_cli::number::{Unit, rate};
///
/// assert_eq!(rate(1.5e6, Unit::Bytes, false), "1.43MiB/s");
/// assert_eq!(rate(0.5, Unit::Lines, false), " 500m/s");
/// ```
#[must_use]
pub fn rate(per_second: f64, unit: Unit, si: bool) -> String {
    format!("{}/s", quantity(per_second, unit, si))
}

/// An amount as a bare number: bytes or lines, or bits.
#[must_use]
pub fn bare_amount(count: u64, unit: Unit) -> String {
    // Wider than the count, which would overflow in bits.
    (u128::from(count) * u128::from(unit.factor())).to_string()
}

/// A rate as a bare number with four decimals.
#[must_use]
pub fn bare_rate(per_second: f64, unit: Unit) -> String {
    format!("{:.4}", sound(per_second) * f64::from(unit.factor()))
}

impl Unit {
    /// How many of what is shown are in one of what is counted.
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
            // What is slower than that moves no more than what stands still, in the same columns.
            (value, prefix) = match smaller.next() {
                Some(next) => (value * step, *next),
                None => (0.0, above[0]),
            };
        }
    }
    format!("{}{prefix}{letter}", four_columns(value))
}

/// Three digits and a point, or four digits, which are never rounded up to five.
fn four_columns(value: f64) -> String {
    // From here on a decimal would be rounded to one hundred, which has none.
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

/// What cannot be shown, because an interval was empty, is shown as nothing.
fn sound(value: f64) -> f64 {
    if value.is_finite() {
        value.max(0.0)
    } else {
        0.0
    }
}

/// What stands where a size should.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("numeric value not understood")]
pub struct NotASize;

/// Parses a size as options take it: digits, decimals if need be, and a suffix.
///
/// `K`, `M`, `G`, `T`, `P` and `E` are powers of 1024, or of 1000 with `si`. `KiB` and so on are
/// always powers of 1024, and `KB` powers of 1000. Upper and lower case are the same. A size is
/// rounded down to whole bytes, and one that is too large for 64 bits becomes the largest.
///
/// # Examples
///
/// ```
/// use zcopy_cli::number::parse_size;
///
/// assert_eq!(parse_size("1.5K", false), Ok(1536));
/// assert_eq!(parse_size("1.5K", true), Ok(1500));
/// assert_eq!(parse_size("1.5KiB", true), Ok(1536));
/// assert_eq!(parse_size("1.5KB", false), Ok(1500));
/// assert!(parse_size("1KiBs", false).is_err());
/// ```
///
/// # Errors
///
/// [`NotASize`] for a sign, a number without a digit before the point, and every other suffix.
pub fn parse_size(text: &str, si: bool) -> Result<u64, NotASize> {
    let text = text.trim_start_matches([' ', '\t']);
    let (whole, rest) = digits(text);
    if whole.is_empty() {
        return Err(NotASize);
    }
    let (decimals, rest) = match rest.strip_prefix(['.', ',']) {
        Some(rest) => digits(rest),
        None => ("", rest),
    };
    let unit = suffix(rest.trim_start_matches([' ', '\t']), rest, si)?;
    // Only digits are left, so what does not parse is too large.
    let Ok(count) = whole.parse::<u64>() else {
        return Ok(u64::MAX);
    };
    let one = Byte::from_u64_with_unit(1, unit).map_or(1, Byte::as_u64);
    let size = u128::from(count) * u128::from(one) + u128::from(share(decimals, one));
    Ok(u64::try_from(size).unwrap_or(u64::MAX))
}

/// A rate as options take it: as [`parse_size`], but for what is slower than one byte a second.
///
/// That is one byte a second; 0 alone is no limit.
///
/// # Errors
///
/// As [`parse_size`].
pub fn parse_rate(text: &str, si: bool) -> Result<u64, NotASize> {
    let rate = parse_size(text, si)?;
    let is_nothing = !text.contains(|c: char| matches!(c, '1'..='9'));
    Ok(if is_nothing { 0 } else { rate.max(1) })
}

fn digits(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

fn suffix(suffix: &str, as_given: &str, si: bool) -> Result<ByteUnit, NotASize> {
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
        _ => return Err(NotASize),
    };
    match letters.as_str().to_ascii_uppercase().as_str() {
        "" if si => Ok(decimal),
        "" | "IB" => Ok(binary),
        "B" => Ok(decimal),
        _ => Err(NotASize),
    }
}

/// The decimals' share of a unit, in whole bytes.
fn share(decimals: &str, unit: u64) -> u64 {
    // The 21st decimal of the largest unit, 2^60, is less than a hundredth of a byte.
    let decimals = &decimals[..decimals.len().min(20)];
    let numerator = decimals.parse::<u128>().unwrap_or(0) * u128::from(unit);
    let size = numerator / 10_u128.pow(decimals.len() as u32);
    // A share is less than the unit.
    u64::try_from(size).unwrap_or(unit)
}

#[cfg(test)]
mod tests;
