//! What the machine is, and what else it did during a run.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use super::format::{Machine, Run};

/// Processor times since the machine and this process started, in ticks.
pub(super) struct Usage {
    time: Instant,
    busy: u64,
    stolen: u64,
    own: u64,
}

impl Usage {
    pub(super) fn now() -> Self {
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

/// The run that began with `begun` and ends now.
pub(super) fn run(begun: &Usage) -> Run {
    let now = Usage::now();
    let elapsed = now.time.duration_since(begun.time);
    let ticks = rustix::param::clock_ticks_per_second() as f64 * elapsed.as_secs_f64();
    let ticks = ticks * n_processors() as f64;
    let share = |part: u64| (part as f64 / ticks * 1000.0).round() / 1000.0;
    let own = now.own - begun.own;
    let clean = output("git", &["status", "--porcelain", "--untracked-files=no"]).is_empty();
    let commit = output("git", &["rev-parse", "HEAD"]);
    Run {
        commit: commit + if clean { "" } else { "-dirty" },
        compiler: output("rustc", &["--version"]),
        seconds: elapsed.as_secs(),
        others_share: share((now.busy - begun.busy).saturating_sub(own)),
        stolen_share: share(now.stolen - begun.stolen),
        ..Run::default()
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
    std::thread::available_parallelism().map_or(1, usize::from)
}
