//! `-d`: shows how far other processes have come through the files they have open.
//!
//! [`Watch`] makes rows of what is seen of the processes; what there is to see, [`files`] reads from `/proc`.

use std::io;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Zoned;

use super::reading::Reading;
use crate::history::History;
use files::{OpenFile, Sight};
use target::Target;

pub(super) use follow::follow;

pub mod files;
pub mod target;

mod follow;
mod growing;
mod name;

/// Somebody who has files open.
pub trait Process {
    /// What there is to see now: of one descriptor, or of all.
    fn sight(&mut self, only: Option<RawFd>) -> Sight;
}

/// Several processes and descriptors, followed over time.
#[derive(Debug)]
pub struct Watch<P> {
    followed: Vec<Followed<P>>,
    /// What the rates are averaged over.
    window: Duration,
    /// What the user says there is in a descriptor that was asked for by its number.
    size: Option<u64>,
}

/// How far one descriptor has come.
#[derive(Clone, Debug)]
pub struct Row {
    /// Whose it is; none if a file is watched by its path.
    pub pid: Option<i32>,
    /// Its number.
    pub fd: RawFd,
    /// What the kernel calls the file.
    pub path: PathBuf,
    /// How far it has come. The last reading of a descriptor says that it is over.
    pub reading: Reading,
}

/// What a look has brought.
#[derive(Debug, Default)]
pub struct View {
    /// A row for each descriptor that is open, or was when last looked at.
    pub rows: Vec<Row>,
    /// What may not be examined any more.
    pub hidden: Vec<(Target, io::Error)>,
}

/// One of those that are followed.
#[derive(Debug)]
struct Followed<P> {
    process: P,
    target: Target,
    tracks: Vec<Track>,
    is_over: bool,
}

/// A descriptor under way.
#[derive(Debug)]
struct Track {
    file: OpenFile,
    history: History,
    /// When it was last seen.
    seen: Duration,
    is_over: bool,
}

impl<P: Process> Watch<P> {
    /// Follows these from the first look on. Rates are averaged over `window`. `size` is how much there is in
    /// a descriptor that is asked for by its number, whatever its file says, and how large a file is going to be.
    pub fn of(
        processes: impl IntoIterator<Item = (Target, P)>,
        window: Duration,
        size: Option<u64>,
    ) -> Self {
        let followed = processes.into_iter().map(|(target, process)| Followed {
            process,
            target,
            tracks: Vec::new(),
            is_over: false,
        });
        Self {
            followed: followed.collect(),
            window,
            size,
        }
    }

    /// Whether there will be nothing more to see: all processes have ended, and all descriptors that were asked
    /// for by number have been closed, or lead elsewhere.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.followed.iter().all(|followed| followed.is_over)
    }

    /// Looks at all of them. `now` is the time since any moment that stays the same, `clock` the time of day.
    ///
    /// A descriptor that is found closed, or leads to another file than before, has its last row in this look.
    pub fn look(&mut self, now: Duration, clock: &Zoned) -> View {
        let mut view = View::default();
        for followed in &mut self.followed {
            if let Err(error) = followed.look(now, self.window) {
                view.hidden.push((followed.target.clone(), error));
            }
            let given = self.size.filter(|_| followed.target.is_one_file());
            for track in &followed.tracks {
                view.rows.push(Row {
                    pid: followed.target.pid(),
                    fd: track.file.fd,
                    path: track.file.path.clone(),
                    reading: track.reading(clock, given),
                });
            }
        }
        view
    }
}

impl<P: Process> Followed<P> {
    fn look(&mut self, now: Duration, window: Duration) -> io::Result<()> {
        self.tracks.retain(|track| !track.is_over);
        if self.is_over {
            return Ok(());
        }
        let mut is_last = false;
        let (open, outcome) = match self.process.sight(self.target.fd()) {
            Sight::Open(files) => (files, Ok(())),
            Sight::Last(files) => {
                is_last = true;
                (files, Ok(()))
            }
            Sight::Ended => {
                self.is_over = true;
                (Vec::new(), Ok(()))
            }
            Sight::Hidden(error) => {
                self.is_over = true;
                (Vec::new(), Err(error))
            }
        };
        let had_any = !self.tracks.is_empty();
        for track in &mut self.tracks {
            match open.iter().find(|file| track.file.is_still(file)) {
                Some(file) => track.goes_on(file, now),
                None => track.end(),
            }
        }
        if self.target.is_one_file() {
            let is_followed = self.tracks.iter().any(|track| !track.is_over);
            // Whatever the number stands for next is not what was asked for.
            self.is_over |= open.is_empty() || had_any && !is_followed;
            if had_any {
                if is_last {
                    self.end();
                }
                return outcome;
            }
        }
        for file in open.into_iter().filter(OpenFile::is_told) {
            let is_known = |track: &Track| track.file.is_still(&file);
            if !self.tracks.iter().any(is_known) {
                self.tracks.push(Track::of(file, now, window));
            }
        }
        self.tracks.sort_by_key(|track| track.file.fd);
        if is_last {
            self.end();
        }
        outcome
    }

    fn end(&mut self) {
        self.is_over = true;
        self.tracks.iter_mut().for_each(Track::end);
    }
}

impl Track {
    fn of(file: OpenFile, now: Duration, window: Duration) -> Self {
        let mut history = History::over(window);
        // What was read before anybody looked would make rates of any height.
        history.reset(now, file.position);
        Self {
            file,
            history,
            seen: now,
            is_over: false,
        }
    }

    fn goes_on(&mut self, file: &OpenFile, now: Duration) {
        self.file = file.clone();
        self.seen = now;
        self.history.sample(now, file.position);
    }

    fn end(&mut self) {
        self.is_over = true;
        self.history.finish(self.seen, self.file.position);
    }

    fn reading(&self, clock: &Zoned, given: Option<u64>) -> Reading {
        let total = given.or_else(|| self.file.total());
        Reading {
            elapsed: self.history.elapsed(),
            moved: self.file.position,
            rate: self.history.rate(),
            average: self.history.average(),
            fastest: self.history.fastest(),
            remaining: self.history.remaining(total),
            beat: self.history.beat(),
            is_over: self.is_over,
            ..Reading::before(clock.clone(), total)
        }
    }
}

#[cfg(test)]
mod tests;
