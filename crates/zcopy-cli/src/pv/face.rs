//! What is shown, and when.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use jiff::Zoned;
use zcopy::Strategy;

use super::display::{Event, File, Place, Stage};
use super::history::History;
use super::hook::{self, Hook};
use super::meter::Meter;
use super::number;
use super::pidfile::Pidfile;
use super::reading::{BufferUse, Reading};
use super::render::{self, render};
use super::screen::{Screen, Setup};
use super::settings::{Form, Settings};
use super::signals::{self, Event as Signal};
use super::status::Status;
use super::{json, time, titles};
use crate::exit;

/// How often to look whether the first byte has come.
const LOOK: Duration = Duration::from_millis(50);

/// How long to sleep where nothing is shown.
const LONG: Duration = Duration::from_secs(3600);

/// What is shown, and when.
pub(super) struct Face {
    settings: Arc<Settings>,
    meter: Arc<Meter>,
    output: Option<OwnedFd>,
    pidfile: Option<Arc<Pidfile>>,
    screen: Screen,
    stage: Stage,
    /// Where the stage ends, once that is known.
    end: Option<Place>,
    hook: Option<Hook>,
    history: History,
    /// The history of bytes, where lines are counted: statistics are of bytes.
    bytes: History,
    begin: Instant,
    /// Time in which the process was stopped.
    stopped: Duration,
    /// When to draw next.
    due: Instant,
    /// Whether the first byte is waited for.
    waits: bool,
    /// What was shown last: it never goes back.
    shown: u64,
    line: String,
}

impl Face {
    pub(super) fn new(
        settings: Arc<Settings>,
        meter: Arc<Meter>,
        output: Option<OwnedFd>,
        pidfile: Option<Arc<Pidfile>>,
        stage: Stage,
    ) -> io::Result<Self> {
        let mut screen = Screen::on_stderr(Setup {
            force: settings.force,
            own_row: settings.own_row,
            columns: settings.columns,
            rows: settings.rows,
        })?;
        if settings.form == Form::Line && screen.is_wanted() {
            screen.begin();
        }
        let begin = Instant::now();
        let hook = settings.hook.as_ref();
        let hook = hook.map(|hook| Hook::new(hook.command.clone(), hook.every));
        let mut face = Self {
            history: History::over(settings.window),
            bytes: History::over(settings.window),
            waits: settings.waits,
            due: begin,
            settings,
            meter,
            output,
            pidfile,
            screen,
            stage,
            end: None,
            hook,
            begin,
            stopped: Duration::ZERO,
            shown: 0,
            line: String::new(),
        };
        face.due = face.first_due();
        Ok(face)
    }

