//! The display: a thread of its own, so that a terminal that takes nothing holds up no byte, and bytes that do
//! not come hold up no display.

use std::ffi::{OsStr, OsString};
use std::io;
use std::num::NonZeroU64;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::changes::Changes;
use super::ending::Ending;
use super::face::{Face, Faces};
use super::meter::Meter;
use super::objects::Objects;
use super::output_pipe::OutputPipe;
use super::remote::{Control, Incoming};
use super::settings::{Form, Output, Settings, Side};
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
    /// The last byte has been moved.
    Moved(Side),
    /// There is nothing more to come.
    Over(Side, Ending),
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

/// A transfer that is shown.
pub(crate) struct Shown {
    pub(crate) settings: Arc<Settings>,
    pub(crate) meter: Arc<Meter>,
    /// The pipe whose unread bytes have not arrived yet.
    pub(crate) output: Option<Arc<OutputPipe>>,
    /// What is to be taken back if a signal ends the process. No other transfer shares it.
    pub(crate) changes: Arc<Changes>,
    pub(crate) stage: Stage,
}

/// The handles by which the thread that draws stops or changes one transfer.
#[derive(Clone, Debug)]
pub(crate) struct Handles {
    /// Stops the transfer when a signal ends the process.
    pub(super) stop: Arc<Stop>,
    /// What other processes may change of the transfer.
    pub(super) control: Arc<Control>,
    /// Whether the bytes go to the terminal that is drawn on, so that the display has to know of each where it stands.
    pub(super) shares_terminal: bool,
}

impl Handles {
    fn of(settings: &Settings) -> Self {
        Self {
            stop: Arc::default(),
            control: Arc::new(Control::new(settings.rate_limit.map(NonZeroU64::get))),
            shares_terminal: shares_terminal(settings),
        }
    }
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
}

impl Display {
    /// Begins to show a transfer.
    pub(crate) fn begin(shown: Shown, objects: Option<Objects>) -> io::Result<(Self, Handles)> {
        let handles = Handles::of(&shown.settings);
        let display = Self::start((shown, handles.clone()), None, objects)?;
        Ok((display, handles))
    }

    /// Begins to show both sides of a command: its input, and its output.
    pub(crate) fn begin_both(
        input: Shown,
        output: Shown,
        objects: Option<Objects>,
    ) -> io::Result<(Self, [Handles; 2])> {
        let handles = [&input, &output].map(|shown| Handles::of(&shown.settings));
        let [first, second] = handles.clone();
        let display = Self::start((input, first), Some((output, second)), objects)?;
        Ok((display, handles))
    }

    fn start(
        first: (Shown, Handles),
        output: Option<(Shown, Handles)>,
        objects: Option<Objects>,
    ) -> io::Result<Self> {
        let (events, receiver) = mpsc::channel();
        let signals = Signals::sent_to(events.clone())?;
        let objects = objects.map(|objects| Arc::new(Mutex::new(objects)));
        let face = |(shown, handles)| Face::new(shown, handles, objects.clone(), events.clone());
        let faces = Faces::of(face(first)?, output.map(face).transpose()?);
        let thread = thread::Builder::new()
            .name("display".into())
            .spawn(move || faces.show(&receiver))?;
        Ok(Self {
            events,
            thread,
            signals,
        })
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

    /// Shows that the last byte of one side of a command has been moved.
    pub(super) fn moved(&self, side: Side) {
        self.tell(Event::Moved(side));
    }

    /// Tells programs how one side of a command ended.
    pub(super) fn side_over(&self, side: Side, ending: Ending) {
        if !self.signals.has_interrupted() {
            self.tell(Event::Over(side, ending));
        }
    }

    /// Shows how it ended. If a signal has come first, that is how, and this does not return.
    pub(crate) fn finish(self, ending: Ending) {
        self.side_over(Side::Output, ending);
        self.join();
    }

    /// Waits until everything has been shown.
    pub(super) fn join(self) {
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
