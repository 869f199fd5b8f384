//! The settings that a command line gives.

use std::ffi::OsString;
use std::num::NonZeroU64;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;

use crate::common::progress::units::{Unit, parse_rate, parse_size};
use crate::pv::args::Args;
use crate::pv::display::bar::BarStyle;
use crate::pv::display::extra_display::ExtraDisplay;
use crate::pv::display::format::{Format, Switches};
use crate::pv::transfer::digest::Algorithm;
use crate::pv::transfer::inspector::Counted;

pub(crate) use value::number;
use value::{
    SIZE, every, invalid, json_output, nonzero, precedes, read, seconds, sides, size, style,
};

mod value;

/// The shortest and the longest interval of the display.
const INTERVALS: std::ops::RangeInclusive<f64> = 0.1..=600.0;

/// The settings that a command line gives.
#[derive(Clone, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "every one is a switch of the command line"
)]
pub(crate) struct Settings {
    pub(crate) inputs: Vec<OsString>,
    pub(crate) output: Output,
    pub(crate) monitor: Option<Monitor>,
    /// The side of the command that these settings are for.
    pub(crate) side: Option<Side>,
    pub(crate) form: Form,
    /// The output for objects in JSON, if it is not standard error.
    pub(crate) json: Option<JsonOutput>,
    /// The format of the display. With `-n` it gives the numbers of a line.
    pub(crate) format: Format,
    /// The format of titles for which `-x` gives none. `-F` does not change it.
    pub(crate) title_format: Format,
    pub(crate) extra: Option<ExtraDisplay>,
    pub(crate) counted: Counted,
    pub(crate) unit: Unit,
    pub(crate) si: bool,
    pub(crate) style: BarStyle,
    pub(crate) gauge: bool,
    pub(crate) name: Option<String>,
    pub(crate) size: Option<Size>,
    pub(crate) interval: Duration,
    pub(crate) window: Duration,
    pub(crate) delay: Duration,
    pub(crate) waits: bool,
    pub(crate) columns: Option<u16>,
    pub(crate) rows: Option<u16>,
    pub(crate) stats: bool,
    pub(crate) force: bool,
    pub(crate) own_row: bool,
    pub(crate) per_file: bool,
    pub(crate) hook: Option<Hook>,
    /// In thousandths of a byte or line per second.
    pub(crate) rate_limit: Option<NonZeroU64>,
    pub(crate) buffer_size: Option<usize>,
    pub(crate) pipe_size: Option<usize>,
    pub(crate) reads_and_writes: bool,
    pub(crate) skip: Skip,
    pub(crate) stops_at_size: bool,
    pub(crate) syncs: bool,
    pub(crate) direct: bool,
    pub(crate) sparse: bool,
    pub(crate) spool: Option<Spool>,
    pub(crate) stable: bool,
    pub(crate) hash: Option<Algorithm>,
    pub(crate) pidfile: Option<PathBuf>,
    pub(crate) explains: bool,
}

/// The output.
#[derive(Clone, Debug)]
pub(crate) enum Output {
    /// Standard output.
    Stdout,
    /// A file, which is created or replaced.
    File(PathBuf),
    /// No output. The file of `-o` is created or emptied, as by pv.
    Discard(Option<PathBuf>),
    /// The standard input of a command.
    Command,
}

/// A command whose input or output is monitored (`-M`).
#[derive(Clone, Debug)]
pub(crate) struct Monitor {
    pub(crate) sides: Sides,
    /// The program and its arguments. It is never empty.
    pub(crate) command: Vec<OsString>,
    /// The format and the name of the input side, if both sides are monitored.
    pub(crate) input: (Format, Option<String>),
}

/// The sides of a command that are monitored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sides {
    Input,
    Output,
    Both,
}

/// One side of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Input,
    Output,
}

impl Side {
    /// Returns the name of the side, as on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Input => "in",
            Self::Output => "out",
        }
    }
}

/// The form of the display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A line that is drawn in place.
    Line,
    /// A line of numbers at each interval.
    Numeric,
    /// An object at each interval.
    Json,
    /// No display.
    Quiet,
}

/// The separate output for objects in JSON.
#[derive(Clone, Debug)]
pub(crate) enum JsonOutput {
    /// A descriptor that this process inherited.
    Fd(RawFd),
    /// A file, which is created or replaced.
    File(PathBuf),
}

/// The total size, as the user gives it.
#[derive(Clone, Debug)]
pub(crate) enum Size {
    /// A number of bytes or lines.
    Exact(u64),
    /// The size of a file, or of all files under a directory.
    SameAs(PathBuf),
}

