//! Makes each system call of the tools and examples fail, under strace.
//!
//! A *fault* is one call, one error, and the calls of that name that get it: the K-th of each thread, or all from there on.
//! Calls of the dynamic loader and of Rust's runtime before `main` are left alone.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use tempfile::TempDir;

use crate::programs::{Build, Programs};
use crate::scenario::Scenario;
use crate::verdict::{Errno, judge};
use crate::{proof, scenarios, strace};

mod accepted;
mod errnos;

/// Calls that are not made to fail: they concern memory, threads, signals and the end of a process, and Rust's runtime makes most.
const LEFT_ALONE: &[&str] = &[
    "access",
    "arch_prctl",
    "brk",
    "clock_nanosleep",
    "clone",
    "clone3",
    "execve",
    "exit",
    "exit_group",
    "futex",
    "getpid",
    "getrandom",
    "gettid",
    "getuid",
    "kill",
    "madvise",
    "membarrier",
    "mmap",
    "mprotect",
    "mremap",
    "munmap",
    "prctl",
    "prlimit64",
    "restart_syscall",
    "rseq",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sched_getaffinity",
    "sched_yield",
    "set_robust_list",
    "set_tid_address",
    "sigaltstack",
    "tgkill",
    "tkill",
    // It cannot fail, and rustix relies on that.
    "umask",
    "vfork",
    "wait4",
    "waitid",
];

/// The calls that move bytes inside the kernel.
const OFFLOAD: &str = "splice,tee,sendfile,copy_file_range";

/// How often a call is told `EINTR` or `EAGAIN` in a row. A program has to try again each time, and would do so for ever.
const RETRIES: u32 = 10;

/// How many threads run programs. They mostly wait for strace.
const WORKERS: usize = 3;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    build: Build,
    /// Run only so many faults, drawn at random
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// Draw the sample from this seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run only scenarios whose name contains TEXT
    #[arg(long, value_name = "TEXT")]
    scenario: Option<String>,
    /// Make only this call fail
    #[arg(long)]
    call: Option<String>,
    /// Inject only this error, such as EIO
    #[arg(long)]
    errno: Option<String>,
    /// Make the scratch directories here, for example on another file system
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// List the scenarios, and run none
    #[arg(long)]
    list: bool,
}

/// Which calls of a name fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    Once,
    /// And all that follow. `EINTR` and `EAGAIN` end after [`RETRIES`].
    FromThere,
}

/// What the kernel offers during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Offer {
    Everything,
    /// [`OFFLOAD`] fails with `ENOSYS`.
    NoOffload,
}

/// Faults that differ only in where they begin.
#[derive(Debug, Clone)]
struct Series<'a> {
    scenario: &'a Scenario,
    offer: Offer,
    call: String,
    errno: Errno,
    extent: Extent,
    /// The first call, counted from 1, that the program itself makes.
    first: u32,
    /// How many the program makes if nothing fails.
    count: u32,
}

/// One fault: the call from which a series begins.
#[derive(Debug, Clone, Copy)]
struct Fault<'a> {
    series: &'a Series<'a>,
    nth: u32,
}

impl fmt::Display for Fault<'_> {
    /// The options of strace.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Series {
            call,
            errno,
            extent,
            ..
        } = self.series;
        let nth = self.nth;
        write!(f, "-e inject={call}:error={}:when={nth}", errno.name)?;
        match extent {
            Extent::Once => Ok(()),
            Extent::FromThere if is_to_retry(*errno) => write!(f, "..{}", nth + RETRIES),
            Extent::FromThere => f.write_str("+"),
        }
    }
}

fn is_to_retry(errno: Errno) -> bool {
    ["EINTR", "EAGAIN"].contains(&errno.name)
}

