//! The loop of the display thread, for one transfer.

use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Zoned;

use crate::common::cli::message;
use crate::common::cli::quote::quoted;
use crate::common::progress::clock;
use crate::common::progress::duration;
use crate::common::progress::units;
use crate::pv::cleanup::Cleanup;
use crate::pv::display::displayed_transfer::{DisplayedTransfer, Handles};
use crate::pv::display::event::{Event, FinishedInput, Phase};
use crate::pv::display::format::Format;
use crate::pv::display::json;
use crate::pv::display::objects::Objects;
use crate::pv::display::on_progress::{Hook, HookEnv};
use crate::pv::display::reading::Reading;
use crate::pv::display::render::{self, render};
use crate::pv::display::sampler::{Clock, Sampler};
use crate::pv::display::screen::{Screen, Setup};
use crate::pv::display::signals::Event as Signal;
use crate::pv::display::title;
use crate::pv::ending::State;
use crate::pv::remote::answer::{Watchers, answer};
use crate::pv::settings::{Form, Settings};

mod end;
mod objects;
mod phases;
mod requests;
mod sides;

pub(crate) use sides::DisplayLoop;

/// The interval of checks for the first byte, and for the end of the last command.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The interval of checks whether the command is due, independent of the display.
const HOOK_INTERVAL: Duration = Duration::from_millis(20);

/// The longest time that the command of `--on-progress` delays the end after a signal.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// The interval of wake-ups while nothing is shown.
const IDLE_INTERVAL: Duration = Duration::from_secs(3600);

/// The display of one transfer.
pub(crate) struct TransferView {
    settings: Arc<Settings>,
    cleanup: Arc<Cleanup>,
    handles: Handles,
    /// Receives the requests of other processes.
    events: Sender<Event>,
    watchers: Watchers,
    screen: Screen,
    sampler: Sampler,
    /// The format of this phase.
    format: Format,
    hook: Option<Hook>,
    /// The time of the next check whether the command is due.
    hook_due: Instant,
    /// The output for objects, if it is not standard error.
    objects: Option<Arc<Mutex<Objects>>>,
    /// The time of the next frame.
    due: Instant,
    /// Whether the display waits for the first byte.
    waits: bool,
    line: String,
    /// The number of phases that have ended.
    n_phases: u64,
    /// The last reading, after the last byte has been moved.
    last: Option<Reading>,
    /// Whether the end has been reported to programs.
    is_over: bool,
}

impl TransferView {
    pub(crate) fn new(
        shown: DisplayedTransfer,
        handles: Handles,
        objects: Option<Arc<Mutex<Objects>>>,
        events: Sender<Event>,
    ) -> io::Result<Self> {
        let DisplayedTransfer {
            settings,
            progress,
            output,
            cleanup,
            phase,
        } = shown;
        let mut screen = Screen::on_stderr(Setup {
            force: settings.force,
            // Objects are lines for programs, without the escape sequences of rows.
            own_row: settings.own_row && settings.form != Form::Json,
            shares: handles.shares_terminal,
            columns: settings.columns,
            rows: settings.rows,
        })?;
        if settings.form == Form::Line && screen.is_wanted() {
            screen.begin();
        }
        let hook = settings.hook.as_ref();
        let hook = hook.map(|hook| Hook::new(hook.command.clone(), hook.every));
        let mut view = Self {
            format: with_name_of(&phase, &settings.format),
            sampler: Sampler::new(progress, output, (settings.window, clock(&settings)), phase),
            waits: settings.waits,
            due: Instant::now(),
            hook_due: Instant::now() + HOOK_INTERVAL,
            objects,
            settings,
            cleanup,
            handles,
            events,
            watchers: Watchers::new(),
            screen,
            hook,
            line: String::new(),
            n_phases: 0,
            last: None,
            is_over: false,
        };
        if view.sampler.is_remote() {
            // The first rate is measured from now.
            view.sampler.read();
        }
        view.due = view.first_due();
        Ok(view)
    }

    fn answer(&mut self, event: Event) {
        match event {
            Event::Signal(Signal::Requested) => answer(self.events.clone()),
            Event::Resize(total, bytes) => self.sampler.resize(total, bytes),
            Event::Phase(phase) => self.begin_phase(phase),
            Event::EndOfFile(file) => self.report_file(&file),
            // `DisplayLoop` handles these, for both sides of a command.
            Event::Signal(_)
            | Event::Remote(_)
            | Event::Message { .. }
            | Event::Moved(_)
            | Event::Over(..) => {}
        }
    }

    /// Reads the size of the terminal.
    fn measure(&mut self) {
        self.screen.measure();
        self.draw_again();
    }

    /// Leaves the screen to the shell before a pause.
    fn pause(&mut self) {
        // The terminal may have echoed ^Z over the line. If there are several displays, the first
        // may have cleared the position of the rows already. The shell may have taken the terminal
        // even from a display that draws in the background.
        if !self.screen.has_own_row() && !self.screen.is_background() {
            self.draw_again();
        }
        self.screen.pause();
    }

    /// Continues after the process was stopped for some time.
    fn resume(&mut self, stopped: Duration) {
        self.sampler.skip(stopped);
        self.due += stopped;
        self.screen.measure();
        self.draw_again();
    }

