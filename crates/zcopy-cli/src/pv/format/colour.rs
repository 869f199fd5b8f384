//! Colours and the like, and the codes that stand for them on a terminal (SGR of ECMA-48).

/// The codes that words stand for; words that stand for none are left out.
pub(super) fn codes(words: &str) -> String {
    let codes = words.split([',', ';']).filter_map(code);
    let codes: Vec<String> = codes.map(|code| code.to_string()).collect();
    codes.join(";")
}

fn code(word: &str) -> Option<u8> {
    if word.bytes().all(|byte| byte.is_ascii_digit()) {
        return word.parse().ok();
    }
    if let Some((_, code)) = ATTRIBUTES.iter().find(|(name, _)| *name == word) {
        return Some(*code);
    }
    let (name, base) = match (word.strip_prefix("fg-"), word.strip_prefix("bg-")) {
        (Some(name), _) => (name, 30),
        (_, Some(name)) => (name, 40),
        // `default` alone could be either.
        _ if word == "default" => return None,
        _ => (word, 30),
    };
    let index = COLOURS.iter().position(|names| names.contains(&name))?;
    // There are ten.
    Some(base + index as u8)
}

/// The colours, in the order of their codes from 30 on.
const COLOURS: [&[&str]; 10] = [
    &["black"],
    &["red"],
    &["green"],
    &["brown", "yellow"],
    &["blue"],
    &["magenta"],
    &["cyan"],
    &["white"],
    &[],
    &["default"],
];

/// Everything but colours, with the codes of ECMA-48.
const ATTRIBUTES: &[(&str, u8)] = &[
    ("reset", 0),
    ("none", 0),
    ("bold", 1),
    ("dim", 2),
    ("italic", 3),
    ("underscore", 4),
    ("underline", 4),
    ("blink", 5),
    ("reverse", 7),
    ("no-bold", 22),
    ("no-dim", 22),
    ("no-italic", 23),
    ("no-underscore", 24),
    ("no-underline", 24),
    ("no-blink", 25),
    ("no-reverse", 27),
];
