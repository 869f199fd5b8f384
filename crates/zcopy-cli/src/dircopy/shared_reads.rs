//! Files that the runs of several destinations read together.
//!
//! A run that is about to read a file offers it, with the sink that its bytes go to. The first run
//! waits for the others about as long as reading the file alone takes, and 20 ms at least. Then it
//! reads the file once, for its own sink and those of the runs that have joined, and hands each the
//! result. A run that joins too late reads alone: a shared read saves time, and nothing depends on
//! it.

use std::collections::VecDeque;
use std::mem;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::Stat;
use zcopy::Report;

use super::interrupt::Interrupt;
use super::mtime::Time;
use super::stat::{Identity, identity, size};
use crate::common::digest::{Algorithm, Digest};

/// The number of bytes per second at which a file is read and hashed about, at best: 1 GiB.
const READ_RATE: u64 = 1 << 30;

/// The least that a run waits for the others, and the most. All runs begin a long file at about the
/// same time, and the least is what a busy machine may take to start their threads.
const WAITS: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(10)];

/// The number of files that a run remembers to have passed. Other runs are not further behind.
const MAX_PASSED: usize = 256;

/// How often a wait in vain halves the next one.
const MAX_HALVINGS: u32 = 8;

/// How often a run that waits looks whether a signal has come, and counts what has been copied.
const INTERVAL: Duration = Duration::from_millis(100);

/// The number of bytes after which the runs that wait for a read count them, and begin to write
/// them to the disk: 8 MiB.
const STEP: u64 = 8 << 20;

/// The version of a file, and the digest that a run wants of it. Only equal ones are read together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    file: Identity,
    size: u64,
    modified: Time,
    changed: Time,
    /// The algorithm of the digest, if one is wanted.
    algorithm: Option<Algorithm>,
}

impl Version {
    pub(crate) fn new(stat: &Stat, algorithm: Option<Algorithm>) -> Self {
        Self {
            file: identity(stat),
            size: size(stat),
            modified: Time::modified(stat),
            changed: Time::changed(stat),
            algorithm,
        }
    }
}

/// The files that runs offer to each other.
#[derive(Debug)]
pub(crate) struct SharedReads {
    state: Mutex<State>,
    changed: Condvar,
    min_size: u64,
}

#[derive(Debug)]
struct State {
    runs: Vec<Run>,
    /// The files that a run waits with, and who has come.
    offers: Vec<Offer>,
}

#[derive(Debug, Default)]
struct Run {
    has_ended: bool,
    /// How often its next wait is halved, as it has waited in vain.
    n_halvings: u32,
    /// The last files that it does not read, or no more.
    passed: VecDeque<Identity>,
}

#[derive(Debug)]
struct Offer {
    version: Version,
    host: usize,
    guests: Vec<Guest>,
}

/// The result of a read for all of its sinks.
#[derive(Debug)]
pub(crate) struct SharedResult {
    pub(crate) read: Result<Report, zcopy::Error>,
    /// `None` if no digest was wanted, or the hashing thread has exited.
    pub(crate) digest: Option<Digest>,
}

/// A run that has joined the read of another. It is told the result, or that there is none when
/// this is dropped.
#[derive(Debug)]
struct Guest {
    run: usize,
    /// `None` at the end: nothing else holds the sink when its run goes on.
    sink: Option<Arc<OwnedFd>>,
    seat: Arc<Seat>,
}

/// Where a guest waits.
#[derive(Debug, Default)]
struct Seat {
    n_bytes: AtomicU64,
    told: Mutex<Told>,
    changed: Condvar,
}

/// The last message to a guest.
#[derive(Debug, Default)]
enum Told {
    #[default]
    Nothing,
    /// More bytes have been copied.
    Progress,
    /// The result, and which of its sinks is the guest's. Without one, the guest reads alone.
    End(Option<(Arc<SharedResult>, usize)>),
}

