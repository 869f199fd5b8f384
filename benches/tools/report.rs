//! The table of one job.

#![expect(clippy::print_stdout, reason = "the table is what it is for")]

use crate::recording::format::{Job, Unit};
use crate::recording::statistics::{Middle, speed_ratio, spread};

pub(crate) fn print(job: &Job) {
    println!("{}: {}", job.name, job.title);
    let bytes = job.bytes as f64;
    for contestant in &job.contestants {
        let figure = |ns: &u64| match job.unit {
            Unit::Throughput => bytes / *ns as f64,
            Unit::Time => *ns as f64 / 1e6,
        };
        let unit = match job.unit {
            Unit::Throughput => "GB/s",
            Unit::Time => "ms",
        };
        let Middle { low, median, high } = spread(contestant.nanoseconds.iter().map(figure));
        let cpu = |figures: &[u64]| {
            let seconds = spread(figures.iter().map(|ns| *ns as f64 / 1e9)).median;
            match job.unit {
                Unit::Throughput => format!("{:6.3} CPU s/GB", seconds / bytes * 1e9),
                Unit::Time => format!("{:8.2} CPU ms", seconds * 1e3),
            }
        };
        let calls = contestant.system_calls.map(|calls| match job.unit {
            Unit::Throughput => {
                let per_gib = calls as f64 / bytes * f64::from(1 << 30);
                format!("  {per_gib:8.0} calls/GiB")
            }
            Unit::Time => format!("  {calls:6} calls"),
        });
        let mib = |kib: u64| kib as f64 / 1024.0;
        let peak = contestant
            .peak_kib
            .map(|kib| format!("  {:5.1} MiB", mib(kib)));
        let residue = contestant.residue_kib;
        let residue = residue.map(|kib| format!("  {:.0} MiB left in the page cache", mib(kib)));
        println!(
            "  {:<22} {median:8.2} {unit} [{low:.2}, {high:.2}]  {}{}{}{}",
            contestant.name,
            cpu(&contestant.cpu_nanoseconds),
            calls.unwrap_or_default(),
            peak.unwrap_or_default(),
            residue.unwrap_or_default(),
        );
    }
    let (ours, others): (Vec<_>, Vec<_>) = job
        .contestants
        .iter()
        .partition(|contestant| contestant.name.starts_with("zc-"));
    for ours in ours {
        let ratios = others.iter().map(|other| {
            let Middle { low, median, high } = speed_ratio(&ours.nanoseconds, &other.nanoseconds);
            format!("{median:.2} [{low:.2}, {high:.2}] x {}", other.name)
        });
        println!("  {}: {}", ours.name, ratios.collect::<Vec<_>>().join(", "));
    }
}
