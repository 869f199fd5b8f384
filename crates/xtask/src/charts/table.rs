//! The costs of the pairs as a page: throughput, processor time and system calls.

use std::fmt::Write as _;

use super::format::{Machine, Mover, Pair, Raw, Rival, Run};
use super::pairs::{size_name, title};
use super::statistics::{Middle, spread};

/// A page about the pairs of one benchmark.
struct Page {
    name: &'static str,
    heading: &'static str,
    benchmark: &'static str,
    conditions: &'static str,
}

const MEANWHILE: Page = Page {
    name: "pairs.md",
    heading: "What the pairs cost",
    benchmark: "ratios",
    conditions: "Writers and readers work while the transfer runs.",
};

const APART: Page = Page {
    name: "pairs-apart.md",
    heading: "What the pairs cost with idle peers",
    benchmark: "ratios --apart",
    conditions: "Writers have ended before the transfer begins, and readers begin after it.",
};

/// The ratio to each rival below which the plan counts as behind.
const TOLERANCES: [(Rival, f64); 3] = [
    (Rival::Buffered, 0.97),
    (Rival::Std, 0.97),
    (Rival::BestStrategy, 0.95),
];

/// The rivals, in the order of the columns.
const RIVALS: [Rival; 3] = [Rival::BestStrategy, Rival::Buffered, Rival::Std];

/// Returns the pages that the record has figures for, with their names.
pub(super) fn pages(raw: &Raw, machine: &Machine) -> Vec<(&'static str, String)> {
    let pages = [(MEANWHILE, &raw.pairs), (APART, &raw.pairs_apart)];
    let pages = pages.iter().filter(|(_, pairs)| !pairs.is_empty());
    pages
        .map(|(page, pairs)| (page.name, write_page(page, pairs, machine)))
        .collect()
}

fn write_page(page: &Page, pairs: &[Pair], machine: &Machine) -> String {
    let Page {
        heading,
        benchmark,
        conditions,
        ..
    } = page;
    let mut text = format!(
        "# {heading}\n\n\
         `cargo xtask charts` writes this page from the record of `{benchmark}`.\n\
         {conditions}\n\
         [Benchmarks](../benchmarks.md) describes the pairs and the method. CPU is the processor time of\n\
         the thread that moves the bytes. The best strategy is the one that was fastest when it was\n\
         requested; `std` is `std::io::copy`. A ratio above 1 means that the plan is faster. It is the\n\
         median of the ratios within the turns, with its 95 % interval: where the turns fall into a fast\n\
         and a slow mode, it differs from the ratio of the medians.\n\n"
    );
    describe(machine, benchmark, &mut text);
    let mut sizes: Vec<u64> = pairs.iter().map(|pair| pair.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    list_losses(pairs, &sizes, &mut text);
    for size in sizes {
        let _ = write!(
            text,
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
                text,
                "| {} | {} |",
                title(&pair.name),
                row(pair).join(" | ")
            );
        }
    }
    text
}

/// Lists where the plan is behind, and how sure the ratios are.
fn list_losses(pairs: &[Pair], sizes: &[u64], text: &mut String) {
    text.push_str(
        "\n## Where the plan is behind\n\n\
         By more than 3 % behind read and write and `std`, or 5 % behind the best strategy; the furthest\n\
         first. If the interval includes 1, the difference may be chance.\n\n\
         | bytes | behind read and write | behind std | behind the best strategy |\n|---|---|---|---|\n",
    );
    let (mut wide, mut all) = (0, 0);
    for size in sizes {
        let _ = write!(text, "| {}iB |", size_name(*size));
        for (rival, tolerance) in TOLERANCES {
            let ratios = pairs.iter().filter(|pair| pair.bytes == *size);
            let mut ratios: Vec<_> = ratios
                .filter_map(|pair| Some((pair, pair.ratio_to(rival)?)))
                .collect();
            let n_pairs = ratios.len();
            all += n_pairs;
            wide += ratios
                .iter()
                .filter(|(_, ratio)| ratio.high - ratio.low > 0.05 * ratio.median)
                .count();
            ratios.retain(|(_, ratio)| ratio.median < tolerance);
            ratios.sort_by(|(_, a), (_, b)| a.median.total_cmp(&b.median));
            let shown: Vec<_> = ratios
                .iter()
                .map(|(pair, ratio)| format!("{} {}", title(&pair.name), shown(*ratio)))
                .collect();
            let shown = if shown.is_empty() {
                "none".to_owned()
            } else {
                shown.join("; ")
            };
            let _ = write!(text, " {} of {n_pairs}: {shown} |", ratios.len());
        }
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "\n{wide} of {all} intervals are wider than 5 % of their ratio."
    );
}

fn shown(Middle { low, median, high }: Middle) -> String {
    format!("{median:.2} [{low:.2}–{high:.2}]")
}

/// The machine and the run, in words.
fn describe(machine: &Machine, benchmark: &str, page: &mut String) {
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
    }) = machine.runs.get(benchmark)
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
    let plan = pair.mover("plan");
    let [best, buffered, std] = RIVALS.map(|rival| pair.rival(rival));
    let rate =
        |mover: Option<&Mover>| or_dash(mover, |mover| digits(pair.bytes as f64 / mover.median()));
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
    row.extend(RIVALS.map(|rival| or_dash(pair.ratio_to(rival), shown)));
    row.extend([plan, buffered, std].map(cpu));
    row.extend([plan, buffered, std].map(calls));
    row
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
        let page = write_page(&MEANWHILE, &[pair], &Machine::default());
        let row = "| ext4 file → /dev/null | 1.00 | sendfile 2.00 | 0.500 | 0.250 \
                   | 0.50 [0.50–0.50] | 2.00 [2.00–2.00] | 4.00 [4.00–4.00] \
                   | 0.500 | 1.00 | 2.00 | 2048 | 16384 | 4096 |";
        assert_eq!(page.lines().last(), Some(row));
        let behind = "| 1MiB | 0 of 1: none | 0 of 1: none \
                      | 1 of 1: ext4 file → /dev/null 0.50 [0.50–0.50] |\n\n\
                      0 of 3 intervals are wider than 5 % of their ratio.";
        assert!(page.contains(behind), "{page}");
    }
}