/// The handling of read errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skip {
    /// A read error ends the input.
    Never,
    /// Zeros replace each unreadable range, and each one is reported.
    ReportAll(Option<NonZeroU64>),
    /// Zeros replace each unreadable range, and the first one of a file is reported.
    ReportFirst(Option<NonZeroU64>),
}

/// The spool: the storage for all bytes until the last one has come.
#[derive(Clone, Debug)]
pub(crate) enum Spool {
    /// A file that stays.
    File(PathBuf),
    /// A file without a name.
    Nameless,
}

/// The command of `--on-progress`.
#[derive(Clone, Debug)]
pub(crate) struct Hook {
    pub(crate) command: OsString,
    pub(crate) every: f64,
}

impl Settings {
    /// Returns whether the progress is shown or reported before the end.
    pub(crate) fn is_watched(&self) -> bool {
        self.form != Form::Quiet || self.json.is_some() || self.hook.is_some() || self.stats
    }

    /// Returns all formats of the display.
    pub(crate) fn formats(&self) -> impl Iterator<Item = &Format> {
        [&self.format].into_iter().chain(self.format_of_titles())
    }

    /// Returns the format of the titles, if `-x` asks for them.
    pub(crate) fn format_of_titles(&self) -> Option<&Format> {
        let extra = self.extra.as_ref()?;
        Some(extra.format(&self.title_format))
    }

    /// Reads the values of a command line.
    ///
    /// # Errors
    ///
    /// Returns the error in a value, in the wording of pv.
    #[allow(
        clippy::too_many_lines,
        reason = "one value after the other, and none needs another"
    )]
    pub(crate) fn from_args(args: &Args, matches: &ArgMatches) -> Result<Self, String> {
        let si = |option: &str| args.si && precedes(matches, "si", option);
        let size_of = |option, id, given: &Option<OsString>| {
            let parse = |text: &str| parse_size(text, si(id)).ok();
            read(option, given.as_deref(), SIZE, parse)
        };

        let json = args.json.as_deref().map(json_output).transpose()?.flatten();
        let file = args.output.as_ref().filter(|path| *path != "-");
        let output = match file {
            file if args.discard => Output::Discard(file.map(PathBuf::from)),
            Some(path) => Output::File(path.into()),
            None => Output::Stdout,
        };
        if let (Some(JsonOutput::Fd(1)), Output::Stdout) = (&json, &output) {
            let complaint = "invalid descriptor: the bytes go there";
            return Err(invalid("--json", "1".as_ref(), complaint));
        }
        let json = json.filter(|json| !json.is_stderr());
        let form = if args.json.is_some() && json.is_none() {
            Form::Json
        } else if args.quiet {
            Form::Quiet
        } else if args.numeric {
            Form::Numeric
        } else {
            Form::Line
        };
        let sides = args.monitor.as_deref().map(sides).transpose()?;
        let switches = switches(args, form)?;
        let of_written = |written: Option<&OsString>, switches: &Switches| {
            let written = written.map(|format| format.to_string_lossy());
            format(form, switches, written.as_deref())
        };
        let output_switches = Switches {
            ratio: sides == Some(Sides::Both),
            ..switches.clone()
        };
        let format = of_written(args.format.last(), &output_switches);
        let title_format = of_written(None, &output_switches);
        let name_of = |name: &OsString| name.to_string_lossy().into_owned();
        let monitor = match sides {
            Some(_) if args.files.is_empty() => {
                return Err("-M: a command to run must be specified".to_owned());
            }
            Some(sides) => Some(Monitor {
                sides,
                command: args.files.clone(),
                input: (
                    of_written(args.format.first(), &switches),
                    args.name.first().map(name_of),
                ),
            }),
            None => None,
        };
        let extra = match &args.extra_display {
            Some(spec) => {
                let spec = spec.to_string_lossy();
                let extra = ExtraDisplay::parse(&spec);
                let complaint = "invalid extra display";
                Some(extra.ok_or_else(|| invalid("-x", spec.as_ref().as_ref(), complaint))?)
            }
            None => None,
        };
        let counted = match (args.null, args.line_mode) {
            (true, _) => Counted::Records(0),
            (false, true) => Counted::Records(b'\n'),
            (false, false) => Counted::Bytes,
        };
        let unit = match (counted, args.bits) {
            (Counted::Records(_), _) => Unit::Lines,
            (Counted::Bytes, true) => Unit::Bits,
            (Counted::Bytes, false) => Unit::Bytes,
        };
        let buffer_size = size_of("-B", "buffer_size", &args.buffer_size)?;
        let block = size_of("-Z", "error_skip_block", &args.error_skip_block)?;
        let block = block.and_then(NonZeroU64::new);
        let of_titles = extra.as_ref().map(|extra| extra.format(&title_format));
        let shows_bytes = [&format]
            .into_iter()
            .chain(of_titles)
            .any(Format::needs_bytes);
        Ok(Self {
            inputs: match &monitor {
                Some(_) => Vec::new(),
                None => args.files.clone(),
            },
            monitor,
            side: None,
            output,
            form,
            extra,
            title_format,
            counted,
            unit,
            si: args.si,
            style: style(args.bar_style.as_deref())?,
            gauge: args.gauge,
            name: args.name.last().map(name_of),
            size: match &args.size {
                Some(given) => Some(size(given, si("size"))?),
                None => None,
            },
            interval: seconds("-i", args.interval.as_deref())?.map_or(
                Duration::from_secs(1),
                |seconds| {
                    Duration::from_secs_f64(seconds.clamp(*INTERVALS.start(), *INTERVALS.end()))
                },
            ),
            window: Duration::from_secs(
                number("-m", args.average_rate_window.as_deref(), u32::MAX)?
                    .map_or(30, |s| s.max(1))
                    .into(),
            ),
            delay: seconds("-D", args.delay_start.as_deref())?.map_or(Duration::ZERO, |seconds| {
                Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
            }),
            waits: args.wait,
            columns: number("-w", args.width.as_deref(), u16::MAX)?.filter(|columns| *columns > 0),
            rows: number("-H", args.height.as_deref(), u16::MAX)?.filter(|rows| *rows > 0),
            stats: args.stats,
            force: args.force,
            own_row: args.cursor,
            per_file: args.per_file,
            hook: match &args.on_progress {
                Some(command) => Some(Hook {
                    command: command.clone(),
                    every: every(args.every.as_deref())?,
                }),
                None if args.every.is_some() => {
                    return Err("--every: --on-progress must be specified".to_owned());
                }
                None => None,
            },
            rate_limit: read("-L", args.rate_limit.as_deref(), SIZE, |text| {
                parse_rate(text, si("rate_limit")).ok()
            })?
            .and_then(NonZeroU64::new),
            buffer_size: buffer_size.and_then(nonzero),
            pipe_size: size_of("-J", "pipe_buffer_size", &args.pipe_buffer_size)?.and_then(nonzero),
            reads_and_writes: args.no_splice || buffer_size.is_some() || shows_bytes,
            skip: match args.skip_errors {
                0 => Skip::Never,
                1 => Skip::ReportAll(block),
                _ => Skip::ReportFirst(block),
            },
            stops_at_size: args.stop_at_size,
            syncs: args.sync,
            direct: args.direct_io,
            sparse: args.sparse,
            spool: args.store_and_forward.as_ref().map(|file| match file {
                file if file == "-" => Spool::Nameless,
                file => Spool::File(file.into()),
            }),
            stable: args.stable,
            hash: args.hash,
            json,
            pidfile: args.pidfile.as_ref().map(PathBuf::from),
            explains: args.explain,
            format,
        })
    }
}

