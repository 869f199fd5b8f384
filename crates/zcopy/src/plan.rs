//! Which strategies serve a pair, in which order, and why. A pure function of the two endpoints and
//! the options.

use std::fmt;

use crate::error::RunError;
use crate::fd_info::{FdInfo, Kind};
use crate::options::{Options, Reflink};
use crate::report::PageSharing;
use crate::strategy::Strategy;
use fit::{Fit, fit};

mod candidate;
mod filtered;
mod fit;
mod repeated;
mod several;
mod tee;

pub use candidate::{Candidate, Verdict};

pub(crate) use filtered::plan_filtered;
pub(crate) use fit::{page_sharing, small_file};
pub(crate) use repeated::plan_repeated;
pub(crate) use several::plan_several;

/// Up to this size read and write are faster than any offload: what preparing one costs is more
/// than it saves. GNU cat draws the same line.
pub(crate) const SMALL: u64 = 32 << 10;

/// The same limit from a file on a local file system to a file or `/dev/null`.
pub(crate) const SMALL_FILE: u64 = 64 << 10;

/// So much of a stream of unknown length is moved without preparation before a step of [`SMALL`] bytes
/// or more shows that a private pipe will pay.
pub(crate) const OPENING: u64 = 128 << 10;

/// Up to this size a private pipe costs more than it saves, beside strategies that need no
/// preparation.
pub(crate) const SHORT: u64 = 256 << 10;

const REQUESTED: &str = "it was asked for";
const ANOTHER: &str = "another strategy was asked for";

/// What a transfer would do: every strategy, chosen or skipped, each with its reason.
///
/// Its `Display` is what the tools print for `--explain`: one strategy a line.
///
/// # Examples
///
/// ```
/// use zcopy::{Strategy, Transfer, Verdict};
///
/// let (reader, _writer) = std::io::pipe()?;
/// let sink = std::fs::File::create("/dev/null")?;
/// let plan = Transfer::new(&reader, &sink).plan()?;
/// assert_eq!(plan.strategy(), Strategy::SplicePipe);
/// assert!(!plan.shares_pages());
///
/// let skipped = plan.candidates().iter().find(|c| c.strategy() == Strategy::Reflink);
/// assert!(skipped.is_some_and(|c| c.verdict() == Verdict::Skipped));
/// assert!(plan.to_string().starts_with("pipe -> /dev/null\n  chosen   splice_pipe"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Plan {
    candidates: Vec<Candidate>,
    source: FdInfo,
    sinks: Vec<FdInfo>,
    /// How each sink is served, if there are several.
    per_sink: Vec<Candidate>,
    opening: Option<Strategy>,
}

/// Plans a transfer.
///
/// # Errors
///
/// If the caller insists on a strategy that cannot serve this pair.
pub(crate) fn plan(source: &FdInfo, sink: &FdInfo, options: &Options) -> Result<Plan, RunError> {
    let requested = requested(options);
    if let Some(requested) = requested {
        check_requested(requested, source, sink, options)?;
    }
    let mut candidates = order(source, sink, options).map(|strategy| {
        let (verdict, reason) = match requested {
            Some(requested) if requested == strategy => (Verdict::Reserve, REQUESTED),
            Some(_) => (Verdict::Skipped, ANOTHER),
            None => match fit(strategy, source, sink, options) {
                Fit::Good(reason) => (Verdict::Reserve, reason),
                Fit::Poor(reason) | Fit::Not(reason) => (Verdict::Skipped, reason),
            },
        };
        Candidate::new(strategy, verdict, reason)
    });
    // Stable: those in use keep their order, the skipped come last.
    candidates.sort_by_key(|candidate| candidate.verdict == Verdict::Skipped);
    candidates[0].verdict = Verdict::Chosen;
    let opening = match source.kind {
        _ if requested.is_some() || !candidates[0].strategy.facts().has_private_pipe => None,
        Kind::Pipe if !(sink.kind == Kind::Pipe || goes_by_cursor(sink, options)) => {
            Some(Strategy::Splice)
        }
        Kind::Pipe | Kind::Stream => Some(Strategy::Buffered),
        _ => None,
    };
    Ok(Plan {
        opening,
        ..Plan::new(candidates.to_vec(), source, &[*sink])
    })
}

