//! The faults that a scenario can meet. A run without faults finds them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::Context;

use super::errnos;
use crate::scenario::Scenario;
use crate::strace::{self, Call};
use crate::sweep::Sweep;
use crate::verdict::Errno;

/// Calls that are not made to fail: they concern memory, locks, signals and the end of a process,
/// and Rust's runtime makes most. The standard library panics if `clock_gettime` fails. It is a
/// system call only where the vDSO cannot read the machine's clock.
const LEFT_ALONE: &str = "access arch_prctl brk clock_gettime clock_nanosleep execve exit exit_group futex getpid getrandom \
    gettid getuid kill madvise membarrier mmap mprotect mremap munmap prctl restart_syscall rseq rt_sigaction \
    rt_sigprocmask rt_sigreturn sched_getaffinity sched_yield set_robust_list set_tid_address sigaltstack tgkill tkill \
    umask wait4 waitid";

/// The calls that move bytes inside the kernel.
const OFFLOAD: &str = "splice,tee,sendfile,copy_file_range";

/// How often a call is told `EINTR` or `EAGAIN` in a row. A program has to try again each time, and
/// would do so for ever.
const RETRIES: u32 = 10;

/// Which calls of a name fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    Once,
    /// And all that follow. `EINTR` and `EAGAIN` end after [`RETRIES`].
    FromThere,
}

/// The calls that the kernel offers during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offer {
    Everything,
    /// [`OFFLOAD`] fails with `ENOSYS`.
    NoOffload,
}

/// Faults that differ only in where they begin.
#[derive(Debug, Clone)]
pub(super) struct Series<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) offer: Offer,
    pub(super) call: String,
    pub(super) errno: Errno,
    extent: Extent,
    /// The first call, counted from 1, that the program itself makes.
    pub(super) first: u32,
    /// How many one thread makes, if nothing fails.
    pub(super) count: u32,
}

/// One fault: the call from which a series begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fault<'a> {
    pub(super) series: &'a Series<'a>,
    pub(super) nth: u32,
}

impl Fault<'_> {
    /// Whether the kernel refuses something in every call that a program can do without: the bytes
    /// then go another way.
    pub(super) fn is_refusal(self) -> bool {
        let refusals = ["ENOSYS", "EPERM", "EINVAL", "EOPNOTSUPP", "EXDEV"];
        let Series { call, errno, .. } = self.series;
        let is_offload = OFFLOAD.split(',').any(|name| name == call);
        let is_pipe = call == "pipe2" && ["EMFILE", "ENFILE"].contains(&errno.name);
        let is_refused = is_offload && refusals.contains(&errno.name) || is_pipe;
        let is_always = self.series.extent == Extent::FromThere && self.nth == self.series.first;
        is_refused && is_always
    }
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
        let is_to_retry = ["EINTR", "EAGAIN"].contains(&errno.name);
        write!(f, "-e inject={call}:error={}:when={nth}", errno.name)?;
        match extent {
            Extent::Once => Ok(()),
            Extent::FromThere if is_to_retry => write!(f, "..{}", nth + RETRIES),
            Extent::FromThere => f.write_str("+"),
        }
    }
}

impl fmt::Display for Series<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.scenario.name();
        let fault = Fault {
            series: self,
            nth: 1,
        };
        write!(f, "{name} {:?} {fault}", self.offer)
    }
}

impl Offer {
    /// The options of strace that take away what is not offered.
    pub(super) fn options(self) -> Vec<String> {
        match self {
            Self::Everything => Vec::new(),
            Self::NoOffload => vec!["-e".to_owned(), format!("inject={OFFLOAD}:error=ENOSYS")],
        }
    }

    /// The calls that strace has to see if one of them is to fail.
    pub(super) fn traced(self, call: &str) -> String {
        match self {
            Self::Everything => call.to_owned(),
            Self::NoOffload => format!("{call},{OFFLOAD}"),
        }
    }
}

