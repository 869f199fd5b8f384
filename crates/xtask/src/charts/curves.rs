//! Figures against the number of concurrent transfers, or the size of messages: a chart for each
//! figure, a line for each driver.

use super::canvas::{Anchor, Area, chart, line, text};
use super::format::{Against, Curve};
use super::pairs::size_name;
use super::plot::{Line, Plot};
use super::{Chart, style};

const SIZE: (i32, i32) = (860, 400);
const HEAD: i32 = 78;
/// The height of a row of the legend, which has two at most.
const ROW: i32 = 18;
const FOOT: i32 = 24;

/// Draws a chart for each figure.
///
/// # Errors
///
/// If a chart cannot be drawn.
pub(super) fn draw(curves: &[Curve], footer: &str) -> anyhow::Result<Vec<Chart>> {
    let mut figures: Vec<&str> = Vec::new();
    for curve in curves {
        if !figures.contains(&curve.figure.as_str()) && !curve.points.is_empty() {
            figures.push(&curve.figure);
        }
    }
    let charts = figures.into_iter().map(|figure| {
        let curves: Vec<_> = curves
            .iter()
            .filter(|curve| curve.figure == figure)
            .collect();
        let svg = chart(SIZE, footer, |area| panel(area, figure, &curves))?;
        let words = figure.split(|letter: char| !letter.is_ascii_alphanumeric());
        let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
        let name = format!("scale-{}", words.join("-").to_lowercase());
        Ok(Chart { name, svg })
    });
    charts.collect()
}

fn panel(area: &Area<'_>, figure: &str, curves: &[&Curve]) -> anyhow::Result<()> {
    text(area, (10, 14), Anchor::Start, 16, style::FOREGROUND, figure)?;
    let (mut x, mut y) = (10, 40);
    let mut lines = Vec::new();
    for curve in curves {
        let color = style::program(&curve.name);
        let width = 40 + curve.name.len() as i32 * 7;
        if x + width > SIZE.0 {
            (x, y) = (10, y + ROW);
        }
        line(area, [(x, y), (x + 18, y)], color, 2)?;
        let name = &curve.name;
        text(
            area,
            (x + 23, y),
            Anchor::Start,
            12,
            style::FOREGROUND,
            name,
        )?;
        x += width;
        lines.push(Line {
            color,
            width: 2,
            points: curve.points.clone(),
        });
    }
    let (axis, name): (_, fn(u64) -> String) = match curves[0].against {
        Against::Transfers => ("concurrent transfers", |n| n.to_string()),
        Against::Bytes => ("bytes of a message", size_name),
    };
    let plot = Plot {
        title: "",
        unit: &curves[0].unit,
        axis,
        name: &name,
        lines,
    };
    plot.draw(area, (0, HEAD), (SIZE.0, SIZE.1 - HEAD - FOOT))
}
