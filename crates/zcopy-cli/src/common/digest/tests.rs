use super::{Digest, ParseDigestError};

#[test]
fn a_digest_is_read_as_it_is_shown_in_either_case() {
    let bytes = std::array::from_fn(|at| (at * 37) as u8);
    let digest = Digest::from_bytes(bytes);
    let shown = digest.to_string();
    assert!(shown.starts_with("00254a6f94b9de03"), "{shown}");
    assert_eq!(shown.len(), 64);
    assert_eq!(shown.parse(), Ok(digest));
    assert_eq!(shown.to_uppercase().parse(), Ok(digest));
    assert_eq!(format!("{digest:?}"), format!("Digest({shown})"));
}

#[test]
fn what_is_not_64_hexadecimal_digits_is_no_digest() {
    let digits = "0123456789abcdef".repeat(4);
    for not in [
        String::new(),
        digits[1..].to_owned(),
        digits.clone() + "0",
        digits.clone() + "00",
        digits.replace('f', "g"),
        digits.replace("ef", "+1"),
        digits.replace("ef", "1+"),
        digits.replace("ef", " 1"),
        digits.replace("ef", "é"),
    ] {
        assert_eq!(not.parse::<Digest>(), Err(ParseDigestError), "{not:?}");
    }
}
