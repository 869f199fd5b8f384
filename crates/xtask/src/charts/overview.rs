//! The chart of the README: how many times as fast as the program or function beside it.

use super::canvas::{Anchor, Area, bar, chart, line, row_label, text, whisker};
use super::format::{Job, Pair, Raw};
use super::pairs::{size_name, title};
use super::statistics::{Middle, speed_ratio};
use super::{Chart, style};

const WIDTH: i32 = 860;
const BARS: (i32, i32) = (400, 790);
const ROW: i32 = 18;

/// Jobs, our tool and the program beside it, with words for both.
const JOBS: &[(&str, &str, &str, &str)] = &[
    (
        "file_to_reading_reader",
        "zc-pv -f",
        "pv -f",
        "zc-pv: file | reader, beside pv",
    ),
    (
        "written_pipe_to_null",
        "zc-pv -f",
        "pv -f",
        "zc-pv: pipe > /dev/null, beside pv",
    ),
    (
        "pv_l",
        "zc-pv -f -l",
        "pv -f -l",
        "zc-pv -l: log > /dev/null, beside pv",
    ),
    (
        "file_to_reading_reader",
        "zc-cat",
        "cat",
        "zc-cat: file | reader, beside GNU cat",
    ),
    (
        "written_pipe_to_null",
        "zc-cat",
        "cat",
        "zc-cat: pipe > /dev/null, beside GNU cat",
    ),
    (
        "cat_n",
        "zc-cat -n",
        "cat -n",
        "zc-cat -n: log > /dev/null, beside GNU cat",
    ),
    (
        "small_files",
        "zc-cat",
        "cat",
        "zc-cat: small files > /dev/null, beside GNU cat",
    ),
    (
        "tee_to_null",
        "zc-tee",
        "tee",
        "zc-tee: pipe to pipe, beside GNU tee",
    ),
    (
        "tee_to_two_files_memory",
        "zc-tee",
        "tee",
        "zc-tee: two files on tmpfs, beside GNU tee",
    ),
    (
        "yes_to_reading_reader",
        "zc-yes",
        "yes",
        "zc-yes | reader, beside GNU yes",
    ),
    (
        "hashed_tree_disk",
        "zc-dircopy",
        "cp -r, then sha256sum",
        "zc-dircopy on a disk, beside cp -r and sha256sum",
    ),
    (
        "tree_disk",
        "zc-dircopy --no-hash",
        "cp -r",
        "zc-dircopy --no-hash on a disk, beside cp -r",
    ),
    (
        "start_operand",
        "zc-cat",
        "cat",
        "zc-cat: one byte, beside GNU cat",
    ),
];

/// Pairs of the library.
const PAIRS: [&str; 6] = [
    "file_to_pipe_read",
    "file_to_tcp",
    "file_to_file_ext4",
    "pipe_to_pipe",
    "pipe_to_null",
    "tcp_to_tcp",
];

/// The sizes at which pairs are shown, if the record has them, or else the smallest and the largest.
const SIZES: [u64; 3] = [4 << 10, 64 << 10, 64 << 20];

/// A row: words, and the ratio with its 95 % interval.
type Row = (String, Middle);

/// Draws the chart, if the record has one of its rows.
///
/// # Errors
///
/// If it cannot be drawn.
pub(super) fn draw(raw: &Raw, footer: &str) -> anyhow::Result<Option<Chart>> {
    let tools: Vec<Row> = JOBS
        .iter()
        .filter_map(|row| of_job(&raw.jobs, row))
        .collect();
    let library = of_pairs(&raw.pairs);
    let sections = [
        ("The tools beside the programs that they replace", tools),
        ("The library beside std::io::copy", library),
    ];
    let rows = sections.iter().map(|(_, rows)| rows.len()).sum::<usize>();
    if rows == 0 {
        return Ok(None);
    }
    let height = rows as i32 * ROW + 150;
    let svg = chart((WIDTH, height), footer, |area| {
        draw_sections(area, &sections)
    })?;
    let name = "overview".to_owned();
    Ok(Some(Chart { name, svg }))
}

