//! C4 identifiers: `c4` and the SHA-512 of a file as a number in base 58, with 88 digits.

use crate::common::digest::checksum::Checksum;

/// The number of digits.
const DIGITS: usize = 88;

/// The length of SHA-512 in bytes.
const BYTES: usize = 64;

const PREFIX: &str = "c4";

/// The identifier of a file with this SHA-512.
pub(super) fn encode(checksum: &Checksum) -> String {
    let bytes = checksum.as_bytes();
    // The crate writes a digit for each zero byte in front; here the whole is one number.
    let first = bytes.iter().position(|byte| *byte != 0);
    let digits = bs58::encode(first.map_or(&[][..], |first| &bytes[first..])).into_string();
    format!("{PREFIX}{digits:1>DIGITS$}")
}

/// The SHA-512 that an identifier has.
pub(super) fn decode(identifier: &str) -> Option<Checksum> {
    let digits = identifier.strip_prefix(PREFIX)?;
    if digits.len() != DIGITS {
        return None;
    }
    let decoded = bs58::decode(digits.trim_start_matches('1'))
        .into_vec()
        .ok()?;
    let mut bytes = vec![0; BYTES.checked_sub(decoded.len())?];
    bytes.extend(decoded);
    Some(Checksum::from_bytes(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::digest::checksum::{ChecksumAlgorithm, Hasher};

    #[test]
    fn the_identifier_of_an_empty_file_is_the_known_one() {
        let empty = Hasher::new(ChecksumAlgorithm::Sha512).finish();
        let identifier = encode(&empty);
        let known = "c459dsjfscH38cYeXXYogktxf4Cd9ibshE3BHUo6a58hBXmRQdZrAkZzsWcbWtDg5oQstpDuni4Hirj75GEmTc1sFT";
        assert_eq!(identifier, known);
        assert_eq!(decode(&identifier), Some(empty));
    }

    #[test]
    fn zeros_in_front_are_a_part_of_the_number() {
        for n_zeros in [0, 1, 2, 63, 64] {
            let mut bytes = [0xff; 64];
            bytes[..n_zeros].fill(0);
            let checksum = Checksum::from_bytes(&bytes);
            let identifier = encode(&checksum);
            assert_eq!(identifier.len(), 90, "{n_zeros}");
            assert_eq!(decode(&identifier), Some(checksum), "{n_zeros}");
        }
        assert_eq!(decode("c4"), None);
        assert_eq!(decode(&format!("c4{}", "z".repeat(88))), None);
    }
}
