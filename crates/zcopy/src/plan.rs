//! Decides which strategies serve a transfer, in which order, and why: a pure function of the
//! descriptors and the options.

use std::fmt;

use crate::error::RunError;
use crate::fd_info::{FdInfo, Kind};
use crate::options::{Options, Reflink};
use crate::pipe;
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
pub(crate) use fit::{offload_above, page_sharing};
pub(crate) use repeated::plan_repeated;
pub(crate) use several::plan_several;

/// Up to this many bytes read and write are faster than any offload, because an offload costs more
/// to prepare than it saves; from a file to a pipe only up to [`FILE_TO_PIPE_OFFLOAD_ABOVE`]. GNU
/// cat has the same limit. `benches/ratios.rs` measures each of these sizes.
pub(crate) const OFFLOAD_ABOVE: u64 = 32 << 10;

/// Up to this many bytes read and write are faster from a file on ext4, tmpfs or xfs to a file or
/// `/dev/null`.
pub(crate) const FILE_OFFLOAD_ABOVE: u64 = 64 << 10;

/// Up to this many bytes read and write are at least as fast as `splice` and `sendfile` from a file
/// to a pipe. It is lower than [`OFFLOAD_ABOVE`] because these two need no private pipe here.
pub(crate) const FILE_TO_PIPE_OFFLOAD_ABOVE: u64 = 12 << 10;

/// A transfer of more bytes than this enlarges the caller's pipes. Fewer bytes fit into a pipe of
/// the default size, and gain nothing from a larger one.
pub(crate) const GROW_PIPES_ABOVE: u64 = pipe::DEFAULT_CAPACITY as u64;

/// The length in bytes of the shortest warm-up, during which a strategy that needs no preparation
/// serves a pipe or stream socket. After it, one step that moves [`OFFLOAD_ABOVE`] bytes shows that
/// a private pipe is worth opening.
pub(crate) const WARM_UP: u64 = 128 << 10;

/// The length in bytes of the shortest warm-up from a stream socket to a pipe, where the private pipe
/// saves both copies.
const WARM_UP_TO_PIPE: u64 = 64 << 10;

/// A stream socket that still holds this many bytes after the warm-up has a private pipe opened for
/// it at once.
const WAITING_BULK: u64 = 128 << 10;

/// The same if the sink is a pipe.
const WAITING_BULK_TO_PIPE: u64 = 96 << 10;

/// After this many bytes a private pipe is opened for a stream socket that holds fewer: more bytes
/// are likely to follow.
pub(crate) const LONG_STREAM: u64 = 512 << 10;

/// Up to this many bytes a private pipe costs more than it saves, and strategies that need no
/// preparation come first.
pub(crate) const PRIVATE_PIPE_ABOVE: u64 = 256 << 10;

/// Up to this many bytes of a file a private pipe costs more than it saves if the sink is a pipe,
/// or `/dev/null`: at 512 KiB and 1 MiB it measured 0.5 to 0.96 times the speed of `splice` and
/// `sendfile`.
const ONE_CALL: u64 = pipe::WANTED as u64;

/// The reason for the strategy that the caller requested.
const REQUESTED: &str = "the caller asked for it";

/// The reason against the other strategies if the caller requested one.
const ANOTHER: &str = "the caller asked for another strategy";

/// The strategies of a transfer, in the order in which it tries them, each with a reason.
///
/// A plan shows how a transfer would move bytes before it moves any. Afterwards
/// [`Report::attempts`](crate::Report::attempts) tells which strategies did move bytes. The tools
/// print a plan for `--explain`: its `Display` has one line for each candidate.
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
/// assert!(plan.to_string().starts_with("pipe -> /dev/null\n  chosen    splice_pipe"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Plan {
    candidates: Vec<Candidate>,
    source: FdInfo,
    sinks: Vec<FdInfo>,
    /// The strategy of each sink, if there are several sinks.
    sink_candidates: Vec<Candidate>,
    warm_up: Option<Strategy>,
}

/// Plans a transfer from one source to one sink.
///
/// # Errors
///
/// Fails if the caller requested a strategy that cannot serve this pair.
pub(crate) fn plan(source: &FdInfo, sink: &FdInfo, options: &Options) -> Result<Plan, RunError> {
    let requested = requested(options);
    if let Some(requested) = requested {
        check_requested(requested, source, sink, options)?;
    }
    let mut candidates = order(source, sink, options).map(|strategy| {
        let (verdict, reason) = match requested {
            Some(requested) if requested == strategy => (Verdict::Fallback, REQUESTED),
            Some(_) => (Verdict::Skipped, ANOTHER),
            None => match fit(strategy, source, sink, options) {
                Fit::Good(reason) => (Verdict::Fallback, reason),
                Fit::Poor(reason) | Fit::Not(reason) => (Verdict::Skipped, reason),
            },
        };
        Candidate::new(strategy, verdict, reason)
    });
    // The sort is stable: strategies that are used keep their order, and skipped ones come last.
    candidates.sort_by_key(|candidate| candidate.verdict == Verdict::Skipped);
    candidates[0].verdict = Verdict::Chosen;
    let warm_up = match source.kind {
        _ if requested.is_some() || !candidates[0].strategy.facts().has_private_pipe => None,
        Kind::Pipe if !(sink.kind == Kind::Pipe || goes_by_cursor(sink, options)) => {
            Some(Strategy::Splice)
        }
        Kind::Pipe | Kind::Stream => Some(Strategy::Buffered),
        _ => None,
    };
    Ok(Plan {
        warm_up,
        ..Plan::new(candidates.to_vec(), source, &[*sink])
    })
}

