//! Decides how well each strategy suits a source and a sink, and why.

use super::{
    FILE_OFFLOAD_ABOVE, PRIVATE_PIPE_ABOVE, goes_by_cursor, offload_above_anywhere, remaining,
};
use crate::fd_info::{FdInfo, FileSystem, Kind, Memory};
use crate::options::{Options, Reflink, SkipErrors, Sparse};
use crate::pipe::LARGEST_PACKET;
use crate::report::PageSharing;
use crate::strategy::Strategy;

/// Up to this many bytes a private pipe between two file systems takes longer to open than it
/// saves: it measured 0.78 to 0.88 times the speed of read and write at 64 and 128 KiB, and the
/// same speed at 256 KiB.
const CROSS_FS_PIPE_ABOVE: u64 = 128 << 10;

/// The length of the longest packet of a pipe in packet mode. Under a limit below this, a read
/// might have to take a whole packet, which the limit forbids.
const PACKET: u64 = LARGEST_PACKET as u64;

/// How well a strategy suits a pair, with the reason.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fit {
    /// The strategy serves the pair.
    Good(&'static str),
    /// The strategy would work, but another is better. It is used only if the caller requests it.
    Poor(&'static str),
    /// The strategy cannot serve the pair, or an option forbids it.
    Not(&'static str),
}

pub(super) const APPENDS: &str = "the sink appends (O_APPEND), so the kernel accepts only write";
pub(super) const TERMINAL: &str =
    "a terminal passes few bytes and processes each one, so a splice saves nothing";
pub(super) const UNKNOWN_DEVICE: &str = "it is unknown how this device handles a splice";
pub(super) const GENERATED: &str =
    "the device generates its bytes, and the kernel would allocate new pages for a splice";
pub(super) const DEV_FULL: &str = "only write reports the error of /dev/full (ENOSPC)";
pub(super) const FEW: &str = "few bytes are left, which read and write move faster";
pub(super) const CLAIMS_EMPTY: &str =
    "the source claims size 0, which may be wrong (as in /proc): only read finds its end";
pub(super) const DIVIDES_DIRECT_BLOCKS: &str = "the sink has O_DIRECT and accepts whole blocks: \
     a call that passes part of a block may write some bytes and then fail without counting them";

/// Returns how well one strategy suits a pair.
pub(super) fn fit(strategy: Strategy, source: &FdInfo, sink: &FdInfo, options: &Options) -> Fit {
    let only_buffered = why_only_buffered(source, sink, options);
    let offload = match strategy {
        Strategy::Reflink => fit_reflink(source, sink, options),
        Strategy::CopyFileRange => fit_copy_file_range(source, sink, options),
        Strategy::Sendfile => fit_sendfile(source, sink),
        Strategy::Splice => fit_splice(source, sink, options),
        Strategy::SplicePipe => fit_splice_pipe(source, sink),
        Strategy::Buffered => {
            let reason = only_buffered.or_else(|| why_buffered_is_better(source, sink, options));
            return Fit::Good(reason.unwrap_or("read and write serve every pair"));
        }
        Strategy::Tee => Fit::Not("it shares bytes between several sinks, and there is only one"),
    };
    let is_divided = sink.direct && strategy.divides_direct_blocks(source);
    if let Some(reason) = only_buffered.or(is_divided.then_some(DIVIDES_DIRECT_BLOCKS)) {
        return Fit::Not(reason);
    }
    if matches!(offload, Fit::Not(_)) {
        return offload;
    }
    if let Some(reason) = why_stable_forbids(strategy, source, sink, options) {
        return Fit::Not(reason);
    }
    why_buffered_is_better(source, sink, options).map_or(offload, Fit::Poor)
}

/// Returns why the bytes must pass through user space, where only read and write take them.
pub(super) fn why_user_space(options: &Options) -> Option<&'static str> {
    if options.inspected {
        return Some("the bytes are inspected, so they must pass through user space");
    }
    let counts_records = options.records.is_wanted();
    counts_records.then_some("records are counted, so the bytes must pass through user space")
}

/// Returns why only read and write can serve a pair.
fn why_only_buffered(source: &FdInfo, sink: &FdInfo, options: &Options) -> Option<&'static str> {
    why_user_space(options).or(match (source.kind, sink.kind) {
        _ if sink.append => Some(APPENDS),
        (_, Kind::Regular) if options.sparse == Sparse::Detect => {
            Some("zeros become holes, so the bytes must pass through user space to be searched")
        }
        (Kind::Datagram, _) | (_, Kind::Datagram) => {
            Some("only read and write keep the messages of a datagram socket apart")
        }
        (Kind::Null, _) => Some("/dev/null is always empty, and only read works on it"),
        (_, Kind::Memory(Memory::Full)) => Some(DEV_FULL),
        _ => None,
    })
}