/// Runs a scenario without faults, and lists what can fail in it.
///
/// # Errors
///
/// If the scenario does not succeed.
pub(super) fn find<'a>(
    scenario: &'a Scenario,
    offer: Offer,
    sweep: &Sweep,
) -> anyhow::Result<Vec<Series<'a>>> {
    let traced = |log: &Path| {
        let mut strace = strace::command(log, "all");
        strace.args(offer.options()).arg("--");
        strace
    };
    let log = sweep.run_without_fault(scenario, traced)?;
    let calls = strace::parse(&log);
    let ours = count(&calls)
        .with_context(|| format!("{}: `main` is not in the trace", scenario.name()))?;
    let mut series = Vec::new();
    for (call, (first, count)) in ours {
        let is_refused = offer == Offer::NoOffload && OFFLOAD.split(',').any(|name| name == call);
        if is_refused || LEFT_ALONE.split(' ').any(|name| name == call) {
            continue;
        }
        for errno in errnos::of_call(call) {
            for extent in [Extent::Once, Extent::FromThere] {
                let call = call.to_owned();
                series.push(Series {
                    scenario,
                    offer,
                    call,
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

/// Numbers the first call of each name that the program itself makes, and counts how many one
/// thread makes at most. `None` if `main` is not called.
fn count(calls: &[Call]) -> Option<BTreeMap<&str, (u32, u32)>> {
    let main = calls.first()?.thread;
    // Rust's runtime installs a stack for signals last of all, before it calls `main`.
    let begin = calls.iter().position(|call| {
        call.thread == main && call.name == "sigaltstack" && call.text.starts_with("{ss_sp=0x")
    })?;
    let mut before: BTreeMap<&str, u32> = BTreeMap::new();
    for call in &calls[..begin] {
        *before.entry(&call.name).or_default() += 1;
    }
    // The tools look at inherited descriptors before the runtime does, and nobody else calls this
    // so early.
    before.remove("fcntl");
    let mut by_thread: BTreeMap<(u32, &str), u32> = BTreeMap::new();
    for call in calls {
        *by_thread.entry((call.thread, &call.name)).or_default() += 1;
    }
    let mut counts = BTreeMap::new();
    for ((_, call), count) in by_thread {
        let n_before = before.get(call).copied().unwrap_or(0);
        let ours = counts.entry(call).or_insert((n_before + 1, 0));
        ours.1 = ours.1.max(count.saturating_sub(n_before));
    }
    counts.retain(|_, (_, count)| *count > 0);
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::Program;

    #[test]
    fn only_a_refusal_from_the_first_call_on_requires_a_fallback() {
        let scenario = Scenario::new(Program::Tool("zc-cat"), &[]);
        let series = |call: &str, errno, extent| Series {
            scenario: &scenario,
            offer: Offer::Everything,
            call: call.to_owned(),
            errno: errnos::by_name(errno).unwrap(),
            extent,
            first: 2,
            count: 3,
        };
        for (call, errno, extent, nth, is_refusal) in [
            ("splice", "ENOSYS", Extent::FromThere, 2, true),
            ("splice", "ENOSYS", Extent::FromThere, 3, false),
            ("splice", "ENOSYS", Extent::Once, 2, false),
            ("splice", "EIO", Extent::FromThere, 2, false),
            ("pipe2", "EMFILE", Extent::FromThere, 2, true),
            ("read", "EPERM", Extent::FromThere, 2, false),
        ] {
            let series = &series(call, errno, extent);
            let fault = Fault { series, nth };
            assert_eq!(fault.is_refusal(), is_refusal, "{fault}");
        }
    }

    #[test]
    fn calls_before_main_are_left_out_and_threads_are_counted_by_themselves() {
        let log = "1 read(3</lib/libc.so.6>, \"\"..., 832) = 832\n\
                   1 fcntl(0</a>, F_GETFD) = 0\n\
                   1 sigaltstack({ss_sp=0x7f00, ss_flags=0, ss_size=8192}, NULL) = 0\n\
                   1 read(3</a>, \"\"..., 4096) = 5\n\
                   2 read(3</a>, \"\"..., 4096) = 5\n\
                   2 read(3</a>, \"\"..., 4096) = 5\n\
                   2 read(3</a>, \"\"..., 4096) = 0\n";
        let calls = strace::parse(log);
        let counts = count(&calls).unwrap();
        assert_eq!(counts["read"], (2, 2));
        assert_eq!(counts["fcntl"], (1, 1));
        assert!(count(&calls[..2]).is_none());
    }
}
