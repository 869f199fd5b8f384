//! The definition of the command line of `zc-pv`.

use std::ffi::OsString;

use clap::{ArgAction, ValueHint};

use crate::common::cli::args::Tool;
use crate::common::cli::keyword::suggest;

use crate::common::cli::keyword;
use crate::pv::transfer::digest::Algorithm;

mod help;

/// The command line of `zc-pv`.
///
/// The values are unparsed. `Settings` holds the parsed ones.
#[derive(Debug, clap::Parser)]
#[command(
    name = "zc-pv",
    version,
    about = "Concatenate files to standard output, by the best route the kernel offers, and show how far it has come.\n\n\
             Without FILE, or when FILE is -, read standard input.",
    after_help = help::SEQUENCES,
    override_usage = "zc-pv [OPTION]... [FILE]...\n       zc-pv [OPTION]... -d PID[:FD]|PATH...\n       zc-pv -R PID [OPTION]...\n       zc-pv -Q PID [OPTION]...\n       zc-pv [OPTION]... -M in|out|both -- COMMAND [ARGUMENT]..."
)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "every one is a switch of the command line"
)]
pub struct Args {
    /// Files to concatenate
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<OsString>,

    /// Show a bar
    #[arg(short = 'p', long, help_heading = "Show")]
    pub(crate) progress: bool,

    /// Show the time elapsed
    #[arg(short = 't', long, help_heading = "Show")]
    pub(crate) timer: bool,

    /// Show the time that is left
    #[arg(short = 'e', long, help_heading = "Show")]
    pub(crate) eta: bool,

    /// Show the time of day at which it will be finished
    #[arg(short = 'I', long, help_heading = "Show")]
    pub(crate) fineta: bool,

    /// Show the present rate
    #[arg(short = 'r', long, help_heading = "Show")]
    pub(crate) rate: bool,

    /// Show the average rate
    #[arg(short = 'a', long, help_heading = "Show")]
    pub(crate) average_rate: bool,

    /// Show the bytes that have arrived
    #[arg(short = 'b', long, help_heading = "Show")]
    pub(crate) bytes: bool,

    /// Show how full the pipe is that the bytes go to
    #[arg(short = 'T', long, help_heading = "Show")]
    pub(crate) buffer_percent: bool,

