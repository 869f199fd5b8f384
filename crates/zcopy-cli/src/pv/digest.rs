//! A digest of everything that passes.

pub(crate) use crate::digest::{Algorithm, Stream};

/// A digest with the name of standard input, as `sha256sum -c` and `b3sum -c` read it.
pub(crate) fn line(stream: Stream) -> String {
    format!("{}  -", stream.finish())
}

#[cfg(test)]
mod tests {
    use super::{Algorithm, Stream, line};

    #[test]
    fn a_line_names_the_digest_and_standard_input() {
        let mut stream = Stream::new(Algorithm::Sha256);
        stream.update(b"abc");
        assert_eq!(
            line(stream),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  -"
        );
    }
}
