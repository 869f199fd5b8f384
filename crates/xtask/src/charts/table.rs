//! The costs of the pairs as a page: throughput, processor time and system calls.

use std::fmt::Write as _;

use super::format::{Machine, Mover, Pair, Run};
use super::pairs::{size_name, title};
use super::statistics::{Middle, speed_ratio, spread};

/// The name of the page beside the charts.
pub(super) const NAME: &str = "pairs.md";

/// Returns the page, unless the record has no pairs.
pub(super) fn page(pairs: &[Pair], machine: &Machine) -> Option<String> {
    if pairs.is_empty() {
        return None;
    }
    let mut page = "# What the pairs cost\n\n\
         `cargo xtask charts` writes this page from the record. [Benchmarks](../benchmarks.md)\n\
         describes the pairs and the method. CPU is the processor time of the thread that moves the\n\
         bytes, in seconds per GB. The best strategy is the one that was fastest when it was\n\
         requested. A ratio above 1 means that the plan is faster; brackets have its 95 % interval.\n\
         `std` is `std::io::copy`.\n\n"
        .to_owned();
    describe(machine, &mut page);
    let mut sizes: Vec<u64> = pairs.iter().map(|pair| pair.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for size in sizes {
        let _ = write!(
            page,
            "\n## {}iB\n\n\
             | pair | GB/s: plan | GB/s: best strategy | GB/s: read and write | GB/s: std \
             | plan ÷ best | plan ÷ read and write | plan ÷ std \
             | CPU s/GB: plan | CPU s/GB: read and write | CPU s/GB: std \
             | calls per GiB: plan | calls per GiB: read and write | calls per GiB: std |\n\
             |---|---:|---|---:|---:|---|---|---|---:|---:|---:|---:|---:|---:|\n",
            size_name(size)
        );
        for pair in pairs.iter().filter(|pair| pair.bytes == size) {
            let _ = writeln!(
                page,
                "| {} | {} |",
                title(&pair.name),
                row(pair).join(" | ")
            );
        }
    }
    Some(page)
}

/// The machine and the run, in words.
fn describe(machine: &Machine, page: &mut String) {
    let Machine {
        kernel,
        processor,
        n_processors,
        mitigations,
        pipe_limits,
        ..
    } = machine;
    let _ = writeln!(page, "- {kernel}, {n_processors} × {processor}");
    if let Some(Run {
        commit,
        started,
        others_share,
        ..
    }) = machine.runs.get("ratios")
    {
        let others = others_share * 100.0;
        let _ = writeln!(
            page,
            "- {started}, commit {commit}; other work took {others:.1} % of the processors"
        );
    }
    let affected = mitigations
        .iter()
        .filter(|(_, text)| *text != "Not affected");
    let affected: Vec<_> = affected
        .map(|(name, text)| format!("{name}: {text}"))
        .collect();
    let _ = writeln!(page, "- mitigations: {}", affected.join("; "));
    let limits: Vec<_> = pipe_limits
        .iter()
        .map(|(name, limit)| format!("`{name}` {limit}"))
        .collect();
    let _ = writeln!(page, "- limits of pipes: {}", limits.join(", "));
}

/// The cells of a pair behind its name.
fn row(pair: &Pair) -> Vec<String> {
    let find = |name: &str| pair.movers.iter().find(|mover| mover.name == name);
    let (plan, buffered, std) = (find("plan"), find("buffered"), find("std_io_copy"));
    let strategies = pair.movers.iter();
    let strategies = strategies.filter(|mover| !["plan", "std_io_copy"].contains(&&*mover.name));
    let best = strategies.min_by(|a, b| median(a).total_cmp(&median(b)));
    let rate =
        |mover: Option<&Mover>| or_dash(mover, |mover| digits(pair.bytes as f64 / median(mover)));
    let ratio = |other: Option<&Mover>| {
        or_dash(plan.zip(other), |(plan, other)| {
            let Middle { low, median, high } = speed_ratio(&plan.nanoseconds, &other.nanoseconds);
            format!("{median:.2} [{low:.2}–{high:.2}]")
        })
    };
    let cpu = |mover: Option<&Mover>| {
        or_dash(mover, |mover| {
            let cpu = spread(mover.cpu_nanoseconds.iter().map(|ns| *ns as f64)).median;
            digits(cpu / pair.bytes as f64)
        })
    };
    let calls = |mover: Option<&Mover>| {
        or_dash(mover.and_then(|mover| mover.system_calls), |calls| {
            format!(
                "{:.0}",
                calls as f64 * f64::from(1 << 30) / pair.bytes as f64
            )
        })
    };
    let named = or_dash(best, |mover| format!("{} {}", mover.name, rate(best)));
    let mut row = vec![rate(plan), named, rate(buffered), rate(std)];
    row.extend([ratio(best), ratio(buffered), ratio(std)]);
    row.extend([plan, buffered, std].map(cpu));
    row.extend([plan, buffered, std].map(calls));
    row
}

fn median(mover: &Mover) -> f64 {
    spread(mover.nanoseconds.iter().map(|ns| *ns as f64)).median
}

fn or_dash<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), show)
}

/// A figure with three significant digits, or with all digits before its point.
fn digits(figure: f64) -> String {
    match figure {
        100.0.. => format!("{figure:.0}"),
        10.0.. => format!("{figure:.1}"),
        1.0.. => format!("{figure:.2}"),
        _ => format!("{figure:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mover(name: &str, ns: u64, calls: u64) -> Mover {
        Mover {
            name: name.to_owned(),
            nanoseconds: vec![ns; 3],
            cpu_nanoseconds: vec![ns / 2; 3],
            system_calls: Some(calls),
        }
    }

    #[test]
    fn a_row_has_throughput_ratios_processor_time_and_calls() {
        let pair = Pair {
            name: "file_to_null".to_owned(),
            bytes: 1 << 20,
            movers: vec![
                mover("plan", 1 << 20, 2),
                mover("buffered", 2 << 20, 16),
                mover("sendfile", 1 << 19, 3),
                mover("std_io_copy", 4 << 20, 4),
            ],
        };
        let page = page(&[pair], &Machine::default()).unwrap_or_default();
        let row = "| ext4 file → /dev/null | 1.00 | sendfile 2.00 | 0.500 | 0.250 \
                   | 0.50 [0.50–0.50] | 2.00 [2.00–2.00] | 4.00 [4.00–4.00] \
                   | 0.500 | 1.00 | 2.00 | 2048 | 16384 | 4096 |";
        assert_eq!(page.lines().last(), Some(row));
    }
}
