//! The processes and threads of the program, and the loop that waits for their stops.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::ops::Range;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::count::{self, Entry, Lowered};
use super::{Call, Ending, Intervention, Shortened, Traced};

#[cfg(test)]
mod tests;

/// Runs the command in the calling thread, which must have no other children.
pub(super) fn trace(
    mut command: Command,
    intervention: Option<Intervention>,
    limit: Duration,
) -> anyhow::Result<Traced> {
    let mut tracees = Tracees::default();
    let child = command.spawn().context("cannot start a shell")?;
    // The command holds the program's ends of pipes, which must close when the program ends.
    drop(command);
    let root = Pid::from_raw(child.id().cast_signed());
    tracees.threads.insert(root, Thread::default());

    attach(root)?;
    tracees.start_alarm(limit)?;
    let ending = tracees.wait_for_all(root, intervention)?;
    Ok(Traced {
        ending,
        shortened: std::mem::take(&mut tracees.shortened),
        left_alone: tracees.left_alone,
        results: std::mem::take(&mut tracees.results),
        n_calls: tracees.n_calls,
    })
}

/// All that runs, and what has been seen of it. Kills and reaps what still runs when dropped.
#[derive(Debug, Default)]
struct Tracees {
    threads: HashMap<Pid, Thread>,
    /// Threads that ended before their parent's stop told of them.
    ended_early: HashSet<Pid>,
    /// A process that ends when the time is over.
    alarm: Option<Pid>,
    /// Whether the program has replaced the shell.
    has_begun: bool,
    shortened: Vec<Shortened>,
    left_alone: u32,
    results: BTreeMap<Call, Vec<i64>>,
    n_calls: u32,
}

/// A thread of the program.
#[derive(Debug, Default)]
struct Thread {
    /// Where the dynamic loader is mapped, whose calls are left out.
    loader: Range<u64>,
    /// The call that the thread is in.
    entered: Option<Entered>,
    /// Whether a stop of its parent told of it.
    is_announced: bool,
}

/// A call that is counted and has not returned.
#[derive(Debug)]
struct Entered {
    call: Call,
    /// Its place in [`Tracees::results`].
    index: usize,
    lowered: Option<Lowered>,
}

impl Thread {
    fn of(thread: Pid) -> Thread {
        Thread {
            loader: loader(thread),
            ..Thread::default()
        }
    }
}

/// Where the dynamic loader is mapped. Empty if there is none.
fn loader(thread: Pid) -> Range<u64> {
    let maps = fs::read_to_string(format!("/proc/{thread}/maps")).unwrap_or_default();
    let ranges = maps.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (_, name) = rest.rsplit_once('/')?;
        let (start, end) = range.split_once('-')?;
        let start = u64::from_str_radix(start, 16).ok()?;
        let end = u64::from_str_radix(end, 16).ok()?;
        name.starts_with("ld-linux").then_some(start..end)
    });
    let all = ranges.reduce(|all, next| all.start.min(next.start)..all.end.max(next.end));
    all.unwrap_or_default()
}

impl Tracees {
    /// Starts a process that ends after `limit`: waitpid(2) has no time-out.
    fn start_alarm(&mut self, limit: Duration) -> anyhow::Result<()> {
        let mut sleep = Command::new("sleep");
        sleep.arg(limit.as_secs_f64().to_string());
        sleep.stdin(Stdio::null());
        sleep.stdout(Stdio::null()).stderr(Stdio::null());
        let alarm = sleep.spawn().context("cannot start sleep")?;
        let alarm = Pid::from_raw(alarm.id().cast_signed());
        self.alarm = Some(alarm);
        // The kernel kills it if this process is killed.
        ptrace::seize(alarm, Options::PTRACE_O_EXITKILL).context("cannot trace sleep")
    }