/// Returns up to how many bytes read and write serve a pair on every file system.
pub(crate) fn offload_above_anywhere(source: Kind, sink: Kind) -> u64 {
    match (source, sink) {
        (Kind::Regular, Kind::Pipe) => FILE_TO_PIPE_OFFLOAD_ABOVE,
        _ => OFFLOAD_ABOVE,
    }
}

/// Returns the length in bytes of the shortest warm-up of a pair.
pub(crate) fn warm_up_len(source: &FdInfo, sink: &FdInfo) -> u64 {
    match (source.kind, sink.kind) {
        (Kind::Stream, Kind::Pipe) => WARM_UP_TO_PIPE,
        _ => WARM_UP,
    }
}

/// Returns how many bytes a stream socket must still hold after the shortest warm-up, so that a
/// private pipe is opened at once.
pub(crate) fn waiting_bulk(sink: &FdInfo) -> u64 {
    match sink.kind {
        Kind::Pipe => WAITING_BULK_TO_PIPE,
        _ => WAITING_BULK,
    }
}

/// Returns whether a private pipe saves more than it costs from the first byte, if 64 KiB wait in
/// the source and more bytes are likely to follow.
pub(crate) fn gains_from_private_pipe(source: &FdInfo, sink: &FdInfo) -> bool {
    source.kind == Kind::Pipe && matches!(sink.kind, Kind::Stream | Kind::Regular)
}

/// Returns whether bytes go to the sink's cursor, which other processes may move too.
pub(crate) fn goes_by_cursor(sink: &FdInfo, options: &Options) -> bool {
    sink.is_seekable() && options.sink_offset.is_none()
}

/// Returns the number of bytes left to move, if the source's size or the limit bounds it.
pub(crate) fn remaining(source: &FdInfo, options: &Options) -> Option<u64> {
    let position = options.source_offset.or(source.cursor).unwrap_or(0);
    let left = source.size.map(|size| size.saturating_sub(position));
    match (left, options.limit) {
        (Some(left), Some(limit)) => Some(left.min(limit)),
        (left, limit) => left.or(limit),
    }
}

/// Returns the only strategy that the caller allows, by [`strategy`](crate::Transfer::strategy) or
/// by [`Reflink::Always`].
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
        "blocks must always be shared, and only reflink does that"
    } else if let Fit::Not(reason) = fit(requested, source, sink, options) {
        reason
    } else if requested == Strategy::Reflink && fit::divides_blocks(source, sink, options) {
        "offsets and limit must be multiples of the file system's block size (usually 4 KiB), \
         except where both files end"
    } else {
        return Ok(());
    };
    Err(RunError::unsuitable(requested, reason))
}

