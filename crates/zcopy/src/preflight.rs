//! Rejects bad input before any byte moves: pure functions of the descriptors and the options.

use crate::error::RunError;
use crate::fd_info::{FdInfo, Kind};
use crate::options::Options;
use crate::side::Side;
use crate::strategy::Strategy;
use crate::sys::Errno;

/// Refuses a transfer that cannot work, or that would overwrite its own source.
pub(crate) fn check(source: &FdInfo, sink: &FdInfo, options: &Options) -> Result<(), RunError> {
    check_source(source)?;
    check_sink(sink)?;
    check_offset(source, Side::Source, options.source_offset)?;
    check_offset(sink, Side::Sink, options.sink_offset)?;
    if options.sink_offset.is_some() && sink.append {
        let reason = "it appends (O_APPEND), so an offset would be ignored";
        return Err(RunError::refused(Side::Sink, Errno::INVAL, reason));
    }
    check_same(source, sink, || overlaps(source, sink, options))
}

/// Refuses a source or sink that a filter cannot serve. The length of the output is unknown, so one
/// file at both ends is refused wherever the cursors are, unless the source is at its end.
pub(crate) fn check_filtered(source: &FdInfo, sink: &FdInfo) -> Result<(), RunError> {
    check_source(source)?;
    check_sink(sink)?;
    check_same(source, sink, || source.cursor < source.size.or(Some(0)))
}

fn check_source(source: &FdInfo) -> Result<(), RunError> {
    let reason = "it is not open for reading";
    check_mode(source, Side::Source, source.readable, reason)
}

/// Refuses a sink that cannot be written to, wherever the bytes come from.
pub(crate) fn check_sink(sink: &FdInfo) -> Result<(), RunError> {
    let reason = "it is not open for writing";
    check_mode(sink, Side::Sink, sink.writable, reason)
}

fn check_mode(
    info: &FdInfo,
    side: Side,
    has_access: bool,
    reason: &'static str,
) -> Result<(), RunError> {
    if info.kind == Kind::Directory {
        return Err(RunError::refused(side, Errno::ISDIR, "it is a directory"));
    }
    if !has_access {
        return Err(RunError::refused(side, Errno::BADF, reason));
    }
    Ok(())
}

fn check_offset(info: &FdInfo, side: Side, offset: Option<u64>) -> Result<(), RunError> {
    let (errno, reason) = match offset {
        Some(_) if !info.is_seekable() => {
            (Errno::SPIPE, "it has no positions, so it takes no offset")
        }
        Some(offset) if i64::try_from(offset).is_err() => (
            Errno::INVAL,
            "its offset exceeds the largest file offset, 2^63 - 1",
        ),
        _ => return Ok(()),
    };
    Err(RunError::refused(side, errno, reason))
}

/// Refuses one pipe at both ends, and one file or block device if writes change bytes that are
/// still to be read. One socket or terminal at both ends is allowed: its output is not its own
/// input.
fn check_same(source: &FdInfo, sink: &FdInfo, overlaps: impl Fn() -> bool) -> Result<(), RunError> {
    let reason = match source.kind {
        _ if !source.is_same(sink) => return Ok(()),
        Kind::Pipe => {
            "source and sink are the same pipe, so the transfer would read its own output for ever"
        }
        Kind::Regular | Kind::Block if overlaps() => {
            "source and sink overlap in one file: writes would change what is still to be read"
        }
        _ => return Ok(()),
    };
    Err(RunError::refused(Side::Neither, Errno::INVAL, reason))
}

/// Returns whether bytes would be written where bytes are still to be read.
///
/// A sink position behind the source's extends what the source can read, so only a limit
/// bounds the transfer. A sink position in front of it is refused too, although a transfer in
/// strict order would be well defined: a caller who wants that requests [`Strategy::Buffered`].
fn overlaps(source: &FdInfo, sink: &FdInfo, options: &Options) -> bool {
    let size = source.size.unwrap_or(0);
    let from = options.source_offset.or(source.cursor).unwrap_or(0);
    let to = if sink.append {
        size
    } else {
        options.sink_offset.or(sink.cursor).unwrap_or(0)
    };
    let limit = options.limit.unwrap_or(u64::MAX);
    let facts = options.strategy.map(Strategy::facts);
    let moves_in_order = facts.is_some_and(|facts| facts.moves_in_order);
    if to < from {
        let len = limit.min(size.saturating_sub(from));
        return to.saturating_add(len) > from && !moves_in_order;
    }
    let is_empty = from >= size || limit == 0;
    let is_in_place = to == from && moves_in_order;
    !is_empty && !is_in_place && from.saturating_add(limit) > to
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fd_info::FileSystem;

    fn file(cursor: u64) -> FdInfo {
        FdInfo {
            kind: Kind::Regular,
            identity: (1, 1),
            size: Some(100),
            allocated: 100,
            readable: true,
            writable: true,
            append: false,
            nonblocking: false,
            direct: false,
            can_be_reopened: false,
            cursor: Some(cursor),
            file_system: FileSystem::Ext4,
            free: None,
            block_size: None,
            immutable: false,
        }
    }

    fn refuses(from: u64, to: u64, limit: Option<u64>) -> bool {
        let options = Options {
            limit,
            ..Options::default()
        };
        check(&file(from), &file(to), &options).is_err()
    }

    #[test]
    fn ranges_that_overlap_are_refused() {
        assert!(refuses(0, 50, None));
        assert!(refuses(0, 0, None));
        assert!(refuses(0, 50, Some(51)));
        assert!(refuses(50, 40, None));
    }

    #[test]
    fn ranges_side_by_side_are_not() {
        assert!(!refuses(0, 50, Some(50)));
        assert!(
            !refuses(50, 0, None),
            "the 50 bytes before the source have room for its 50 bytes"
        );
        assert!(!refuses(60, 0, Some(60)));
        assert!(!refuses(100, 100, None), "nothing is left to read");
    }

    #[test]
    fn a_file_is_not_appended_to_itself() {
        assert!(refuses(0, 100, None), "it would grow for ever");
        assert!(
            refuses(50, 100, Some(51)),
            "the last byte would be the first one written"
        );
        assert!(!refuses(0, 100, Some(100)));
    }

    /// The length of the output is unknown, so no distance is enough.
    #[test]
    fn a_file_is_not_filtered_into_itself() {
        let refuses = |from, to| check_filtered(&file(from), &file(to)).is_err();
        assert!(refuses(0, 50) && refuses(50, 50) && refuses(50, 0) && refuses(99, 0));
        assert!(!refuses(100, 0), "nothing is left to read");
        assert!(!refuses(100, 100));
        let empty = FdInfo {
            size: None,
            ..file(0)
        };
        assert!(check_filtered(&empty, &empty).is_ok());
        let other = FdInfo {
            identity: (1, 2),
            ..file(0)
        };
        assert!(check_filtered(&file(0), &other).is_ok());
    }

    #[test]
    fn shifting_down_in_order_is_allowed_when_it_is_asked_for() {
        let strategy = Some(Strategy::Buffered);
        let options = Options {
            strategy,
            ..Options::default()
        };
        assert!(check(&file(50), &file(40), &options).is_ok());
        assert!(check(&file(50), &file(50), &options).is_ok());
        assert!(check(&file(50), &file(51), &options).is_err());
    }
}
