//! A bar for each program of a job, with what it needs beside its speed.

use super::canvas::{Anchor, Area, bar, chart, digits, line, row_label, text, whisker};
use super::format::{Contestant, Job, Unit};
use super::statistics::{Middle, spread};
use super::{Chart, style};

const WIDTH: i32 = 860;
/// Where the bars begin and end.
const BARS: (i32, i32) = (160, 480);
/// Where the columns end.
const COLUMNS: [i32; 5] = [545, 625, 705, 770, 850];
/// The head of the column of what is left in the page cache.
const CACHED: &str = "cached MiB";
const ROW: i32 = 18;
/// The title, the heads of the columns, the axis, and space below.
const AROUND: i32 = 70;

/// A chart for each group of jobs.
///
/// # Errors
///
/// If a chart cannot be drawn.
pub(super) fn draw(jobs: &[Job], footer: &str) -> anyhow::Result<Vec<Chart>> {
    let mut groups: Vec<&str> = Vec::new();
    for job in jobs {
        if !groups.contains(&job.group.as_str()) {
            groups.push(&job.group);
        }
    }
    let charts = groups.into_iter().map(|group| {
        let jobs: Vec<_> = jobs.iter().filter(|job| job.group == group).collect();
        let heights = jobs.iter().map(|job| height(job));
        let all = heights.sum::<i32>() + 50;
        let svg = chart((WIDTH, all), footer, |area| {
            let note =
                "Medians, whiskers from 10 % to 90 %. CPU, calls and memory are those of X alone.";
            text(area, (10, 14), Anchor::Start, 11, style::FAINT, note)?;
            let mut top = 30;
            for job in jobs {
                panel(area, top, job)?;
                top += height(job);
            }
            Ok(())
        })?;
        let name = format!("tools-{group}");
        Ok(Chart { name, svg })
    });
    charts.collect()
}

fn height(job: &Job) -> i32 {
    job.contestants.len() as i32 * ROW + AROUND
}

fn figure(job: &Job, nanoseconds: u64) -> f64 {
    let nanoseconds = nanoseconds.max(1) as f64;
    match job.unit {
        Unit::Throughput => job.bytes as f64 / nanoseconds,
        Unit::Time => nanoseconds / 1e6,
    }
}

fn panel(area: &Area<'_>, top: i32, job: &Job) -> anyhow::Result<()> {
    let is_rate = job.unit == Unit::Throughput;
    let (unit, better) = if is_rate {
        ("GB/s", "longer is better")
    } else {
        ("ms", "shorter is better")
    };
    text(
        area,
        (10, top + 8),
        Anchor::Start,
        14,
        style::FOREGROUND,
        &job.title,
    )?;
    let heads = if is_rate {
        ["GB/s", "CPU s/GB", "calls/GiB", "peak MiB", CACHED]
    } else {
        ["ms", "CPU ms", "calls", "peak MiB", ""]
    };
    for (x, head) in COLUMNS.into_iter().zip(heads) {
        let is_used = head != CACHED || job.contestants.iter().any(|it| it.residue_kib.is_some());
        if is_used {
            text(area, (x, top + 26), Anchor::End, 10, style::FAINT, head)?;
        }
    }
    let figures: Vec<Middle> = job
        .contestants
        .iter()
        .map(|contestant| spread(contestant.nanoseconds.iter().map(|ns| figure(job, *ns))))
        .collect();
    let most = figures.iter().map(|middle| middle.high).fold(0.0, f64::max);
    let step = step(most);
    let (left, right) = BARS;
    let place = |figure: f64| left + (figure / most * f64::from(right - left)).round() as i32;
    let first = top + 34;
    let bottom = first + job.contestants.len() as i32 * ROW;
    let mut tick = 0.0;
    while tick <= most * 1.001 {
        let x = place(tick);
        line(area, [(x, first), (x, bottom)], style::GRID, 1)?;
        text(
            area,
            (x, bottom + 8),
            Anchor::Middle,
            10,
            style::FAINT,
            &short(tick),
        )?;
        tick += step;
    }
    let axis = format!("{unit}, {better}");
    text(
        area,
        (left, bottom + 22),
        Anchor::Start,
        10,
        style::FAINT,
        &axis,
    )?;
    for (index, (contestant, middle)) in job.contestants.iter().zip(figures).enumerate() {
        let y = first + index as i32 * ROW + ROW / 2;
        let color = if contestant.name.starts_with("zc-") {
            style::OURS
        } else {
            style::PEER
        };
        row_label(area, (left - 8, y), &contestant.name)?;
        bar(area, [(left, y - 6), (place(middle.median), y + 6)], color)?;
        whisker(area, y, place(middle.low), place(middle.high))?;
        for (x, cell) in COLUMNS
            .into_iter()
            .zip(cells(job, contestant, middle.median))
        {
            text(area, (x, y), Anchor::End, 11, style::FOREGROUND, &cell)?;
        }
    }
    Ok(())
}

/// The figures beside a bar.
fn cells(job: &Job, contestant: &Contestant, median: f64) -> [String; 5] {
    let cpu = spread(contestant.cpu_nanoseconds.iter().map(|ns| *ns as f64)).median;
    let gibibytes = job.bytes as f64 / f64::from(1 << 30);
    let (cpu, calls) = match job.unit {
        Unit::Throughput => (
            digits(cpu / job.bytes as f64),
            contestant
                .system_calls
                .map(|calls| calls as f64 / gibibytes),
        ),
        Unit::Time => (
            digits(cpu / 1e6),
            contestant.system_calls.map(|calls| calls as f64),
        ),
    };
    let mib = |kib: u64| format!("{:.1}", kib as f64 / 1024.0);
    [
        digits(median),
        cpu,
        calls.map_or_else(String::new, |calls| format!("{calls:.0}")),
        contestant.peak_kib.map_or_else(String::new, mib),
        contestant
            .residue_kib
            .map_or_else(String::new, |kib| format!("{:.0}", kib as f64 / 1024.0)),
    ]
}

/// A distance between ticks that gives three to eight of them.
pub(super) fn step(most: f64) -> f64 {
    let power = 10_f64.powf(most.max(1e-9).log10().floor());
    let steps = [0.2, 0.5, 1.0, 2.0].map(|part| part * power);
    let fitting = steps.into_iter().find(|step| most / step <= 8.0);
    fitting.unwrap_or(power)
}

/// A tick's figure without zeros at its end.
fn short(figure: f64) -> String {
    let text = format!("{figure:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}
