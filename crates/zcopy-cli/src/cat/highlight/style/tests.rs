use super::*;

#[test]
fn words_are_codes() {
    for (words, codes) in [
        ("black", "30"),
        ("red", "31"),
        ("green", "32"),
        ("yellow", "33"),
        ("blue", "34"),
        ("magenta", "35"),
        ("cyan", "36"),
        ("white", "37"),
        ("gray", "90"),
        ("grey", "90"),
        ("bright-black", "90"),
        ("bright-white", "97"),
        ("on-red", "41"),
        ("on-bright-red", "101"),
        ("on-gray", "100"),
        ("0", "38;5;0"),
        ("255", "38;5;255"),
        ("on-208", "48;5;208"),
        ("#ff8000", "38;2;255;128;0"),
        ("on-#0A0b0C", "48;2;10;11;12"),
        ("bold", "1"),
        ("dim", "2"),
        ("italic", "3"),
        ("underline", "4"),
        ("blink", "5"),
        ("reverse", "7"),
        ("strike", "9"),
        ("bold,red", "1;31"),
        (" red  bold, on-white ,", "31;1;47"),
    ] {
        let style: Style = words.parse().unwrap();
        assert_eq!(style.begin, format!("\x1b[{codes}m"), "{words}");
    }
}

#[test]
fn other_words_are_named() {
    for word in [
        "rde",
        "Red",
        "256",
        "-1",
        "+1",
        "#fff",
        "#+12345",
        "#ggffff",
        "on-",
        "on-bold",
        "bright-",
        "bright-gray",
        "on-on-red",
        "on-#",
        "red;bold",
        "é",
        "bright-#ffffff",
    ] {
        let error = format!("bold,{word}").parse::<Style>().unwrap_err();
        assert_eq!(error, StyleError::Unknown(word.to_owned()));
        let message = error.to_string();
        assert!(
            message.contains(&quote::argument(word.as_ref())),
            "{message}"
        );
        assert!(
            message.contains("magenta") && message.contains("strike"),
            "{message}"
        );
    }
    for nothing in ["", " ", ",,"] {
        assert_eq!(nothing.parse::<Style>(), Err(StyleError::Empty));
    }
}
