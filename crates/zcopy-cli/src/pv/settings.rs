//! What the command line comes to.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroU64;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::ArgMatches;
use clap::parser::ValueSource;

use super::bar::BarStyle;
use super::digest::Algorithm;
use super::extra::Extra;
use super::format::{Format, Shown};
use super::options::Args;
use super::witness::Counted;
use crate::number::{Unit, parse_rate, parse_size};
use crate::value;

/// The shortest and the longest time between two displays.
const INTERVALS: std::ops::RangeInclusive<f64> = 0.1..=600.0;

/// What the command line comes to.
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
    /// Where objects in JSON go, if not to standard error.
    pub(crate) json: Option<JsonOutput>,
    /// What is shown; of numeric output, a line's parts.
    pub(crate) format: Format,
    pub(crate) extra: Option<Extra>,
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

/// Where the bytes go.
#[derive(Clone, Debug)]
pub(crate) enum Output {
    /// To standard output.
    Stdout,
    /// To a file, which is made or replaced.
    File(PathBuf),
    /// Nowhere.
    Nowhere,
    /// To the standard input of a command.
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

/// Which sides of a command are monitored.
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
    /// The word for it on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Input => "in",
            Self::Output => "out",
        }
    }
}

/// How it is told how far the transfer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// By a line that is drawn in place.
    Line,
    /// By a line of numbers at each interval.
    Numeric,
    /// By an object at each interval.
    Json,
    /// Not at all.
    Quiet,
}

/// A descriptor or a file of their own for objects in JSON.
#[derive(Clone, Debug)]
pub(crate) enum JsonOutput {
    /// A descriptor that this process was started with.
    Fd(RawFd),
    /// A file, which is made or replaced.
    File(PathBuf),
}

/// How much there will be, as the user knows it.
#[derive(Clone, Debug)]
pub(crate) enum Size {
    /// So many bytes or lines.
    Of(u64),
    /// As much as there is in a file or under a directory.
    As(PathBuf),
}

/// What becomes of what cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skip {
    /// It ends the input.
    Never,
    /// Zeros take its place, and every stretch is told.
    AndTellAll(Option<NonZeroU64>),
    /// Zeros take its place, and the first stretch of a file is told.
    AndTellOnce(Option<NonZeroU64>),
}

/// Where everything waits until the last byte has come.
#[derive(Clone, Debug)]
pub(crate) enum Spool {
    /// In a file that stays.
    File(PathBuf),
    /// In a file that has no name.
    Nameless,
}

/// A command that is run on the way.
#[derive(Clone, Debug)]
pub(crate) struct Hook {
    pub(crate) command: OsString,
    pub(crate) every: f64,
}

impl Settings {
    /// Whether anybody may want to know before the end how far it has come.
    pub(crate) fn is_watched(&self) -> bool {
        self.form != Form::Quiet || self.json.is_some() || self.hook.is_some() || self.stats
    }

    /// Every format that something is shown by.
    pub(crate) fn formats(&self) -> impl Iterator<Item = &Format> {
        let extra = self.extra.as_ref().and_then(|extra| extra.format.as_ref());
        [&self.format].into_iter().chain(extra)
    }