/// The outcome of an offer.
pub(crate) enum Offered {
    /// Nobody came, so that the run reads the file for itself.
    Alone,
    /// The run reads the file for all who came.
    Host(Guests),
    /// Another run has read the file. The index is that of the sink.
    Read(Arc<SharedResult>, usize),
    /// The other run could not read it for all. The sink may have some of its bytes.
    Abandoned,
}

/// Those who wait for the run that reads.
#[derive(Debug)]
pub(crate) struct Guests {
    guests: Vec<Guest>,
    n_told: u64,
}

impl SharedReads {
    /// For this number of runs, and files of at least `min_size` bytes.
    pub(crate) fn new(n_runs: usize, min_size: u64) -> Self {
        Self {
            state: Mutex::new(State {
                runs: (0..n_runs).map(|_| Run::default()).collect(),
                offers: Vec::new(),
            }),
            changed: Condvar::new(),
            min_size,
        }
    }

    /// The run with this index.
    pub(crate) fn member(&self, run: usize) -> Member<'_> {
        Member { reads: self, run }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A change is made by one call.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether all runs that may come to read this file have come: the host, and these guests.
    fn is_complete(&self, host: usize, guests: &[Guest], file: Identity) -> bool {
        let mut runs = self.runs.iter().enumerate();
        runs.all(|(index, run)| {
            index == host
                || run.has_ended
                || guests.iter().any(|guest| guest.run == index)
                || run.passed.contains(&file)
        })
    }

    /// Those who have come to the open offer of this file.
    fn guests_of(&self, version: &Version) -> &[Guest] {
        let mut offers = self.offers.iter();
        let offer = offers.find(|offer| offer.version == *version);
        offer.map_or(&[], |offer| &offer.guests)
    }
}

impl Offer {
    /// Whether a run is its host or a guest.
    fn has(&self, run: usize) -> bool {
        self.host == run || self.guests.iter().any(|guest| guest.run == run)
    }
}

/// A run that shares reads. All of its threads use it.
#[derive(Debug)]
pub(crate) struct Member<'a> {
    reads: &'a SharedReads,
    run: usize,
}

