//! How the display ends.

use std::sync::mpsc::Receiver;
use std::time::Instant;

use super::{EXIT_TIMEOUT, Face, HOOK_INTERVAL, LOOK};
use crate::pv::display::Event;
use crate::pv::ending::Ending;
use crate::pv::hook::HookEnv;
use crate::pv::signals::{self, Event as Signal};
use crate::pv::status::Status;
use crate::{exit, sys};

impl Face {
    /// Shows how far it has come, for the last time.
    pub(super) fn end(&mut self) {
        if self.last.is_some() {
            return;
        }
        if self.waits && self.instrument.has_begun() {
            self.waits = false;
            self.instrument.restart();
        }
        let reading = self.instrument.read_last();
        self.end_stage(&reading);
        self.last = Some(reading);
    }

    /// Shows how all has ended, and tells programs.
    pub(super) fn finish(&mut self, events: &Receiver<Event>, ending: &Ending) {
        self.tell_watchers_the_end(ending.state);
        self.end();
        let Some(reading) = self.last.clone() else {
            return;
        };
        if let Some(hook) = self.hook.take() {
            let heed = || {
                if let Ok(Event::Signal(Signal::Interrupted(signal))) = events.recv_timeout(LOOK) {
                    self.interrupted(signal, None);
                }
                true
            };
            if let Err(error) = hook.finish(HookEnv::of(&reading, ending.state), heed) {
                self.complain(&format!("sh: {error}"));
            }
        }
        self.put_ending(&reading, ending);
        self.screen.close();
        self.is_over = true;
    }

    /// Ends the process, once the transfers have returned or do not. `other` shows the other side of a command.
    pub(super) fn interrupted(&mut self, signal: i32, mut other: Option<&mut Self>) {
        self.handles.stop.stop(signal);
        if let Some(other) = other.as_deref_mut() {
            other.handles.stop.stop(signal);
            other.changes.take_back_for_good();
        }
        self.changes.take_back_for_good();
        // What the terminal has echoed stands in the line.
        self.draw_again();
        let program = exit::program();
        let ending = Ending::interrupted();
        if signal == libc::SIGQUIT {
            // Whoever wants to look at a core gets one, and a tidy terminal.
            for face in [Some(&mut *self), other].into_iter().flatten() {
                face.screen.finish();
                face.put_interrupted(&ending);
            }
            sys::by_default(signal);
            return;
        }
        let program = program.to_string_lossy();
        let name = signals::name(signal);
        let message = format!("{program}: interrupted by a signal: {name}");
        let reading = self.instrument.read();
        self.end_with(&message, &reading);
        if let Some(other) = other {
            other.draw_again();
            other.screen.finish();
            other.put_interrupted(&ending);
            other.screen.close();
        }
        self.put_interrupted(&ending);
        if let Some(hook) = self.hook.take() {
            let begin = Instant::now();
            let wait = || {
                std::thread::sleep(HOOK_INTERVAL);
                begin.elapsed() < EXIT_TIMEOUT
            };
            // The process ends: there is nobody left to tell.
            let _ = hook.finish(HookEnv::of(&reading, ending.state), wait);
        }
        self.screen.close();
        std::process::exit(Status::SIGNAL.number().into());
    }

    /// Writes the last object of a transfer that a signal has ended.
    fn put_interrupted(&mut self, ending: &Ending) {
        if !self.is_over {
            let reading = self.instrument.read();
            self.put_ending(&reading, ending);
        }
    }
}
