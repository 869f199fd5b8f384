//! [`Style`]: the colours and attributes of text, as escape sequences (SGR of ECMA-48).

use std::str::FromStr;

use crate::common::cli::quote;
use crate::common::terminal::sgr;

/// The code of the one attribute that [`sgr::ATTRIBUTES`] leaves out.
const STRIKE: u8 = 9;

/// The sequence that ends every style.
const RESET: &[u8] = b"\x1b[0m";

/// The style is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StyleError {
    /// It has no word.
    #[error("it is empty; it may consist of {}", known_words())]
    Empty,
    /// One of its words is unknown.
    #[error("{} is none of {}", quote::argument(.0.as_ref()), known_words())]
    Unknown(String),
}

/// Colours and attributes of text, separated by commas or spaces.
///
/// - `black`, `red`, `green`, `yellow`, `blue`, `magenta`, `cyan`, `white`, and each as
///   `bright-red`; `gray` or `grey`
/// - `0` to `255`: that colour of the terminal's palette
/// - `#rrggbb`: any colour
/// - each of these as the background: `on-red`, `on-bright-red`, `on-208`, `on-#rrggbb`
/// - `bold`, `dim`, `italic`, `underline`, `blink`, `reverse`, `strike`
///
/// # Examples
///
/// ```
/// use zcopy_cli::cat::highlight::style::Style;
///
/// let style: Style = "bold,red on-#002b36".parse().unwrap();
/// let mut out = Vec::new();
/// style.push(b"text", &mut out);
/// assert_eq!(out, b"\x1b[1;31;48;2;0;43;54mtext\x1b[0m");
///
/// let error = "bold,rde".parse::<Style>().unwrap_err();
/// assert!(error.to_string().contains("rde"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Style {
    /// The sequence that begins the style.
    begin: String,
}

impl Style {
    /// Appends text in this style to `out`.
    pub fn push(&self, text: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(self.begin.as_bytes());
        out.extend_from_slice(text);
        out.extend_from_slice(RESET);
    }
}

impl FromStr for Style {
    type Err = StyleError;

    fn from_str(words: &str) -> Result<Self, StyleError> {
        let codes: Vec<String> = words
            .split([',', ' '])
            .filter(|word| !word.is_empty())
            .map(|word| codes(word).ok_or_else(|| StyleError::Unknown(word.to_owned())))
            .collect::<Result<_, _>>()?;
        if codes.is_empty() {
            return Err(StyleError::Empty);
        }
        Ok(Self {
            begin: sgr::sequence(&codes.join(";")),
        })
    }
}

/// Returns the SGR codes of a word.
fn codes(word: &str) -> Option<String> {
    let attribute = match word {
        "strike" => Some(STRIKE),
        word => sgr::attribute(word),
    };
    if let Some(code) = attribute {
        return Some(code.to_string());
    }
    // The code of a background colour is that of the text colour plus 10.
    let (colour, offset) = match word.strip_prefix("on-") {
        Some(colour) => (colour, 10),
        None => (word, 0),
    };
    if let Some(hex) = colour.strip_prefix('#') {
        let (red, green, blue) = channels(hex)?;
        return Some(format!("{};2;{red};{green};{blue}", 38 + offset));
    }
    if colour.bytes().all(|byte| byte.is_ascii_digit()) {
        let index: u8 = colour.parse().ok()?;
        return Some(format!("{};5;{index}", 38 + offset));
    }
    let (name, base) = match (colour, colour.strip_prefix("bright-")) {
        ("gray" | "grey", _) => ("black", 90),
        (_, Some(name)) => (name, 90),
        (name, None) => (name, 30),
    };
    Some((base + offset + sgr::colour_index(name)?).to_string())
}

/// Parses `rrggbb` into red, green and blue.
fn channels(hex: &str) -> Option<(u8, u8, u8)> {
    if hex.len() != 6 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let [_, red, green, blue] = u32::from_str_radix(hex, 16).ok()?.to_be_bytes();
    Some((red, green, blue))
}

/// Lists the words of styles.
fn known_words() -> String {
    let attributes: Vec<_> = sgr::ATTRIBUTES.iter().map(|(name, _)| *name).collect();
    format!(
        "{}, gray, bright-COLOR, 0 to 255, #rrggbb, on-COLOR, {}, strike",
        sgr::COLOURS.join(", "),
        attributes.join(", ")
    )
}

#[cfg(test)]
mod tests;