/// Returns why read and write serve a pair best, although an offload could serve it too.
fn why_buffered_is_better(
    source: &FdInfo,
    sink: &FdInfo,
    options: &Options,
) -> Option<&'static str> {
    let left = remaining(source, options);
    let at_most = |bytes| left.is_some_and(|left| left <= bytes);
    match (source.kind, sink.kind) {
        (Kind::Terminal, _) | (_, Kind::Terminal) => Some(TERMINAL),
        (Kind::Other, _) | (_, Kind::Other) => Some(UNKNOWN_DEVICE),
        (Kind::Memory(_), sink) if sink != Kind::Pipe => Some(GENERATED),
        // A splice takes part of a packet, where a read would lose the rest of it.
        (Kind::Pipe, sink)
            if sink != Kind::Pipe && options.limit.is_some_and(|n| (1..PACKET).contains(&n)) =>
        {
            None
        }
        (source, sink) if at_most(offload_above_anywhere(source, sink)) => Some(FEW),
        _ if at_most(offload_above(source, sink, options)) => {
            Some("little of the file is left, and read and write need no preparation")
        }
        (Kind::Regular, Kind::Regular)
            if !source.may_share_blocks(sink) && at_most(CROSS_FS_PIPE_ABOVE) =>
        {
            Some("at most 128 KiB are left, and opening a private pipe takes longer than it saves")
        }
        (Kind::Regular, _) if source.size.is_none() => Some(CLAIMS_EMPTY),
        _ => None,
    }
}

/// Returns the number of bytes up to which read and write are fastest from this source to this
/// sink, because every other strategy needs a reserved range or a private pipe first.
///
/// At 64 KiB read and write measured 1.07 to 1.22 times the speed of the offloads that they
/// replaced. Between files on ext4 and tmpfs they reach the speed of a private pipe at 256 KiB. A
/// clone on xfs measured 0.87 times their speed at 64 KiB, and 1.13 times at 128 KiB. A clone on
/// btrfs takes less than half of their time. On other file systems a server may copy the file.
pub(crate) fn offload_above(source: &FdInfo, sink: &FdInfo, options: &Options) -> u64 {
    use FileSystem::{Ext4, Tmpfs, Xfs};
    match (source.kind, source.file_system, sink.kind) {
        (Kind::Regular, Ext4 | Tmpfs, Kind::Regular) if goes_by_cursor(sink, options) => {
            PRIVATE_PIPE_ABOVE
        }
        (Kind::Regular, Ext4 | Tmpfs | Xfs, Kind::Regular | Kind::Null) => FILE_OFFLOAD_ABOVE,
        (source, _, sink) => offload_above_anywhere(source, sink),
    }
}