/// Whether bytes go to a sink by its cursor, which others may move too.
pub(crate) fn goes_by_cursor(sink: &FdInfo, options: &Options) -> bool {
    sink.is_seekable() && options.sink_offset.is_none()
}

/// The bytes that are left to move, if the source's size tells.
pub(crate) fn remaining(source: &FdInfo, options: &Options) -> Option<u64> {
    let position = options.source_offset.or(source.cursor).unwrap_or(0);
    let left = source.size.map(|size| size.saturating_sub(position));
    match (left, options.limit) {
        (Some(left), Some(limit)) => Some(left.min(limit)),
        (left, limit) => left.or(limit),
    }
}

/// The strategy that the caller insists on.
pub(crate) fn requested(options: &Options) -> Option<Strategy> {
    let always = (options.reflink == Reflink::Always).then_some(Strategy::Reflink);
    options.strategy.or(always)
}

/// Checks that the requested strategy can serve a pair.
fn check_requested(
    requested: Strategy,
    source: &FdInfo,
    sink: &FdInfo,
    options: &Options,
) -> Result<(), RunError> {
    let reason = if options.reflink == Reflink::Always && requested != Strategy::Reflink {
        "blocks are to be shared, always, and only a reflink does that"
    } else if let Fit::Not(reason) = fit(requested, source, sink, options) {
        reason
    } else if requested == Strategy::Reflink && fit::divides_blocks(source, sink, options) {
        "offsets and limit must be multiples of the file system's block (4 KiB, as a rule), \
         but for an end where both files end"
    } else {
        return Ok(());
    };
    Err(RunError::unsuitable(requested, reason))
}

/// The order of trial for a pair. What is measured stands in the README's table and in
/// `benches/ratios.rs`.
///
/// A private pipe of 1 MiB moves most at a time: between two files it is ahead of `copy_file_range`, which moves 64 KiB at a
/// time inside the kernel, and between two pipes it keeps both neighbours from waiting for each other. But it has to be made first, which short transfers
/// do not repay.
fn order(
    source: &FdInfo,
    sink: &FdInfo,
    options: &Options,
) -> [Strategy; Strategy::PAIRWISE.len()] {
    use Strategy::{Buffered, CopyFileRange, Reflink, Sendfile, Splice, SplicePipe};
    let is_short = remaining(source, options).is_some_and(|left| left <= SHORT);
    let [second, third, fourth, fifth] = match (source.kind, sink.kind) {
        _ if is_short => [CopyFileRange, Splice, Sendfile, SplicePipe],
        // A server may do the copying, or blocks be shared.
        (Kind::Regular, Kind::Regular) if !fit::never_shares_blocks(source) => {
            [CopyFileRange, SplicePipe, Sendfile, Splice]
        }
        (Kind::Regular | Kind::Block, Kind::Stream) => {
            [Sendfile, SplicePipe, CopyFileRange, Splice]
        }
        _ => [SplicePipe, CopyFileRange, Splice, Sendfile],
    };
    [Reflink, second, third, fourth, fifth, Buffered]
}

impl Plan {
    fn new(candidates: Vec<Candidate>, source: &FdInfo, sinks: &[FdInfo]) -> Self {
        Self {
            candidates,
            source: *source,
            sinks: sinks.to_vec(),
            per_sink: Vec::new(),
            opening: None,
        }
    }

