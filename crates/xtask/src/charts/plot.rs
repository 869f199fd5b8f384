//! Lines in a rectangle with two logarithmic axes.

use plotters::prelude::*;

use super::canvas::{Anchor, Area, digits, line, text};
use super::style;

/// The space around the lines: left, top, right and below.
const LEFT: i32 = 46;
const TOP: i32 = 38;
const RIGHT: i32 = 14;
const BELOW: i32 = 38;

/// The width of a place's name, with the space beside it.
const LABEL_WIDTH: i32 = 34;

/// The lines of one figure.
pub(super) struct Plot<'a> {
    pub(super) title: &'a str,
    /// The unit of the upright axis.
    pub(super) unit: &'a str,
    /// What the other axis says, with its unit.
    pub(super) axis: &'a str,
    /// Names a place of that axis.
    pub(super) name: &'a dyn Fn(u64) -> String,
    /// The last lies above the others.
    pub(super) lines: Vec<Line>,
}

/// The points of one line, with the color and the width of it.
pub(super) struct Line {
    pub(super) color: RGBColor,
    pub(super) width: u32,
    pub(super) points: Vec<(u64, f64)>,
}

/// Where figures stand on the surface.
struct Scale {
    x: [f64; 2],
    y: [f64; 2],
    left: i32,
    top: i32,
    width: i32,
    height: i32,
}

impl Scale {
    fn x(&self, n: u64) -> i32 {
        let part = (log2(n) - self.x[0]) / (self.x[1] - self.x[0]);
        self.left + (part * f64::from(self.width)).round() as i32
    }

    fn y(&self, log: f64) -> i32 {
        let part = (log - self.y[0]) / (self.y[1] - self.y[0]);
        self.top + self.height - (part * f64::from(self.height)).round() as i32
    }
}

fn log2(n: u64) -> f64 {
    (n.max(1) as f64).log2()
}

fn log10(figure: f64) -> f64 {
    figure.max(1e-9).log10()
}

impl Plot<'_> {
    /// Draws the plot into a rectangle of this size, whose corner is at the point.
    ///
    /// # Errors
    ///
    /// If it cannot be drawn.
    pub(super) fn draw(
        &self,
        area: &Area<'_>,
        (x, y): (i32, i32),
        (width, height): (i32, i32),
    ) -> anyhow::Result<()> {
        let points = || self.lines.iter().flat_map(|line| line.points.iter());
        let mut places: Vec<u64> = points().map(|(n, _)| *n).collect();
        places.sort_unstable();
        places.dedup();
        let (Some(&smallest), Some(&last)) = (places.first(), places.last()) else {
            return Ok(());
        };
        let logs = points().map(|(_, figure)| log10(*figure));
        let (low, high) = logs.fold((f64::MAX, f64::MIN), |(low, high), log| {
            (low.min(log), high.max(log))
        });
        let scale = Scale {
            x: [log2(smallest) - 0.5, log2(last) + 0.5],
            y: [low - 0.1, high + 0.1],
            left: x + LEFT,
            top: y + TOP,
            width: width - LEFT - RIGHT,
            height: height - TOP - BELOW,
        };
        let (right, bottom) = (scale.left + scale.width, scale.top + scale.height);
        text(
            area,
            (x + 8, y + 10),
            Anchor::Start,
            13,
            style::FOREGROUND,
            self.title,
        )?;
        text(
            area,
            (x + 8, y + 27),
            Anchor::Start,
            10,
            style::FAINT,
            self.unit,
        )?;
        for tick in ticks(scale.y) {
            let at = scale.y(tick);
            line(area, [(scale.left, at), (right, at)], style::GRID, 1)?;
            let figure = digits(10_f64.powf(tick));
            let figure = if figure.contains('.') {
                figure.trim_end_matches('0').trim_end_matches('.')
            } else {
                &figure
            };
            text(
                area,
                (scale.left - 5, at),
                Anchor::End,
                10,
                style::FAINT,
                figure,
            )?;
        }
        let mut end_of_label = i32::MIN;
        for &place in &places {
            let at = scale.x(place);
            line(area, [(at, scale.top), (at, bottom)], style::GRID, 1)?;
            let hides_last = place != last && scale.x(last) < at + LABEL_WIDTH;
            if at < end_of_label || hides_last {
                continue;
            }
            end_of_label = at + LABEL_WIDTH;
            let name = (self.name)(place);
            text(
                area,
                (at, bottom + 10),
                Anchor::Middle,
                10,
                style::FAINT,
                &name,
            )?;
        }
        text(
            area,
            (right, bottom + 26),
            Anchor::End,
            10,
            style::FAINT,
            self.axis,
        )?;
        for Line {
            color,
            width,
            points,
        } in &self.lines
        {
            let points = points.iter();
            let points = points.map(|(n, figure)| (scale.x(*n), scale.y(log10(*figure))));
            let points: Vec<(i32, i32)> = points.collect();
            area.draw(&PathElement::new(
                points.clone(),
                color.stroke_width(*width),
            ))?;
            for point in points {
                area.draw(&Circle::new(point, (*width).max(2), color.filled()))?;
            }
        }
        Ok(())
    }
}

/// Round figures between two logarithms: 1, 2 and 5 times a power of ten, or powers of ten alone if
/// those would stand too close.
fn ticks([low, high]: [f64; 2]) -> Vec<f64> {
    let powers = (-9..=9).map(f64::from);
    let all = |parts: &[f64]| -> Vec<f64> {
        let ticks = powers
            .clone()
            .flat_map(|power| parts.iter().map(move |part| part.log10() + power));
        ticks.filter(|tick| (low..=high).contains(tick)).collect()
    };
    let fine = all(&[1.0, 2.0, 5.0]);
    if fine.len() > 7 { all(&[1.0]) } else { fine }
}
