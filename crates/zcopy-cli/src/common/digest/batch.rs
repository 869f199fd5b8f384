//! Digests of several slices.

use sha256_streams::{INITIAL, Job, digest, hash_jobs, padded};

use super::backend::Kind;
use super::{Algorithm, Backend, Digest, Stream};

/// Returns the digests of all inputs, in the order of the inputs.
#[must_use]
pub fn digests(algorithm: Algorithm, inputs: &[&[u8]]) -> Vec<Digest> {
    let mut digests = vec![Digest::from_bytes([0; Digest::BYTES]); inputs.len()];
    digest_each(algorithm, Backend::best(), inputs, &mut digests);
    digests
}

/// Stores the digest of each input in `digests`, in the order of the inputs.
///
/// With SHA-256 of several streams at the same time, this allocates nothing.
///
/// # Panics
///
/// If the lengths of `inputs` and `digests` differ.
pub fn digest_each(
    algorithm: Algorithm,
    backend: Backend,
    inputs: &[&[u8]],
    digests: &mut [Digest],
) {
    assert_eq!(inputs.len(), digests.len(), "one digest for each input");
    let pairs = inputs.iter().zip(digests);
    match (algorithm, backend.kind()) {
        (Algorithm::Sha256, Kind::MultiStream(compressor)) => {
            let jobs = pairs.map(|(input, digest)| {
                let (body, rest) = input.as_chunks();
                Job {
                    owner: digest,
                    state: INITIAL,
                    head: &[],
                    body,
                    tail: padded(rest, input.len() as u64),
                }
            });
            hash_jobs(compressor, jobs, |out, state| {
                *out = Digest::from_bytes(digest(&state));
            });
        }
        (Algorithm::Sha256, Kind::Sequential) | (Algorithm::Blake3 | Algorithm::Several(_), _) => {
            for (input, digest) in pairs {
                let mut stream = Stream::new(algorithm);
                stream.update(input);
                *digest = stream.finish();
            }
        }
    }
}

#[cfg(test)]
mod tests;
