//! What other processes ask of a display.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Face, clock, format_of};
use crate::pv::ending::State;
use crate::pv::extra::Extra;
use crate::pv::format::Format;
use crate::pv::remote::{Incoming, RemoteChange, RemoteRequest, Snapshot};
use crate::pv::settings;

impl Face {
    /// Does what another process asks for.
    pub(super) fn serve(&mut self, incoming: Incoming, other: Option<&mut Self>) {
        match &incoming.request {
            RemoteRequest::Change(change) => {
                self.change(change);
                if let Some(other) = other {
                    other.change(change);
                }
                incoming.acknowledge();
            }
            RemoteRequest::Query => {
                self.watchers.add(incoming);
                self.tell_watchers();
            }
        }
    }

    /// When there is something to do: to draw, or to tell those who watch.
    pub(super) fn next_due(&self) -> Instant {
        let hook = self.hook.as_ref().map(|_| self.hook_due);
        let others = [hook, self.watchers.due()].into_iter().flatten();
        others.fold(self.due, Instant::min)
    }

    /// Tells those who watch how far the transfer has come, if that is due.
    pub(super) fn tell_watchers(&mut self) {
        if self.watchers.due().is_some_and(|due| due <= Instant::now()) {
            let snapshot = self.snapshot(State::Running);
            self.watchers.tell(&snapshot);
        }
    }

    /// Tells those who watch how it has ended.
    pub(super) fn tell_watchers_the_end(&mut self, state: State) {
        if self.watchers.due().is_some() {
            let snapshot = self.snapshot(state);
            self.watchers.tell(&snapshot);
        }
    }

    fn snapshot(&self, state: State) -> Snapshot {
        let moving = self.instrument.stage();
        Snapshot {
            stage: self.n_stages,
            elapsed: self.instrument.elapsed(),
            counts_bytes: self.instrument.counts_bytes(),
            moved: self.instrument.moved(state != State::Running),
            bytes: self.instrument.bytes(),
            total: moving.total,
            total_bytes: moving.bytes,
            state,
        }
    }

    /// Takes over the settings of another command line.
    fn change(&mut self, change: &RemoteChange) {
        let settings = Arc::make_mut(&mut self.settings);
        settings.format = settings::format(settings.form, &change.shown, change.format.as_deref());
        settings.name.clone_from(&change.name);
        if let Some(extra) = change.extra.as_deref().and_then(Extra::parse) {
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
            self.instrument.resize(Some(size), None);
        }
        self.screen.resize(change.columns, change.rows);
        if !self.is_named_by_us() {
            self.instrument.rename(change.name.clone());
        }
        self.instrument.tell_time(clock(&self.settings));
        self.format = format_of(&self.settings, self.instrument.stage());
        self.keep_bytes();
        self.draw_again();
    }

    /// Has the transfer show the bytes that the format needs.
    fn keep_bytes(&self) {
        let tail_bytes = self.settings.formats().map(Format::tail_bytes).max();
        let needs_line = self.settings.formats().any(Format::needs_line);
        if self
            .instrument
            .keep_bytes(tail_bytes.unwrap_or(0), needs_line)
        {
            self.handles.control.restart();
        }
    }

    /// Whether the name of this stage is none of the user's: what fills the file of `-U` is called `(input)`.
    fn is_named_by_us(&self) -> bool {
        self.settings.spool.is_some() && self.n_stages == 0
    }
}