    /// Show the last N bytes that were written
    #[arg(
        short = 'A',
        long,
        value_name = "N",
        help_heading = "Show",
        allow_hyphen_values = true
    )]
    pub(crate) last_written: Option<OsString>,

    /// Show the sequences of FORMAT, which are listed below; with -M both, the first FORMAT is for
    /// the input and the second one for the output
    #[arg(
        short = 'F',
        long,
        value_name = "FORMAT",
        help_heading = "Show",
        allow_hyphen_values = true
    )]
    pub(crate) format: Vec<OsString>,

    /// Print percentages, a line each, whatever standard error is
    #[arg(short = 'n', long, help_heading = "Show")]
    pub(crate) numeric: bool,

    /// Print objects in JSON, a line each, to standard error, in place of the display; or to the
    /// descriptor FD or to FILE, beside the display; also with -q. An FD of the same file as
    /// standard error means standard error, and so does the path of its pipe or terminal; the path of
    /// its regular file is refused. The last object has a state: done, failed (with the error) or
    /// interrupted
    #[arg(
        value_hint = ValueHint::FilePath,
        long,
        value_name = "FD|FILE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2",
        help_heading = "Show"
    )]
    pub(crate) json: Option<OsString>,

    /// Show nothing
    #[arg(short = 'q', long, help_heading = "Show")]
    pub(crate) quiet: bool,

    /// Count in bits
    #[arg(short = '8', long, help_heading = "How")]
    pub(crate) bits: bool,

    /// Use powers of 1000 for prefixes: in the display, and in values of options behind this one
    #[arg(short = 'k', long, help_heading = "How")]
    pub(crate) si: bool,

    /// Show nothing before the first byte
    #[arg(short = 'W', long, help_heading = "How")]
    pub(crate) wait: bool,

    /// Show nothing in the first SEC seconds
    #[arg(
        short = 'D',
        long,
        value_name = "SEC",
        help_heading = "How",
        allow_hyphen_values = true
    )]
    pub(crate) delay_start: Option<OsString>,

    /// Expect SIZE bytes in all (lines with -l), which the percentage and the time left refer to.
    /// @NAME stands for the size of that file or directory
    #[arg(
        short = 's',
        long,
        value_name = "SIZE",
        help_heading = "How",
        allow_hyphen_values = true
    )]
    pub(crate) size: Option<OsString>,

    /// Show the rate in the bar if the size is not known
    #[arg(short = 'g', long, help_heading = "How")]
    pub(crate) gauge: bool,

    /// Count lines
    #[arg(short = 'l', long, help_heading = "How")]
    pub(crate) line_mode: bool,

    /// Count lines that end in NUL
    #[arg(short = '0', long, help_heading = "How")]
    pub(crate) null: bool,

    /// Redraw every SEC seconds [default: 1]
    #[arg(
        short = 'i',
        long,
        value_name = "SEC",
        help_heading = "How",
        allow_hyphen_values = true
    )]
    pub(crate) interval: Option<OsString>,

    /// Average over the last SEC seconds [default: 30]
    #[arg(
        short = 'm',
        long,
        value_name = "SEC",
        help_heading = "How",
        allow_hyphen_values = true
    )]
    pub(crate) average_rate_window: Option<OsString>,

    /// Assume that the terminal has COLUMNS columns
    #[arg(
        short = 'w',
        long,
        value_name = "COLUMNS",
        help_heading = "How",
        allow_hyphen_values = true
    )]
    pub(crate) width: Option<OsString>,

    /// Assume that the terminal has ROWS rows
    #[arg(
        short = 'H',
        long,
        value_name = "ROWS",
        help_heading = "How",
        allow_hyphen_values = true
    )]
    pub(crate) height: Option<OsString>,

    /// Put NAME in front of the line; with -M both, the first NAME is for the input and the second
    /// one for the output
    #[arg(
        short = 'N',
        long,
        value_name = "NAME",
        help_heading = "How",
        allow_hyphen_values = true
    )]
    pub(crate) name: Vec<OsString>,

    /// Draw bars as plain, block, granular or shaded. Bars are plain if the locale is not UTF-8
    #[arg(
        short = 'u',
        long,
        value_name = "STYLE",
        value_parser = suggest(&["plain", "block", "granular", "shaded"]),
        hide_possible_values = true,
        help_heading = "How",
        allow_hyphen_values = true
    )]
    pub(crate) bar_style: Option<OsString>,

    // As an attribute, because rustdoc takes brackets for a link.
    #[arg(
        short = 'x',
        long,
        alias = "ex", // beside --explain
        help = "Show the line also as the title of the window or of the process: window,process[:FORMAT]",
        value_name = "SPEC",
        value_parser = suggest(&["window", "process", "window,process"]),
        hide_possible_values = true,
        help_heading = "How",
        allow_hyphen_values = true
    )]
    pub(crate) extra_display: Option<OsString>,

    /// Show the percentage also in the terminal's tab, if it can do that (OSC 9;4)
    #[arg(short = '9', long, help_heading = "How")]
    pub(crate) conemu: bool,

    /// Print the rates' least, mean, greatest and deviation at the end
    // `--sta` beside --stable.
    #[arg(short = 'v', long, alias = "sta", help_heading = "How")]
    pub(crate) stats: bool,

    /// Draw even if standard error is no terminal, in the background, and while the terminal does
    /// not echo
    #[arg(short = 'f', long, help_heading = "How")]
    pub(crate) force: bool,

    /// Show each zc-pv of a pipeline on a row of its own, by moving the cursor of the terminal
    #[arg(short = 'c', long, help_heading = "How")]
    pub(crate) cursor: bool,

    /// Leave a line for each file, besides the one for all
    #[arg(long, help_heading = "How")]
    pub(crate) per_file: bool,

    // As an attribute, because clippy wants backquotes around the variables, which help would show.
    #[arg(
        long,
        help = "Run COMMAND by sh at every step of --every, and once if the transfer fails. Its environment has ZC_PV_STATE (running, done, failed or interrupted), ZC_PV_PERCENT, ZC_PV_MOVED, ZC_PV_TOTAL and ZC_PV_SECONDS. Steps that pass while COMMAND runs are reported by one more run",
        value_name = "COMMAND",
        value_hint = ValueHint::CommandString,
        help_heading = "How",
        allow_hyphen_values = true
    )]
    pub(crate) on_progress: Option<OsString>,

    /// Run that command at every PERCENT per cent, whatever -i says [default: 10]
    #[arg(
        long,
        value_name = "PERCENT",
        help_heading = "How",
        allow_hyphen_values = true
    )]
    pub(crate) every: Option<OsString>,

    /// Write to FILE instead of standard output
    #[arg(
        short = 'o',
        long,
        alias = "o", // beside --on-progress
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        help_heading = "Transfer",
        allow_hyphen_values = true
    )]
    pub(crate) output: Option<OsString>,

    /// Move at most RATE bytes, or lines, a second
    #[arg(
        short = 'L',
        long,
        value_name = "RATE",
        help_heading = "Transfer",
        allow_hyphen_values = true
    )]
    pub(crate) rate_limit: Option<OsString>,

    /// Read and write through a buffer of BYTES bytes
    #[arg(
        short = 'B',
        long,
        value_name = "BYTES",
        help_heading = "Transfer",
        allow_hyphen_values = true
    )]
    pub(crate) buffer_size: Option<OsString>,

    /// Read and write, rather than splice or share
    #[arg(short = 'C', long, help_heading = "Transfer")]
    pub(crate) no_splice: bool,

    /// Enlarge the pipes to BYTES bytes
    #[arg(
        short = 'J',
        long,
        value_name = "BYTES",
        help_heading = "Transfer",
        allow_hyphen_values = true
    )]
    pub(crate) pipe_buffer_size: Option<OsString>,

    /// Write zeros for what cannot be read of a file or disk, and go on; twice: say so once a file
    #[arg(short = 'E', long, action = ArgAction::Count, help_heading = "Transfer")]
    pub(crate) skip_errors: u8,

    /// With -E, write zeros up to the next multiple of BYTES, instead of trying every block behind
    /// the error
    #[arg(
        short = 'Z',
        long,
        value_name = "BYTES",
        help_heading = "Transfer",
        allow_hyphen_values = true
    )]
    pub(crate) error_skip_block: Option<OsString>,

    /// Stop when as much has been moved as --size says
    #[arg(short = 'S', long, help_heading = "Transfer")]
    pub(crate) stop_at_size: bool,

    /// Flush the data to the disk after each write (fdatasync)
    #[arg(short = 'Y', long, help_heading = "Transfer")]
    pub(crate) sync: bool,

    // As an attribute, because clippy wants backquotes around O_DIRECT, which help would show.
    #[arg(
        short = 'K',
        long,
        help = "Bypass the page cache (O_DIRECT)",
        help_heading = "Transfer"
    )]
    pub(crate) direct_io: bool,

    /// Make holes of zeros
    // pv 1.12's second name.
    #[arg(short = 'O', long, alias = "sparse-output", help_heading = "Transfer")]
    pub(crate) sparse: bool,

    /// Throw the bytes away
    #[arg(short = 'X', long, help_heading = "Transfer")]
    pub(crate) discard: bool,

    /// Store all input in FILE first, and then copy FILE to the output. If FILE is -, store it in a
    /// temporary file, which is removed at the end
    #[arg(
        short = 'U',
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        help_heading = "Transfer",
        allow_hyphen_values = true
    )]
    pub(crate) store_and_forward: Option<OsString>,

    /// Copy instead of sharing a file's pages, so that later writes cannot change data already sent
    #[arg(long, help_heading = "Transfer")]
    pub(crate) stable: bool,

    /// Print the digest of all bytes to standard error at the end, as a line for sha256sum -c or
    /// b3sum -c that names the file of -o, or else FILE, or - if it is of neither alone; with
    /// --json to standard error, only the last object has it. ALGORITHM is sha256 or blake3
    #[arg(
        long,
        value_name = "ALGORITHM",
        help_heading = "Transfer",
        hide_possible_values = true,
        value_parser = keyword::parser::<Algorithm>()
    )]
    pub(crate) hash: Option<Algorithm>,

    /// Watch the files that another process has open: PID, PID:FD, =NAME, or @ and a file with a
    /// list of these. A value with a slash is the path of a file that grows: it is watched until it
    /// has the size that -s gives, or until its last writer has closed it. -s is the size of each
    /// file that is named by PID:FD or by its path. -d refuses -c and the options that choose,
    /// count, limit or check the bytes of a transfer, and ignores -x, -W, -v and the other options
    /// of the transfer
    #[arg(
        short = 'd',
        long,
        value_name = "PID[:FD]|PATH",
        value_hint = ValueHint::FilePath,
        help_heading = "Modes",
        allow_hyphen_values = true
    )]
    pub(crate) watchfd: Vec<OsString>,

    /// Change the display, the rate limit or the size of the running zc-pv PID
    #[arg(
        short = 'R',
        long,
        value_name = "PID",
        help_heading = "Modes",
        allow_hyphen_values = true
    )]
    pub(crate) remote: Option<OsString>,

    /// Show the progress of the running zc-pv PID
    #[arg(
        short = 'Q',
        long,
        value_name = "PID",
        help_heading = "Modes",
        allow_hyphen_values = true
    )]
    pub(crate) query: Option<OsString>,

    /// Run the command that the operands name, and show its input (in, 0), its output (out, 1) or
    /// both (both, 2). Write -- before the command, so that its options are left to it. -o and -X
    /// say where its output goes. Refuses -U and --per-file, and with both also --hash and
    /// --on-progress
    #[arg(
        short = 'M',
        long,
        value_name = "in|out|both",
        value_parser = suggest(&["in", "out", "both"]),
        hide_possible_values = true,
        help_heading = "Modes",
        allow_hyphen_values = true
    )]
    pub(crate) monitor: Option<OsString>,

    /// Write the process ID to FILE, and remove FILE at the end if it still holds that
    #[arg(
        short = 'P',
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        help_heading = "Modes",
        allow_hyphen_values = true
    )]
    pub(crate) pidfile: Option<OsString>,

    /// Print to standard error by which system calls the bytes are going to be moved, and why; and
    /// at the end how they were moved
    #[arg(long)]
    pub(crate) explain: bool,

    /// Print this help, and exit
    #[arg(short = 'h', long, action = ArgAction::HelpShort)]
    help: Option<bool>,

    /// Print the version, and exit
    #[arg(short = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,
}

impl Tool for Args {
    const MANUAL: &str = include_str!("manual.man");
}
