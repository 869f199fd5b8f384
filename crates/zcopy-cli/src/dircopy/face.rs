//! What is said, and where.
//!
//! Complaints go to standard error, and so does the progress line, if that is a terminal. The summary goes to standard output; for
//! programs, everything does, each an object of JSON on a line.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::attributes;
use super::counts::Counts;
use super::damage_map::{Damage, Rest};

use super::interrupt::Interrupt;
use super::limitation::{Limitation, Limitations};
use super::place::Exclusivity;
use super::prescan::Total;
use super::progress::Gauge;
use super::stop_flag::StopFlag;
use super::summary::{State, Summary};
use super::tree::{Cause, Trouble};
use crate::look::Look;
use crate::outlet::Outlet;
use crate::quote::quoted;
use crate::{exit, sys};

use event::Event;
use screen::Screen;

mod event;
pub(super) mod screen;

/// How often a line is drawn for people: as often as they can read it.
pub(super) const FRAME: Duration = Duration::from_millis(200);

/// How often a line is written for programs, which keep them all.
pub(super) const REPORT: Duration = Duration::from_secs(1);

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// Complaints alone.
    Quiet,
    /// Also how far the copy is, and at the end what became of it.
    Normal,
    /// The same for programs.
    Json,
}

/// How things are told. All threads share it.
#[derive(Debug)]
pub(super) struct Face<'a> {
    manner: Manner,
    counts: &'a Counts,
    screen: Mutex<Screen>,
    stdout: Mutex<Outlet>,
    limitations: Limitations,
}

impl<'a> Face<'a> {
    /// Speaks on standard error and standard output. From now on a terminal does not stop this process for writing to it in
    /// the background.
    ///
    /// # Errors
    ///
    /// As [`Outlet::on`].
    pub(super) fn new(manner: Manner, counts: &'a Counts) -> io::Result<Self> {
        sys::ignore_sigttou();
        let (stdout, stderr) = (rustix::stdio::stdout(), rustix::stdio::stderr());
        Self::on(manner, counts, stdout, stderr, Look::of_environment())
    }

    /// Speaks where the descriptors lead.
    fn on(
        manner: Manner,
        counts: &'a Counts,
        stdout: BorrowedFd<'_>,
        stderr: BorrowedFd<'_>,
        look: Look,
    ) -> io::Result<Self> {
        let screen = match manner {
            Manner::Normal => Screen::on(stderr, look)?,
            Manner::Quiet | Manner::Json => Screen::without_line(stderr)?,
        };
        Ok(Self {
            manner,
            counts,
            screen: Mutex::new(screen),
            stdout: Mutex::new(Outlet::on(stdout)?),
            limitations: Limitations::default(),
        })
    }

    /// Says what is wrong with something, and counts it. The path is from the root.
    pub(super) fn complain(&self, path: &Path, error: &anyhow::Error) {
        self.complain_in(path, &exit::chained(error.chain()));
    }

    /// Says which bytes of a file are missing, and counts them.
    pub(super) fn report_damage(&self, path: &Path, damage: &Damage<'_>) {
        self.counts.damaged.add(1);
        self.counts.lost_bytes.add(damage.map.lost_bytes());
        self.complain_in(path, &damage.words());
        if self.manner == Manner::Json {
            let event = Event::Damaged {
                path: or_dot(path).to_string_lossy(),
                lost_bytes: damage.map.lost_bytes(),
                ranges: damage.map.ranges(),
                is_copied: damage.rest == Rest::Copied,
            };
            // The summary meets the same error.
            let _ = self.tell(&event);
        }
    }

    /// Says what is wrong with the destination as a whole, and counts it.
    pub(super) fn complain_of_destination(&self, destination: &Path, error: &anyhow::Error) {
        self.complain_in(destination, &exit::chained(error.chain()));
    }

    /// Says what went wrong on the walk, and counts it.
    pub(super) fn complain_of(&self, trouble: &Trouble) {
        if let Cause::Attributes(error) = trouble.cause()
            && self.report_lost_attributes(error)
        {
            return;
        }
        // The first is the path.
        let causes = anyhow::Chain::new(trouble).skip(1);
        self.complain_in(trouble.path(), &exit::chained(causes));
    }

    /// Says which attributes could not be kept. Those that the file system never keeps are reported once, and nothing is wrong then.
    pub(super) fn complain_of_attributes(&self, path: &Path, error: attributes::Error) {
        if !self.report_lost_attributes(&error) {
            self.complain(path, &anyhow::Error::new(error));
        }
    }

