//! Throughput against size: a panel for each pair, a line for each way to move the bytes.

use super::canvas::{Anchor, Area, chart, line, text};
use super::format::Pair;
use super::plot::{Line, Plot};
use super::statistics::spread;
use super::{Chart, style};

const COLUMNS: usize = 3;
const PANEL: (i32, i32) = (290, 230);
const HEAD: i32 = 50;
const FOOT: i32 = 24;

/// A pair and what people call it.
type Titled = (&'static str, &'static str);

/// The charts: a name, a heading, and the pairs.
const CHARTS: &[(&str, &str, &[Titled])] = &[
    (
        "files-out",
        "From a file",
        &[
            ("file_to_null", "ext4 file → /dev/null"),
            ("file_to_pipe", "ext4 file → pipe, reader splices"),
            ("file_to_pipe_read", "ext4 file → pipe, reader reads"),
            ("tmpfs_to_pipe", "tmpfs file → pipe, reader splices"),
            ("file_to_tcp", "ext4 file → TCP"),
            ("tmpfs_to_tcp", "tmpfs file → TCP"),
            ("file_to_unix", "ext4 file → unix socket"),
        ],
    ),
    (
        "files",
        "From file to file",
        &[
            ("file_to_file_ext4", "ext4 → ext4"),
            ("file_to_file_tmpfs", "tmpfs → tmpfs"),
            ("file_to_file_btrfs", "btrfs → btrfs, a clone"),
            ("file_to_file_xfs", "xfs → xfs, a clone"),
            ("ext4_to_tmpfs", "ext4 → tmpfs"),
            ("tmpfs_to_ext4", "tmpfs → ext4"),
        ],
    ),
    (
        "pipes",
        "From a pipe",
        &[
            ("pipe_to_pipe", "pipe → pipe, written and read"),
            ("pipe_to_pipe_teed", "pipe → pipe, tee'd and spliced"),
            ("pipe_to_null", "pipe → /dev/null, written"),
            ("pipe_to_null_teed", "pipe → /dev/null, tee'd"),
            ("pipe_to_file", "pipe → tmpfs file"),
            ("pipe_to_tcp", "pipe → TCP"),
        ],
    ),
    (
        "sockets",
        "From a socket",
        &[
            ("tcp_to_tcp", "TCP → TCP"),
            ("tcp_to_null", "TCP → /dev/null"),
            ("tcp_to_file", "TCP → tmpfs file"),
            ("tcp_to_pipe", "TCP → pipe, reader reads"),
            ("unix_to_unix", "unix → unix socket"),
        ],
    ),
];

/// Draws each chart that the record has pairs for. Pairs that no chart names share one more.
///
/// # Errors
///
/// If a chart cannot be drawn.
pub(super) fn draw(pairs: &[Pair], footer: &str) -> anyhow::Result<Vec<Chart>> {
    let mut charts = Vec::new();
    let mut others: Vec<(&str, &str)> = Vec::new();
    for pair in pairs {
        let name = pair.name.as_str();
        if title(name) == name && !others.contains(&(name, name)) {
            others.push((name, name));
        }
    }
    let more = ("others", "Others", &others[..]);
    for (name, heading, members) in CHARTS.iter().copied().chain([more]) {
        let panels = members.iter().filter_map(|(name, title)| {
            let mut sizes: Vec<&Pair> = pairs.iter().filter(|pair| pair.name == *name).collect();
            sizes.sort_by_key(|pair| pair.bytes);
            (!sizes.is_empty()).then_some((*title, sizes))
        });
        let panels: Vec<_> = panels.collect();
        if panels.is_empty() {
            continue;
        }
        let rows = panels.len().div_ceil(COLUMNS) as i32;
        let size = (PANEL.0 * COLUMNS as i32, HEAD + PANEL.1 * rows + FOOT);
        let svg = chart(size, footer, |area| draw_panels(area, heading, &panels))?;
        let name = format!("pairs-{name}");
        charts.push(Chart { name, svg });
    }
    Ok(charts)
}

/// What people call a pair.
pub(super) fn title(name: &str) -> &str {
    let pairs = CHARTS.iter().flat_map(|(_, _, pairs)| pairs.iter());
    let titled = pairs.copied().find(|(other, _)| *other == name);
    titled.map_or(name, |(_, title)| title)
}

fn draw_panels(
    area: &Area<'_>,
    heading: &str,
    panels: &[(&str, Vec<&Pair>)],
) -> anyhow::Result<()> {
    text(
        area,
        (10, 14),
        Anchor::Start,
        16,
        style::FOREGROUND,
        heading,
    )?;
    let mut x = 10;
    let sizes = panels.iter().flat_map(|(_, sizes)| sizes.iter().copied());
    for name in movers(sizes) {
        let color = style::mover(name);
        line(area, [(x, 36), (x + 18, 36)], color, width(name))?;
        let shown = match name {
            "plan" => "zcopy (plan)",
            "std_io_copy" => "std::io::copy",
            name => name,
        };
        text(
            area,
            (x + 23, 36),
            Anchor::Start,
            12,
            style::FOREGROUND,
            shown,
        )?;
        x += 40 + shown.len() as i32 * 7;
    }
    for (index, (title, sizes)) in panels.iter().enumerate() {
        let (row, column) = (index / COLUMNS, index % COLUMNS);
        let at = (column as i32 * PANEL.0, HEAD + row as i32 * PANEL.1);
        panel(title, sizes).draw(area, at, PANEL)?;
    }
    Ok(())
}

fn width(mover: &str) -> u32 {
    if mover == "plan" { 3 } else { 1 }
}

/// The panel of one pair.
fn panel<'a>(title: &'a str, sizes: &[&Pair]) -> Plot<'a> {
    // The plan lies above the others.
    let lines = movers(sizes.iter().copied()).into_iter().rev().map(|name| {
        let points = sizes.iter().filter_map(|pair| {
            let mover = pair.movers.iter().find(|mover| mover.name == name)?;
            let rates = mover.nanoseconds.iter();
            let rates = rates.map(|ns| pair.bytes as f64 / (*ns).max(1) as f64);
            Some((pair.bytes, spread(rates).median))
        });
        Line {
            color: style::mover(name),
            width: width(name),
            points: points.collect(),
        }
    });
    Plot {
        title,
        unit: "GB/s",
        axis: "bytes of a transfer (K = 1024)",
        name: &size_name,
        lines: lines.collect(),
    }
}

/// The names of all movers, in the order of their first pair.
fn movers<'a>(pairs: impl Iterator<Item = &'a Pair>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for mover in pairs.flat_map(|pair| &pair.movers) {
        if !names.contains(&mover.name.as_str()) {
            names.push(&mover.name);
        }
    }
    names
}

/// A size as the axis names it: `64K`.
pub(super) fn size_name(bytes: u64) -> String {
    match bytes {
        0..1024 => bytes.to_string(),
        1024..0x10_0000 => format!("{}K", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{}M", bytes >> 20),
        _ => format!("{}G", bytes >> 30),
    }
}