/// Returns why neither `reflink` nor `copy_file_range` can serve a pair: both may share blocks.
fn why_no_blocks_are_shared(
    source: &FdInfo,
    sink: &FdInfo,
    options: &Options,
) -> Option<&'static str> {
    if source.kind != Kind::Regular || sink.kind != Kind::Regular {
        return Some("both ends must be regular files");
    }
    if options.reflink == Reflink::Never {
        return Some("it may share blocks, which Reflink::Never forbids");
    }
    if options.sparse == Sparse::Fill {
        return Some("it may keep holes, which Sparse::Fill forbids");
    }
    let skips_errors = options.skip_errors != SkipErrors::Never;
    if skips_errors && options.reflink != Reflink::Always && !never_shares_blocks(source) {
        return Some(
            "it may share blocks without reading them, so skip_errors would find no bad ones",
        );
    }
    if !source.may_share_blocks(sink) {
        return Some("the files are on different file systems");
    }
    None
}

/// Returns whether the source is on a file system that cannot share blocks.
pub(super) fn never_shares_blocks(source: &FdInfo) -> bool {
    matches!(source.file_system, FileSystem::Ext4 | FileSystem::Tmpfs)
}

fn fit_reflink(source: &FdInfo, sink: &FdInfo, options: &Options) -> Fit {
    if let Some(reason) = why_no_blocks_are_shared(source, sink, options) {
        return Fit::Not(reason);
    }
    if never_shares_blocks(source) {
        return Fit::Not("this file system cannot share blocks");
    }
    if options.rate_limit.is_some() {
        return Fit::Not("a clone takes effect at once, so its rate cannot be limited");
    }
    Fit::Good("the files share their blocks, and no data moves, if the file system can do that")
}

fn fit_copy_file_range(source: &FdInfo, sink: &FdInfo, options: &Options) -> Fit {
    if let Some(reason) = why_no_blocks_are_shared(source, sink, options) {
        return Fit::Not(reason);
    }
    if !source.shares_file_system(sink) {
        return Fit::Not(
            "the files are on different btrfs subvolumes, where reflink does the same, \
             or on different file systems",
        );
    }
    if goes_by_cursor(sink, options) && never_shares_blocks(source) {
        return Fit::Poor(
            "it reserves a range at the sink's cursor before it has the bytes, so a gap remains \
             if the source is truncated meanwhile; a private pipe gets the bytes first",
        );
    }
    Fit::Good("the file system copies the data itself, or shares blocks")
}

fn fit_sendfile(source: &FdInfo, sink: &FdInfo) -> Fit {
    if !(source.is_seekable() || matches!(source.kind, Kind::Memory(_) | Kind::Other)) {
        return Fit::Not("it cannot send from a pipe, socket or terminal");
    }
    if sink.is_seekable() {
        return Fit::Not(
            "it writes only at the sink's cursor, which another process may move during the call",
        );
    }
    match sink.kind {
        Kind::Stream => Fit::Good(
            "the socket sends the file's pages: \
             measured 2.9 times the speed of read and write over TCP",
        ),
        Kind::Pipe => {
            Fit::Good("the source's pages go to the pipe, without a copy through user space")
        }
        _ => Fit::Good("the source's pages go to the sink, without a copy through user space"),
    }
}

fn fit_splice(source: &FdInfo, sink: &FdInfo, options: &Options) -> Fit {
    if source.kind != Kind::Pipe && sink.kind != Kind::Pipe {
        return Fit::Not("it needs a pipe at one end, and there is none");
    }
    if goes_by_cursor(sink, options) {
        return Fit::Not(
            "it would reserve a range at the sink's cursor for bytes that may never come",
        );
    }
    match (source.kind, sink.kind) {
        (Kind::Pipe | Kind::Stream, Kind::Pipe) => Fit::Poor(
            "if the sink has no reader, it fails with EPIPE even at the end of the source, \
             where read and write succeed",
        ),
        (Kind::Pipe, _) => {
            Fit::Good("the pipe's pages go to the sink, without a copy through user space")
        }
        _ => Fit::Good("the source's pages go to the pipe, without a copy through user space"),
    }
}

