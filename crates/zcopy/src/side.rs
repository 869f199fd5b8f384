//! Which descriptor a call or an error concerns.

/// One side of a transfer.
///
/// # Examples
///
/// ```
/// use zcopy::{Side, Transfer};
///
/// let directory = std::fs::File::open("/")?;
/// let sink = std::fs::File::create("/dev/null")?;
/// let error = Transfer::new(&directory, &sink).run().unwrap_err();
/// assert_eq!(error.side(), Side::Source);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Side {
    /// Where the bytes come from.
    Source,
    /// Where the bytes go.
    Sink,
    /// Not one side alone: the pair, or what the transfer itself needs.
    Neither,
}
