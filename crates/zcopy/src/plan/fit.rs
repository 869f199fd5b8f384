//! How well each strategy suits a pair of endpoints, and why.

use super::{SHORT, SMALL, SMALL_FILE, goes_by_cursor, remaining};
use crate::fd_info::{FdInfo, FileSystem, Kind, Memory};
use crate::options::{Options, Reflink, SkipErrors, Sparse};
use crate::pipe::LARGEST_PACKET;
use crate::report::PageSharing;
use crate::strategy::Strategy;

/// Up to this size a private pipe between two file systems takes longer to make than it saves: it measured 0.78 to 0.88 times the
/// speed of read and write at 64 and 128 KiB, and was level at 256.
const SMALL_ACROSS: u64 = 128 << 10;

/// A read that wants less of a pipe than this may cut a packet.
const PACKET: u64 = LARGEST_PACKET as u64;

/// How well a strategy suits a pair.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fit {
    Good(&'static str),
    /// It would work, and something else is better: used only if the caller insists.
    Poor(&'static str),
    Not(&'static str),
}

/// How well one strategy suits a pair, and why.
pub(super) fn fit(strategy: Strategy, source: &FdInfo, sink: &FdInfo, options: &Options) -> Fit {
    let only_buffered = why_only_buffered(source, sink, options);
    let offload = match strategy {
        Strategy::Reflink => fit_reflink(source, sink, options),
        Strategy::CopyFileRange => fit_copy_file_range(source, sink, options),
        Strategy::Sendfile => fit_sendfile(source, sink),
        Strategy::Splice => fit_splice(source, sink, options),
        Strategy::SplicePipe => fit_splice_pipe(source, sink),
        Strategy::Buffered => {
            let reason = only_buffered.or_else(|| why_read_and_write(source, sink, options));
            return Fit::Good(reason.unwrap_or("read and write serve every pair"));
        }
        Strategy::Tee => Fit::Not("there is one sink, and nothing to be kept for another"),
    };
    let is_divided = sink.direct && strategy.divides_direct_blocks(source);
    if let Some(reason) = only_buffered.or(is_divided.then_some(DIVIDES)) {
        return Fit::Not(reason);
    }
    if matches!(offload, Fit::Not(_)) {
        return offload;
    }
    if let Some(reason) = why_stable_forbids(strategy, source, sink, options) {
        return Fit::Not(reason);
    }
    why_read_and_write(source, sink, options).map_or(offload, Fit::Poor)
}

/// Returns why only read and write can serve a pair.
fn why_only_buffered(source: &FdInfo, sink: &FdInfo, options: &Options) -> Option<&'static str> {
    match (source.kind, sink.kind) {
        _ if options.inspected => {
            Some("the bytes are inspected, so that they must pass through user space")
        }
        _ if options.records.is_wanted() => {
            Some("records are counted, so that the bytes must pass through user space")
        }
        _ if sink.append => Some("the sink appends, where the kernel offers no offload"),
        (_, Kind::Regular) if options.sparse == Sparse::Detect => {
            Some("zeros are looked for, so that the bytes must pass through user space")
        }
        (Kind::Datagram, _) | (_, Kind::Datagram) => {
            Some("only read and write keep the boundaries of messages")
        }
        (Kind::Null, _) => Some("/dev/null cannot be spliced from"),
        (_, Kind::Memory(Memory::Full)) => Some("/dev/full takes writes alone"),
        _ => None,
    }
}

/// Why a sink that is open with `O_DIRECT` is written to.
pub(super) const DIVIDES: &str = "the sink takes whole blocks: of a piece that is none the kernel may splice a part and then refuse it all";

/// What makes read and write the first choice for a pair that an offload could serve.
fn why_read_and_write(source: &FdInfo, sink: &FdInfo, options: &Options) -> Option<&'static str> {
    let left = remaining(source, options);
    let at_most = |bytes| left.is_some_and(|left| left <= bytes);
    match (source.kind, sink.kind) {
        (Kind::Terminal, _) | (_, Kind::Terminal) => {
            Some("a terminal's bytes are few, and each is looked at anyway")
        }
        (Kind::Other, _) | (_, Kind::Other) => {
            Some("what this device does with a splice is not known")
        }
        (Kind::Memory(_), sink) if sink != Kind::Pipe => Some(
            "the device makes its bytes as they are read; a splice has fresh pages made for them",
        ),
        // A read would want a private pipe, so that it cuts no packet.
        (Kind::Pipe, sink)
            if sink != Kind::Pipe && options.limit.is_some_and(|n| (1..PACKET).contains(&n)) =>
        {
            None
        }
        _ if at_most(SMALL) => Some("at most 32 KiB are left, which read and write move faster"),
        _ if at_most(small_file(source, sink, options)) => {
            Some("little of a file is left, which read and write move to a file faster")
        }
        (Kind::Regular, Kind::Regular)
            if !source.may_share_blocks(sink) && at_most(SMALL_ACROSS) =>
        {
            Some("at most 128 KiB are left, and a private pipe takes longer to make")
        }
        (Kind::Regular, _) if source.size.is_none() => {
            Some("the source claims size 0, which is only true if a read says so")
        }
        _ => None,
    }
}

