//! `zc-dircopy --check`: verifies trees, and shows the progress on a terminal.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::stdio::{stderr, stdout};

use super::amend::{Amended, Amendment};
use super::lock::WAITING;
use super::{Outcome, current_umask};
use crate::dircopy::args::Args;
use crate::dircopy::args::accepted;
use crate::dircopy::interrupt::{self, Interrupt};
use crate::dircopy::manifest::check::event::Event;
use crate::dircopy::manifest::check::total::Total;
use crate::dircopy::manifest::check::{self, Checked, Progress};
use crate::dircopy::manifest::write::manifest_mode;
use crate::dircopy::manifest::write::update::{OnChange, RecordChange};
use crate::dircopy::reporter::screen::Screen;
use crate::dircopy::reporter::{FRAME, REPORT, Verbosity};
use crate::dircopy::schedule::fd_budget::Descriptors;
use crate::dircopy::schedule::fd_budget::TooFew;
use crate::dircopy::stop_flag::{StopFlag, StopOnDrop};
use crate::history::History;
use crate::json::rounded;
use crate::look::Look;
use crate::number::{self, Unit};
use crate::outlet::Outlet;
use crate::quote::quoted;
use crate::{exit, sys, time};
use rustix::fs::Mode;
use std::num::NonZeroUsize;

/// The rate is the average over this time, as it is for a copy.
const WINDOW: Duration = Duration::from_secs(5);

/// Verifies trees against their manifests.
pub(crate) fn verify(args: &Args) -> Outcome {
    let amendment = match amendment(args, manifest_mode(current_umask())) {
        Ok(amendment) => amendment,
        Err(message) => {
            exit::say(&message);
            exit::refer_to_help();
            return Outcome::Misused;
        }
    };
    // They are counted before any is opened.
    let descriptors = Descriptors::of_process();
    try_verify(args, amendment.as_ref(), descriptors).unwrap_or_else(|error| {
        exit::complain(&error);
        Outcome::Incomplete
    })
}

/// Changes the records of all trees. Reports errors, and returns how many there were.
fn amend_all(args: &Args, amendment: &Amendment, console: &Console) -> u64 {
    let here = [PathBuf::from(".")];
    let trees = match &args.paths[..] {
        [] => &here[..],
        trees => trees,
    };
    let mut n_errors = 0;
    for tree in trees {
        let name = quoted(tree.as_os_str());
        let on_wait = || exit::say(&format!("{name}: {WAITING}"));
        let on_change = |path: &[u8], change| console.report_change(tree, path, change);
        match amendment.apply(tree, on_wait, OnChange(&on_change)) {
            Ok(Amended {
                manifests,
                failures,
            }) => {
                for manifest in manifests
                    .iter()
                    .filter(|_| args.verbosity() == Verbosity::Normal)
                {
                    let manifest = quoted(manifest.as_os_str());
                    exit::say(&format!("digests in {manifest}"));
                }
                for (path, error) in failures {
                    console.report_walk_error(&path, error);
                    n_errors += 1;
                }
            }
            Err(error) => {
                console.report_walk_error(tree, error);
                n_errors += 1;
            }
        }
    }
    n_errors
}

