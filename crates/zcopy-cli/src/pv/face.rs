//! What is shown, and when.

use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Zoned;

use super::changes::Changes;
use super::display::{Event, File, Handles, Shown, Stage};
use super::ending::State;
use super::format::Format;
use super::hook::{Hook, HookEnv};
use super::instrument::{Clock, Instrument};
use super::objects::Objects;
use super::reading::Reading;
use super::remote::{self, Watchers};
use super::render::{self, render};
use super::screen::{Screen, Setup};
use super::settings::{Form, Settings};
use super::signals::Event as Signal;
use super::{json, titles};
use crate::exit;
use crate::quote::quoted;
use crate::{number, time};

mod end;
mod objects;
mod requests;
mod sides;

pub(super) use sides::Faces;

/// How often to look whether the first byte has come, or the last command is over.
const LOOK: Duration = Duration::from_millis(50);

/// How often to look whether the command is to be run, however seldom anything is shown.
const HOOK_INTERVAL: Duration = Duration::from_millis(20);

/// How long the command may take to hear of a signal.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// How long to sleep where nothing is shown.
const LONG: Duration = Duration::from_secs(3600);

/// What is shown, and when.
pub(super) struct Face {
    settings: Arc<Settings>,
    changes: Arc<Changes>,
    handles: Handles,
    /// Where requests of other processes are sent once they have been read.
    events: Sender<Event>,
    watchers: Watchers,
    screen: Screen,
    instrument: Instrument,
    /// What is shown of this stage.
    format: Format,
    hook: Option<Hook>,
    /// When to look next whether the command is to be run.
    hook_due: Instant,
    /// Where objects go, if not to standard error.
    objects: Option<Arc<Mutex<Objects>>>,
    /// When to draw next.
    due: Instant,
    /// Whether the first byte is waited for.
    waits: bool,
    line: String,
    /// How many stages have ended.
    n_stages: u64,
    /// The last reading, once the last byte has been moved.
    last: Option<Reading>,
    /// Whether programs have been told the end.
    is_over: bool,
}

impl Face {
    pub(super) fn new(
        shown: Shown,
        handles: Handles,
        objects: Option<Arc<Mutex<Objects>>>,
        events: Sender<Event>,
    ) -> io::Result<Self> {
        let Shown {
            settings,
            meter,
            output,
            changes,
            stage,
        } = shown;
        let mut screen = Screen::on_stderr(Setup {
            force: settings.force,
            own_row: settings.own_row,
            shares: handles.shares_terminal,
            columns: settings.columns,
            rows: settings.rows,
        })?;
        if settings.form == Form::Line && screen.is_wanted() {
            screen.begin();
        }
        let hook = settings.hook.as_ref();
        let hook = hook.map(|hook| Hook::new(hook.command.clone(), hook.every));
        let mut face = Self {
            format: format_of(&settings, &stage),
            instrument: Instrument::new(meter, output, (settings.window, clock(&settings)), stage),
            waits: settings.waits,
            due: Instant::now(),
            hook_due: Instant::now() + HOOK_INTERVAL,
            objects,
            settings,
            changes,
            handles,
            events,
            watchers: Watchers::new(),
            screen,
            hook,
            line: String::new(),
            n_stages: 0,
            last: None,
            is_over: false,
        };
        if face.instrument.is_of_another_process() {
            // The first rate is that since now.
            face.instrument.read();
        }
        face.due = face.first_due();
        Ok(face)
    }

    fn answer(&mut self, event: Event) {
        match event {
            Event::Signal(Signal::Requested) => remote::answer(self.events.clone()),
            Event::Resize(total, bytes) => self.instrument.resize(total, bytes),
            Event::Stage(stage) => self.begin_stage(stage),
            Event::EndOfFile(file) => self.tell_file(&file),
            // These may concern both sides of a command.
            Event::Signal(_)
            | Event::Remote(_)
            | Event::Say(_)
            | Event::Moved(_)
            | Event::Over(..) => {}
        }
    }

    /// Looks how large the terminal is now.
    fn measure(&mut self) {
        self.screen.measure();
        self.draw_again();
    }