/// Returns the size up to which read and write move this file to this sink fastest, because every other call needs a
/// reserved range or a private pipe first.
///
/// Read and write measured 1.07 to 1.22 times the speed of what served 64 KiB before; between files on ext4 and tmpfs they
/// are level with a private pipe at 256 KiB. A clone on xfs measured 0.87 times their speed at 64 KiB, and 1.13 times at 128.
/// A clone on btrfs takes less than half of their time. Elsewhere a server may do the copying.
pub(crate) fn small_file(source: &FdInfo, sink: &FdInfo, options: &Options) -> u64 {
    use FileSystem::{Ext4, Tmpfs, Xfs};
    match (source.kind, source.file_system, sink.kind) {
        (Kind::Regular, Ext4 | Tmpfs, Kind::Regular) if goes_by_cursor(sink, options) => SHORT,
        (Kind::Regular, Ext4 | Tmpfs | Xfs, Kind::Regular | Kind::Null) => SMALL_FILE,
        _ => SMALL,
    }
}

/// Returns why neither of the calls that share blocks can serve a pair.
fn why_no_blocks_are_shared(
    source: &FdInfo,
    sink: &FdInfo,
    options: &Options,
) -> Option<&'static str> {
    if source.kind != Kind::Regular || sink.kind != Kind::Regular {
        return Some("both ends must be regular files");
    }
    if options.reflink == Reflink::Never {
        return Some("it may share blocks, and the sink is to have its own");
    }
    if options.sparse == Sparse::Fill {
        return Some("holes are to be filled, and it may keep them");
    }
    let skips_errors = options.skip_errors != SkipErrors::Never;
    if skips_errors && options.reflink != Reflink::Always && !never_shares_blocks(source) {
        return Some("it may share blocks and read nothing, and bad blocks are to be met");
    }
    if !source.may_share_blocks(sink) {
        return Some("the files are on two file systems");
    }
    None
}

/// Whether a file is known to be where no files share blocks.
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
        return Fit::Not("a clone has no rate that could be limited");
    }
    Fit::Good("the files come to share their blocks and no data moves, where the file system can")
}

fn fit_copy_file_range(source: &FdInfo, sink: &FdInfo, options: &Options) -> Fit {
    if let Some(reason) = why_no_blocks_are_shared(source, sink, options) {
        return Fit::Not(reason);
    }
    if !source.shares_file_system(sink) {
        return Fit::Not(
            "the files may be on two file systems, and between subvolumes a clone does as much",
        );
    }
    if goes_by_cursor(sink, options) && never_shares_blocks(source) {
        return Fit::Poor(
            "it reserves a range for bytes that may be cut off the source meanwhile; a private pipe holds them",
        );
    }
    Fit::Good("the file system copies within itself, or shares blocks")
}

fn fit_sendfile(source: &FdInfo, sink: &FdInfo) -> Fit {
    if !(source.is_seekable() || matches!(source.kind, Kind::Memory(_) | Kind::Other)) {
        return Fit::Not("the source is no file");
    }
    if sink.is_seekable() {
        return Fit::Not("the call has no offset for the sink, whose cursor others may move");
    }
    match sink.kind {
        Kind::Stream => Fit::Good(
            "the file's pages go to the socket: measured 2.9 times read and write over TCP",
        ),
        Kind::Pipe => {
            Fit::Good("the file's pages go to the pipe, without a copy through user space")
        }
        _ => Fit::Good("the kernel copies from the source's pages"),
    }
}