    /// The strategy that comes first.
    ///
    /// # Examples
    ///
    /// See [`Plan`].
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        self.candidates[0].strategy
    }

    /// Every strategy: the chosen one, those in reserve in the order of trial, then the skipped
    /// ones.
    ///
    /// # Examples
    ///
    /// See [`Plan`] and [`Candidate`].
    #[must_use]
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// Whether pages are handed to a pipe or socket in which a later write to a file can still change
    /// them: those of the source file, or those that a source pipe or socket holds, which may be a
    /// file's because somebody spliced or sent them there.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::Transfer;
    ///
    /// let path = std::env::temp_dir().join(format!("zcopy-doc-plan-{}", std::process::id()));
    /// std::fs::write(&path, [7; 60_000])?;
    /// let source = std::fs::File::open(&path)?;
    /// let (_reader, sink) = std::io::pipe()?;
    /// assert!(Transfer::new(&source, &sink).plan()?.shares_pages());
    /// assert!(!Transfer::new(&source, &sink).stable(true).plan()?.shares_pages());
    /// std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn shares_pages(&self) -> bool {
        self.page_sharing() != PageSharing::None
    }

    fn page_sharing(&self) -> PageSharing {
        let strategies = self.per_sink.iter().map(|sink| sink.strategy);
        let strategies = strategies.chain(self.per_sink.is_empty().then(|| self.strategy()));
        let shared = strategies
            .zip(&self.sinks)
            .map(|(strategy, sink)| page_sharing(strategy, &self.source, sink));
        shared.max().unwrap_or_default()
    }

    /// How each sink is served, if there are several, and why: those of
    /// [`also_to`](crate::Transfer::also_to) follow the first. As [`Report::sinks`](crate::Report::sinks)
    /// it can be empty with one sink.
    ///
    /// `tee` shares pages with a sink that is a pipe, and `splice_pipe` with a private pipe from
    /// where they go on; `splice` has one sink take the bytes out when all have their share;
    /// `buffered` writes.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Strategy, Transfer};
    ///
    /// let (source, _writer) = std::io::pipe()?;
    /// let (_reader, sink) = std::io::pipe()?;
    /// let null = std::fs::File::create("/dev/null")?;
    /// let plan = Transfer::new(&source, &sink).also_to(&null).plan()?;
    /// assert_eq!(plan.strategy(), Strategy::Tee);
    /// assert_eq!(plan.sinks()[0].strategy(), Strategy::Tee);
    /// assert_eq!(plan.sinks()[1].strategy(), Strategy::Splice);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn sinks(&self) -> &[Candidate] {
        &self.per_sink
    }

    /// What moves the first 128 KiB of a pipe or stream socket, and more until 32 KiB arrive at once.
    ///
    /// Its traffic may be a few short messages, for which a private pipe costs more than it saves.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::os::unix::net::UnixStream;
    /// use zcopy::{Strategy, Transfer};
    ///
    /// let (_client, server) = UnixStream::pair()?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let plan = Transfer::new(&server, &sink).plan()?;
    /// assert_eq!(plan.strategy(), Strategy::SplicePipe);
    /// assert_eq!(plan.opening(), Some(Strategy::Buffered));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn opening(&self) -> Option<Strategy> {
        self.opening
    }

    /// The strategy that takes over when `strategy` cannot go on: read and write, if no other does.
    pub(crate) fn after(&self, strategy: Strategy) -> Strategy {
        let mut later = self.candidates.iter();
        later.find(|candidate| candidate.strategy == strategy);
        later
            .next()
            .filter(|next| next.verdict == Verdict::Reserve)
            .map_or(Strategy::Buffered, |next| next.strategy)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.sinks[..] {
            [sink] => write!(f, "{} -> {sink}", self.source)?,
            sinks => write!(f, "{} -> {} sinks", self.source, sinks.len())?,
        }
        for candidate in &self.candidates {
            write!(f, "\n  {candidate}")?;
        }
        for (index, (candidate, sink)) in self.per_sink.iter().zip(&self.sinks).enumerate() {
            let Candidate {
                strategy, reason, ..
            } = candidate;
            write!(
                f,
                "\nsink {}, {sink}: {strategy}, because {reason}",
                index + 1
            )?;
        }
        if let Some(opening) = self.opening {
            write!(f, "\nopening: {opening}, for 128 KiB")?;
            if self.source.kind != Kind::Pattern {
                f.write_str(" and until 32 KiB arrive at once")?;
            }
        }
        write!(f, "{}", self.page_sharing())
    }
}
