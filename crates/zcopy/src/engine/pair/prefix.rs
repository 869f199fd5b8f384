//! The caller's bytes in front of those of the source. They wait in the buffer like bytes that have
//! been read, and never go back to the source.

use super::PairEngine;
use crate::buffer::Alignment;
use crate::fd_info::Kind;
use crate::sys::Kernel;

impl<K: Kernel> PairEngine<'_, K> {
    /// Puts bytes in front of those of the source, before the first step. The limit bounds the
    /// source alone.
    pub(crate) fn prepend(&mut self, prefix: Vec<u8>) {
        if prefix.is_empty() {
            return;
        }
        let len = prefix.len() as u64;
        // A rate would let the prefix wait for the first bytes of the file.
        let options = &self.context.options;
        let is_paced = options.rate_limit.is_some() || options.records.rate.is_some();
        let follows = self.state.source.info.kind == Kind::Regular
            && self.context.total.is_some_and(|total| total > 0)
            && !is_paced;
        let buffer = &mut self.state.buffer;
        let must_be_aligned = self.state.sink.info.direct;
        let is_short = prefix.len() <= buffer.max_capacity();
        let is_copied = (must_be_aligned || is_short)
            && buffer
                .reserve_exactly(prefix.len(), Alignment::Page)
                .and_then(|()| buffer.extend_from_slice(&prefix))
                .is_ok();
        if !is_copied {
            buffer.replace_memory(prefix);
        }
        self.frees_memory_behind_prefix = !(is_copied && is_short);
        self.state.sink.more_follows = follows;
        self.state.prefix_left = len as usize;
        self.prefix_len = len;
        let longer = |n: u64| n.saturating_add(len);
        self.context.options.limit = self.context.options.limit.map(longer);
        self.context.total = self.context.total.map(longer);
    }

    /// Notes how many bytes of the source the sink has accepted, and the end of the prefix.
    pub(super) fn count_prefix(&mut self) {
        self.state.bad.delivered = self.context.bytes.saturating_sub(self.prefix_len);
        if self.state.prefix_left > 0 {
            return;
        }
        self.state.sink.more_follows = false;
        // The memory that it has later is aligned, and no larger than the buffer may be.
        if self.frees_memory_behind_prefix && self.state.buffer.is_empty() {
            self.state.buffer.take_memory();
            self.frees_memory_behind_prefix = false;
        }
    }
}