    /// Shows what the meter says until all is over.
    pub(super) fn show(mut self, events: &Receiver<Event>) {
        loop {
            let timeout = self.due.saturating_duration_since(Instant::now());
            match events.recv_timeout(timeout) {
                Ok(Event::Over) => return self.finish(),
                Ok(event) => self.answer(event),
                Err(RecvTimeoutError::Timeout) => self.tick(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn answer(&mut self, event: Event) {
        match event {
            Event::Signal(Signal::Resized) => {
                self.screen.measure();
                self.draw(false);
            }
            Event::Signal(Signal::Continued) => self.screen.measure(),
            Event::Signal(Signal::Pause) => {
                self.screen.pause();
                self.stopped += signals::stop();
                self.screen.measure();
                self.due = Instant::now();
            }
            Event::Signal(Signal::Interrupted(signal)) => self.interrupted(signal),
            Event::Stage(stage) => self.begin_stage(stage),
            Event::Say(message) => {
                let program = exit::program();
                self.screen
                    .say(&format!("{}: {message}", program.to_string_lossy()));
            }
            Event::EndOfFile(file) => self.tell_file(&file),
            Event::Over => {}
        }
    }

    fn tick(&mut self) {
        let now = Instant::now();
        if self.waits {
            if self.meter.bytes() == 0 {
                self.due = now + LOOK;
                return;
            }
            self.waits = false;
            let elapsed = self.elapsed();
            self.history.reset(elapsed, 0);
            self.bytes.reset(elapsed, 0);
        }
        if !self.is_shown() {
            self.due = now + LONG;
            return;
        }
        self.draw(false);
        self.due += self.settings.interval;
        if self.due <= now {
            self.due = now + self.settings.interval;
        }
    }

    /// Whether anybody is told anything before the end.
    fn is_shown(&self) -> bool {
        self.hook.is_some()
            || match self.settings.form {
                Form::Line => self.screen.is_wanted(),
                Form::Numeric | Form::Json => true,
                Form::Quiet => false,
            }
    }

    fn first_due(&self) -> Instant {
        let wait = if self.waits {
            LOOK
        } else {
            self.settings.interval
        };
        let delay = self.settings.delay;
        self.begin
            .checked_add(wait.max(delay))
            .unwrap_or(self.begin + LONG)
    }

    /// How long it has taken, but for what it was stopped.
    fn elapsed(&self) -> Duration {
        self.begin.elapsed().saturating_sub(self.stopped)
    }

    /// Takes a sample, and shows what comes of it.
    fn draw(&mut self, is_over: bool) {
        let reading = self.reading(is_over);
        if let Err(error) = self.run_hook(&reading) {
            exit::say(&format!("sh: {error}"));
            self.hook = None;
        }
        match self.settings.form {
            Form::Quiet => {}
            Form::Json => {
                let name = self.stage.name.as_deref();
                let bytes = self.place().bytes - self.stage.from.bytes;
                let is_bytes = self.meter.counts_bytes();
                let line = json::Line::of(&reading, name, bytes, is_bytes, self.meter.strategy());
                // Every field can be written.
                if let Ok(line) = serde_json::to_string(&line) {
                    self.screen.say(&line);
                }
            }
            Form::Numeric => {
                self.render(&reading);
                let line = std::mem::take(&mut self.line);
                self.screen.say(&line);
                self.line = line;
            }
            Form::Line if self.screen.is_wanted() => {
                self.render(&reading);
                self.screen.draw(&self.line);
                self.draw_elsewhere(&reading);
            }
            Form::Line => {}
        }
    }

    fn render(&mut self, reading: &Reading) {
        self.line.clear();
        let look = self.look();
        render(&self.settings.format, reading, &look, &mut self.line);
    }

    fn draw_elsewhere(&mut self, reading: &Reading) {
        let Some(extra) = &self.settings.extra else {
            return;
        };
        let mut line = String::new();
        let format = extra.format.as_ref().unwrap_or(&self.settings.format);
        render(format, reading, &self.look(), &mut line);
        if extra.window {
            self.screen.title_window(line.trim_end());
        }
        if extra.process {
            // Without /proc there is no name to be shown.
            let _ = titles::title_process(line.trim_end());
        }
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
            name: self.stage.name.clone(),
            utf8: terminal.utf8,
            colour: terminal.colour,
        }
    }

    fn reading(&mut self, is_over: bool) -> Reading {
        let unread = if is_over { 0 } else { self.unread() };
        let (place, from) = (self.place(), self.stage.from);
        let moved = match self.meter.counts_bytes() {
            true => (place.bytes - from.bytes).saturating_sub(unread),
            false => place.counted - from.counted,
        };
        self.shown = self.shown.max(moved);
        let elapsed = self.elapsed();
        let bytes = place.bytes - from.bytes;
        if is_over {
            self.history.finish(elapsed, self.shown);
            self.bytes.finish(elapsed, bytes);
        } else {
            self.history.sample(elapsed, self.shown);
            self.bytes.sample(elapsed, bytes);
        }
        let witness = self.meter.witness();
        Reading {
            elapsed: self.history.elapsed(),
            moved: self.shown,
            rate: self.history.rate(),
            average: self.history.average(),
            fastest: self.history.fastest(),
            remaining: self.history.remaining(self.stage.total),
            buffer: self.buffer_use(unread),
            tail: witness.tail().to_vec(),
            line: witness.line().to_vec(),
            beat: self.history.beat(),
            is_over,
            ..Reading::before(Zoned::now(), self.stage.total)
        }
    }

    /// How far everything has come.
    fn place(&self) -> Place {
        self.end.unwrap_or_else(|| Place {
            bytes: self.meter.bytes(),
            counted: self.meter.counted(),
        })
    }

    /// What sits in the output's pipe, and has not been read.
    fn unread(&self) -> u64 {
        let unread = self.output.as_ref().map(rustix::io::ioctl_fionread);
        unread.and_then(Result::ok).unwrap_or(0)
    }

    fn buffer_use(&self, unread: u64) -> BufferUse {
        let capacity = self.output.as_ref().map(rustix::pipe::fcntl_getpipe_size);
        if let Some(Ok(capacity)) = capacity
            && capacity > 0
        {
            return BufferUse::Percent((unread * 100 / capacity as u64).min(100) as u8);
        }
        match self.meter.strategy() {
            Some(Strategy::SplicePipe) => BufferUse::PrivatePipe,
            Some(Strategy::CopyFileRange | Strategy::Reflink) => BufferUse::CopyFileRange,
            Some(Strategy::Splice) => BufferUse::Splice,
            Some(Strategy::Buffered) => BufferUse::Percent(0),
            _ => BufferUse::Unused,
        }
    }

    fn run_hook(&mut self, reading: &Reading) -> io::Result<()> {
        match (&mut self.hook, told(reading)) {
            (Some(hook), Some(told)) => hook.see(told),
            _ => Ok(()),
        }
    }

    /// Leaves what is shown where it is, and goes on below.
    fn begin_stage(&mut self, stage: Stage) {
        // The meter has gone on meanwhile.
        self.end = Some(stage.from);
        if self.is_shown() {
            self.draw(true);
            self.screen.finish();
        }
        self.tell_statistics();
        self.end = None;
        self.stage = stage;
        self.shown = 0;
        self.history = History::over(self.settings.window);
        self.bytes = History::over(self.settings.window);
        self.begin = Instant::now();
        self.stopped = Duration::ZERO;
        self.due = self.first_due();
    }

    fn tell_file(&mut self, file: &File) {
        let settings = &self.settings;
        let seconds = file.took.as_secs_f64().max(1e-9);
        #[allow(clippy::cast_precision_loss, reason = "a rate needs no more digits")]
        let rate = file.counted as f64 / seconds;
        let line = format!(
            "{} {} [{}] {}",
            number::amount(file.counted, settings.unit, settings.si),
            time::duration(file.took),
            number::rate(rate, settings.unit, settings.si),
            file.name
        );
        if settings.form != Form::Quiet {
            self.screen.say(&line);
        }
    }

    fn finish(mut self) {
        let is_early = self.waits || self.elapsed() < self.settings.delay;
        let is_shown = self.is_shown() && !is_early;
        if is_shown {
            self.draw(true);
            self.screen.finish();
        }
        self.tell_statistics();
        let reading = self.reading(true);
        if let (Some(hook), Some(told)) = (self.hook.take(), told(&reading))
            && let Err(error) = hook.finish(told)
        {
            exit::say(&format!("sh: {error}"));
        }
    }

    fn tell_statistics(&mut self) {
        if !self.settings.stats || self.settings.form == Form::Quiet {
            return;
        }
        let statistics = self.bytes.statistics();
        self.screen.say(&match self.settings.unit {
            number::Unit::Bits => statistics.in_bits(),
            _ => statistics.to_string(),
        });
    }

    /// Ends the process.
    fn interrupted(&mut self, signal: i32) {
        self.screen.finish();
        let name = match signal {
            libc::SIGINT => "Interrupt",
            libc::SIGHUP => "Hangup",
            _ => "Terminated",
        };
        exit::say(&format!("interrupted by a signal: {name}"));
        if let Some(pidfile) = &self.pidfile {
            pidfile.remove();
        }
        std::process::exit(Status::SIGNAL.number().into());
    }
}

/// What a command is told, if there is a total to have a share of.
fn told(reading: &Reading) -> Option<hook::Told> {
    Some(hook::Told {
        percent: reading.percent()?,
        moved: reading.moved,
        total: reading.total?,
        seconds: reading.elapsed.as_secs_f64(),
    })
}