fn fit_splice(source: &FdInfo, sink: &FdInfo, options: &Options) -> Fit {
    if source.kind != Kind::Pipe && sink.kind != Kind::Pipe {
        return Fit::Not("neither end is a pipe");
    }
    if goes_by_cursor(sink, options) {
        return Fit::Not("it would wait for bytes at a cursor that others may move meanwhile");
    }
    match (source.kind, sink.kind) {
        (Kind::Pipe | Kind::Stream, Kind::Pipe) => {
            Fit::Poor("at the end of the source it would still blame a sink whose reader has gone")
        }
        (Kind::Pipe, _) => Fit::Good("straight out of the pipe, without a copy through user space"),
        _ => Fit::Good("straight into the pipe, without a copy through user space"),
    }
}

fn fit_splice_pipe(source: &FdInfo, sink: &FdInfo) -> Fit {
    Fit::Good(match (source.kind, sink.kind) {
        (Kind::Regular, Kind::Regular) if never_shares_blocks(source) => {
            "1 MiB at a time through a private pipe: measured 1.2 to 1.3 times read and write"
        }
        (Kind::Regular, Kind::Pipe) => {
            "1 MiB at a time through a private pipe: measured level with a direct splice, or ahead"
        }
        (Kind::Regular, Kind::Null) => {
            "1 MiB at a time through a private pipe: measured 1.2 times sendfile"
        }
        (Kind::Pipe, Kind::Pipe) => {
            "1 MiB at a time through a private pipe: measured 2 to 7 times read and write"
        }
        _ => "1 MiB at a time through a private pipe, without a copy through user space",
    })
}

/// Whether a clone of all that is asked for would divide a block: at either start, or at the end, where
/// only the end of both files may.
///
/// Only told of file systems whose blocks are known. Unless the caller insists, blocks are shared as far
/// as they go.
pub(super) fn divides_blocks(source: &FdInfo, sink: &FdInfo, options: &Options) -> bool {
    let from = options.source_offset.or(source.cursor);
    let to = options.sink_offset.or(sink.cursor);
    let (Some(block), Some(from), Some(to)) = (source.block_size, from, to) else {
        return false;
    };
    let left = source.size.unwrap_or(0).saturating_sub(from);
    let len = options.limit.map_or(left, |limit| left.min(limit));
    let ends_both = len == left && to.saturating_add(len) >= sink.size.unwrap_or(0);
    let is_odd = |n: u64| !n.is_multiple_of(block);
    len > 0 && (is_odd(from) || is_odd(to) || is_odd(len) && !ends_both)
}

/// Whose pages a strategy hands to somebody who reads them later, when they may have changed.
///
/// A file's own pages; and those that a pipe or socket holds, because somebody may have spliced or sent them there from a
/// file. Measured on 6.18: of what came by a pipe that was filled from loopback TCP, from a unix socket or from another pipe,
/// up to 315,904 of 524,288 bytes changed with the file. A sink that is no pipe or socket is given a copy.
pub(crate) fn page_sharing(strategy: Strategy, source: &FdInfo, sink: &FdInfo) -> PageSharing {
    let keeps_them = matches!(sink.kind, Kind::Pipe | Kind::Stream | Kind::Datagram);
    match source.kind {
        _ if !(strategy.facts().hands_over_pages && keeps_them) => PageSharing::None,
        Kind::Pipe | Kind::Stream | Kind::Datagram => PageSharing::PassedOn,
        _ if source.is_mutable_file() => PageSharing::OfFile,
        _ => PageSharing::None,
    }
}

/// Why `stable` forbids a strategy, if it does.
///
/// # Kernel notes
///
/// A pipe between two files, the caller's or the kernel's own in `copy_file_range(2)`, holds the source's pages until they are
/// copied to the sink. If somebody cuts the source off in that time, the kernel zeroes the rest of the page in which the file
/// ends now, and the sink receives those zeros.
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
        PageSharing::OfFile => {
            Some("it would share the file's pages with the sink's reader, and stable forbids it")
        }
        PageSharing::PassedOn => {
            Some("it would pass on pages that may be a file's, and stable forbids it")
        }
        PageSharing::None => {
            let is_copy_of_file = source.is_mutable_file() && sink.is_seekable();
            (strategy.facts().holds_pages && is_copy_of_file).then_some(
                "it would hold the file's pages while they can change, and stable forbids it",
            )
        }
    }
}
