//! The side of a transfer that a call or an error concerns.

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
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Side {
    /// The descriptor that the bytes come from.
    Source,
    /// The descriptor that the bytes go to.
    Sink,
    /// No single side: the call concerns both descriptors and does not say which one failed, the
    /// transfer waits for both or for its rate, or it lacks a resource such as a private pipe.
    Neither,
}