fn of_job(jobs: &[Job], (job, ours, theirs, words): &(&str, &str, &str, &str)) -> Option<Row> {
    let job = jobs.iter().find(|other| other.name == *job)?;
    let find = |name: &str| job.contestants.iter().find(|other| other.name == name);
    let ratio = speed_ratio(&find(ours)?.nanoseconds, &find(theirs)?.nanoseconds);
    Some(((*words).to_owned(), ratio))
}

fn of_pairs(pairs: &[Pair]) -> Vec<Row> {
    let sizes = || pairs.iter().map(|pair| pair.bytes);
    let shown = if SIZES.iter().all(|size| sizes().any(|other| other == *size)) {
        SIZES.to_vec()
    } else {
        sizes().min().into_iter().chain(sizes().max()).collect()
    };
    let mut rows = Vec::new();
    for name in PAIRS {
        for size in &shown {
            let pair = pairs
                .iter()
                .find(|pair| pair.name == name && pair.bytes == *size);
            let Some(pair) = pair else { continue };
            let find = |name: &str| pair.movers.iter().find(|mover| mover.name == name);
            let (Some(plan), Some(std)) = (find("plan"), find("std_io_copy")) else {
                continue;
            };
            let words = format!("{}, {}iB", title(name), size_name(*size));
            rows.push((words, speed_ratio(&plan.nanoseconds, &std.nanoseconds)));
        }
    }
    rows
}

fn draw_sections(area: &Area<'_>, sections: &[(&str, Vec<Row>); 2]) -> anyhow::Result<()> {
    let all = || {
        sections
            .iter()
            .flat_map(|(_, rows)| rows.iter().map(|(_, ratio)| ratio))
    };
    let low = all().map(|ratio| ratio.low).fold(0.5, f64::min);
    let high = all().map(|ratio| ratio.high).fold(2.0, f64::max);
    let (first, last) = (low.log2().floor() as i32, high.log2().ceil() as i32);
    let (left, right) = BARS;
    let per_doubling = f64::from(right - left) / f64::from(last - first);
    let place = |ratio: f64| left + ((ratio.log2() - f64::from(first)) * per_doubling) as i32;
    let heading = "How many times as fast (more than 1: zcopy is faster)";
    text(
        area,
        (10, 16),
        Anchor::Start,
        16,
        style::FOREGROUND,
        heading,
    )?;
    let mut top = 34;
    for (words, rows) in sections {
        if rows.is_empty() {
            continue;
        }
        text(area, (10, top + 10), Anchor::Start, 13, style::FAINT, words)?;
        top += 22;
        let bottom = top + rows.len() as i32 * ROW;
        for doubling in first..=last {
            let x = place(f64::from(doubling).exp2());
            let (color, width) = if doubling == 0 {
                (style::FAINT, 2)
            } else {
                (style::GRID, 1)
            };
            line(area, [(x, top), (x, bottom)], color, width)?;
            let ratio = f64::from(doubling).exp2();
            text(
                area,
                (x, bottom + 9),
                Anchor::Middle,
                10,
                style::FAINT,
                &format!("{ratio}×"),
            )?;
        }
        for (index, (words, ratio)) in rows.iter().enumerate() {
            let y = top + index as i32 * ROW + ROW / 2;
            row_label(area, (left - 8, y), words)?;
            // Level within what the turns can tell is neither.
            let color = match ratio {
                ratio if ratio.low > 1.0 => style::OURS,
                ratio if ratio.high < 1.0 => style::LOSS,
                _ => style::PEER,
            };
            let (one, end) = (place(1.0), place(ratio.median));
            bar(area, [(one.min(end), y - 6), (one.max(end), y + 6)], color)?;
            whisker(area, y, place(ratio.low), place(ratio.high))?;
            let figure = format!("{:.2}", ratio.median);
            text(
                area,
                (WIDTH - 10, y),
                Anchor::End,
                12,
                style::FOREGROUND,
                &figure,
            )?;
        }
        top = bottom + 24;
    }
    let axis = "throughput ÷ that of the other, median of the turns, with its 95 % interval; logarithmic; grey: level";
    text(area, (10, top), Anchor::Start, 10, style::FAINT, axis)?;
    Ok(())
}