/// What a sweep has counted.
#[derive(Debug, Default)]
struct Totals {
    /// Runs in which at least one call failed.
    faults: AtomicUsize,
    /// Calls that failed.
    calls: AtomicUsize,
    wrong: AtomicUsize,
    /// Wrong outcomes that [`accepted`] explains.
    accepted: AtomicUsize,
    /// Runs that ended in success all the same.
    survived: AtomicUsize,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let scenarios = scenarios::all();
    let is_chosen = |scenario: &&Scenario| {
        let text = args.scenario.as_deref().unwrap_or("");
        scenario.name().contains(text)
    };
    let scenarios: Vec<_> = scenarios.iter().filter(is_chosen).collect();
    if args.list {
        for scenario in scenarios {
            println!("{}", scenario.name());
        }
        return Ok(());
    }
    let programs = Programs::build(&args.build)?;
    let start = Instant::now();
    let scratch = match &args.dir {
        Some(dir) => TempDir::with_prefix_in("zcopy-faults-", dir)?,
        None => TempDir::with_prefix("zcopy-faults-")?,
    };
    let mut all = Vec::new();
    for scenario in &scenarios {
        for offer in [Offer::Everything, Offer::NoOffload] {
            all.extend(series_of(scenario, offer, &programs, scratch.path())?);
        }
    }
    all.retain(|series| {
        args.call.as_ref().is_none_or(|call| *call == series.call)
            && args
                .errno
                .as_ref()
                .is_none_or(|errno| errno == series.errno.name)
    });
    let totals = Totals::default();
    let findings = sweep(&all, args, &totals, &|fault| {
        probe(fault, &programs, scratch.path(), &totals)
    })?;
    let faults = totals.faults.into_inner();
    let calls = totals.calls.into_inner();
    let summary = format!(
        "{} scenarios, {faults} runs with a fault, {calls} calls that failed, {} runs that succeeded all the same, \
         {} wrong outcomes, {} more that the standard library causes, {} s ({})",
        scenarios.len(),
        totals.survived.into_inner(),
        totals.wrong.into_inner(),
        totals.accepted.into_inner(),
        start.elapsed().as_secs(),
        programs.description,
    );
    println!("{summary}");
    ensure!(faults > 0, "nothing was made to fail");
    let is_whole = args.sample.is_none()
        && args.scenario.is_none()
        && args.call.is_none()
        && args.errno.is_none();
    if is_whole {
        proof::record("Faults", &summary)?;
    }
    if findings > 0 {
        bail!("{findings} wrong outcomes");
    }
    Ok(())
}

/// Runs a scenario without faults, and makes a list of what can fail in it.
fn series_of<'a>(
    scenario: &'a Scenario,
    offer: Offer,
    programs: &Programs,
    scratch: &Path,
) -> anyhow::Result<Vec<Series<'a>>> {
    let name = scenario.name();
    let traced = |log: &Path| {
        let mut strace = strace::command(log, "all");
        strace.args(offer.options());
        strace.arg("--");
        strace
    };
    let (observed, log) = scenario.run(programs, scratch, traced)?;
    let wrong = judge(scenario, &observed, &[], None);
    let status = observed.status.context(name.clone())?;
    ensure!(
        wrong.is_empty() && scenario.has_succeeded(&observed),
        "{name} fails without a fault: {status}, {wrong:?}\n{}",
        observed.stderr
    );
    let calls = strace::parse(&log);
    let main = calls
        .first()
        .with_context(|| format!("{name}: an empty trace"))?
        .thread;
    // Rust's runtime installs a stack for signals last of all, before it calls `main`.
    let begin = calls.iter().position(|call| {
        call.thread == main && call.name == "sigaltstack" && call.text.starts_with("{ss_sp=0x")
    });
    let begin = begin.with_context(|| format!("{name}: `main` is not in the trace"))?;
    let mut before: BTreeMap<&str, u32> = BTreeMap::new();
    for call in &calls[..begin] {
        *before.entry(&call.name).or_default() += 1;
    }
    // The tools look at inherited descriptors before the runtime does, and nobody else calls this so early.
    before.remove("fcntl");
    let mut by_thread: BTreeMap<(u32, &str), u32> = BTreeMap::new();
    for call in &calls {
        *by_thread.entry((call.thread, &call.name)).or_default() += 1;
    }
    let mut counts: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for ((_, call), count) in by_thread {
        let n_before = before.get(call).copied().unwrap_or(0);
        let most = counts.entry(call).or_insert((n_before + 1, 0));
        most.1 = most.1.max(count.saturating_sub(n_before));
    }
    let mut series = Vec::new();
    for (call, (first, count)) in counts {
        let is_refused = offer == Offer::NoOffload && OFFLOAD.split(',').any(|name| name == call);
        if LEFT_ALONE.contains(&call) || is_refused || count == 0 {
            continue;
        }
        for errno in errnos::of_call(call) {
            for extent in [Extent::Once, Extent::FromThere] {
                series.push(Series {
                    scenario,
                    offer,
                    call: call.to_owned(),
                    errno,
                    extent,
                    first,
                    count,
                });
            }
        }
    }
    Ok(series)
}

