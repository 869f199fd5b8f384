//! The colours of the charts, in light and in dark mode.

use plotters::style::RGBColor;

pub(super) const BACKGROUND: RGBColor = RGBColor(0xff, 0xff, 0xff);
pub(super) const FOREGROUND: RGBColor = RGBColor(0x1f, 0x23, 0x28);
/// Words of less weight.
pub(super) const FAINT: RGBColor = RGBColor(0x5a, 0x63, 0x6c);
pub(super) const GRID: RGBColor = RGBColor(0xd8, 0xde, 0xe4);

/// zcopy, on either background.
pub(super) const OURS: RGBColor = RGBColor(0x1f, 0x77, 0xd4);
pub(super) const PEER: RGBColor = RGBColor(0x8b, 0x94, 0x9e);
/// Where zcopy loses.
pub(super) const LOSS: RGBColor = RGBColor(0xd9, 0x6b, 0x1c);

/// What the colours become in dark mode. All others suit both.
const DARK: [(RGBColor, &str); 4] = [
    (BACKGROUND, "#0D1117"),
    (FOREGROUND, "#E6EDF3"),
    (FAINT, "#9AA4AE"),
    (GRID, "#2B323A"),
];

/// The colour of a way to move bytes.
pub(super) fn mover(name: &str) -> RGBColor {
    match name {
        "plan" => OURS,
        "std_io_copy" => PEER,
        "buffered" => RGBColor(0xb8, 0x86, 0x0b),
        "sendfile" => RGBColor(0xd1, 0x3b, 0x40),
        "splice" => RGBColor(0x8f, 0x5f, 0xe0),
        "splice_pipe" => RGBColor(0x2a, 0x8f, 0x46),
        "copy_file_range" => RGBColor(0x1b, 0x90, 0x99),
        _ => RGBColor(0xc9, 0x4f, 0x9b),
    }
}

/// The colour of a program that makes many transfers.
pub(super) fn program(name: &str) -> RGBColor {
    mover(match name {
        "zcopy::RelaySession::step" | "zcopy::Session::step" => "plan",
        "zcopy::Relay::run" | "zcopy::Transfer::run" => "splice_pipe",
        "zcopy::Relay::run_async" | "zcopy::Transfer::run_async" => "copy_file_range",
        "tokio_splice2::copy_bidirectional" | "tokio_splice2::sendfile" => "splice",
        "tokio::io::copy_bidirectional" | "tokio::io::copy" => "sendfile",
        "std::io::copy" | "read and write, two threads" => "buffered",
        "no relay" => "std_io_copy",
        other => other,
    })
}

/// Has a chart take other colours where its reader has chosen dark mode.
pub(super) fn with_dark_mode(svg: &str) -> String {
    let rules = DARK.iter().flat_map(|(RGBColor(red, green, blue), dark)| {
        let light = format!("#{red:02X}{green:02X}{blue:02X}");
        ["fill", "stroke"].map(|name| format!("[{name}=\"{light}\"]{{{name}:{dark}}}"))
    });
    let rules: String = rules.collect();
    let style = format!("<style>@media (prefers-color-scheme:dark){{{rules}}}</style>\n");
    match svg.split_once(">\n") {
        Some((opening, rest)) => format!("{opening}>\n{style}{rest}"),
        None => svg.to_owned(),
    }
}
