//! The names of colours and attributes, and their codes on a terminal (SGR of ECMA-48).

/// The colours. The codes for text are 30 to 37 in this order; those for the background are 10
/// higher.
pub(crate) const COLOURS: [&str; 8] = [
    "black", "red", "green", "yellow", "blue", "magenta", "cyan", "white",
];

/// The attributes that every terminal knows, with their codes.
pub(crate) const ATTRIBUTES: [(&str, u8); 6] = [
    ("bold", 1),
    ("dim", 2),
    ("italic", 3),
    ("underline", 4),
    ("blink", 5),
    ("reverse", 7),
];

/// The sequence that ends all colours and attributes.
pub(crate) const RESET: &str = "\x1b[m";

/// Returns the index of a colour in [`COLOURS`].
pub(crate) fn colour_index(name: &str) -> Option<u8> {
    // There are eight.
    COLOURS
        .iter()
        .position(|known| *known == name)
        .map(|index| index as u8)
}

/// Returns the code of an attribute.
pub(crate) fn attribute(name: &str) -> Option<u8> {
    let found = ATTRIBUTES.iter().find(|(known, _)| *known == name);
    found.map(|(_, code)| *code)
}

/// Returns the sequence that sends codes, which are separated by semicolons.
pub(crate) fn sequence(codes: &str) -> String {
    format!("\x1b[{codes}m")
}
