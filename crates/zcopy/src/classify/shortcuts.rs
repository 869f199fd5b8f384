//! The shortcuts that the options of a transfer allow.

use crate::options::{Cache, Options, Reflink, SkipErrors, Sparse, SyncData};

/// The shortcuts that the options of a transfer allow. The descriptors may still rule them out.
pub(crate) struct Shortcuts {
    /// Whether a short transfer can do without [`FdInfo::classify_fully`](crate::fd_info::FdInfo).
    pub(crate) partial_classification: bool,
    /// Whether a small file can be read and written without an engine.
    pub(crate) fast_path: bool,
    /// Whether the transfer is one clone of a whole file: blocks must be shared, and both ends
    /// start at offset 0.
    pub(crate) whole_clone: bool,
}

impl Shortcuts {
    /// Decides from every option. The pattern names all of them, so that a new option does not
    /// compile until it is decided here.
    #[inline]
    pub(crate) fn allowed_by(options: &Options) -> Self {
        let Options {
            limit,
            source_offset,
            sink_offset,
            stable,
            strategy,
            reflink,
            sparse,
            cache,
            skip_errors,
            sync_data,
            buffer_size,
            rate_limit,
            tick,
            idle_timeout,
            deadline,
            stoppable,
            stepped,
            records,
            watch_readers,
            has_prefix,
            inspected,
            observed,
            // A relay takes steps.
            relayed: _,
            // A small file fills no pipe, and a clone uses none.
            grow_pipes: _,
            pipe_size: _,
        } = options;
        let must_clone = *reflink == Reflink::Always;
        let needs_facts = *observed
            || *cache == Cache::DropBehind
            || *sparse == Sparse::Detect
            || strategy.is_some();
        // Only an engine syncs, at each step or at the end.
        let needs_engine = needs_facts
            || tick.is_some()
            || idle_timeout.is_some()
            || deadline.is_some()
            || *stoppable
            || *stepped
            || *has_prefix
            || *inspected
            || records.is_wanted()
            || rate_limit.is_some()
            || *skip_errors != SkipErrors::Never
            || *sync_data != SyncData::Never;
        let has_range = limit.is_some() || source_offset.is_some() || sink_offset.is_some();
        let starts_at_0 = *source_offset == Some(0) && *sink_offset == Some(0);
        Self {
            partial_classification: !(needs_facts || must_clone || *stable),
            fast_path: !(needs_engine
                || must_clone
                || *stable
                || has_range
                || buffer_size.is_some()
                || *watch_readers),
            // A clone hands over no pages that can still change, and has no buffer. Its ends are
            // files, which have no readers.
            whole_clone: must_clone
                && starts_at_0
                && limit.is_none()
                && !needs_engine
                && *sparse != Sparse::Fill,
        }
    }
}