    /// Leaves the screen to the shell, before a pause.
    fn pause(&mut self) {
        // What the terminal has echoed stands in the line. Of several displays the first has perhaps forgotten
        // already where they are.
        if !self.screen.has_own_row() {
            self.draw_again();
        }
        self.screen.pause();
    }

    /// Goes on after the process was stopped for some time.
    fn resume(&mut self, stopped: Duration) {
        self.instrument.skip(stopped);
        self.due += stopped;
        self.screen.measure();
        self.draw_again();
    }

    fn tick(&mut self) {
        let now = Instant::now();
        if self.hook.is_some() && self.last.is_none() && self.hook_due <= now {
            self.see_hook();
            self.hook_due = now + HOOK_INTERVAL;
        }
        if now < self.due {
            return;
        }
        if self.last.is_some() {
            self.due = now + LONG;
            return;
        }
        if self.waits {
            if self.instrument.has_begun() {
                self.waits = false;
                self.instrument.restart();
                self.due = (now + self.settings.interval).max(self.first_due());
            } else {
                self.due = now + LOOK;
            }
            return;
        }
        if !self.is_watched() {
            self.due = now + LONG;
            return;
        }
        if self.is_early() {
            // No clock goes as far as the delay.
            self.due = now + LOOK;
            return;
        }
        self.draw();
        self.due += self.settings.interval;
        if self.due <= now {
            self.due = now + self.settings.interval;
        }
    }

    /// Whether anybody is told anything before the end.
    fn is_shown(&self) -> bool {
        match self.settings.form {
            Form::Line => self.screen.is_wanted() || self.objects.is_some(),
            Form::Numeric | Form::Json => true,
            Form::Quiet => self.objects.is_some(),
        }
    }

    /// Whether readings are taken before the end.
    fn is_watched(&self) -> bool {
        self.is_shown() || self.settings.stats
    }

    fn first_due(&self) -> Instant {
        let begin = self.instrument.begin();
        if self.waits {
            return begin + LOOK;
        }
        let wait = self.settings.interval.max(self.settings.delay);
        begin.checked_add(wait).unwrap_or(begin + LONG)
    }

    /// Runs the command if another step has been reached.
    fn see_hook(&mut self) {
        let reading = self.instrument.peek();
        let told = HookEnv::of(&reading, State::Running);
        if let Some(Err(error)) = self.hook.as_mut().map(|hook| hook.see(told)) {
            self.hook = None;
            self.complain(&format!("sh: {error}"));
        }
    }

    /// Takes a reading, and shows it.
    fn draw(&mut self) {
        let reading = self.instrument.read();
        self.put(&reading);
    }

    /// Puts the line where it stood, after something else has come there. Lines that stay are not repeated.
    fn draw_again(&mut self) {
        if self.settings.form == Form::Line && self.screen.has_drawn() {
            let reading = self.instrument.read();
            self.show_reading(&reading);
        }
    }

    /// Writes a reading as an object, if objects are wanted, and shows it.
    fn put(&mut self, reading: &Reading) {
        if self.writes_objects() {
            let line = self.object(reading, None);
            self.put_object(&line);
        }
        self.show_reading(reading);
    }

    /// Shows a reading in whatever form it is to have for people.
    fn show_reading(&mut self, reading: &Reading) {
        match self.settings.form {
            Form::Json => {}
            Form::Numeric => {
                self.render(reading);
                let line = std::mem::take(&mut self.line);
                self.screen.say(&line);
                self.line = line;
            }
            Form::Line if self.screen.is_wanted() => {
                self.render(reading);
                if self.instrument.has_passed_more() {
                    self.screen.is_written_over();
                }
                self.screen.draw(&self.line);
            }
            Form::Line | Form::Quiet => return,
        }
        self.put_elsewhere(reading);
    }

    fn put_elsewhere(&mut self, reading: &Reading) {
        let Some(extra) = &self.settings.extra else {
            return;
        };
        let mut line = String::new();
        let format = extra.format.as_ref().unwrap_or(&self.format);
        render(format, reading, &self.look(), &mut line);
        if extra.window {
            self.screen.title_window(line.trim_end());
        }
        if extra.process {
            // Without /proc there is no name to be shown.
            let _ = titles::title_process(line.trim_end());
        }
    }

