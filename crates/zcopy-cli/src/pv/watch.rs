//! `-d`: the progress of other processes through their open files.
//!
//! [`files`] reads the state of the processes from `/proc`, and [`Watch`] makes rows of it.

use std::io;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Zoned;

use crate::common::progress::throughput::Throughput;
use crate::pv::display::reading::Reading;
use files::{FdTable, OpenFile};
use target::Target;

pub(crate) use follow::follow;

pub mod files;
pub mod target;

mod follow;
mod growing;
mod name;

/// A source of open files.
pub trait Process {
    /// Reads the open files: one descriptor, or all.
    fn snapshot(&mut self, only: Option<RawFd>) -> FdTable;
}

/// Processes and descriptors that are followed over time.
#[derive(Debug)]
pub struct Watch<P> {
    followed: Vec<Followed<P>>,
    /// The window of the average rates.
    window: Duration,
    /// The size that the user gives for descriptors that are named by number.
    size: Option<u64>,
}

/// The progress of one descriptor.
#[derive(Clone, Debug)]
pub struct Row {
    /// The process. `None` if a file is watched by its path.
    pub pid: Option<i32>,
    /// The number of the descriptor.
    pub fd: RawFd,
    /// The path of the file, as the kernel gives it.
    pub path: PathBuf,
    /// The progress. The last reading of a descriptor is marked as over.
    pub reading: Reading,
}

/// The result of a poll.
#[derive(Debug, Default)]
pub struct View {
    /// A row for each descriptor that is open, or was at the last poll.
    pub rows: Vec<Row>,
    /// The targets that may not be read any more.
    pub hidden: Vec<(Target, io::Error)>,
}

/// A process or file that is followed.
#[derive(Debug)]
struct Followed<P> {
    process: P,
    target: Target,
    fds: Vec<WatchedFd>,
    is_over: bool,
}

/// A descriptor that is followed.
#[derive(Debug)]
struct WatchedFd {
    file: OpenFile,
    throughput: Throughput,
    /// The time of the last poll that found it.
    seen: Duration,
    is_over: bool,
}

impl<P: Process> Watch<P> {
    /// Creates a watch of these processes. Rates are averaged over `window`. `size` is the total
    /// for descriptors that are named by number, instead of the size of their files, and the final
    /// size of a growing file.
    pub fn new(
        processes: impl IntoIterator<Item = (Target, P)>,
        window: Duration,
        size: Option<u64>,
    ) -> Self {
        let followed = processes.into_iter().map(|(target, process)| Followed {
            process,
            target,
            fds: Vec::new(),
            is_over: false,
        });
        Self {
            followed: followed.collect(),
            window,
            size,
        }
    }

    /// Returns whether everything is over: all processes have ended, and all descriptors that are
    /// named by number have been closed or refer to other files.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.followed.iter().all(|followed| followed.is_over)
    }

    /// Polls all processes. `now` is the time since a fixed moment, and `clock` the time of day.
    ///
    /// A descriptor that has been closed, or refers to another file than before, has its last row
    /// in this poll.
    pub fn poll(&mut self, now: Duration, clock: &Zoned) -> View {
        let mut view = View::default();
        for followed in &mut self.followed {
            if let Err(error) = followed.poll(now, self.window) {
                view.hidden.push((followed.target.clone(), error));
            }
            let given = self.size.filter(|_| followed.target.is_one_file());
            for watched in &followed.fds {
                view.rows.push(Row {
                    pid: followed.target.pid(),
                    fd: watched.file.fd,
                    path: watched.file.path.clone(),
                    reading: watched.reading(clock, given),
                });
            }
        }
        view
    }
}

impl<P: Process> Followed<P> {
    fn poll(&mut self, now: Duration, window: Duration) -> io::Result<()> {
        self.fds.retain(|watched| !watched.is_over);
        if self.is_over {
            return Ok(());
        }
        let mut is_last = false;
        let (open, outcome) = match self.process.snapshot(self.target.fd()) {
            FdTable::Open(files) => (files, Ok(())),
            FdTable::Last(files) => {
                is_last = true;
                (files, Ok(()))
            }
            FdTable::Ended => {
                self.is_over = true;
                (Vec::new(), Ok(()))
            }
            FdTable::Hidden(error) => {
                self.is_over = true;
                (Vec::new(), Err(error))
            }
        };
        let had_any = !self.fds.is_empty();
        for watched in &mut self.fds {
            match open.iter().find(|file| watched.file.is_still(file)) {
                Some(file) => watched.update(file, now),
                None => watched.end(),
            }
        }
        if self.target.is_one_file() {
            let is_followed = self.fds.iter().any(|watched| !watched.is_over);
            // The next file with this number is not the one that was named.
            self.is_over |= open.is_empty() || had_any && !is_followed;
            if had_any {
                if is_last {
                    self.end();
                }
                return outcome;
            }
        }
        for file in open.into_iter().filter(OpenFile::has_position) {
            let is_known = |watched: &WatchedFd| watched.file.is_still(&file);
            if !self.fds.iter().any(is_known) {
                self.fds.push(WatchedFd::new(file, now, window));
            }
        }
        self.fds.sort_by_key(|watched| watched.file.fd);
        if is_last {
            self.end();
        }
        outcome
    }

    fn end(&mut self) {
        self.is_over = true;
        self.fds.iter_mut().for_each(WatchedFd::end);
    }
}

impl WatchedFd {
    fn new(file: OpenFile, now: Duration, window: Duration) -> Self {
        let mut throughput = Throughput::over(window);
        // Bytes that were read before the first poll must not count for the rates.
        throughput.reset(now, file.position);
        Self {
            file,
            throughput,
            seen: now,
            is_over: false,
        }
    }

    fn update(&mut self, file: &OpenFile, now: Duration) {
        self.file = file.clone();
        self.seen = now;
        self.throughput.sample(now, file.position);
    }

    fn end(&mut self) {
        self.is_over = true;
        self.throughput.finish(self.seen, self.file.position);
    }

    fn reading(&self, clock: &Zoned, given: Option<u64>) -> Reading {
        let total = given.or_else(|| self.file.total());
        Reading {
            elapsed: self.throughput.elapsed(),
            moved: self.file.position,
            rate: self.throughput.rate(),
            average: self.throughput.average(),
            fastest: self.throughput.fastest(),
            remaining: self.throughput.remaining(total),
            tick: self.throughput.tick(),
            is_over: self.is_over,
            ..Reading::before(clock.clone(), total)
        }
    }
}

#[cfg(test)]
mod tests;
