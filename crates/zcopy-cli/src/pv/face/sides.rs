//! One transfer that is shown, or both sides of a command.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

use super::Face;
use crate::pv::display::Event;
use crate::pv::settings::Side;
use crate::pv::signals::{self, Event as Signal};

/// One transfer that is shown, or both sides of a command.
pub(in crate::pv) struct Faces {
    first: Face,
    /// The output of a command whose input is the first.
    output: Option<Face>,
}

impl Faces {
    pub(in crate::pv) fn of(mut first: Face, mut output: Option<Face>) -> Self {
        if let Some(output) = &mut output {
            first.instrument.compare_with(output.instrument.meter());
            output.instrument.compare_with(first.instrument.meter());
        }
        Self { first, output }
    }

    /// Shows what the meters say until all is over.
    pub(in crate::pv) fn show(mut self, events: &Receiver<Event>) {
        while !self.all().all(|face| face.is_over) {
            let due = self.all().map(|face| face.next_due()).min();
            let timeout = due.map_or(super::LONG, |due| {
                due.saturating_duration_since(Instant::now())
            });
            match events.recv_timeout(timeout) {
                Ok(Event::Over(side, ending)) => self.face(side).finish(events, &ending),
                Ok(Event::Moved(side)) => self.face(side).end(),
                Ok(event) => self.answer(event),
                Err(RecvTimeoutError::Timeout) => {
                    self.first.tell_watchers();
                    self.all().for_each(Face::tick);
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn answer(&mut self, event: Event) {
        match event {
            Event::Signal(Signal::Resized | Signal::Continued) => {
                self.all().for_each(Face::measure);
            }
            Event::Signal(Signal::Pause) => {
                self.all().for_each(Face::pause);
                let stopped = signals::stop();
                self.all().for_each(|face| face.resume(stopped));
            }
            Event::Signal(Signal::Interrupted(signal)) => {
                match &mut self.output {
                    // The message is written where something is still drawn.
                    Some(output) if self.first.last.is_some() => {
                        output.interrupted(signal, Some(&mut self.first));
                    }
                    output => self.first.interrupted(signal, output.as_mut()),
                }
            }
            Event::Remote(incoming) => self.first.serve(incoming, self.output.as_mut()),
            Event::Say(message) => {
                let is_ended = self.first.last.is_some();
                let face = self.output.as_mut().filter(|_| is_ended);
                face.unwrap_or(&mut self.first).complain(&message);
            }
            event => self.first.answer(event),
        }
    }

    fn face(&mut self, side: Side) -> &mut Face {
        match (side, &mut self.output) {
            (Side::Output, Some(output)) => output,
            _ => &mut self.first,
        }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Face> {
        [&mut self.first].into_iter().chain(&mut self.output)
    }
}
