//! The requests of other processes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{TransferView, clock, with_name_of};
use crate::pv::display::extra_display::ExtraDisplay;
use crate::pv::display::format::Format;
use crate::pv::ending::State;
use crate::pv::remote::answer::Incoming;
use crate::pv::remote::protocol::{Change, Request, Snapshot};
use crate::pv::settings;

impl TransferView {
    /// Serves the request of another process.
    pub(super) fn serve(&mut self, incoming: Incoming, other: Option<&mut Self>) {
        match &incoming.request {
            Request::Change(change) => {
                self.change(change);
                if let Some(other) = other {
                    other.change(change);
                }
                incoming.acknowledge();
            }
            Request::Query => {
                self.watchers.add(incoming);
                self.send_snapshot();
            }
        }
    }

    /// Returns the time of the next frame, snapshot or check of the command.
    pub(super) fn next_due(&self) -> Instant {
        let hook = self.hook.as_ref().map(|_| self.hook_due);
        let others = [hook, self.watchers.due()].into_iter().flatten();
        others.fold(self.due, Instant::min)
    }

    /// Sends a snapshot to the watchers if it is due.
    pub(super) fn send_snapshot(&mut self) {
        if self.watchers.due().is_some_and(|due| due <= Instant::now()) {
            let snapshot = self.snapshot(State::Running);
            self.watchers.send(&snapshot);
        }
    }

    /// Sends the last snapshot to the watchers.
    pub(super) fn send_last_snapshot(&mut self, state: State) {
        if self.watchers.due().is_some() {
            let snapshot = self.snapshot(state);
            self.watchers.send(&snapshot);
        }
    }

    fn snapshot(&self, state: State) -> Snapshot {
        let moving = self.sampler.phase();
        Snapshot {
            phase: self.n_phases,
            elapsed: self.sampler.elapsed(),
            counts_bytes: self.sampler.counts_bytes(),
            moved: self.sampler.moved(state != State::Running),
            bytes: self.sampler.bytes(),
            total: moving.total,
            total_bytes: moving.bytes,
            state,
        }
    }

    /// Applies the settings of another command line.
    fn change(&mut self, change: &Change) {
        let settings = Arc::make_mut(&mut self.settings);
        settings.format =
            settings::format(settings.form, &change.switches, change.format.as_deref());
        settings.title_format = settings::format(settings.form, &change.switches, None);
        settings.name.clone_from(&change.name);
        if let Some(extra) = change.extra.as_deref().and_then(ExtraDisplay::parse) {
            settings.extra = Some(extra);
        }
        if let Some(interval) = change.interval {
            let shortest = Duration::from_millis(100);
            settings.interval = interval.max(shortest);
            self.due = self.due.min(Instant::now() + settings.interval);
        }
        if let Some(rate) = change.rate_limit {
            self.handles.control.set_rate(rate);
        }
        if let Some(size) = change.size {
            self.handles.control.set_size(size, settings.stops_at_size);
            self.sampler.resize(Some(size), None);
        }
        self.screen.resize(change.columns, change.rows);
        if !self.has_fixed_name() {
            self.sampler.rename(change.name.clone());
        }
        self.sampler.set_clock(clock(&self.settings));
        self.format = with_name_of(self.sampler.phase(), &self.settings.format);
        self.keep_bytes();
        self.draw_again();
    }

    /// Makes the transfer keep the bytes that the format shows.
    fn keep_bytes(&self) {
        let tail_bytes = self.settings.formats().map(Format::tail_bytes).max();
        let needs_line = self.settings.formats().any(Format::needs_line);
        if self.sampler.keep_bytes(tail_bytes.unwrap_or(0), needs_line) {
            self.handles.control.restart();
        }
    }

    /// Returns whether the phase has the fixed name `(input)`: it fills the file of `-U`.
    fn has_fixed_name(&self) -> bool {
        self.settings.spool.is_some() && self.n_phases == 0
    }
}
