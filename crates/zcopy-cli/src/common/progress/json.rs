//! Formats for objects in JSON.

use serde::Serialize;

/// Formats an object as a line, without the newline.
pub(crate) fn line(object: &impl Serialize) -> String {
    // Serialization of these types does not fail.
    serde_json::to_string(object).unwrap_or_default()
}

/// Rounds to thousandths, which no measurement exceeds.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
