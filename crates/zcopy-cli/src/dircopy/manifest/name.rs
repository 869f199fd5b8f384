//! The names of manifests: `shasum.YYYY-MM-DD.HH.MM.SS.txt`.

use std::fmt;
use std::fs;
use std::io;
use std::num::NonZeroU32;
use std::path::Path;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::common::digest::Algorithm;
use crate::common::progress::clock;

/// The name of a manifest. It has the time when the manifest was begun, and the algorithm.
///
/// It reads `shasum.2026-11-21.18.14.38.txt`, or `b3sum.…` where the digests are BLAKE3's, in local
/// time. The second file of one second has a `b` behind the seconds
/// (`shasum.2026-11-21.18.14.38b.txt`), the third a `c`; behind `z` come `zb` to `zz`, `zzb` and so
/// on. So names sort in the order in which they were given, byte by byte as well as in today's
/// locales. Where clocks are put back an hour comes twice, and its names mix.
///
/// Names compare by time, and then by the place within the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// In local time, to the second.
    time: DateTime,
    /// The number of the file within that second, from 1.
    nth: NonZeroU32,
    algorithm: Algorithm,
}

impl Name {
    /// The first name of this second.
    #[must_use]
    pub fn now(algorithm: Algorithm) -> Self {
        Self::at(local_time(), algorithm)
    }

    /// The first name of the second that holds this time.
    #[must_use]
    pub fn at(time: DateTime, algorithm: Algorithm) -> Self {
        // Every time of day has a whole second.
        let time = time.with().subsec_nanosecond(0).build().unwrap_or(time);
        Self {
            time,
            nth: NonZeroU32::MIN,
            algorithm,
        }
    }

    /// The name to take if this one is taken.
    #[must_use]
    pub fn next(self) -> Self {
        Self {
            nth: self.nth.saturating_add(1),
            ..self
        }
    }

    /// The algorithm of the digests in the file.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stem = stem(self.algorithm);
        let time = self.time.strftime("%Y-%m-%d.%H.%M.%S");
        write!(f, "{stem}.{time}")?;
        let mut left = self.nth.get() - 1;
        while left > LETTERS {
            f.write_str("z")?;
            left -= LETTERS;
        }
        if let Some(letter) = ('a'..='z').nth(left as usize).filter(|_| left > 0) {
            write!(f, "{letter}")?;
        }
        f.write_str(".txt")
    }
}

/// How many names of one second end in one letter: `b` to `z`.
const LETTERS: u32 = 25;

impl FromStr for Name {
    type Err = ParseNameError;

    fn from_str(name: &str) -> Result<Self, ParseNameError> {
        parse(name).ok_or(ParseNameError(()))
    }
}

/// The error of a name that is not the name of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the name of a manifest")]
pub struct ParseNameError(());

impl Ord for Name {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let place = |name: &Self| (name.time, name.nth, stem(name.algorithm));
        place(self).cmp(&place(other))
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The names of the manifests in a directory, the newest first. Directories are left out.
///
/// # Errors
///
/// The directory cannot be read.
pub fn all_in(directory: &Path) -> io::Result<Vec<Name>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if let Some(name) = entry.file_name().to_str()
            && let Ok(name) = name.parse()
            && !entry.file_type()?.is_dir()
        {
            names.push(name);
        }
    }
    names.sort_unstable_by(|a: &Name, b| b.cmp(a));
    Ok(names)
}

/// The algorithm of untagged digests in a file of this name: BLAKE3 if the name mentions that
/// algorithm or its tool, otherwise SHA-256.
#[must_use]
pub fn algorithm_of(file: &Path) -> Algorithm {
    let name = file.file_name().unwrap_or_default();
    let name = name.to_string_lossy().to_ascii_lowercase();
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    if name.contains("b3sum") || name.contains("blake3") || extension == Some("b3") {
        Algorithm::Blake3
    } else {
        Algorithm::Sha256
    }
}

fn stem(algorithm: Algorithm) -> &'static str {
    match algorithm {
        // No such manifest has digests of several functions.
        Algorithm::Sha256 | Algorithm::Several(_) => "shasum",
        Algorithm::Blake3 => "b3sum",
    }
}

fn parse(name: &str) -> Option<Name> {
    let (stem, rest) = name.split_once('.')?;
    let algorithm = match stem {
        "shasum" => Algorithm::Sha256,
        "b3sum" => Algorithm::Blake3,
        _ => return None,
    };
    let middle = rest.strip_suffix(".txt")?;
    let time = middle.trim_end_matches(|letter: char| letter.is_ascii_lowercase());
    let letters = &middle[time.len()..];
    let nth = match letters.as_bytes() {
        [] => 1,
        [zs @ .., last @ b'b'..=b'z'] if zs.iter().all(|letter| *letter == b'z') => {
            let zs = u32::try_from(zs.len()).ok()?;
            zs.checked_mul(LETTERS)?
                .checked_add(u32::from(last - b'a') + 1)?
        }
        _ => return None,
    };
    let found = Name {
        time: DateTime::strptime("%Y-%m-%d.%H.%M.%S", time).ok()?,
        nth: NonZeroU32::new(nth)?,
        algorithm,
    };
    // This rejects numbers without leading zeros or with a sign.
    (found.to_string() == name).then_some(found)
}

/// The time of day here.
pub(crate) fn local_time() -> DateTime {
    // Finding a zone by its name, as in `TZ`, takes hundreds of calls. The system's zone has a file
    // of its own.
    let system = match std::env::var_os("TZ") {
        None => fs::read("/etc/localtime").ok(),
        Some(_) => None,
    };
    let system = system.and_then(|rules| TimeZone::tzif("Local", &rules).ok());
    let zone = system.unwrap_or_else(clock::local_zone);
    Timestamp::now().to_zoned(zone).datetime()
}

#[cfg(test)]
mod tests;
