//! The loop of the display thread, for one transfer or both sides of a command.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

use super::TransferView;
use crate::pv::display::event::Event;
use crate::pv::display::signals::{self, Event as Signal};
use crate::pv::settings::Side;
use crate::pv::status::Status;

/// The display of one transfer, or of both sides of a command.
pub(crate) struct DisplayLoop {
    first: TransferView,
    /// The output of a command if `first` is its input.
    output: Option<TransferView>,
}

impl DisplayLoop {
    pub(crate) fn new(mut first: TransferView, mut output: Option<TransferView>) -> Self {
        if let Some(output) = &mut output {
            first.sampler.compare_with(output.sampler.progress());
            output.sampler.compare_with(first.sampler.progress());
        }
        Self { first, output }
    }

    /// Shows the progress until every transfer has ended. Returns the errors of objects that could
    /// not be written.
    pub(crate) fn show(mut self, events: &Receiver<Event>) -> Status {
        while !self.all().all(|view| view.is_over) {
            if signals::is_stop_pending() {
                self.stop();
            }
            let due = self.all().map(|view| view.next_due()).min();
            let timeout = due.map_or(super::IDLE_INTERVAL, |due| {
                due.saturating_duration_since(Instant::now())
            });
            match events.recv_timeout(timeout) {
                Ok(Event::Over(side, ending)) => self.ending_view(side).finish(events, ending),
                Ok(Event::Moved(side)) => self.ending_view(side).end(),
                Ok(event) => self.answer(event),
                Err(RecvTimeoutError::Timeout) => {
                    self.first.send_snapshot();
                    self.all().for_each(TransferView::tick);
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let mut status = Status::GOOD;
        self.all().for_each(|view| status.add(view.close_objects()));
        status
    }

    fn answer(&mut self, event: Event) {
        match event {
            Event::Signal(Signal::Resized | Signal::Continued) => {
                self.all().for_each(TransferView::measure);
            }
            // The loop looks before each event.
            Event::Signal(Signal::Pause) => {}
            Event::Signal(Signal::Interrupted(signal)) => {
                match &mut self.output {
                    // The message appears at the side that is still drawn.
                    Some(output) if self.first.last.is_some() => {
                        output.interrupted(signal, Some(&mut self.first));
                    }
                    output => self.first.interrupted(signal, output.as_mut()),
                }
            }
            Event::Remote(incoming) => self.first.serve(incoming, self.output.as_mut()),
            Event::Message {
                text,
                written: _written,
            } => {
                let is_ended = self.first.last.is_some();
                let view = self.output.as_mut().filter(|_| is_ended);
                view.unwrap_or(&mut self.first).warn(&text);
            }
            event => self.first.answer(event),
        }
    }

    /// Leaves the screen to the shell, and stops the process.
    fn stop(&mut self) {
        self.all().for_each(TransferView::pause);
        let stopped = signals::stop();
        self.all().for_each(|view| view.resume(stopped));
    }

    /// Returns the view of a side that ends. Both sides write to the same reader.
    fn ending_view(&mut self, side: Side) -> &mut TransferView {
        match (side, &mut self.output) {
            (_, None) => &mut self.first,
            (Side::Output, Some(output)) => {
                output.screen.end_beside(&self.first.screen);
                output
            }
            (Side::Input, Some(output)) => {
                self.first.screen.end_beside(&output.screen);
                &mut self.first
            }
        }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut TransferView> {
        [&mut self.first].into_iter().chain(&mut self.output)
    }
}