impl Offer {
    fn options(self) -> Vec<String> {
        match self {
            Self::Everything => Vec::new(),
            Self::NoOffload => vec!["-e".to_owned(), format!("inject={OFFLOAD}:error=ENOSYS")],
        }
    }
}

/// Runs all faults, or a sample. Each finding is printed when it is found. How many there were.
fn sweep(
    all: &[Series<'_>],
    args: &Args,
    totals: &Totals,
    probe: &(impl Fn(Fault<'_>) -> anyhow::Result<(bool, Option<String>)> + Sync),
) -> anyhow::Result<usize> {
    // Each is a series with the calls where it may begin: up to a last one, or until none is reached.
    let mut work: Vec<(usize, u32, Option<u32>)> = Vec::new();
    for (index, series) in all.iter().enumerate() {
        match args.sample {
            None => work.push((index, series.first, None)),
            Some(_) => work.extend((0..series.count).map(|n| {
                let nth = series.first + n;
                (index, nth, Some(nth))
            })),
        }
    }
    fastrand::Rng::with_seed(args.seed).shuffle(&mut work);
    work.truncate(args.sample.unwrap_or(work.len()));
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    let n_findings = AtomicUsize::new(0);
    thread::scope(|threads| {
        for _ in 0..WORKERS {
            threads.spawn(|| {
                while let Some((index, first, last)) =
                    work.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let series = &all[*index];
                    for nth in *first..=last.unwrap_or(u32::MAX) {
                        let fault = Fault { series, nth };
                        match probe(fault) {
                            Ok((reached, finding)) => {
                                if let Some(finding) = finding {
                                    n_findings.fetch_add(1, Ordering::Relaxed);
                                    totals.wrong.fetch_add(1, Ordering::Relaxed);
                                    println!("{finding}");
                                }
                                if !reached {
                                    break;
                                }
                            }
                            Err(error) => {
                                let text = format!("{}: {fault}", series.scenario.name());
                                if let Ok(mut failure) = failure.lock() {
                                    failure.get_or_insert(error.context(text));
                                }
                                next.store(work.len(), Ordering::Relaxed);
                                return;
                            }
                        }
                    }
                }
            });
        }
    });
    if let Ok(Some(error)) = failure.into_inner() {
        return Err(error);
    }
    Ok(n_findings.into_inner())
}

/// Runs one fault: whether any call failed, and what was wrong.
fn probe(
    fault: Fault<'_>,
    programs: &Programs,
    scratch: &Path,
    totals: &Totals,
) -> anyhow::Result<(bool, Option<String>)> {
    let Series {
        scenario,
        offer,
        call,
        errno,
        ..
    } = fault.series;
    let options = fault.to_string();
    let (observed, log) = scenario.run(programs, scratch, |log| {
        let trace = match offer {
            Offer::Everything => call.clone(),
            Offer::NoOffload => format!("{call},{OFFLOAD}"),
        };
        let mut strace: Command = strace::command(log, &trace);
        strace
            .args(options.split(' '))
            .args(offer.options())
            .arg("--");
        strace
    })?;
    let mut injected = strace::parse(&log);
    injected.retain(|found| found.name == *call && found.is_injected());
    if injected.is_empty() {
        return Ok((false, None));
    }
    totals.faults.fetch_add(1, Ordering::Relaxed);
    totals.calls.fetch_add(injected.len(), Ordering::Relaxed);
    let is_success = scenario.has_succeeded(&observed);
    totals
        .survived
        .fetch_add(usize::from(is_success), Ordering::Relaxed);
    let wrong = judge(scenario, &observed, &injected, Some(*errno));
    if wrong.is_empty() {
        return Ok((true, None));
    }
    if accepted::reason(scenario, &observed, &injected).is_some() {
        totals.accepted.fetch_add(1, Ordering::Relaxed);
        return Ok((true, None));
    }
    let strace = [vec![options], offer.options()].concat().join(" ");
    let status = observed
        .status
        .map_or("no status".to_owned(), |status| status.to_string());
    let mut lines = vec![format!("strace -f {strace}"), status];
    let calls = injected.iter().take(3);
    lines.extend(calls.map(|call| format!("call: {}({}", call.name, call.text)));
    let said = observed.stderr.lines().take(6);
    lines.extend(said.map(|line| format!("said: {line}")));
    lines.extend(wrong.iter().map(|text| format!("wrong: {text}")));
    let finding = format!("WRONG {}\n  {}\n", scenario.name(), lines.join("\n  "));
    Ok((true, Some(finding)))
}