    /// Handles stops until no thread is left. Answers how `root` ended.
    fn wait_for_all(
        &mut self,
        root: Pid,
        intervention: Option<Intervention>,
    ) -> anyhow::Result<Ending> {
        let mut ending = Ending::Hung;
        let mut is_over = false;
        while !self.threads.is_empty() {
            let status = wait_for(None)?;
            let Some(thread) = status.pid() else { continue };
            let ended = match status {
                WaitStatus::Exited(_, status) => Some(Ending::Exited(status)),
                WaitStatus::Signaled(_, signal, _) => Some(Ending::Killed(signal as i32)),
                _ => None,
            };
            if let Some(ended) = ended {
                if Some(thread) == self.alarm {
                    self.alarm = None;
                    is_over = true;
                    self.kill_all();
                } else {
                    self.forget(thread);
                }
                if thread == root {
                    ending = ended;
                }
                continue;
            }
            if is_over {
                // A thread that began just before the others were killed.
                unless_dead(kill(thread, Signal::SIGKILL))?;
            }
            let signal = match status {
                WaitStatus::PtraceSyscall(_) => {
                    unless_dead(self.see_call(thread, intervention))?;
                    None
                }
                WaitStatus::PtraceEvent(_, _, event) => {
                    unless_dead(self.see_event(thread, event))?;
                    None
                }
                WaitStatus::Stopped(_, signal) => Some(signal),
                _ => None,
            };
            unless_dead(if self.has_begun {
                ptrace::syscall(thread, signal)
            } else {
                ptrace::cont(thread, signal)
            })?;
        }
        if is_over {
            return Ok(Ending::Hung);
        }
        anyhow::ensure!(
            self.has_begun,
            "the shell could not run the program: {ending}"
        );
        Ok(ending)
    }

    /// Notes new threads, and a new program in a process.
    fn see_event(&mut self, thread: Pid, event: i32) -> nix::Result<()> {
        match event {
            libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK => {
                let new = Pid::from_raw(ptrace::getevent(thread)? as i32);
                if !self.ended_early.remove(&new) {
                    let thread = self.threads.entry(new);
                    thread.or_insert_with(|| Thread::of(new)).is_announced = true;
                }
            }
            libc::PTRACE_EVENT_EXEC => {
                // The thread that made the call takes the process's number.
                let former = Pid::from_raw(ptrace::getevent(thread)? as i32);
                if former != thread {
                    self.threads.remove(&former);
                }
                let state = self.threads.entry(thread).or_default();
                state.loader = loader(thread);
                state.entered = None;
                self.has_begun = true;
            }
            // The first stop of a new thread may come before its parent's.
            _ => {
                self.threads
                    .entry(thread)
                    .or_insert_with(|| Thread::of(thread));
            }
        }
        Ok(())
    }

    /// Handles the entry or the exit of a call.
    fn see_call(&mut self, thread: Pid, intervention: Option<Intervention>) -> nix::Result<()> {
        match ptrace::syscall_info(thread)?.op {
            libc::PTRACE_SYSCALL_INFO_ENTRY => self.see_entry(thread, intervention),
            libc::PTRACE_SYSCALL_INFO_EXIT => self.see_exit(thread),
            _ => Ok(()),
        }
    }

    fn see_entry(&mut self, thread: Pid, intervention: Option<Intervention>) -> nix::Result<()> {
        let registers = ptrace::getregs(thread)?;
        let Some(state) = self.threads.get_mut(&thread) else {
            return Ok(());
        };
        if state.loader.contains(&registers.rip) {
            return Ok(());
        }
        self.n_calls += 1;
        if intervention == Some(Intervention::Kill { nth: self.n_calls }) {
            // The kernel does not make a call if it kills the thread at the entry.
            return kill(thread, Signal::SIGKILL);
        }
        let Some(call) = count::call(&registers) else {
            return Ok(());
        };
        if count::is_own_maps(thread, call, &registers) {
            return Ok(());
        }
        let results = self.results.entry(call).or_default();
        let index = results.len();
        results.push(0);
        let mut lowered = None;
        if let Some(Intervention::Shorten(shortening)) = intervention
            && shortening.call == call
            && shortening.includes(u32::try_from(index + 1).unwrap_or(u32::MAX))
        {
            match count::lower(thread, registers, call, shortening.amount) {
                Ok(Entry::Lowered(low)) => lowered = Some(low),
                Ok(Entry::LeftAlone) => self.left_alone += 1,
                // The call will complain of a bad address of vectors.
                Ok(Entry::Low) | Err(Errno::EIO | Errno::EFAULT) => {}
                Err(error) => return Err(error),
            }
        }
        state.entered = Some(Entered {
            call,
            index,
            lowered,
        });
        Ok(())
    }

