//! The promises in the documentation of the crate, each with its number.
//!
//! `benches/ratios.rs` measures number 7, never slower than read and write: a test of time fails on a
//! busy machine.

mod blocking_modes;
mod descriptors_unchanged;
mod exact_count;
mod fallback;
mod file_size_limit;
mod full_disk;
mod never_ready;
mod packets;
mod page_sharing;
mod same_outcome;
mod step_length;
mod terminals;

pub(crate) use descriptors_unchanged::leave_no_descriptor_open;

use zcopy::Error;

use crate::endpoints::Source;
use crate::files::assert_same;

/// Asserts that after a failure the bytes that arrived, the bytes that were handed back and the
/// rest of the source are the bytes of the source, in order.
#[track_caller]
pub(crate) fn assert_nothing_lost(
    error: &Error,
    source: Source,
    arrived: &[u8],
    bytes: &[u8],
    what: &str,
) {
    assert_eq!(error.bytes(), arrived.len() as u64, "{what}: {error:#}");
    assert_same(arrived, &bytes[..arrived.len()], what);
    assert_rest(error, source, bytes, what);
}

/// The same if only the error says how many bytes arrived.
#[track_caller]
pub(crate) fn assert_rest(error: &Error, source: Source, bytes: &[u8], what: &str) {
    if let Some(cursor) = source.cursor() {
        assert_eq!(cursor, error.bytes(), "{what}: {error:#}");
        assert_eq!(error.undelivered(), b"", "{what}: a file is rewound");
    }
    let rest = [error.undelivered(), &source.into_rest()].concat();
    let accepted = usize::try_from(error.bytes()).unwrap();
    assert_same(&rest, &bytes[accepted..], what);
}