fn fit_splice_pipe(source: &FdInfo, sink: &FdInfo) -> Fit {
    Fit::Good(match (source.kind, sink.kind) {
        (Kind::Regular, Kind::Regular) if never_shares_blocks(source) => {
            "1 MiB at a time through a private pipe: \
             measured 1.2 to 1.3 times the speed of read and write"
        }
        (Kind::Regular, Kind::Pipe) => {
            "1 MiB at a time through a private pipe: \
             above 1 MiB measured as fast as a direct splice, or faster"
        }
        (Kind::Regular, Kind::Null) => {
            "1 MiB at a time through a private pipe: \
             above 1 MiB measured 1.2 times the speed of sendfile"
        }
        (Kind::Pipe, Kind::Pipe) => {
            "1 MiB at a time through a private pipe: \
             measured 1.5 to 4 times the speed of read and write"
        }
        _ => "1 MiB at a time through a private pipe, without a copy through user space",
    })
}

/// Returns whether a clone of the requested range would divide a block: at its start in either
/// file, or at its end. Only at the end of both files may the last block be a part.
///
/// Returns false if the block size of the file system is unknown. Unless the caller requests a
/// clone, whole blocks are shared and another strategy moves the rest.
pub(super) fn divides_blocks(source: &FdInfo, sink: &FdInfo, options: &Options) -> bool {
    let from = options.source_offset.or(source.cursor);
    let to = options.sink_offset.or(sink.cursor);
    let (Some(block), Some(from), Some(to)) = (source.block_size, from, to) else {
        return false;
    };
    let left = source.size.unwrap_or(0).saturating_sub(from);
    let len = options.limit.map_or(left, |limit| left.min(limit));
    let ends_both = len == left && to.saturating_add(len) >= sink.size.unwrap_or(0);
    let is_unaligned = |n: u64| !n.is_multiple_of(block);
    len > 0 && (is_unaligned(from) || is_unaligned(to) || is_unaligned(len) && !ends_both)
}

/// Returns which pages the sink's reader receives that may change before it reads them.
///
/// They are a source file's own pages, or the pages that a source pipe or socket holds, because
/// another process may have spliced or sent them there from a file. Measured on Linux 6.18 with a
/// source pipe that was filled from loopback TCP, from a unix socket or from another pipe: up to
/// 315,904 of 524,288 bytes changed with the file. Every sink but a pipe or socket receives a copy.
pub(crate) fn page_sharing(strategy: Strategy, source: &FdInfo, sink: &FdInfo) -> PageSharing {
    let sink_keeps_pages = matches!(sink.kind, Kind::Pipe | Kind::Stream | Kind::Datagram);
    match source.kind {
        _ if !(strategy.facts().hands_over_pages && sink_keeps_pages) => PageSharing::None,
        Kind::Pipe | Kind::Stream | Kind::Datagram => PageSharing::PassedOn,
        _ if source.is_mutable_file() => PageSharing::OfFile,
        _ => PageSharing::None,
    }
}

/// Returns why [`stable`](crate::Transfer::stable) forbids a strategy.
///
/// # Kernel notes
///
/// A pipe between two files (a private pipe, or the kernel's own in `copy_file_range(2)`) holds the
/// source's pages until they are copied to the sink. If another process truncates the source in
/// that time, the kernel zeroes the rest of the page in which the file now ends, and the sink
/// receives those zeros.
pub(super) fn why_stable_forbids(
    strategy: Strategy,
    source: &FdInfo,
    sink: &FdInfo,
    options: &Options,
) -> Option<&'static str> {
    if !options.stable {
        return None;
    }
    match page_sharing(strategy, source, sink) {
        PageSharing::OfFile => Some(
            "the sink would receive the file's own pages, which a later write changes: \
             stable forbids that",
        ),
        PageSharing::PassedOn => Some(
            "the sink would receive the source's pages, which may belong to a file that \
             can still change: stable forbids that",
        ),
        PageSharing::None => {
            let is_copy_of_file = source.is_mutable_file() && sink.is_seekable();
            (strategy.facts().holds_pages && is_copy_of_file).then_some(
                "a pipe would hold the file's pages before they are copied, and truncation of the \
                 file would replace them by zeros: stable forbids that",
            )
        }
    }
}