    /// Reports what the file system never keeps. Returns whether that is all.
    fn report_lost_attributes(&self, error: &attributes::Error) -> bool {
        let limitations = error.limitations();
        for limitation in limitations {
            self.report_limitation(*limitation);
        }
        !limitations.is_empty()
    }

    /// Says something about the destination, with which nothing is wrong.
    pub(super) fn remark_on_destination(&self, destination: &Path, text: &str) {
        self.say(destination, text);
    }

    /// Says that a signal ended the run early.
    pub(super) fn report_interrupt(&self, signal: &str) {
        let mut line = exit::program().into_vec();
        let text = format!(": interrupted by {signal}; the next run copies the rest\n");
        line.extend_from_slice(text.as_bytes());
        self.screen().say(&line);
    }

    /// Says something about a file, with which nothing is wrong.
    pub(super) fn remark(&self, path: &Path, text: &str) {
        self.say(path, text);
    }

    /// Says once what the file system of the destination cannot do, unless errors alone are wanted.
    pub(super) fn report_limitation(&self, limitation: Limitation) {
        if self.manner == Manner::Quiet || !self.limitations.add(limitation) {
            return;
        }
        let message = &limitation.to_string();
        self.say("".as_ref(), message);
        if self.manner == Manner::Json {
            let path = or_dot("".as_ref()).to_string_lossy();
            // The summary meets the same error.
            let _ = self.tell(&Event::Remark { path, message });
        }
    }

    /// Says how it is known that a name was free, if it is not for certain.
    pub(super) fn report_exclusivity(&self, exclusivity: Exclusivity) {
        match exclusivity {
            Exclusivity::Atomic => {}
            Exclusivity::Checked => self.report_limitation(Limitation::ExclusiveNames),
        }
    }

    /// Whether anybody is shown how far the copy is: a program, or a person before the terminal that standard error
    /// is, unless it was somebody else's when this began.
    pub(super) fn shows_progress(&self) -> bool {
        self.manner == Manner::Json || self.screen().has_line()
    }

    /// Shows how far the copy is until the flag is set. The clock starts now.
    pub(super) fn draw_until(&self, stop: &StopFlag, total: &Total) {
        if !self.shows_progress() {
            return;
        }
        let interval = if self.manner == Manner::Json {
            REPORT
        } else {
            FRAME
        };
        let begin = Instant::now();
        let mut gauge = Gauge::new(self.counts, total);
        while !stop.wait(interval) {
            self.draw(&mut gauge, begin.elapsed());
        }
        self.screen().take_line_away();
    }

    /// Says what became of the tree. All complaints have been taken by then, even by a terminal that was stopped.
    ///
    /// # Errors
    ///
    /// That standard output takes nothing, or did not take an earlier line.
    pub(super) fn summarize(
        &self,
        elapsed: Duration,
        manifests: &[PathBuf],
        interrupt: &Interrupt,
    ) -> io::Result<()> {
        self.screen().finish();
        let state = State::new(self.counts, interrupt);
        let summary = Summary::of(self.counts, state, elapsed, manifests);
        match self.manner {
            Manner::Quiet => Ok(()),
            Manner::Normal => self.stdout().put(summary.words().as_bytes()),
            Manner::Json => self.tell(&Event::Summary(&summary)),
        }
    }

    /// Shows how far the copy is now.
    fn draw(&self, gauge: &mut Gauge<'_>, elapsed: Duration) {
        let progress = gauge.read(elapsed);
        if self.manner == Manner::Json {
            // The summary meets the same error.
            let _ = self.tell(&Event::Progress(&progress));
        } else {
            self.screen().draw(|columns| progress.line(columns));
        }
    }

    fn complain_in(&self, path: &Path, message: &str) {
        self.counts.failed.add(1);
        let path = or_dot(path);
        self.say(path, message);
        if self.manner == Manner::Json {
            // What is no UTF-8 has no place in JSON.
            let path = path.to_string_lossy();
            // The summary meets the same error.
            let _ = self.tell(&Event::Error { path, message });
        }
    }

    /// Writes a message with a path in front.
    fn say(&self, path: &Path, message: &str) {
        let path = quoted(or_dot(path).as_os_str());
        let mut line = exit::program().into_vec();
        line.extend_from_slice(format!(": {path}: {message}\n").as_bytes());
        self.screen().say(&line);
    }

    /// Writes a line for programs.
    fn tell(&self, event: &Event<'_>) -> io::Result<()> {
        self.stdout().put(event.line().as_bytes())
    }

    fn screen(&self) -> MutexGuard<'_, Screen> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stdout(&self) -> MutexGuard<'_, Outlet> {
        self.stdout.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The root has no name in its own tree.
fn or_dot(path: &Path) -> &Path {
    if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    }
}

#[cfg(test)]
mod tests;