impl Member<'_> {
    /// Whether a file is read together.
    pub(crate) fn shares(&self, size: u64) -> bool {
        size >= self.reads.min_size
    }

    /// Offers a file to the other runs, or joins one that reads it. `pass` gets the number of bytes
    /// of each piece that another run has copied to the sink, in this thread.
    pub(crate) fn offer(
        &self,
        version: &Version,
        sink: &Arc<OwnedFd>,
        interrupt: &Interrupt,
        pass: impl FnMut(u64),
    ) -> Offered {
        let mut state = self.reads.lock();
        if state.is_complete(self.run, &[], version.file) {
            return Offered::Alone;
        }
        let mut offers = state.offers.iter_mut();
        if let Some(offer) = offers.find(|offer| offer.version == *version) {
            if offer.has(self.run) {
                // It is copied twice to the same destination, as two files.
                return Offered::Alone;
            }
            let seat = Arc::new(Seat::default());
            offer.guests.push(Guest {
                run: self.run,
                sink: Some(Arc::clone(sink)),
                seat: Arc::clone(&seat),
            });
            drop(state);
            self.reads.changed.notify_all();
            return seat.wait(pass);
        }
        state.offers.push(Offer {
            version: version.clone(),
            host: self.run,
            guests: Vec::new(),
        });
        self.wait_for_guests(state, version, interrupt)
    }

    /// Waits until all have come, or for as long as it pays.
    fn wait_for_guests(
        &self,
        mut state: MutexGuard<'_, State>,
        version: &Version,
        interrupt: &Interrupt,
    ) -> Offered {
        let end = Instant::now() + wait_for(version.size, state.runs[self.run].n_halvings);
        loop {
            let is_complete = state.is_complete(self.run, state.guests_of(version), version.file);
            let left = end.saturating_duration_since(Instant::now());
            if is_complete || left.is_zero() || interrupt.is_requested() {
                break;
            }
            let waited = self.reads.changed.wait_timeout(state, left.min(INTERVAL));
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        let mut offers = state.offers.iter();
        let place = offers.position(|offer| offer.version == *version);
        let guests = place.map_or_else(Vec::new, |place| state.offers.swap_remove(place).guests);
        let is_complete = state.is_complete(self.run, &guests, version.file);
        let n_halvings = &mut state.runs[self.run].n_halvings;
        *n_halvings = if is_complete {
            0
        } else {
            (*n_halvings + 1).min(MAX_HALVINGS)
        };
        if guests.is_empty() {
            Offered::Alone
        } else {
            Offered::Host(Guests { guests, n_told: 0 })
        }
    }

    /// The run does not read this file, or no more.
    pub(crate) fn pass(&self, file: Identity) {
        let mut state = self.reads.lock();
        let passed = &mut state.runs[self.run].passed;
        if passed.len() == MAX_PASSED {
            passed.pop_front();
        }
        passed.push_back(file);
        drop(state);
        self.reads.changed.notify_all();
    }

    /// The run reads no further file.
    pub(crate) fn end(&self) {
        self.reads.lock().runs[self.run].has_ended = true;
        self.reads.changed.notify_all();
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// How long to wait for others with a file of this size.
fn wait_for(size: u64, n_halvings: u32) -> Duration {
    let [least, most] = WAITS;
    let micros = (size / (READ_RATE / 1_000_000)).min(most.as_micros() as u64);
    Duration::from_micros(micros).max(least) / (1 << n_halvings)
}

impl Guests {
    /// Their sinks, in the order of the indices: the first one is 1.
    pub(crate) fn sinks(&self) -> impl Iterator<Item = Arc<OwnedFd>> {
        self.guests.iter().filter_map(|guest| guest.sink.clone())
    }

    /// The number of bytes that have been copied to each sink.
    pub(crate) fn pass(&mut self, n_bytes: u64) {
        let is_step = n_bytes - self.n_told >= STEP;
        for guest in &self.guests {
            guest.seat.n_bytes.store(n_bytes, Ordering::Relaxed);
            if is_step {
                guest.seat.tell(Told::Progress);
            }
        }
        if is_step {
            self.n_told = n_bytes;
        }
    }

    /// Gives all their result.
    pub(crate) fn end(mut self, result: &Arc<SharedResult>) {
        for (index, guest) in self.guests.iter_mut().enumerate() {
            guest.end(Some((Arc::clone(result), index + 1)));
        }
    }
}

impl Guest {
    fn end(&mut self, result: Option<(Arc<SharedResult>, usize)>) {
        self.sink = None;
        self.seat.tell(Told::End(result));
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.end(None);
    }
}

impl Seat {
    /// Tells the guest, unless it has been told the end.
    fn tell(&self, news: Told) {
        let mut told = self.lock();
        if !matches!(*told, Told::End(_)) {
            *told = news;
            self.changed.notify_all();
        }
    }

    /// Waits for the end.
    fn wait(&self, mut pass: impl FnMut(u64)) -> Offered {
        let mut n_passed = 0;
        loop {
            let has_no_news = |told: &mut Told| matches!(told, Told::Nothing);
            let waited = self
                .changed
                .wait_timeout_while(self.lock(), INTERVAL, has_no_news);
            let (mut told, _) = waited.unwrap_or_else(PoisonError::into_inner);
            let news = mem::take(&mut *told);
            drop(told);
            let n_bytes = self.n_bytes.load(Ordering::Relaxed);
            pass(n_bytes - n_passed);
            n_passed = n_bytes;
            match news {
                Told::Nothing | Told::Progress => {}
                Told::End(Some((result, index))) => return Offered::Read(result, index),
                Told::End(None) => return Offered::Abandoned,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        // A change is made by one assignment.
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
