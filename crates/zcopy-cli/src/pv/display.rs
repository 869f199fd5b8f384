//! The display: a thread of its own, so that a terminal that takes nothing holds up no byte, and bytes that do
//! not come hold up no display.

use std::ffi::{OsStr, OsString};
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::changes::Changes;
use super::ending::Ending;
use super::face::Face;
use super::meter::Meter;
use super::objects::Objects;
use super::remote::{Control, Incoming};
use super::settings::{Form, Output, Settings};
use super::signals::{self, Signals};
use super::stop::Stop;
use crate::exit;
use crate::tty;

/// What the thread that draws is told.
#[derive(Debug)]
pub(super) enum Event {
    Signal(signals::Event),
    /// Something else begins, which is counted from the beginning.
    Stage(Stage),
    /// A message for the user.
    Say(String),
    /// An input has come to its end.
    EndOfFile(File),
    /// Another process has a request.
    Remote(Incoming),
    /// The total of the stage has changed, in what is counted and in bytes.
    Resize(Option<u64>, Option<u64>),
    /// There is nothing more to come.
    Over(Ending),
}

impl From<signals::Event> for Event {
    fn from(event: signals::Event) -> Self {
        Self::Signal(event)
    }
}

/// What is being moved.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stage {
    /// What it is called, if it has a name.
    pub(crate) name: Option<String>,
    /// How much it is, in what is counted, if that is known.
    pub(crate) total: Option<u64>,
    /// How many bytes it is, where lines are counted and nobody knows how many there are.
    pub(crate) bytes: Option<u64>,
    /// Where it begins.
    pub(crate) from: Place,
}

/// How far the meter had come at some time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub(crate) bytes: u64,
    pub(crate) counted: u64,
}

/// An input that has come to its end.
#[derive(Debug)]
pub(super) struct File {
    pub(super) name: OsString,
    pub(super) counted: u64,
    pub(super) took: Duration,
}

/// The thread that draws, and answers signals.
#[derive(Debug)]
pub(crate) struct Display {
    events: Sender<Event>,
    thread: JoinHandle<()>,
    signals: Signals,
    stop: Arc<Stop>,
    control: Arc<Control>,
    shares_terminal: bool,
}

impl Display {
    /// Begins to show what the meter says. `output` is the pipe whose unread bytes have not arrived yet.
    pub(crate) fn begin(
        settings: &Arc<Settings>,
        meter: &Arc<Meter>,
        output: Option<OwnedFd>,
        changes: &Arc<Changes>,
        objects: Option<Objects>,
        stage: Stage,
    ) -> io::Result<Self> {
        let (events, receiver) = mpsc::channel();
        let signals = Signals::sent_to(events.clone())?;
        let stop = Arc::<Stop>::default();
        let control = Arc::new(Control::new(settings.rate_limit.map(NonZeroU64::get)));
        let shares_terminal = shares_terminal(settings);
        let face = Face::new(
            settings.clone(),
            meter.clone(),
            output,
            changes.clone(),
            objects,
            (stop.clone(), control.clone(), events.clone()),
            stage,
        )?;
        let thread = thread::Builder::new()
            .name("display".into())
            .spawn(move || face.show(&receiver))?;
        Ok(Self {
            events,
            thread,
            signals,
            stop,
            control,
            shares_terminal,
        })
    }

    /// Returns the handle that stops a transfer when a signal ends the process.
    pub(super) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// What other processes may change of the transfer.
    pub(super) fn control(&self) -> &Control {
        &self.control
    }

    /// Whether the bytes go to the terminal that this draws on, so that it has to know of each where it stands.
    pub(crate) fn shares_terminal(&self) -> bool {
        self.shares_terminal
    }

    /// Goes on with something else, on a line of its own.
    pub(crate) fn stage(&self, stage: Stage) {
        self.tell(Event::Stage(stage));
    }

    /// Shows the stage as one of another size.
    pub(super) fn resize(&self, total: Option<u64>, bytes: Option<u64>) {
        self.tell(Event::Resize(total, bytes));
    }

    /// Says something, above what is shown.
    pub(crate) fn say(&self, message: String) {
        self.tell(Event::Say(message));
    }

    /// Leaves a line for an input that has come to its end.
    pub(crate) fn end_of_file(&self, name: &OsStr, counted: u64, took: Duration) {
        self.tell(Event::EndOfFile(File {
            name: name.to_owned(),
            counted,
            took,
        }));
    }

    /// Shows how it ended. If a signal has come first, that is how, and this does not return.
    pub(crate) fn finish(self, ending: Ending) {
        if !self.signals.has_interrupted() {
            self.tell(Event::Over(ending));
        }
        // Should it have panicked, it has said so.
        let _ = self.thread.join();
    }

    fn tell(&self, event: Event) {
        if let Err(mpsc::SendError(Event::Say(message))) = self.events.send(event) {
            exit::say(&message);
        }
    }
}

/// Whether the bytes go to the terminal that is drawn on.
pub(super) fn shares_terminal(settings: &Settings) -> bool {
    matches!(settings.output, Output::Stdout)
        && settings.form != Form::Quiet
        && tty::is_same(rustix::stdio::stdout(), rustix::stdio::stderr())
}
