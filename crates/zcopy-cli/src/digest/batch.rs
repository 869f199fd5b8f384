//! The digests of many slices at once.

use super::sha256::together::{Job, run};
use super::sha256::{INITIAL, digest, padded};
use super::way::Kind;
use super::{Algorithm, Digest, Stream, Way};

/// The digests of all inputs, in their order.
///
/// # Examples
///
/// ```
/// use zcopy_cli::digest::{Algorithm, digests};
///
/// let found = digests(Algorithm::Sha256, &[b"", b"abc"]);
/// assert!(found[0].to_string().starts_with("e3b0c442"));
/// assert!(found[1].to_string().starts_with("ba7816bf"));
/// ```
#[must_use]
pub fn digests(algorithm: Algorithm, inputs: &[&[u8]]) -> Vec<Digest> {
    let mut digests = vec![Digest::from_bytes([0; Digest::BYTES]); inputs.len()];
    digest_each(algorithm, Way::best(), inputs, &mut digests);
    digests
}

/// Puts the digest of every input into its place in `digests`.
///
/// SHA-256 in lanes allocates nothing.
///
/// # Examples
///
/// ```
/// use zcopy_cli::digest::{Algorithm, Digest, Way, digest_each, digests};
///
/// let inputs: [&[u8]; 3] = [b"one", b"two", b"three"];
/// let mut found = [Digest::from_bytes([0; 32]); 3];
/// digest_each(Algorithm::Sha256, Way::in_lanes(), &inputs, &mut found);
/// assert_eq!(found[..], digests(Algorithm::Sha256, &inputs));
/// ```
///
/// # Panics
///
/// If there are more or fewer places than inputs.
pub fn digest_each(algorithm: Algorithm, way: Way, inputs: &[&[u8]], digests: &mut [Digest]) {
    assert_eq!(inputs.len(), digests.len(), "a place for every digest");
    let places = inputs.iter().zip(digests);
    match (algorithm, way.kind()) {
        (Algorithm::Sha256, Kind::Lanes(level)) => {
            let jobs = places.map(|(input, place)| {
                let (body, rest) = input.as_chunks();
                Job {
                    owner: place,
                    state: INITIAL,
                    head: &[],
                    body,
                    tail: padded(rest, input.len() as u64),
                }
            });
            run(level, jobs, |place, state| *place = digest(&state));
        }
        (Algorithm::Sha256, Kind::OneByOne) | (Algorithm::Blake3, _) => {
            for (input, place) in places {
                let mut stream = Stream::new(algorithm);
                stream.update(input);
                *place = stream.finish();
            }
        }
    }
}

#[cfg(test)]
mod tests;
