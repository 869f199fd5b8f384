//! The names of colours and attributes in formats.

use crate::common::terminal::sgr;

/// Returns the codes of the names. Unknown names are left out.
pub(super) fn codes(words: &str) -> String {
    let codes = words.split([',', ';']).filter_map(code);
    let codes: Vec<String> = codes.map(|code| code.to_string()).collect();
    codes.join(";")
}

fn code(word: &str) -> Option<u8> {
    if word.bytes().all(|byte| byte.is_ascii_digit()) {
        return word.parse().ok();
    }
    attribute(word).or_else(|| colour(word))
}

fn attribute(word: &str) -> Option<u8> {
    let (name, is_off) = match word.strip_prefix("no-") {
        Some(name) => (name, true),
        None => (word, false),
    };
    let code = match name {
        "reset" | "none" if !is_off => return Some(0),
        "underscore" => sgr::attribute("underline")?,
        name => sgr::attribute(name)?,
    };
    Some(match (is_off, code) {
        (false, code) => code,
        // Bold and dim are turned off together.
        (true, 1) => 22,
        (true, code) => 20 + code,
    })
}

fn colour(word: &str) -> Option<u8> {
    let (name, base) = match (word.strip_prefix("fg-"), word.strip_prefix("bg-")) {
        (Some(name), _) => (name, 30),
        (_, Some(name)) => (name, 40),
        // `default` alone could be either.
        _ if word == "default" => return None,
        _ => (word, 30),
    };
    let index = match name {
        "default" => 9,
        "brown" => sgr::colour_index("yellow")?,
        name => sgr::colour_index(name)?,
    };
    Some(base + index)
}

#[cfg(test)]
mod tests {
    use super::codes;

    #[test]
    fn words_stand_for_the_codes_of_the_standard() {
        for (words, expected) in [
            ("red", "31"),
            ("fg-white,bg-brown;bold", "37;43;1"),
            ("bg-yellow,fg-default,bg-default", "43;39;49"),
            ("reset,none,underscore,underline,reverse", "0;0;4;4;7"),
            ("no-bold,no-dim,no-italic", "22;22;23"),
            (
                "no-underscore,no-underline,no-blink,no-reverse",
                "24;24;25;27",
            ),
            ("default,no-reset,no-none,strike,bright-red,", ""),
            ("33,256", "33"),
        ] {
            assert_eq!(codes(words), expected, "{words}");
        }
    }
}
