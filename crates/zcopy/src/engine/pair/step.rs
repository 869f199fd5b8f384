//! One step: by the strategy, or over a hole of the source.

use super::{PairEngine, Phase};
use crate::fault::{Cause, Fault};
use crate::route::Ask;
use crate::side::Side;
use crate::sparse::{Segment, ZeroBlocks};
use crate::step::{self, Step};
use crate::strategy::Strategy;
use crate::sys::{Errno, Kernel};

impl<K: Kernel> PairEngine<'_, K> {
    /// One step of the strategy, or over a hole.
    pub(super) fn step(&mut self, strategy: Strategy, mut ask: Ask) -> Result<Step, Fault> {
        if let Some(answer) = self.answer.take() {
            return answer;
        }
        if self.shares_a_cursor() {
            // Where the next byte is, is known only when it is read.
            self.extents = None;
        }
        if let Some(extents) = &mut self.extents
            && !strategy.facts().keeps_holes
            && self.route.source.reserved() == 0
            && self.route.sink.reserved() == 0
            && self.route.in_flight() == 0
            && self.route.bad.is_passed()
        {
            match extents.next(&self.context.kernel, &self.route.source) {
                Ok(Segment::Data(len)) => ask.max = ask.max.min(len),
                Ok(Segment::Hole(len)) => return self.step_over_hole(len.min(ask.remaining)),
                Ok(Segment::End | Segment::Unknown) => self.extents = None,
                Ok(Segment::NotOpened(errno)) => {
                    self.extents = None;
                    if self.look_for_zeros(strategy, errno) {
                        return Ok(Step::Filled);
                    }
                }
                Err(Errno::INTR) => return Ok(Step::Interrupted),
                Err(errno) => return Err(Fault::new("lseek", Side::Source, errno)),
            }
        }
        step::step(strategy, &self.context.kernel, &mut self.route, &ask)
    }

    /// Leaves a hole in the sink. Where it cannot have one, the source's zeros are moved like any
    /// other bytes.
    fn step_over_hole(&mut self, len: u64) -> Result<Step, Fault> {
        let source = &mut self.route.source;
        let reserved = source.reserve_to_read(&self.context.kernel, len);
        let len = reserved.map_err(|errno| Fault::new("lseek", Side::Source, errno))?;
        if len == 0 || source.is_shared() || source.has_lost_position() {
            // What is reserved now is not the hole that was found: it is moved as data.
            self.extents = None;
            return Ok(Step::Moved(0));
        }
        let (sink, detour) = (&mut self.route.sink, &mut self.route.sink_detour);
        let left = self
            .route
            .holes
            .make(&self.context.kernel, sink, detour, len)?;
        if left == 0 {
            self.extents = None;
            return Ok(Step::Moved(0));
        }
        source.advance(left);
        source.release(&self.context.kernel);
        self.route.uninspected_zeros += left;
        if self.route.holes.are_certain() {
            self.route.inspect_zeros(u64::MAX);
        }
        Ok(Step::Hole(left))
    }

    /// Goes on by read and write, which find holes by looking at the bytes: the source cannot be opened a second
    /// time, for this reason, and its cursor is not moved to ask. False if the bytes cannot be
    /// looked at, so that holes are moved as zeros.
    fn look_for_zeros(&mut self, from: Strategy, reason: Errno) -> bool {
        let is_forced = self.context.forced().is_some();
        if !self.route.holes.are_possible() || is_forced && from.facts().is_offload {
            return false;
        }
        self.route.holes.zero_blocks = ZeroBlocks::Holes;
        if from.facts().is_offload {
            self.context.attempt(from).cause = Some(Cause::Errno(reason));
            self.strategy = Strategy::Buffered;
            self.phase = Phase::Main;
        }
        true
    }
}
