//! Steps over the holes of the source.

use super::PairEngine;
use crate::call_error::CallError;
use crate::copy_state::StepBudget;
use crate::side::Side;
use crate::sparse::{Segment, ZeroBlocks};
use crate::step::Step;
use crate::strategy::Strategy;
use crate::sys::{Errno, Kernel};

impl<K: Kernel> PairEngine<'_, K> {
    /// Steps over a hole if the source has one here, and otherwise bounds `budget` by the next hole
    /// and returns `None`.
    pub(super) fn skip_hole(
        &mut self,
        strategy: Strategy,
        budget: &mut StepBudget,
    ) -> Result<Option<Step>, CallError> {
        if self.shares_a_cursor() {
            // A shared cursor moves between the search and the read, so the search would be wrong.
            self.extents = None;
        }
        if let Some(extents) = &mut self.extents
            && !strategy.facts().keeps_holes
            && self.state.source.reserved() == 0
            && self.state.sink.reserved() == 0
            && self.state.in_flight() == 0
            && self.state.bad.is_passed()
        {
            match extents.next(&self.context.kernel, &self.state.source) {
                Ok(Segment::Data(len)) => budget.max = budget.max.min(len),
                Ok(Segment::Hole(len)) => {
                    return self.make_hole(len.min(budget.until_limit)).map(Some);
                }
                Ok(Segment::End | Segment::Unknown) => self.extents = None,
                Ok(Segment::NotOpened(errno)) => {
                    self.extents = None;
                    if self.find_zeros_by_reading(strategy, errno) {
                        return Ok(Some(Step::Filled));
                    }
                }
                Err(Errno::INTR) => return Ok(Some(Step::Repeat)),
                Err(errno) => return Err(CallError::new("lseek", Side::Source, errno)),
            }
        }
        Ok(None)
    }

    /// Makes a hole in the sink. If the sink cannot have one, the zeros are moved like other bytes.
    fn make_hole(&mut self, len: u64) -> Result<Step, CallError> {
        let source = &mut self.state.source;
        let reserved = source.reserve_to_read(&self.context.kernel, len);
        let len = reserved.map_err(CallError::of_call("lseek", Side::Source))?;
        if len == 0 || source.cursor_was_moved() || source.has_lost_position() {
            // The range that is reserved now is not the hole that was found: move it as data.
            self.extents = None;
            return Ok(Step::Moved(0));
        }
        let (sink, reopened) = (&mut self.state.sink, &mut self.state.sink_reopened);
        let hole = self
            .state
            .holes
            .make(&self.context.kernel, sink, reopened, len)?;
        if hole == 0 {
            self.extents = None;
            return Ok(Step::Moved(0));
        }
        source.advance(hole);
        source.release(&self.context.kernel);
        self.state.uninspected_zeros += hole;
        if self.state.holes.are_certain() {
            self.state.inspect_zeros(u64::MAX);
        }
        Ok(Step::Hole(hole))
    }

    /// Falls back to read and write, which find holes by comparing bytes with zero. The source
    /// could not be reopened (`reason`), and seeking on the caller's descriptor would move the
    /// cursor. Returns false if the strategy cannot look at bytes, so that holes are moved as
    /// zeros.
    fn find_zeros_by_reading(&mut self, from: Strategy, reason: Errno) -> bool {
        let is_requested = self.context.requested().is_some();
        if !self.state.holes.are_possible() || is_requested && from.facts().is_offload {
            return false;
        }
        self.state.holes.zero_blocks = ZeroBlocks::Holes;
        if from.facts().is_offload {
            self.fall_back_to_buffered(from, reason.into());
        }
        true
    }
}
