//! What others can do to the ends of a random transfer.

use super::interference::{Action, Interference, Target};
use super::scenario::{Faults, Kind, SinkSpec, SourceSpec};

/// Leaves out what others cannot do to these ends, or what nobody could judge.
pub(crate) fn settle(
    interferences: &mut Vec<Interference>,
    source: &SourceSpec,
    sinks: &[&SinkSpec],
    (faults, may_sleep): (&Faults, bool),
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
    // Of a source that changes it is seen in the sink what it held.
    if interferences.iter().any(Interference::changes_source) {
        interferences.retain(Interference::changes_source);
    }
}

impl SourceSpec {
    /// How long it may become by what others do.
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

    /// Whether others can do this to it, and what becomes of it can be told.
    pub(crate) fn admits(&self, action: Action, may_sleep: bool) -> bool {
        let is_file = self.kind == Kind::File && self.claimed_size.is_none();
        let is_channel = matches!(self.kind, Kind::Pipe | Kind::Stream);
        match action {
            // Who reads a part of a packet destroys the rest.
            Action::Read(_) => is_file || is_channel && may_sleep && !self.is_packet,
            Action::Write(_) | Action::WriteAt(..) => false,
            Action::Append(_) | Action::Truncate(_) | Action::Extend(_) | Action::Punch(..) => {
                is_file && !self.is_direct
            }
        }
    }
}

impl SinkSpec {
    /// Whether others can do this to it, and what becomes of it can be told.
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