    /// Reads the values of a command line.
    ///
    /// # Errors
    ///
    /// What is wrong with one, in the words of GNU's tools.
    #[allow(
        clippy::too_many_lines,
        reason = "one value after the other, and none needs another"
    )]
    pub(crate) fn of(args: &Args, matches: &ArgMatches) -> Result<Self, String> {
        let si = |option: &str| args.si && stands_before(matches, "si", option);
        let size_of = |what, id, given: &Option<OsString>| {
            let parse = |text: &str| parse_size(text, si(id)).ok();
            read(what, given.as_deref(), parse)
        };

        let json = args.json.as_deref().map(json_output).transpose()?.flatten();
        let output = match &args.output {
            _ if args.discard => Output::Nowhere,
            Some(path) if path != "-" => Output::File(path.into()),
            _ => Output::Stdout,
        };
        if let (Some(JsonOutput::Fd(1)), Output::Stdout) = (&json, &output) {
            let message = value::invalid("descriptor", "1".as_ref());
            return Err(format!("{message}: the bytes go there"));
        }
        let form = if args.quiet {
            Form::Quiet
        } else if args.json.is_some() && json.is_none() {
            Form::Json
        } else if args.numeric {
            Form::Numeric
        } else {
            Form::Line
        };
        let sides = args.monitor.as_deref().map(sides).transpose()?;
        let shown = shown(args, form)?;
        let of_written = |written: Option<&OsString>, shown: &Shown| {
            let written = written.map(|format| format.to_string_lossy());
            format(form, shown, written.as_deref())
        };
        let output_shown = Shown {
            ratio: sides == Some(Sides::Both),
            ..shown.clone()
        };
        let format = of_written(args.format.last(), &output_shown);
        let name_of = |name: &OsString| name.to_string_lossy().into_owned();
        let monitor = match sides {
            Some(_) if args.files.is_empty() => {
                return Err("-M: a command to run must be specified".to_owned());
            }
            Some(sides) => Some(Monitor {
                sides,
                command: args.files.clone(),
                input: (
                    of_written(args.format.first(), &shown),
                    args.name.first().map(name_of),
                ),
            }),
            None => None,
        };
        let extra = match &args.extra_display {
            Some(spec) => {
                let spec = spec.to_string_lossy();
                let extra = Extra::parse(&spec);
                Some(extra.ok_or_else(|| value::invalid("extra display", spec.as_ref().as_ref()))?)
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
        let buffer_size = size_of("buffer size", "buffer_size", &args.buffer_size)?;
        let block = size_of("block size", "error_skip_block", &args.error_skip_block)?;
        let block = block.and_then(NonZeroU64::new);
        let shows_bytes = format.needs_bytes() || extra.as_ref().is_some_and(Extra::needs_bytes);
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
            interval: seconds("interval", args.interval.as_deref())?.map_or(
                Duration::from_secs(1),
                |seconds| {
                    Duration::from_secs_f64(seconds.clamp(*INTERVALS.start(), *INTERVALS.end()))
                },
            ),
            window: Duration::from_secs(
                number(
                    "number of seconds",
                    args.average_rate_window.as_deref(),
                    u32::MAX,
                )?
                .map_or(30, |s| s.max(1))
                .into(),
            ),
            delay: seconds("delay", args.delay_start.as_deref())?
                .map_or(Duration::ZERO, |seconds| {
                    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
                }),
            waits: args.wait,
            columns: number("number of columns", args.width.as_deref(), u16::MAX)?
                .filter(|columns| *columns > 0),
            rows: number("number of rows", args.height.as_deref(), u16::MAX)?
                .filter(|rows| *rows > 0),
            stats: args.stats,
            force: args.force,
            own_row: args.cursor,
            per_file: args.per_file,
            hook: match &args.on_progress {
                Some(command) => Some(Hook {
                    command: command.clone(),
                    every: every(args.every.as_deref())?,
                }),
                None => None,
            },
            rate_limit: read("rate", args.rate_limit.as_deref(), |text| {
                parse_rate(text, si("rate_limit")).ok()
            })?
            .and_then(NonZeroU64::new),
            buffer_size: buffer_size.and_then(in_memory),
            pipe_size: size_of("pipe size", "pipe_buffer_size", &args.pipe_buffer_size)?
                .and_then(in_memory),
            reads_and_writes: args.no_splice || buffer_size.is_some() || shows_bytes,
            skip: match args.skip_errors {
                0 => Skip::Never,
                1 => Skip::AndTellAll(block),
                _ => Skip::AndTellOnce(block),
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
/// What is wrong with the value of one.
pub(super) fn shown(args: &Args, form: Form) -> Result<Shown, String> {
    let shown = Shown {
        progress: args.progress,
        timer: args.timer,
        eta: args.eta,
        finish: args.fineta,
        rate: args.rate,
        average: args.average_rate,
        bytes: args.bytes || args.bits,
        buffer: args.buffer_percent,
        tail: number("number of bytes", args.last_written.as_deref(), usize::MAX)?,
        name: !args.name.is_empty(),
        tab: args.conemu,
        ratio: false,
    };
    // A name and a tab come on top of what is shown.
    Ok(match (shown.is_nothing(), form) {
        (true, Form::Line) => Shown {
            name: shown.name,
            tab: shown.tab,
            ..Shown::by_default()
        },
        _ => shown,
    })
}

/// Returns the format that the display switches and a format string ask for.
pub(super) fn format(form: Form, shown: &Shown, written: Option<&str>) -> Format {
    match (written, form) {
        (Some(format), Form::Numeric) => Format::parse(format).in_numbers(),
        (Some(format), _) => Format::parse(format),
        (None, Form::Numeric) => Format::numeric(shown),
        (None, _) => Format::of(shown),
    }
}

/// What one value says, or what is wrong with it.
fn read<T>(
    what: &str,
    given: Option<&OsStr>,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, String> {
    let Some(given) = given else {
        return Ok(None);
    };
    match parse(&given.to_string_lossy()) {
        Some(value) => Ok(Some(value)),
        None => Err(value::invalid(what, given)),
    }
}

/// A whole number, `most` at most: a larger one is as good.
pub(super) fn number<T: FromStr + Copy>(
    what: &str,
    given: Option<&OsStr>,
    most: T,
) -> Result<Option<T>, String> {
    let parse = |text: &str| {
        let digits = text.trim_start_matches([' ', '\t']);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        // What are digits alone, and no number, are too many.
        is_number.then(|| digits.parse().unwrap_or(most))
    };
    read(what, given, parse)
}

fn seconds(what: &str, given: Option<&OsStr>) -> Result<Option<f64>, String> {
    let parse = |text: &str| {
        let seconds = text.replace(',', ".").parse::<f64>().ok()?;
        (seconds.is_finite() && seconds >= 0.0).then_some(seconds)
    };
    read(what, given, parse)
}

fn size(given: &OsStr, si: bool) -> Result<Size, String> {
    use std::os::unix::ffi::OsStrExt as _;
    if let Some(path) = given.as_bytes().strip_prefix(b"@") {
        return Ok(Size::As(OsStr::from_bytes(path).into()));
    }
    let parse = |text: &str| parse_size(text, si).ok();
    let size = read("size", Some(given), parse)?;
    Ok(Size::Of(size.unwrap_or_default()))
}

fn sides(given: &OsStr) -> Result<Sides, String> {
    match given.as_encoded_bytes() {
        b"in" | b"0" => Ok(Sides::Input),
        b"out" | b"1" => Ok(Sides::Output),
        b"both" | b"2" => Ok(Sides::Both),
        _ => Err(value::invalid("side", given)),
    }
}

fn style(given: Option<&OsStr>) -> Result<BarStyle, String> {
    let style = read("bar style", given, BarStyle::named)?;
    Ok(style.unwrap_or_default())
}

fn every(given: Option<&OsStr>) -> Result<f64, String> {
    let parse = |text: &str| {
        let percent = text.trim_end_matches('%').parse::<f64>().ok()?;
        (percent > 0.0 && percent <= 100.0).then_some(percent)
    };
    Ok(read("percentage", given, parse)?.unwrap_or(10.0))
}

/// Where objects go; nothing if that is standard error, where messages go too.
fn json_output(given: &OsStr) -> Result<Option<JsonOutput>, String> {
    use std::os::unix::ffi::OsStrExt as _;
    let bytes = given.as_bytes();
    if bytes.is_empty() {
        return Err(value::invalid("file or descriptor", given));
    }
    if !bytes.iter().all(u8::is_ascii_digit) {
        return Ok(Some(JsonOutput::File(given.into())));
    }
    let fd = read("descriptor", Some(given), |text| text.parse().ok())?;
    Ok(fd.filter(|fd| *fd != 2).map(JsonOutput::Fd))
}

/// A size in memory, unless it is none.
fn in_memory(size: u64) -> Option<usize> {
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    (size > 0).then_some(size)
}

/// Whether one option was written before another: prefixes are taken as the options before them say.
fn stands_before(matches: &ArgMatches, first: &str, second: &str) -> bool {
    let place = |id| match matches.value_source(id) {
        Some(ValueSource::CommandLine) => matches.index_of(id),
        _ => None,
    };
    match (place(first), place(second)) {
        (Some(first), Some(second)) => first < second,
        _ => false,
    }
}
