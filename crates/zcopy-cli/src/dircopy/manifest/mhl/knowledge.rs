//! How a run knows a digest.

/// How a run knows the digest of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Knowledge {
    /// It has read the file.
    Read,
    /// It has read the file, which differs from its record.
    Differs,
    /// An earlier run has recorded it.
    Carried,
}
