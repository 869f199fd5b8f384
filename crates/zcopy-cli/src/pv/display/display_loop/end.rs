//! The end of a display.

use std::sync::mpsc::Receiver;
use std::time::Instant;

use super::{EXIT_TIMEOUT, HOOK_INTERVAL, POLL_INTERVAL, TransferView};
use crate::common::cli::message;
use crate::common::sys;
use crate::pv::display::event::Event;
use crate::pv::display::on_progress::HookEnv;
use crate::pv::display::signals::{self, Event as Signal};
use crate::pv::ending::{Ending, State};
use crate::pv::status::Status;

impl TransferView {
    /// Shows the progress for the last time.
    pub(super) fn end(&mut self) {
        if self.last.is_some() {
            return;
        }
        if self.waits && self.sampler.has_begun() {
            self.waits = false;
            self.sampler.restart();
        }
        let reading = self.sampler.read_last();
        self.end_phase(&reading);
        self.last = Some(reading);
    }

    /// Shows how the transfer ended, and reports it to programs.
    pub(super) fn finish(&mut self, events: &Receiver<Event>, mut ending: Ending) {
        // It may write objects.
        self.end();
        if let Some(error) = self.objects_loss() {
            // The exit status is not 0.
            ending.state = State::Failed;
            ending.error.get_or_insert(error);
        }
        self.send_last_snapshot(ending.state);
        let Some(reading) = self.last.clone() else {
            return;
        };
        if let Some(hook) = self.hook.take() {
            let handle_signal = || {
                if signals::is_stop_pending() {
                    self.pause();
                    let stopped = signals::stop();
                    self.resume(stopped);
                }
                if let Ok(Event::Signal(Signal::Interrupted(signal))) =
                    events.recv_timeout(POLL_INTERVAL)
                {
                    self.interrupted(signal, None);
                }
                true
            };
            if let Err(error) = hook.finish(HookEnv::new(&reading, ending.state), handle_signal) {
                self.warn(&format!("sh: {error}"));
            }
        }
        self.put_ending(&reading, &ending);
        self.screen.close();
        self.is_over = true;
    }

    /// Stops the transfers and exits the process. `other` is the display of the other side of a
    /// command.
    pub(super) fn interrupted(&mut self, signal: i32, mut other: Option<&mut Self>) {
        self.handles.stop.stop(signal);
        if let Some(other) = other.as_deref_mut() {
            other.handles.stop.stop(signal);
            other.cleanup.restore_at_exit();
        }
        self.cleanup.restore_at_exit();
        // The terminal may have echoed ^C over the line.
        self.draw_again();
        let program = message::program();
        let ending = Ending::interrupted();
        if signal == libc::SIGQUIT {
            // The process dumps core. The terminal is left tidy.
            self.leave(&ending);
            if let Some(other) = other {
                other.screen.end_beside(&self.screen);
                other.leave(&ending);
            }
            sys::raise_default(signal);
            return;
        }
        let program = program.to_string_lossy();
        let name = signals::name(signal);
        let message = format!("{program}: interrupted by a signal: {name}");
        let reading = self.sampler.read();
        self.end_with(&message, &reading);
        if let Some(other) = other.as_deref_mut() {
            other.screen.end_beside(&self.screen);
            other.draw_again();
            other.screen.finish();
            other.put_interrupted(&ending);
        }
        self.put_interrupted(&ending);
        if let Some(hook) = self.hook.take() {
            let begin = Instant::now();
            let wait = || {
                std::thread::sleep(HOOK_INTERVAL);
                begin.elapsed() < EXIT_TIMEOUT
            };
            // The process exits: the error cannot be reported.
            let _ = hook.finish(HookEnv::new(&reading, ending.state), wait);
        }
        let mut status = Status::SIGNAL;
        for view in [Some(self), other].into_iter().flatten() {
            status.add(view.close_objects());
        }
        std::process::exit(status.number().into());
    }

    /// Leaves the terminal and the objects before a signal kills the process.
    fn leave(&mut self, ending: &Ending) {
        self.screen.finish();
        self.put_interrupted(ending);
        self.close_objects();
    }

    /// Writes the last object of a transfer that a signal ended.
    fn put_interrupted(&mut self, ending: &Ending) {
        if !self.is_over {
            let reading = self.sampler.read();
            self.put_ending(&reading, ending);
        }
    }
}
