//! Strategies by their names.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use super::Strategy;

/// Parses the [name](Strategy::name) of a strategy, for options of a command line or a
/// configuration.
///
/// # Examples
///
/// ```
/// use zcopy::Strategy;
///
/// assert_eq!("splice_pipe".parse(), Ok(Strategy::SplicePipe));
/// assert!("Splice".parse::<Strategy>().is_err(), "names are in lower case");
/// ```
impl FromStr for Strategy {
    type Err = ParseStrategyError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let mut all = Self::all();
        all.find(|strategy| strategy.name() == name)
            .ok_or(ParseStrategyError(()))
    }
}

/// The error of a text that is not the [name](Strategy::name) of a [`Strategy`].
///
/// # Examples
///
/// ```
/// use zcopy::Strategy;
///
/// let error = "mmap".parse::<Strategy>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "not one of the strategies reflink, copy_file_range, sendfile, splice, splice_pipe, \
///      buffered, tee"
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseStrategyError(());

impl fmt::Display for ParseStrategyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not one of the strategies ")?;
        for (index, strategy) in Strategy::all().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{strategy}")?;
        }
        Ok(())
    }
}

impl Error for ParseStrategyError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_strategy_parses_back_from_its_name_which_display_prints() {
        assert_eq!(Strategy::all().count(), Strategy::Tee as usize + 1);
        for strategy in Strategy::all() {
            assert_eq!(strategy.name().parse(), Ok(strategy));
            assert_eq!(strategy.to_string(), strategy.name());
        }
    }

    #[test]
    fn a_text_that_is_no_name_is_answered_with_all_names() {
        for text in ["", "tee ", "TEE", "buffer"] {
            let error = text.parse::<Strategy>().unwrap_err().to_string();
            for strategy in Strategy::all() {
                assert!(error.contains(strategy.name()), "{error}");
            }
        }
    }
}