/// Changes records, verifies all trees, and writes the total.
///
/// # Errors
///
/// Standard output or standard error cannot be written.
fn try_verify(
    args: &Args,
    amendment: Option<&Amendment>,
    descriptors: Descriptors,
) -> anyhow::Result<Outcome> {
    let options = check_options(args, descriptors);
    let console = match Console::new(args.verbosity()) {
        Ok(console) => console,
        // A console fails too if there are too few descriptors.
        Err(error) => {
            let _ = options?;
            return Err(error.into());
        }
    };
    let n_errors = amendment.map_or(0, |amendment| amend_all(args, amendment, &console));
    let interrupt = Interrupt::default();
    // An amendment that waits for another run ends at once.
    interrupt.catch_signals();
    let checked = match &options {
        Ok(options) => check_trees(options, &console, &interrupt),
        Err(error) => Err((*error).into()),
    };
    let mut total = match checked {
        Ok(Checked { total, .. }) => total,
        Err(error) => {
            console.report_error(&error);
            let mut total = Total::of_nothing();
            total.add_errors(1);
            total
        }
    };
    total.add_errors(n_errors);
    if let Some(signal) = interrupt.signal() {
        total.set_interrupted();
        exit::say(&format!("interrupted by {}", interrupt::name(signal)));
    }
    let outcome = if total.is_success() {
        Outcome::Complete
    } else {
        Outcome::Incomplete
    };
    // Without options only programs are told that nothing was verified.
    let options = options.unwrap_or_else(|_| {
        let options = check::Options::new().summary(!args.no_summary);
        options.json(args.json)
    });
    let (mut stdout, mut stderr) = (StandardOutput(&console), StandardError(&console));
    check::write_total(&options, &total, &mut stdout, &mut stderr)?;
    drop(console);
    sys::close_stdout().context("write error")?;
    if let Some(signal) = interrupt.signal() {
        // The exit status tells the parent process which signal it was.
        sys::by_default(signal);
    }
    Ok(outcome)
}

/// Verifies all trees, and shows the progress meanwhile.
fn check_trees(
    options: &check::Options,
    console: &Console,
    interrupt: &Interrupt,
) -> anyhow::Result<Checked> {
    let (progress, stop) = (Progress::default(), StopFlag::default());
    thread::scope(|scope| {
        if console.shows_progress() {
            progress.want_total();
            // Without a thread nothing is shown.
            let draw = || console.draw_until(&stop, &progress);
            let _ = thread::Builder::new().spawn_scoped(scope, draw);
        }
        let _stop = StopOnDrop(&stop);
        let (mut stdout, mut stderr) = (StandardOutput(console), StandardError(console));
        check::check_trees(options, &mut stdout, &mut stderr, &progress, interrupt)
    })
}

/// Standard output, and standard error with a line below the messages if it is a terminal.
struct Console {
    verbosity: Verbosity,
    screen: Mutex<Screen>,
    stdout: Mutex<Outlet>,
    /// Whether standard output is a terminal, so that results must not mix with the line.
    stdout_is_terminal: bool,
}

impl Console {
    /// Opens both. From now on this process ignores `SIGTTOU`, so that the terminal does not stop
    /// it if it writes in the background.
    fn new(verbosity: Verbosity) -> io::Result<Self> {
        sys::ignore_sigttou();
        let screen = match verbosity {
            Verbosity::Normal => Screen::on(stderr(), Look::of_environment())?,
            Verbosity::Quiet | Verbosity::Json => Screen::without_line(stderr())?,
        };
        Ok(Self {
            verbosity,
            screen: Mutex::new(screen),
            stdout: Mutex::new(Outlet::on(stdout())?),
            stdout_is_terminal: rustix::termios::isatty(stdout()),
        })
    }

    /// Reports an error of a file or a tree.
    fn report_walk_error(&self, path: &Path, error: anyhow::Error) {
        let message = exit::chained(error.chain());
        exit::complain(&error.context(quoted(path.as_os_str())));
        self.write_error_event(path, message);
    }

    /// Reports a record that was changed. `--quiet` leaves it out.
    fn report_change(&self, tree: &Path, path: &[u8], change: RecordChange) {
        let path = Path::new(OsStr::from_bytes(path));
        if self.verbosity != Verbosity::Quiet {
            exit::say(&format!("{}: {change}", quoted(path.as_os_str())));
        }
        if self.verbosity == Verbosity::Json {
            let event = Event::Remark {
                tree: tree.to_string_lossy(),
                path: path.to_string_lossy(),
                message: change.to_string(),
            };
            // An outlet that has failed fails again for the summary, which reports it.
            let _ = self.stdout().put(event.line().as_bytes());
        }
    }

    /// Reports an error of the whole verification.
    fn report_error(&self, error: &anyhow::Error) {
        exit::complain(error);
        self.write_error_event(Path::new("."), exit::chained(error.chain()));
    }