    fn tick(&mut self) {
        let now = Instant::now();
        if self.hook.is_some() && self.last.is_none() && self.hook_due <= now {
            self.update_hook();
            self.hook_due = now + HOOK_INTERVAL;
        }
        if now < self.due {
            return;
        }
        if self.last.is_some() {
            self.due = now + IDLE_INTERVAL;
            return;
        }
        if self.waits {
            if self.sampler.has_begun() {
                self.waits = false;
                self.sampler.restart();
                self.due = (now + self.settings.interval).max(self.first_due());
            } else {
                self.due = now + POLL_INTERVAL;
            }
            return;
        }
        if !self.is_watched() {
            self.due = now + IDLE_INTERVAL;
            return;
        }
        if self.is_early() {
            // The delay may be longer than an `Instant` can hold.
            self.due = now + POLL_INTERVAL;
            return;
        }
        self.draw();
        self.due += self.settings.interval;
        if self.due <= now {
            self.due = now + self.settings.interval;
        }
    }

    /// Returns whether anything is shown before the end.
    fn is_shown(&self) -> bool {
        match self.settings.form {
            Form::Line => self.screen.is_wanted() || self.objects.is_some(),
            Form::Numeric | Form::Json => true,
            Form::Quiet => self.objects.is_some(),
        }
    }

    /// Returns whether readings are taken before the end.
    fn is_watched(&self) -> bool {
        self.is_shown() || self.settings.stats
    }

    fn first_due(&self) -> Instant {
        let begin = self.sampler.begin();
        if self.waits {
            return begin + POLL_INTERVAL;
        }
        let wait = self.settings.interval.max(self.settings.delay);
        begin.checked_add(wait).unwrap_or(begin + IDLE_INTERVAL)
    }

    /// Runs the command if another step has been reached.
    fn update_hook(&mut self) {
        let reading = self.sampler.peek();
        let env = HookEnv::new(&reading, State::Running);
        if let Some(Err(error)) = self.hook.as_mut().map(|hook| hook.note_progress(env)) {
            self.hook = None;
            self.warn(&format!("sh: {error}"));
        }
    }

    /// Takes a reading and shows it.
    fn draw(&mut self) {
        let reading = self.sampler.read();
        self.put(&reading);
    }

    /// Redraws the line after other output. Lines that stay are not repeated.
    fn draw_again(&mut self) {
        if self.settings.form == Form::Line && self.screen.has_drawn() {
            let reading = self.sampler.read();
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

    /// Shows a reading in the form for people.
    fn show_reading(&mut self, reading: &Reading) {
        match self.settings.form {
            Form::Json => {}
            Form::Numeric => {
                self.render(reading);
                let line = std::mem::take(&mut self.line);
                self.screen.write_message(&line);
                self.line = line;
            }
            Form::Line if self.screen.is_wanted() => {
                self.render(reading);
                if self.sampler.take_passed() {
                    self.screen.mark_written_over();
                }
                self.screen.draw(&self.line);
            }
            Form::Line | Form::Quiet => return,
        }
        self.show_extra(reading);
    }

    fn show_extra(&mut self, reading: &Reading) {
        let (Some(extra), Some(format)) = (&self.settings.extra, self.settings.format_of_titles())
        else {
            return;
        };
        let format = with_name_of(self.sampler.phase(), format);
        // Bars have the width of the terminal, but no terminal limits the length of a title.
        let line = render::uncut(&format, reading, &self.options());
        // Objects on standard error stay lines for programs.
        if extra.window && self.settings.form != Form::Json {
            self.screen.set_window_title(line.trim_end());
        }
        if extra.process {
            // Without /proc the name cannot be changed.
            let _ = title::set_process_title(line.trim_end());
        }
    }

    fn render(&mut self, reading: &Reading) {
        self.line.clear();
        let options = self.options();
        render(&self.format, reading, &options, &mut self.line);
    }

    fn options(&self) -> render::RenderOptions {
        let settings = &self.settings;
        let terminal = self.screen.capabilities();
        render::RenderOptions {
            width: usize::from(self.screen.size().columns),
            unit: settings.unit,
            si: settings.si,
            style: settings.style,
            gauge: settings.gauge,
            name: self.sampler.phase().name.clone(),
            utf8: terminal.utf8,
            colour: terminal.colour,
        }
    }

    /// Returns whether it is too early to show anything.
    fn is_early(&self) -> bool {
        self.waits || self.sampler.elapsed() < self.settings.delay
    }

    fn report_file(&mut self, file: &FinishedInput) {
        let settings = &self.settings;
        let seconds = file.took.as_secs_f64().max(1e-9);
        #[allow(clippy::cast_precision_loss, reason = "a rate needs no more digits")]
        let rate = file.counted as f64 / seconds;
        let line = match settings.form {
            Form::Quiet | Form::Json => None,
            Form::Line | Form::Numeric => Some(format!(
                "{} {} [{}] {}",
                units::amount(file.counted, settings.unit, settings.si),
                duration::duration(file.took),
                units::rate(rate, settings.unit, settings.si),
                quoted(&file.name)
            )),
        };
        if self.writes_objects() {
            let object = json::File::new(file, rate, self.sampler.counts_bytes());
            self.put_object(&crate::common::progress::json::line(&object));
        }
        if let Some(line) = line {
            self.screen.write_message(&line);
            self.draw_again();
        }
    }

    fn warn(&mut self, message: &str) {
        let program = message::program();
        let message = format!("{}: {message}", program.to_string_lossy());
        self.screen.write_message(&message);
        self.draw_again();
    }
}

/// Returns the format, which also shows the name of the phase, if that has one.
fn with_name_of(phase: &Phase, format: &Format) -> Format {
    let format = format.clone();
    if phase.name.is_some() {
        format.with_name()
    } else {
        format
    }
}

/// Returns the clock, or a constant time if no format shows the time.
fn clock(settings: &Settings) -> Clock {
    if settings.formats().any(Format::shows_time) {
        clock::now
    } else {
        Zoned::default
    }
}
