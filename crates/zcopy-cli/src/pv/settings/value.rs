//! Parsers of option values, and messages about invalid ones in the wording of pv: `-s: x: numeric
//! value not understood`.

use std::ffi::OsStr;
use std::str::FromStr;

use clap::ArgMatches;
use clap::parser::ValueSource;
use rustix::fs::FileType;

use super::{JsonOutput, Sides, Size};
use crate::common::cli::quote::quoted;
use crate::common::io::same_file;
use crate::common::progress::units::parse_size;
use crate::common::sys;
use crate::pv::display::bar::BarStyle;

/// The expectation that an invalid size or rate does not meet.
pub(super) const SIZE: &str = "numeric value not understood";

/// The expectation that invalid seconds do not meet.
const SECONDS: &str = "numeric argument expected";

/// The expectation that an invalid whole number does not meet.
const INTEGER: &str = "integer argument expected";

/// Returns the message about an invalid value of an option.
pub(super) fn invalid(option: &str, given: &OsStr, complaint: &str) -> String {
    format!("{option}: {}: {complaint}", quoted(given))
}

/// Parses the value of an option, or returns the message about an invalid one.
pub(super) fn read<T>(
    option: &str,
    given: Option<&OsStr>,
    complaint: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, String> {
    let Some(given) = given else {
        return Ok(None);
    };
    match parse(&given.to_string_lossy()) {
        Some(value) => Ok(Some(value)),
        None => Err(invalid(option, given, complaint)),
    }
}

/// Parses a whole number. Numbers above `max` become `max`.
pub(crate) fn number<T: FromStr + Copy>(
    option: &str,
    given: Option<&OsStr>,
    max: T,
) -> Result<Option<T>, String> {
    let parse = |text: &str| {
        let digits = text.trim_start_matches([' ', '\t']);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        // Digits that do not parse are too large.
        is_number.then(|| digits.parse().unwrap_or(max))
    };
    read(option, given, INTEGER, parse)
}

pub(super) fn seconds(option: &str, given: Option<&OsStr>) -> Result<Option<f64>, String> {
    let parse = |text: &str| {
        let text = text.trim_start_matches([' ', '\t']).replace(',', ".");
        let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_number = !whole.is_empty() && are_digits(whole) && are_digits(decimals);
        let seconds = text.parse::<f64>().ok().filter(|_| is_number)?;
        seconds.is_finite().then_some(seconds)
    };
    read(option, given, SECONDS, parse)
}

pub(super) fn size(given: &OsStr, si: bool) -> Result<Size, String> {
    use std::os::unix::ffi::OsStrExt as _;
    if let Some(path) = given.as_bytes().strip_prefix(b"@") {
        return Ok(Size::SameAs(OsStr::from_bytes(path).into()));
    }
    let parse = |text: &str| parse_size(text, si).ok();
    let size = read("-s", Some(given), SIZE, parse)?;
    Ok(Size::Exact(size.unwrap_or_default()))
}

pub(super) fn sides(given: &OsStr) -> Result<Sides, String> {
    match given.as_encoded_bytes() {
        b"in" | b"0" => Ok(Sides::Input),
        b"out" | b"1" => Ok(Sides::Output),
        b"both" | b"2" => Ok(Sides::Both),
        _ => Err(invalid("-M", given, "invalid side specification")),
    }
}

pub(super) fn style(given: Option<&OsStr>) -> Result<BarStyle, String> {
    let style = read("-u", given, "invalid bar style", BarStyle::parse)?;
    Ok(style.unwrap_or_default())
}

pub(super) fn every(given: Option<&OsStr>) -> Result<f64, String> {
    let parse = |text: &str| {
        let percent = text.trim_end_matches('%').parse::<f64>().ok()?;
        (percent > 0.0 && percent <= 100.0).then_some(percent)
    };
    let complaint = "percentage above 0 and up to 100 expected";
    Ok(read("--every", given, complaint, parse)?.unwrap_or(10.0))
}

/// Parses the output for objects. Returns `None` for standard error.
pub(super) fn json_output(given: &OsStr) -> Result<Option<JsonOutput>, String> {
    use std::os::unix::ffi::OsStrExt as _;
    let bytes = given.as_bytes();
    if bytes.is_empty() {
        return Err(invalid("--json", given, "file or descriptor expected"));
    }
    if !bytes.iter().all(u8::is_ascii_digit) {
        return Ok(Some(JsonOutput::File(given.into())));
    }
    let fd = read("--json", Some(given), "invalid descriptor", |text| {
        text.parse().ok()
    })?;
    Ok(fd.filter(|fd| *fd != 2).map(JsonOutput::Fd))
}

impl JsonOutput {
    /// Returns whether this is standard error by another name: a path of descriptor 2, a descriptor
    /// of the same file, or a path of its pipe, socket or terminal.
    pub(super) fn is_stderr(&self) -> bool {
        const PATHS: [&str; 3] = ["/dev/stderr", "/dev/fd/2", "/proc/self/fd/2"];
        let stat = match self {
            Self::Fd(fd) => sys::duplicate(*fd).and_then(|fd| Ok(rustix::fs::fstat(fd)?)),
            Self::File(path) if PATHS.iter().any(|stderr| path.as_os_str() == *stderr) => {
                return true;
            }
            Self::File(path) => rustix::fs::stat(path).map_err(Into::into),
        };
        let (Ok(stat), Ok(stderr)) = (stat, rustix::fs::fstat(rustix::stdio::stderr())) else {
            return false;
        };
        // A second opening of a regular file has a cursor of its own, and would overwrite what the
        // first one writes. The caller refuses it.
        let is_opened_again = matches!(self, Self::File(_))
            && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        !is_opened_again && same_file::is_same(&stat, &stderr)
    }
}

/// Converts a size in memory. Returns `None` for 0.
pub(super) fn nonzero(size: u64) -> Option<usize> {
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    (size > 0).then_some(size)
}

/// Returns whether one option was written before another. Options that follow `-k` take its
/// prefixes.
pub(super) fn precedes(matches: &ArgMatches, first: &str, second: &str) -> bool {
    let place = |id| match matches.value_source(id) {
        Some(ValueSource::CommandLine) => matches.index_of(id),
        _ => None,
    };
    match (place(first), place(second)) {
        (Some(first), Some(second)) => first < second,
        _ => false,
    }
}
