//! Values of options.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use zcopy::RateLimiter;

use crate::common::cli::keyword::Keyword;
use crate::common::cli::value::{self, ValueParser};
use crate::common::digest::Backend;
use crate::common::progress::units::{parse_rate, parse_size};
use crate::dircopy::manifest::checksum::ChecksumAlgorithm;
use crate::dircopy::manifest::kind::ManifestKind;
use crate::dircopy::policy::Policy;
use crate::dircopy::policy::Verify;

impl Keyword for Policy {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("default", Policy::Default),
        ("never", Policy::Never),
        ("always", Policy::Always),
        ("update", Policy::Update),
    ];
}

/// When files are hashed together, in the lanes of vector registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lanes {
    Auto,
    Always,
    Never,
}

impl Keyword for Lanes {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("always", Self::Always),
        ("never", Self::Never),
    ];
}

impl Lanes {
    /// The implementation of digests.
    pub(crate) fn backend(self) -> Backend {
        match self {
            Self::Auto => Backend::best(),
            Self::Always => Backend::in_lanes(),
            Self::Never => Backend::sequential(),
        }
    }
}

impl Keyword for ChecksumAlgorithm {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("sha256", Self::Sha256),
        ("blake3", Self::Blake3),
        ("md5", Self::Md5),
        ("sha1", Self::Sha1),
        ("sha512", Self::Sha512),
        ("xxh128", Self::Xxh128),
        ("xxh64", Self::Xxh64),
        ("xxh3", Self::Xxh3),
        // The ASC's name of SHA-512 in base 58.
        ("c4", Self::Sha512),
    ];
}

impl Keyword for Verify {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("copy", Verify::Copy),
        ("source", Verify::Source),
        ("both", Verify::Both),
    ];
}

impl Keyword for ManifestKind {
    const WORDS: &'static [(&'static str, Self)] = &[
        (Self::Sums.word(), Self::Sums),
        (Self::Mhl.word(), Self::Mhl),
        (Self::Bag.word(), Self::Bag),
    ];
}

/// Parses any path, also an empty one: opening it gives the better error message.
pub(super) fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// The most jobs, and the most blocks that wait. More would only take memory.
const MAX_NUMBER: usize = 4096;

/// Parses a number of jobs or blocks.
pub(super) fn number(what: &'static str) -> ValueParser<NonZeroUsize> {
    value::parser(what, "1 to 4096 expected", |text| {
        let number = text.parse().ok().filter(|n| *n <= MAX_NUMBER);
        number.and_then(NonZeroUsize::new)
    })
}

/// The largest block: 1 GiB.
const LARGEST_BLOCK: u64 = 1 << 30;

/// A smaller block is rounded up to this: 4 KiB.
const SMALLEST_BLOCK: usize = 4 << 10;

/// Parses the size of a block.
pub(super) fn block_size() -> ValueParser<NonZeroUsize> {
    value::parser("block size", "1 to 1G expected", |text| {
        let size = parse_size(text, false).ok();
        let size = size.filter(|size| (1..=LARGEST_BLOCK).contains(size));
        // 1 GiB fits into 32 bits.
        let size = size.and_then(|size| usize::try_from(size).ok());
        size.and_then(|size| NonZeroUsize::new(size.max(SMALLEST_BLOCK)))
    })
}

/// The value of `--bwlimit`: bytes in a thousand seconds, or 0 without a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate(u64);

impl Rate {
    /// The limiter that all jobs share. `None` without a limit.
    pub(crate) fn rate_limiter(self) -> Option<RateLimiter> {
        (self.0 > 0).then(|| RateLimiter::per(self.0, Duration::from_secs(1000)))
    }
}

/// Parses a rate.
pub(super) fn rate() -> ValueParser<Rate> {
    value::parser("rate", "bytes per second expected, such as 10MiB", |text| {
        parse_rate(text, false).ok().map(Rate)
    })
}
