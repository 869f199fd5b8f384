//! Draws the charts of `docs/benchmarks.md` from a record of the benchmarks, and writes a table of
//! the pairs beside them.
//!
//! A record is a directory with `raw.json` and `machine.json`, as `cargo bench --bench ratios` and
//! `--bench tools` write them with `--record`. Each chart shows what the record has; a chart that
//! would be empty is not drawn.

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    reason = "charts are small, and figures have three digits"
)]

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use serde::de::DeserializeOwned;

mod canvas;
mod curves;
mod jobs;
mod overview;
mod pairs;
mod plot;
mod style;
mod table;

// The benchmarks write what is read here.
#[allow(dead_code, reason = "the charts do not show all of it")]
#[path = "../../../benches/recording/format.rs"]
mod format;
#[path = "../../../benches/recording/statistics.rs"]
mod statistics;

use format::{Machine, Raw};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory of the record [default: the newest in benches/record]
    record: Option<PathBuf>,

    /// Where the charts are written [default: docs/charts]
    out: Option<PathBuf>,
}

/// A drawn chart.
struct Chart {
    name: String,
    svg: String,
}

/// Draws all charts of a record.
///
/// # Errors
///
/// If the record cannot be read, has no figures, or a chart cannot be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let workspace = workspace.canonicalize()?;
    let record = match &args.record {
        Some(record) => record.clone(),
        None => newest(&workspace.join("benches/record"))?,
    };
    let out = args.out.clone();
    let out = out.unwrap_or_else(|| workspace.join("docs/charts"));
    let raw: Raw = read(&record.join("raw.json"))?;
    let machine: Machine = read(&record.join("machine.json"))?;
    let charts = draw(&raw, &machine)?;
    ensure!(!charts.is_empty(), "{}: no figures", record.display());
    fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    for Chart { name, svg } in charts {
        let path = out.join(format!("{name}.svg"));
        fs::write(&path, svg).with_context(|| path.display().to_string())?;
        println!("{}", path.display());
    }
    for (name, page) in table::pages(&raw, &machine) {
        let path = out.join(name);
        fs::write(&path, page).with_context(|| path.display().to_string())?;
        println!("{}", path.display());
    }
    Ok(())
}

fn draw(raw: &Raw, machine: &Machine) -> anyhow::Result<Vec<Chart>> {
    let of = |benchmarks: &[&str]| footer(machine, benchmarks);
    let mut charts = Vec::new();
    charts.extend(overview::draw(raw, &of(&["ratios", "tools"]))?);
    charts.extend(pairs::draw(&raw.pairs, &of(&["ratios"]))?);
    charts.extend(jobs::draw(&raw.jobs, &of(&["tools"]))?);
    charts.extend(curves::draw(&raw.curves, &of(&["scale"]))?);
    Ok(charts)
}

/// Returns the line below the charts of these benchmarks: the date, the machine, and the share of
/// the processors that other work took.
fn footer(machine: &Machine, benchmarks: &[&str]) -> String {
    let Machine {
        kernel,
        processor,
        n_processors,
        runs,
        ..
    } = machine;
    let shown = || benchmarks.iter().filter_map(|name| runs.get(*name));
    let started = shown().map(|run| run.started.as_str()).max();
    let day = started.and_then(|time| time.split('T').next());
    let others = shown().map(|run| run.others_share);
    let others = others.fold(0.0, f64::max) * 100.0;
    format!(
        "{} · {kernel} · {n_processors} × {processor} · other work took {others:.0} % of the processors",
        day.unwrap_or_default()
    )
}

/// The directory whose name is the last in the order of the alphabet: names are dates.
fn newest(records: &Path) -> anyhow::Result<PathBuf> {
    let entries = fs::read_dir(records).with_context(|| records.display().to_string())?;
    let dirs = entries.flatten().map(|entry| entry.path());
    let dirs = dirs.filter(|path| path.join("raw.json").exists());
    dirs.max().context("benches/record has no record")
}

fn read<T: DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests;
