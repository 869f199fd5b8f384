//! How much a benchmark moves.

#![allow(
    clippy::expect_used,
    reason = "a benchmark that cannot run says why and ends"
)]

/// The sizes to measure: 64 KiB, 1 MiB, 64 MiB and 1 GiB, or those in `ZCOPY_BENCH_SIZES`
/// (`64KiB,1MiB`).
///
/// # Panics
///
/// If the variable holds anything else than sizes.
#[allow(dead_code, reason = "one benchmark has sizes of its own")]
pub(crate) fn sizes() -> Vec<(String, u64)> {
    sizes_or("64KiB,1MiB,64MiB,1GiB")
}

/// The sizes in `ZCOPY_BENCH_SIZES`, or else these.
///
/// # Panics
///
/// If the variable holds anything else than sizes.
pub(crate) fn sizes_or(default: &str) -> Vec<(String, u64)> {
    let asked = std::env::var("ZCOPY_BENCH_SIZES");
    let sizes = asked.as_deref().unwrap_or(default);
    let parse = |name: &str| {
        let size: byte_unit::Byte = name.parse().expect("a size");
        (name.to_owned(), size.as_u64())
    };
    sizes.split(',').map(parse).collect()
}
