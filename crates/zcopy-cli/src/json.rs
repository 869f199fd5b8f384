//! Objects in JSON, as programs are told things.

use serde::Serialize;

/// An object as a line, without its end.
pub(crate) fn line(object: &impl Serialize) -> String {
    // Every field of ours can be written.
    serde_json::to_string(object).unwrap_or_default()
}

/// To thousandths: nobody measures more.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