    /// Writes the event of an error with `--json`.
    fn write_error_event(&self, path: &Path, message: String) {
        if self.verbosity == Verbosity::Json {
            let path = path.to_string_lossy();
            let event = Event::Error { path, message };
            // An outlet that has failed fails again for the summary, which reports it.
            let _ = self.stdout().put(event.line().as_bytes());
        }
    }

    fn shows_progress(&self) -> bool {
        self.verbosity == Verbosity::Json || self.screen().has_line()
    }

    /// Shows how far the verification is until the end.
    fn draw_until(&self, stop: &StopFlag, progress: &Progress) {
        let interval = if self.verbosity == Verbosity::Json {
            REPORT
        } else {
            FRAME
        };
        let started = Instant::now();
        let mut history = History::over(WINDOW);
        while !stop.wait(interval) {
            let elapsed = started.elapsed();
            history.sample(elapsed, progress.bytes());
            let state = State::read(progress, &history);
            if self.verbosity == Verbosity::Json {
                // The next result or the summary reports the same error.
                let _ = self.stdout().put(state.event(elapsed).line().as_bytes());
            } else {
                self.screen().draw(|columns| state.line(columns));
            }
        }
        self.screen().remove_line();
    }

    fn screen(&self) -> MutexGuard<'_, Screen> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stdout(&self) -> MutexGuard<'_, Outlet> {
        self.stdout.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The progress of a verification at one moment.
struct State {
    files: u64,
    bytes: u64,
    failed: u64,
    bytes_per_second: f64,
    total_files: u64,
    total_bytes: u64,
    total_is_final: bool,
    /// The time that the rest takes at this rate. `None` if the rate is 0.
    remaining: Option<Duration>,
}

impl State {
    fn read(progress: &Progress, history: &History) -> Self {
        // This is read first: if it is true, the numbers are final.
        let total_is_final = progress.total().is_complete();
        let total_bytes = progress.total().bytes();
        Self {
            files: progress.files(),
            bytes: progress.bytes(),
            failed: progress.failed(),
            bytes_per_second: history.average(),
            total_files: progress.total().files(),
            total_bytes,
            total_is_final,
            remaining: history.remaining(Some(total_bytes)),
        }
    }

    /// The state as a line of at most `columns` columns.
    fn line(&self, columns: usize) -> String {
        let amount = |bytes| number::amount(bytes, Unit::Bytes, false);
        let rate = number::rate(self.bytes_per_second, Unit::Bytes, false);
        let failed = match self.failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        let mut line = if self.total_files == 0 {
            let plural = if self.files == 1 { "" } else { "s" };
            let bytes = amount(self.bytes);
            format!("{} file{plural}, {bytes}, {rate}{failed}", self.files)
        } else {
            let (more, eta) = if self.total_is_final {
                ("", format!(", {}", time::eta(self.remaining)))
            } else {
                ("+", String::new())
            };
            format!(
                "{} of {}{more}, {rate}, {} of {}{more} files{eta}{failed}",
                amount(self.bytes),
                amount(self.total_bytes),
                self.files,
                self.total_files,
            )
        };
        // All of it is ASCII.
        line.truncate(columns);
        line
    }

    fn event(&self, elapsed: Duration) -> Event<'static> {
        Event::Progress {
            files: self.files,
            bytes: self.bytes,
            bytes_per_second: rounded(self.bytes_per_second),
            total_bytes: self.total_bytes,
            total_files: self.total_files,
            total_is_final: self.total_is_final,
            seconds: rounded(elapsed.as_secs_f64()),
            failed: self.failed,
        }
    }
}

/// Writes results, never into the progress line.
struct StandardOutput<'a>(&'a Console);

impl Write for StandardOutput<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The lock keeps the line away until the results have been written.
        let _screen = self.0.stdout_is_terminal.then(|| {
            let mut screen = self.0.screen();
            screen.remove_line();
            screen
        });
        self.0.stdout().put(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes messages, above the progress line.
struct StandardError<'a>(&'a Console);

