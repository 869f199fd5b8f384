//! The display thread. A terminal that accepts nothing does not delay the transfer, and a transfer
//! that stalls does not delay the display.

pub mod bar;
pub mod format;
pub mod reading;
pub mod render;
pub mod screen;
pub mod shared_rows;
pub mod signals;
pub mod title;

pub(super) mod displayed_transfer;
pub(super) mod event;
pub(super) mod extra_display;
pub(super) mod json;
pub(super) mod objects;
pub(super) mod on_progress;

mod display_loop;
mod sampler;

use std::ffi::OsStr;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::common::cli::message;
use crate::common::threads;
use crate::pv::ending::Ending;
use crate::pv::refusal::Refusal;
use crate::pv::settings::{Form, Side};
use crate::pv::status::Status;
use display_loop::{DisplayLoop, TransferView};
use displayed_transfer::{DisplayedTransfer, Handles};
use event::{Event, FinishedInput, Phase};
use objects::Objects;
use signals::Signals;

/// How long the transfer waits for the display thread, which may be held. It does not wait again
/// then.
const LONGEST_WAIT_FOR_MESSAGE: Duration = Duration::from_secs(1);

/// The thread that draws and handles signals.
#[derive(Debug)]
pub(crate) struct Display {
    events: Sender<Event>,
    /// The status of a transfer that is not shown, if the threads cannot be started. Then signals
    /// end the process by themselves.
    threads: Result<Threads, Status>,
    /// Whether the display thread was held for too long.
    is_held: AtomicBool,
}

/// The threads of a display.
#[derive(Debug)]
struct Threads {
    /// Returns the errors of objects that could not be written.
    display: JoinHandle<Status>,
    signals: Signals,
}

impl Display {
    /// Starts to show a transfer.
    pub(crate) fn begin(
        shown: DisplayedTransfer,
        objects: Option<Objects>,
    ) -> io::Result<(Self, Handles)> {
        let handles = Handles::new(&shown.settings);
        let display = Self::start((shown, handles.clone()), None, objects)?;
        Ok((display, handles))
    }

    /// Starts to show both sides of a command: its input and its output.
    pub(crate) fn begin_both(
        input: DisplayedTransfer,
        output: DisplayedTransfer,
        objects: Option<Objects>,
    ) -> io::Result<(Self, [Handles; 2])> {
        let handles = [&input, &output].map(|shown| Handles::new(&shown.settings));
        let [first, second] = handles.clone();
        let display = Self::start((input, first), Some((output, second)), objects)?;
        Ok((display, handles))
    }

    fn start(
        first: (DisplayedTransfer, Handles),
        output: Option<(DisplayedTransfer, Handles)>,
        objects: Option<Objects>,
    ) -> io::Result<Self> {
        let (events, receiver) = mpsc::channel();
        let settings = &first.0.settings;
        let is_needed = objects.is_some() || settings.form == Form::Json;
        let is_watched = settings.is_watched();
        // Programs read the numbers, and learn that there are none.
        let unshown = match settings.form {
            Form::Numeric => Status::INTERNAL,
            Form::Line | Form::Quiet | Form::Json => Status::GOOD,
        };
        // Signals are handled before the views start commands.
        let signals = Signals::sent_to(events.clone());
        let objects = objects.map(|objects| Arc::new(Mutex::new(objects)));
        let view =
            |(shown, handles)| TransferView::new(shown, handles, objects.clone(), events.clone());
        let started = signals.and_then(|signals| {
            let display_loop = DisplayLoop::new(view(first)?, output.map(view).transpose()?);
            let display = threads::spawn("display", move || display_loop.show(&receiver))?;
            Ok(Threads { display, signals })
        });
        let threads = match started {
            Ok(threads) => Ok(threads),
            Err(error) if is_needed => return Err(error),
            Err(error) => {
                if is_watched {
                    message::warn(&Refusal::without_display(&error).message);
                }
                Err(unshown)
            }
        };
        Ok(Self {
            events,
            threads,
            is_held: AtomicBool::new(false),
        })
    }

    /// Starts another phase, on a line of its own.
    pub(crate) fn phase(&self, phase: Phase) {
        self.send(Event::Phase(phase));
    }

    /// Changes the size of the phase.
    pub(crate) fn resize(&self, total: Option<u64>, bytes: Option<u64>) {
        self.send(Event::Resize(total, bytes));
    }

    /// Writes a message above the display. Waits until the display thread has written it, so that it
    /// precedes the bytes that follow, where both go to the same place. If standard error is full,
    /// the display thread queues the message after 20 ms, and the bytes precede it.
    pub(crate) fn write_message(&self, message: String) {
        let (written, wait) = mpsc::sync_channel(0);
        self.send(Event::Message {
            text: message,
            written,
        });
        let is_held = self.is_held.load(Ordering::Relaxed);
        if !is_held && wait.recv_timeout(LONGEST_WAIT_FOR_MESSAGE) == Err(RecvTimeoutError::Timeout)
        {
            self.is_held.store(true, Ordering::Relaxed);
        }
    }

    /// Writes the line of an input that has ended.
    pub(crate) fn end_of_file(&self, name: &OsStr, counted: u64, took: Duration) {
        self.send(Event::EndOfFile(FinishedInput {
            name: name.to_owned(),
            counted,
            took,
        }));
    }

    /// Shows that the last byte of one side of a command has been moved.
    pub(crate) fn moved(&self, side: Side) {
        self.send(Event::Moved(side));
    }

    /// Reports how one side of a command ended, to programs.
    pub(crate) fn side_over(&self, side: Side, ending: Ending) {
        let signals = self.threads.as_ref().ok().map(|threads| &threads.signals);
        if !signals.is_some_and(Signals::has_interrupted) {
            self.send(Event::Over(side, ending));
        }
    }

    /// Shows how the transfer ended, and returns the errors of objects that could not be written.
    /// If a signal has arrived first, the display exits the process, and this does not return.
    pub(crate) fn finish(self, ending: Ending) -> Status {
        self.side_over(Side::Output, ending);
        let Threads { display, signals } = match self.threads {
            Ok(threads) => threads,
            Err(unshown) => return unshown,
        };
        // A panic has been reported already.
        let status = display.join().unwrap_or_default();
        drop(signals);
        status
    }

    fn send(&self, event: Event) {
        if let Err(mpsc::SendError(Event::Message { text, .. })) = self.events.send(event) {
            message::warn(&text);
        }
    }
}