/// Returns the strategies in the order in which a transfer tries them. `docs/strategies.md`
/// has them in a table, and `benches/ratios.rs` has the measurements.
///
/// `reflink` comes first, because it moves no data, and `buffered` last, because it serves every
/// pair. A private pipe of 1 MiB moves the most bytes at a time. Between two files it is faster
/// than `copy_file_range`, which moves 64 KiB at a time inside the kernel. Between two pipes it
/// keeps writer and reader from waiting for each other. But it has to be opened first, which costs
/// a short transfer more than it saves.
fn order(
    source: &FdInfo,
    sink: &FdInfo,
    options: &Options,
) -> [Strategy; Strategy::PAIRWISE.len()] {
    use Strategy::{Buffered, CopyFileRange, Reflink, Sendfile, Splice, SplicePipe};
    let private_pipe_above = match (source.kind, sink.kind) {
        // One call moves all of it, into the sink's own slots if it is a pipe.
        (Kind::Regular, Kind::Pipe | Kind::Null) => ONE_CALL,
        _ => PRIVATE_PIPE_ABOVE,
    };
    let is_short = remaining(source, options).is_some_and(|left| left <= private_pipe_above);
    let [second, third, fourth, fifth] = match (source.kind, sink.kind) {
        _ if is_short => [CopyFileRange, Splice, Sendfile, SplicePipe],
        // A server may copy the file, or the file system may share its blocks.
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
            sink_candidates: Vec::new(),
            warm_up: None,
        }
    }

    /// Returns the strategy that the transfer tries first. If the plan has a
    /// [warm-up](Self::warm_up), the transfer tries it after the warm-up.
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        self.candidates[0].strategy
    }

    /// Returns the strategies that the plan considered: the chosen one, the fallbacks in the order
    /// in which they take over, and the skipped ones. [`Strategy::Tee`] is among them for a
    /// [`FanOut`](crate::FanOut) and for repeated patterns only.
    #[must_use]
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// Returns whether a pipe or socket receives pages instead of a copy, so that a later write to
    /// a file can change bytes that were already sent. The pages are those of a source file, or
    /// those that a source pipe or socket holds, because another process may have spliced or sent a
    /// file's pages there. [`Transfer::stable`](crate::Transfer::stable) rules this out.
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
        let strategies = self.sink_candidates.iter().map(|sink| sink.strategy);
        let strategies = strategies.chain(self.sink_candidates.is_empty().then(|| self.strategy()));
        let shared = strategies
            .zip(&self.sinks)
            .map(|(strategy, sink)| page_sharing(strategy, &self.source, sink));
        shared.max().unwrap_or_default()
    }

    /// Returns the strategy that serves each sink of a [`FanOut`](crate::FanOut), with the reason,
    /// in the order in which the sinks were given. The slice is empty for a
    /// [`Transfer`](crate::Transfer).
    ///
    /// - `tee` shares pages with a sink that is a pipe.
    /// - `splice_pipe` shares pages with a private pipe and splices them from there to the sink.
    /// - `splice` removes the bytes from the shared pipe after all other sinks have received them.
    ///   It serves one sink.
    /// - `buffered` writes from a buffer.
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
    /// assert_eq!(plan.sink_candidates()[0].strategy(), Strategy::Tee);
    /// assert_eq!(plan.sink_candidates()[1].strategy(), Strategy::Splice);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn sink_candidates(&self) -> &[Candidate] {
        &self.sink_candidates
    }

    /// Returns the strategy of the warm-up, or `None` if the plan has no warm-up.
    ///
    /// The warm-up moves the first 128 KiB of a pipe or stream socket, or 64 KiB from a socket to a
    /// pipe, and continues until one step moves 32 KiB or fills the buffer. It continues up to
    /// 512 KiB while a socket that is not relayed holds less than another 128 KiB, or 96 KiB if the
    /// sink is a pipe. After it the transfer changes to
    /// [`strategy`](Self::strategy). A stream may consist of a few short messages, for which a
    /// private pipe costs more than it saves. A pattern that is repeated by `tee` begins with write
    /// for the same reason, for 128 KiB.
    ///
    /// Into a file or stream socket there is no warm-up if the source is a pipe that holds 64 KiB
    /// when the transfer begins and that a writer still has open.
    ///
    /// If a sink refuses the warm-up by `splice`, the transfer continues with the strategy that
    /// follows `splice` in the plan, and not with `splice_pipe`: a sink that takes no splice from
    /// the source takes none from a private pipe.
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
    /// assert_eq!(plan.warm_up(), Some(Strategy::Buffered));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn warm_up(&self) -> Option<Strategy> {
        self.warm_up
    }

    /// Returns the strategy that takes over when `strategy` cannot go on: the next fallback, or
    /// else `buffered`.
    pub(crate) fn after(&self, strategy: Strategy) -> Strategy {
        let mut later = self.candidates.iter();
        later.find(|candidate| candidate.strategy == strategy);
        later
            .next()
            .filter(|next| next.verdict == Verdict::Fallback)
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
        for (index, (candidate, sink)) in self.sink_candidates.iter().zip(&self.sinks).enumerate() {
            let Candidate {
                strategy, reason, ..
            } = candidate;
            write!(
                f,
                "\nsink {}, {sink}: {strategy}, because {reason}",
                index + 1
            )?;
        }
        if let Some(warm_up) = self.warm_up {
            let len = warm_up_len(&self.source, &self.sinks[0]) >> 10;
            write!(f, "\nwarm-up: {warm_up}, for the first {len} KiB")?;
            if self.source.kind != Kind::Pattern {
                f.write_str(" and until one step moves 32 KiB")?;
            }
            if gains_from_private_pipe(&self.source, &self.sinks[0]) {
                f.write_str(", unless the pipe holds 64 KiB and has a writer at the beginning")?;
            }
            // A relay does not ask its sockets, and shows no plan.
            if self.source.kind == Kind::Stream {
                let waiting = waiting_bulk(&self.sinks[0]) >> 10;
                write!(
                    f,
                    ", or up to 512 KiB while fewer than {waiting} KiB wait in the socket"
                )?;
            }
        }
        write!(f, "{}", self.page_sharing())
    }
}

#[cfg(test)]
mod tests;