    fn see_exit(&mut self, thread: Pid) -> nix::Result<()> {
        let state = self.threads.get_mut(&thread);
        let Some(entered) = state.and_then(|state| state.entered.take()) else {
            return Ok(());
        };
        let registers = ptrace::getregs(thread)?;
        let result = registers.rax.cast_signed();
        if let Some(lowered) = &entered.lowered {
            lowered.restore(thread, registers, entered.call)?;
        }
        let results = self.results.entry(entered.call).or_default();
        if is_restarted(result) && entered.index + 1 == results.len() {
            // The kernel enters the same call again, which then has the same number.
            results.pop();
            return Ok(());
        }
        if let Some(place) = results.get_mut(entered.index) {
            *place = result;
        }
        if let Some(lowered) = entered.lowered {
            self.shortened.push(Shortened {
                call: entered.call,
                fds: lowered.fds,
                from: lowered.from,
                to: lowered.to,
                result,
            });
        }
        Ok(())
    }

    fn forget(&mut self, thread: Pid) {
        let state = self.threads.remove(&thread);
        if !state.is_some_and(|state| state.is_announced) {
            self.ended_early.insert(thread);
        }
    }

    /// Kills every process. No number can name another process: none of them has been waited for.
    fn kill_all(&self) {
        for &thread in self.threads.keys().chain(&self.alarm) {
            // It may have ended.
            let _ = kill(thread, Signal::SIGKILL);
        }
    }
}

impl Drop for Tracees {
    fn drop(&mut self) {
        self.kill_all();
        loop {
            match wait_for(None) {
                Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) => {}
                Ok(status) => {
                    if let Some(thread) = status.pid() {
                        let _ = kill(thread, Signal::SIGKILL);
                    }
                }
                // No child is left.
                Err(_) => break,
            }
        }
    }
}

/// Attaches to the shell, which stops itself, and lets it go on.
fn attach(root: Pid) -> anyhow::Result<()> {
    match wait_for(Some(root))? {
        WaitStatus::Stopped(_, Signal::SIGSTOP) => {}
        status => bail!("the shell has not stopped itself: {status:?}"),
    }
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_EXITKILL;
    ptrace::seize(root, options).context("cannot trace")?;
    kill(root, Signal::SIGCONT).context("cannot continue the shell")?;
    Ok(())
}

/// Waits for a child or tracee of the calling thread alone.
fn wait_for(child: Option<Pid>) -> nix::Result<WaitStatus> {
    let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD | WaitPidFlag::WUNTRACED;
    loop {
        match waitpid(child, Some(flags)) {
            Err(Errno::EINTR) => {}
            status => return status,
        }
    }
}

/// A thread may be killed at any time, after which no request finds it.
fn unless_dead(result: nix::Result<()>) -> nix::Result<()> {
    match result {
        Err(Errno::ESRCH) => Ok(()),
        result => result,
    }
}

/// Whether the kernel makes the call again after a signal: `ERESTARTSYS`, `ERESTARTNOINTR`,
/// `ERESTARTNOHAND`, `ERESTART_RESTARTBLOCK`, which a program never sees.
///
/// After `ERESTARTSYS` or `ERESTARTNOHAND` the program may see `EINTR` instead. The next call then
/// has the number of the one that failed.
fn is_restarted(result: i64) -> bool {
    matches!(result, -512 | -513 | -514 | -516)
}
