//! Describes the machine, and measures the other work that it did during a run.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::format::{Machine, Run};

/// How long others are watched before a measurement. Processor times have a precision of 10 ms.
const MOMENT: Duration = Duration::from_millis(300);

/// Processor times since the machine and this process started, in ticks.
struct Usage {
    time: Instant,
    busy: u64,
    stolen: u64,
    own: u64,
}

impl Usage {
    fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let all = numbers(stat.lines().next().unwrap_or_default());
        // user, nice, system, idle, iowait, irq, softirq, steal
        let at = |index: usize| all.get(index).copied().unwrap_or_default();
        let own = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The name in brackets may contain blanks. utime, stime, cutime and cstime are the 12th to
        // the 15th figure behind it.
        let own = own.rsplit_once(')').map_or("", |(_, rest)| rest);
        let own = own.split_whitespace().skip(11).take(4);
        Self {
            time: Instant::now(),
            busy: at(0) + at(1) + at(2) + at(5) + at(6),
            stolen: at(7),
            own: own.filter_map(|ticks| ticks.parse::<u64>().ok()).sum(),
        }
    }
}

/// The processor time that others have taken during measurements.
pub(super) struct Account {
    since: Usage,
    /// The time that is accounted for.
    elapsed: Duration,
    others: f64,
    stolen: f64,
}

impl Account {
    /// Begins now.
    pub(super) fn new() -> Self {
        Self {
            since: Usage::now(),
            elapsed: Duration::ZERO,
            others: 0.0,
            stolen: 0.0,
        }
    }

    /// Adds the time since the last call.
    fn settle(&mut self) {
        let now = Usage::now();
        let before = std::mem::replace(&mut self.since, now);
        let now = &self.since;
        let seconds = |ticks: u64| ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
        let others = (now.busy - before.busy).saturating_sub(now.own - before.own);
        self.others += seconds(others);
        self.stolen += seconds(now.stolen - before.stolen);
        self.elapsed += now.time.duration_since(before.time);
    }

    /// A processor time as a part of that of all processors, with three digits.
    fn share(&self, seconds: f64) -> f64 {
        let available = self.elapsed.as_secs_f64() * n_processors() as f64;
        (seconds / available * 1000.0).round() / 1000.0
    }

    /// Waits until others take less than a tenth of the processors, no longer than `patience`, from
    /// which it subtracts. The wait is not accounted for.
    pub(super) fn wait(&mut self, patience: &mut Duration) {
        self.settle();
        while let Some(left) = patience.checked_sub(MOMENT) {
            let mut moment = Self::new();
            thread::sleep(MOMENT);
            moment.settle();
            if moment.share(moment.others) < 0.1 {
                break;
            }
            *patience = left;
        }
        self.since = Usage::now();
    }

    /// The run whose account this is.
    pub(super) fn run(mut self) -> Run {
        self.settle();
        // An earlier benchmark may have written into the record, which changes no program.
        let programs = [":/", ":(top,exclude)benches/record"];
        let status = ["status", "--porcelain", "--untracked-files=no", "--"];
        let clean = output("git", &[&status[..], &programs].concat()).is_empty();
        let commit = output("git", &["rev-parse", "HEAD"]);
        Run {
            commit: commit + if clean { "" } else { "-dirty" },
            compiler: output("rustc", &["--version"]),
            seconds: self.elapsed.as_secs(),
            others_share: self.share(self.others),
            stolen_share: self.share(self.stolen),
            ..Run::default()
        }
    }
}

/// Fills in all but the runs.
pub(super) fn describe(machine: &mut Machine) {
    let file = |path: &str| fs::read_to_string(path).unwrap_or_default();
    machine.kernel = output("uname", &["-srm"]);
    let cpuinfo = file("/proc/cpuinfo");
    let model = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let model = model.and_then(|line| line.split_once(": "));
    model
        .map_or("unknown", |(_, name)| name)
        .clone_into(&mut machine.processor);
    machine.n_processors = n_processors();
    let memory = file("/proc/meminfo");
    let total = numbers(memory.lines().next().unwrap_or_default());
    machine.memory_mib = total.first().copied().unwrap_or_default() >> 10;
    let vulnerabilities = files("/sys/devices/system/cpu/vulnerabilities");
    machine.mitigations = vulnerabilities.collect();
    let limits = files("/proc/sys/fs").filter(|(name, _)| name.starts_with("pipe-"));
    machine.pipe_limits = limits
        .filter_map(|(name, limit)| Some((name, limit.parse().ok()?)))
        .collect();
}

/// The names and contents of the files in a directory.
fn files(dir: &str) -> impl Iterator<Item = (String, String)> {
    let entries = fs::read_dir(Path::new(dir)).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let content = fs::read_to_string(entry.path()).ok()?;
        let name = entry.file_name().into_string().ok()?;
        Some((name, content.trim().to_owned()))
    })
}

/// The first line that a command prints.
pub(crate) fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().next().unwrap_or_default().to_owned()
}

fn numbers(line: &str) -> Vec<u64> {
    let words = line.split_whitespace();
    words.filter_map(|word| word.parse().ok()).collect()
}

fn n_processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