    fn render(&mut self, reading: &Reading) {
        self.line.clear();
        let look = self.look();
        render(&self.format, reading, &look, &mut self.line);
    }

    fn look(&self) -> render::Look {
        let settings = &self.settings;
        let terminal = self.screen.look();
        render::Look {
            width: usize::from(self.screen.size().columns),
            unit: settings.unit,
            si: settings.si,
            style: settings.style,
            gauge: settings.gauge,
            name: self.instrument.stage().name.clone(),
            utf8: terminal.utf8,
            colour: terminal.colour,
        }
    }

    /// Leaves what is shown where it is, and goes on below.
    fn begin_stage(&mut self, mut stage: Stage) {
        // The meter has gone on meanwhile.
        let reading = self.instrument.read_last_at(stage.from);
        if self.writes_objects() && !self.is_early() {
            let line = self.object(&reading, None);
            self.put_object(&line);
        }
        self.end_stage(&reading);
        if let Some(hook) = &mut self.hook {
            hook.restart();
        }
        self.n_stages += 1;
        // It may have been changed.
        stage.name.clone_from(&self.settings.name);
        self.format = format_of(&self.settings, &stage);
        self.instrument.begin_stage(stage);
        self.due = self.first_due();
    }

    /// Shows how the stage has ended.
    fn end_stage(&mut self, reading: &Reading) {
        if self.is_shown() && !self.is_early() {
            self.show_reading(reading);
        }
        if !self.settings.stats {
            return self.screen.finish();
        }
        let statistics = self.instrument.statistics();
        if self.writes_objects() {
            let line = crate::json::line(&json::Rates::of(&statistics));
            self.put_object(&line);
        }
        let line = match (self.settings.form, self.settings.unit) {
            (Form::Json, _) => return self.screen.finish(),
            (_, number::Unit::Bits) => statistics.in_bits(),
            _ => statistics.to_string(),
        };
        self.end_with(&line, reading);
    }

    /// Ends the display, and leaves one more line below, or above where others draw below.
    fn end_with(&mut self, message: &str, reading: &Reading) {
        if self.screen.has_own_row() {
            self.screen.say(message);
            self.show_reading(reading);
            self.screen.finish();
        } else {
            self.screen.finish();
            self.screen.say(message);
        }
    }

    /// Whether nothing is to be shown yet.
    fn is_early(&self) -> bool {
        self.waits || self.instrument.elapsed() < self.settings.delay
    }

    fn tell_file(&mut self, file: &File) {
        let settings = &self.settings;
        let seconds = file.took.as_secs_f64().max(1e-9);
        #[allow(clippy::cast_precision_loss, reason = "a rate needs no more digits")]
        let rate = file.counted as f64 / seconds;
        let line = match settings.form {
            Form::Quiet | Form::Json => None,
            Form::Line | Form::Numeric => Some(format!(
                "{} {} [{}] {}",
                number::amount(file.counted, settings.unit, settings.si),
                time::duration(file.took),
                number::rate(rate, settings.unit, settings.si),
                quoted(&file.name)
            )),
        };
        if self.writes_objects() {
            let object = json::File::of(file, rate, self.instrument.counts_bytes());
            self.put_object(&crate::json::line(&object));
        }
        if let Some(line) = line {
            self.screen.say(&line);
            self.draw_again();
        }
    }

    fn complain(&mut self, message: &str) {
        let program = exit::program();
        let message = format!("{}: {message}", program.to_string_lossy());
        self.screen.say(&message);
        self.draw_again();
    }
}

/// What is shown of a stage: a name that the user has not asked for stands in front as one that he has.
fn format_of(settings: &Settings, stage: &Stage) -> Format {
    let format = settings.format.clone();
    if stage.name.is_some() {
        format.named()
    } else {
        format
    }
}

/// The clock, if anybody is told the time.
fn clock(settings: &Settings) -> Clock {
    if settings.formats().any(Format::tells_time) {
        time::now
    } else {
        Zoned::default
    }
}