/// Returns the display switches of a command line, or the default ones if it has none.
///
/// # Errors
///
/// Returns the error in the value of an option.
pub(crate) fn switches(args: &Args, form: Form) -> Result<Switches, String> {
    let switches = Switches {
        progress: args.progress,
        timer: args.timer,
        eta: args.eta,
        finish: args.fineta,
        rate: args.rate,
        average: args.average_rate,
        bytes: args.bytes || args.bits,
        buffer: args.buffer_percent,
        tail: number("-A", args.last_written.as_deref(), usize::MAX)?,
        name: !args.name.is_empty(),
        tab: args.conemu,
        ratio: false,
    };
    // A name and a tab add to the default. Titles have it beside objects, too.
    Ok(match (switches.is_nothing(), form) {
        (true, Form::Line | Form::Json) => Switches {
            name: switches.name,
            tab: switches.tab,
            ..Switches::by_default()
        },
        _ => switches,
    })
}

/// Returns the format that the display switches and a format string ask for.
pub(crate) fn format(form: Form, switches: &Switches, written: Option<&str>) -> Format {
    match (written, form) {
        (Some(format), Form::Numeric) => Format::parse(format).in_numbers(),
        (Some(format), _) => Format::parse(format),
        (None, Form::Numeric) => Format::numeric(switches),
        (None, _) => Format::from_switches(switches),
    }
}

#[cfg(test)]
mod tests;
