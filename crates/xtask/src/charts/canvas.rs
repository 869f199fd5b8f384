//! A surface for charts: text, rectangles and lines at pixels.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::style;

/// What charts are drawn on.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The side of a point that a text stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Draws a chart of this size, in pixels, with the footer below it.
///
/// # Errors
///
/// If it cannot be drawn.
pub(super) fn chart(
    (width, height): (i32, i32),
    footer: &str,
    draw: impl FnOnce(&Area<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let size = (width.unsigned_abs(), height.unsigned_abs());
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&style::BACKGROUND)?;
        draw(&area)?;
        let below = height - 10;
        text(&area, (10, below), Anchor::Start, 10, style::FAINT, footer)?;
        area.present()?;
    }
    Ok(style::with_dark_mode(&svg))
}

/// Writes a text whose middle line passes through the point.
///
/// # Errors
///
/// If it cannot be drawn.
pub(super) fn text(
    area: &Area<'_>,
    at: (i32, i32),
    anchor: Anchor,
    size: u8,
    color: RGBColor,
    text: &str,
) -> anyhow::Result<()> {
    let place = match anchor {
        Anchor::Start => HPos::Left,
        Anchor::Middle => HPos::Center,
        Anchor::End => HPos::Right,
    };
    // The backend divides the size by this.
    let font = ("sans-serif", f64::from(size) * 1.24).into_font();
    let style = font.color(&color).pos(Pos::new(place, VPos::Center));
    area.draw(&Text::new(text.to_owned(), at, style))?;
    Ok(())
}

/// Writes the label of a row, which ends at the point.
///
/// # Errors
///
/// If it cannot be drawn.
pub(super) fn row_label(area: &Area<'_>, at: (i32, i32), label: &str) -> anyhow::Result<()> {
    text(area, at, Anchor::End, 12, style::FOREGROUND, label)
}

/// Fills a rectangle.
///
/// # Errors
///
/// If it cannot be drawn.
pub(super) fn bar(
    area: &Area<'_>,
    corners: [(i32, i32); 2],
    color: RGBColor,
) -> anyhow::Result<()> {
    area.draw(&Rectangle::new(corners, color.filled()))?;
    Ok(())
}

/// Draws a line.
///
/// # Errors
///
/// If it cannot be drawn.
pub(super) fn line(
    area: &Area<'_>,
    ends: [(i32, i32); 2],
    color: RGBColor,
    width: u32,
) -> anyhow::Result<()> {
    area.draw(&PathElement::new(ends.to_vec(), color.stroke_width(width)))?;
    Ok(())
}

/// Draws a line from `low` to `high` with a bar at each end.
///
/// # Errors
///
/// If it cannot be drawn.
pub(super) fn whisker(area: &Area<'_>, y: i32, low: i32, high: i32) -> anyhow::Result<()> {
    line(area, [(low, y), (high, y)], style::FOREGROUND, 1)?;
    for x in [low, high] {
        line(area, [(x, y - 3), (x, y + 3)], style::FOREGROUND, 1)?;
    }
    Ok(())
}

/// A figure with three digits.
pub(super) fn digits(figure: f64) -> String {
    match figure.abs() {
        size if size >= 99.95 => format!("{figure:.0}"),
        size if size >= 9.995 => format!("{figure:.1}"),
        size if size >= 0.1 => format!("{figure:.2}"),
        _ => format!("{figure:.3}"),
    }
}
