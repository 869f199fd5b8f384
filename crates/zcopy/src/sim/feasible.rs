//! The interference that is possible at the descriptors of a random transfer.

use super::interference::{Action, Interference, Target};
use super::scenario::{Faults, Kind, SinkSpec, SourceSpec};

/// Removes interference that is impossible at these descriptors, or whose result the oracle cannot
/// check.
pub(crate) fn retain_feasible(
    interferences: &mut Vec<Interference>,
    source: &SourceSpec,
    sinks: &[&SinkSpec],
    faults: &Faults,
    may_sleep: bool,
) {
    interferences.retain(|other| match other.target {
        Target::Source(_) => {
            let is_readable = faults.source.is_none() || !other.changes_source();
            is_readable && source.admits(other.action, may_sleep)
        }
        Target::Sink(index) => {
            let sink = sinks.get(index);
            sink.is_some_and(|sink| sink.admits(other.action, may_sleep))
        }
    });
    // The sink shows what a changing source held only if no other process reads or writes there.
    if interferences.iter().any(Interference::changes_source) {
        interferences.retain(Interference::changes_source);
    }
}

impl SourceSpec {
    /// Returns the greatest length that other processes may give it.
    pub(crate) fn most_len(&self, interferences: &[Interference]) -> usize {
        let actions = || {
            let others = interferences.iter();
            let others = others.filter(|other| matches!(other.target, Target::Source(_)));
            others.map(|other| other.action)
        };
        let longest = actions().filter_map(|action| match action {
            Action::Extend(to) => Some(to as usize),
            _ => None,
        });
        let appended = actions().filter_map(|action| match action {
            Action::Append(n) => Some(n),
            _ => None,
        });
        longest.fold(self.len, usize::max) + appended.sum::<usize>()
    }

    /// Returns whether other processes can do this, and the oracle can check the result.
    pub(crate) fn admits(&self, action: Action, may_sleep: bool) -> bool {
        let is_file = self.kind == Kind::File && self.claimed_size.is_none();
        let is_channel = matches!(self.kind, Kind::Pipe | Kind::Stream);
        match action {
            // A read of a part of a packet discards the rest.
            Action::Read(_) => is_file || is_channel && may_sleep && !self.is_packet,
            Action::Write(_) | Action::WriteAt(..) => false,
            Action::Append(_) | Action::Truncate(_) | Action::Extend(_) | Action::Punch(..) => {
                is_file && !self.is_direct
            }
        }
    }
}

impl SinkSpec {
    /// Returns whether other processes can do this, and the oracle can check the result.
    pub(crate) fn admits(&self, action: Action, may_sleep: bool) -> bool {
        let is_file = self.kind == Kind::File && !self.is_direct;
        let is_channel = matches!(self.kind, Kind::Pipe | Kind::Stream);
        match action {
            Action::Write(_) => is_file && !self.is_positional || is_channel && may_sleep,
            Action::WriteAt(..) | Action::Truncate(_) | Action::Extend(_) => {
                is_file && !self.appends
            }
            Action::Read(_) | Action::Append(_) | Action::Punch(..) => false,
        }
    }
}