impl Write for StandardError<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.screen().write_message(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The changes to records that `--check` makes first.
///
/// # Errors
///
/// A message, if they conflict with other options.
fn amendment(args: &Args, mode: Mode) -> Result<Option<Amendment>, String> {
    if args.accept.is_empty() && !args.forget_missing {
        return Ok(None);
    }
    if args.hash_file.is_some() {
        return Err(
            "--accept and --forget-missing change manifests, and not --hash-file".to_owned(),
        );
    }
    if !args.accept.is_empty() && args.paths.len() > 1 {
        return Err("--accept takes one tree".to_owned());
    }
    let here = PathBuf::from(".");
    let tree = args.paths.first().unwrap_or(&here);
    Ok(Some(Amendment {
        accepted: accepted(args, tree)?,
        forgets_missing: args.forget_missing,
        mode,
    }))
}

/// The options of `--check`.
///
/// # Errors
///
/// There are too few descriptors.
fn check_options(args: &Args, descriptors: Descriptors) -> Result<check::Options, TooFew> {
    let mut options = check::Options::new()
        .convert_paths(!args.no_convert_paths)
        .strict(args.strict)
        .silent(args.silent || args.quiet)
        .summary(!args.no_summary)
        .total(!args.quiet);
    if args.json {
        options = options.json(true);
    } else if args.verbose {
        options = options.verbose(true);
    }
    if let Some(size) = args.block_size {
        options = options.block_size(size);
    }
    if let Some(size) = args.queue_size {
        options = options.queue_size(size);
    }
    for directory in &args.paths {
        options = options.directory(directory);
    }
    if let Some(file) = &args.hash_file {
        options = options.hash_file(file);
    }
    if let Some(algorithm) = args.hash {
        options = options.hash(algorithm);
    }
    let n_threads = match args.jobs {
        Some(n_jobs) => n_jobs,
        None => thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
    };
    Ok(options
        .threads(descriptors.verifiers(n_threads)?)
        .most_open(descriptors.check_levels()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: State = State {
        files: 12,
        bytes: 3 << 20,
        failed: 0,
        bytes_per_second: 1.5e6,
        total_files: 0,
        total_bytes: 0,
        total_is_final: false,
        remaining: None,
    };

    #[test]
    fn the_line_has_files_bytes_rate_and_failures() {
        assert_eq!(STATE.line(80), "12 files, 3.00MiB, 1.43MiB/s");
        let failed = State { failed: 2, ..STATE };
        assert_eq!(failed.line(80), "12 files, 3.00MiB, 1.43MiB/s, 2 failed");
        let one = State { files: 1, ..STATE };
        assert!(one.line(80).starts_with("1 file, "));
    }

    #[test]
    fn the_line_has_the_total_and_the_time_left() {
        let found = State {
            total_files: 40,
            total_bytes: 6 << 20,
            ..STATE
        };
        let words = "3.00MiB of 6.00MiB+, 1.43MiB/s, 12 of 40+ files";
        assert_eq!(found.line(80), words);
        let all = State {
            total_is_final: true,
            remaining: Some(Duration::from_secs(2)),
            failed: 1,
            ..found
        };
        assert_eq!(
            all.line(80),
            "3.00MiB of 6.00MiB, 1.43MiB/s, 12 of 40 files, ETA 0:00:02, 1 failed"
        );
    }

    #[test]
    fn the_line_fits_into_any_width() {
        let found = State {
            total_files: 40,
            ..STATE
        };
        for columns in 0..40 {
            assert!(STATE.line(columns).len() <= columns);
            assert!(found.line(columns).len() <= columns);
        }
    }

    #[test]
    fn the_event_has_the_same() {
        assert_eq!(
            STATE.event(Duration::from_millis(2500)).line(),
            "{\"event\":\"progress\",\"files\":12,\"bytes\":3145728,\
             \"bytes_per_second\":1500000.0,\
             \"total_bytes\":0,\"total_files\":0,\"total_is_final\":false,\"seconds\":2.5,\"failed\":0}\n"
        );
    }
}
