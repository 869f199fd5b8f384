//! The command line of `zc-pv`, as it is written.

use std::ffi::OsString;

use clap::{ArgAction, ValueHint};

use crate::args::Tool;
use crate::choice::suggest;

use super::digest::Algorithm;
use crate::choice;

/// What help says besides the options: formats, and how it ends.
const SEQUENCES: &str = "\
Sequences of FORMAT, of which those with a * may have a width in front: %20p,
%40{previous-line}
  %p %{progress} *             a bar, and the percentage or what the gauge shows
  %{progress-bar-only} *       the bar alone
  %{bar-plain} %{bar-block} *  the bar alone, in a style of its own
  %{bar-granular} *
  %{bar-shaded} *
  %{progress-amount-only}      the percentage alone
  %{progress-conemu}           the percentage for the terminal's tab (OSC 9;4)
  %t %{timer}                  the time elapsed
  %e %{eta}                    the time that is left
  %I %{fineta}                 the time of day at which it will be finished
  %r %{rate}                   the present rate
  %a %{average-rate}           the average rate
  %b %{bytes} %{transferred}   the bytes, or lines, that have arrived
  %{ratio}                     how much the other side has moved for each byte,
                               with -M both, or -:- where there is none
  %T %{buffer-percent}         how full the pipe is that the bytes go to
  %A %{last-written} *         the last bytes that were written, as many as the
                               width says
  %L %{previous-line} *        the line that was written last
  %N %{name}                   the name
  %{sgr:colour,...}            colours and the like: red, bg-blue, bold,
                               underline, reset
  %%                           a per cent sign

Exit status: 0, or the sum of
  2   a file could not be opened      4   an input is the output
  8   something could not be closed   16  something failed while bytes were moved
  32  a signal ended it               64  the command line makes no sense
or 1, if the file of -P could not be written, the process of -R or -Q does not
answer, or the command of -M fails or cannot be run. A reader that leaves ends
it by SIGPIPE.

-R changes what is shown (by -p to -9, -F and -N, which return to their defaults
if they are not given), and -L (0: no limit), -s, -i, -w, -H and -x if they are
given. It ignores all other options. Only the user who runs a zc-pv may change
or query it, and root is no exception.";

/// The command line of `zc-pv`.
///
/// Values stand here as they were written; `Settings` is what they come to.
#[derive(Debug, clap::Parser)]
#[command(
    name = "zc-pv",
    version,
    about = "Concatenate files to standard output, by the best route the kernel offers, and show how far it has come.\n\n\
             Without FILE, or when FILE is -, read standard input.",
    after_help = SEQUENCES,
    override_usage = "zc-pv [OPTION]... [FILE]...\n       zc-pv [OPTION]... -d PID[:FD]|PATH...\n       zc-pv -R PID [OPTION]...\n       zc-pv -Q PID [OPTION]...\n       zc-pv [OPTION]... -M in|out|both -- COMMAND [ARGUMENT]..."
)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "every one is a switch of the command line"
)]
pub struct Args {
    /// Files to concatenate
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) files: Vec<OsString>,

    /// Show a bar
    #[arg(short = 'p', long, help_heading = "Show")]
    pub(super) progress: bool,

    /// Show the time elapsed
    #[arg(short = 't', long, help_heading = "Show")]
    pub(super) timer: bool,

    /// Show the time that is left
    #[arg(short = 'e', long, help_heading = "Show")]
    pub(super) eta: bool,

    /// Show the time of day at which it will be finished
    #[arg(short = 'I', long, help_heading = "Show")]
    pub(super) fineta: bool,

    /// Show the present rate
    #[arg(short = 'r', long, help_heading = "Show")]
    pub(super) rate: bool,

    /// Show the average rate
    #[arg(short = 'a', long, help_heading = "Show")]
    pub(super) average_rate: bool,

    /// Show the bytes that have arrived
    #[arg(short = 'b', long, help_heading = "Show")]
    pub(super) bytes: bool,

    /// Show how full the pipe is that the bytes go to
    #[arg(short = 'T', long, help_heading = "Show")]
    pub(super) buffer_percent: bool,

    /// Show the last N bytes that were written
    #[arg(
        short = 'A',
        long,
        value_name = "N",
        help_heading = "Show",
        allow_hyphen_values = true
    )]
    pub(super) last_written: Option<OsString>,

    /// Show what FORMAT says; with -M both, the first one is for the input and the second one for the output
    #[arg(
        short = 'F',
        long,
        value_name = "FORMAT",
        help_heading = "Show",
        allow_hyphen_values = true
    )]
    pub(super) format: Vec<OsString>,

    /// Print percentages, a line each, whatever standard error is
    #[arg(short = 'n', long, help_heading = "Show")]
    pub(super) numeric: bool,

    /// Print objects in JSON, a line each, to standard error, whatever that is; or to the descriptor FD, or to FILE, besides
    /// what is shown and also with -q. The last one has a state: done, failed (with the error) or interrupted
    #[arg(
        long,
        value_name = "FD|FILE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2",
        help_heading = "Show"
    )]
    pub(super) json: Option<OsString>,

    /// Show nothing
    #[arg(short = 'q', long, help_heading = "Show")]
    pub(super) quiet: bool,

    /// Count in bits
    #[arg(short = '8', long, help_heading = "How")]
    pub(super) bits: bool,

    /// Take and show prefixes as powers of 1000, in the options that follow
    #[arg(short = 'k', long, help_heading = "How")]
    pub(super) si: bool,

    /// Show nothing before the first byte
    #[arg(short = 'W', long, help_heading = "How")]
    pub(super) wait: bool,

    /// Show nothing in the first SEC seconds
    #[arg(
        short = 'D',
        long,
        value_name = "SEC",
        help_heading = "How",
        allow_hyphen_values = true
    )]
    pub(super) delay_start: Option<OsString>,

    /// How many bytes there will be: a number, or @ and the name of a file or directory as large
    #[arg(
        short = 's',
        long,
        value_name = "SIZE",
        help_heading = "How",
        allow_hyphen_values = true
    )]
    pub(super) size: Option<OsString>,

    /// Show the rate in the bar if the size is not known
    #[arg(short = 'g', long, help_heading = "How")]
    pub(super) gauge: bool,

    /// Count lines
    #[arg(short = 'l', long, help_heading = "How")]
    pub(super) line_mode: bool,

    /// Count lines that end in NUL
    #[arg(short = '0', long, help_heading = "How")]
    pub(super) null: bool,

    /// Redraw every SEC seconds [default: 1]
    #[arg(
        short = 'i',
        long,
        value_name = "SEC",
        help_heading = "How",
        allow_hyphen_values = true
    )]
    pub(super) interval: Option<OsString>,

    /// Average over the last SEC seconds [default: 30]
    #[arg(
        short = 'm',
        long,
        value_name = "SEC",
        help_heading = "How",
        allow_hyphen_values = true
    )]
    pub(super) average_rate_window: Option<OsString>,

    /// Take the terminal for so many columns wide
    #[arg(
        short = 'w',
        long,
        value_name = "COLUMNS",
        help_heading = "How",
        allow_hyphen_values = true
    )]
    pub(super) width: Option<OsString>,

    /// Take the terminal for so many rows high
    #[arg(
        short = 'H',
        long,
        value_name = "ROWS",
        help_heading = "How",
        allow_hyphen_values = true
    )]
    pub(super) height: Option<OsString>,

    /// Begin the line with a name; with -M both, the first one is for the input and the second one for the output
    #[arg(
        short = 'N',
        long,
        value_name = "NAME",
        help_heading = "How",
        allow_hyphen_values = true
    )]
    pub(super) name: Vec<OsString>,

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
    pub(super) bar_style: Option<OsString>,

    // As an attribute, because rustdoc takes brackets for a link.
    #[arg(
        short = 'x',
        long,
        help = "Show it also in the window's title or the process's: window,process[:FORMAT]",
        value_name = "SPEC",
        value_parser = suggest(&["window", "process", "window,process"]),
        hide_possible_values = true,
        help_heading = "How",
        allow_hyphen_values = true
    )]
    pub(super) extra_display: Option<OsString>,

    /// Show it also in the tab of terminals that can (OSC 9;4)
    #[arg(short = '9', long, help_heading = "How")]
    pub(super) conemu: bool,

    /// Print the rates' least, mean, greatest and deviation at the end
    #[arg(short = 'v', long, help_heading = "How")]
    pub(super) stats: bool,

    /// Draw even if standard error is no terminal, in the background, and while the terminal does not echo
    #[arg(short = 'f', long, help_heading = "How")]
    pub(super) force: bool,

    /// Give each of several on one terminal a row of its own
    #[arg(short = 'c', long, help_heading = "How")]
    pub(super) cursor: bool,

    /// Leave a line for each file, besides the one for all
    #[arg(long, help_heading = "How")]
    pub(super) per_file: bool,

    // As an attribute, because clippy wants backquotes around the variables, which help would show.
    #[arg(
        long,
        help = "Run COMMAND by sh at every step of --every, and once if the transfer fails. Its environment has ZC_PV_STATE (running, done, failed or interrupted), ZC_PV_PERCENT, ZC_PV_MOVED, ZC_PV_TOTAL and ZC_PV_SECONDS. Steps that pass while it runs are told by one run",
        value_name = "COMMAND",
        value_hint = ValueHint::CommandString,
        help_heading = "How",
        allow_hyphen_values = true
    )]
    pub(super) on_progress: Option<OsString>,

    /// Run that command at every PERCENT per cent, whatever -i says [default: 10]
    #[arg(
        long,
        value_name = "PERCENT",
        help_heading = "How",
        requires = "on_progress"
    )]
    pub(super) every: Option<OsString>,

    /// Write to FILE instead of standard output
    #[arg(
        short = 'o',
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        help_heading = "Transfer",
        allow_hyphen_values = true
    )]
    pub(super) output: Option<OsString>,

    /// Move at most RATE bytes, or lines, a second
    #[arg(
        short = 'L',
        long,
        value_name = "RATE",
        help_heading = "Transfer",
        allow_hyphen_values = true
    )]
    pub(super) rate_limit: Option<OsString>,

    /// Read and write by a buffer of so many bytes
    #[arg(
        short = 'B',
        long,
        value_name = "BYTES",
        help_heading = "Transfer",
        allow_hyphen_values = true
    )]
    pub(super) buffer_size: Option<OsString>,

    /// Read and write, rather than splice or share
    #[arg(short = 'C', long, help_heading = "Transfer")]
    pub(super) no_splice: bool,

    /// Enlarge the pipes to so many bytes
    #[arg(
        short = 'J',
        long,
        value_name = "BYTES",
        help_heading = "Transfer",
        allow_hyphen_values = true
    )]
    pub(super) pipe_buffer_size: Option<OsString>,

    /// Write zeros for what cannot be read, and go on; twice: say so once a file
    #[arg(short = 'E', long, action = ArgAction::Count, help_heading = "Transfer")]
    pub(super) skip_errors: u8,

    /// With -E, go on at the next multiple of so many bytes
    #[arg(
        short = 'Z',
        long,
        value_name = "BYTES",
        help_heading = "Transfer",
        allow_hyphen_values = true
    )]
    pub(super) error_skip_block: Option<OsString>,

    /// Stop when as much has been moved as --size says
    #[arg(short = 'S', long, help_heading = "Transfer")]
    pub(super) stop_at_size: bool,

    /// Have every write on the disk before the next
    #[arg(short = 'Y', long, help_heading = "Transfer")]
    pub(super) sync: bool,

    // As an attribute, because clippy wants backquotes around O_DIRECT, which help would show.
    #[arg(
        short = 'K',
        long,
        help = "Pass the page cache by (O_DIRECT)",
        help_heading = "Transfer"
    )]
    pub(super) direct_io: bool,

    /// Make holes of zeros
    // pv 1.12's second name.
    #[arg(short = 'O', long, alias = "sparse-output", help_heading = "Transfer")]
    pub(super) sparse: bool,

    /// Throw the bytes away
    #[arg(short = 'X', long, help_heading = "Transfer")]
    pub(super) discard: bool,

    /// Write everything to FILE first, and only then on; - is a file that nobody sees
    #[arg(
        short = 'U',
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        help_heading = "Transfer",
        allow_hyphen_values = true
    )]
    pub(super) store_and_forward: Option<OsString>,

    /// Copy instead of sharing a file's pages, so that later writes cannot change data already sent
    #[arg(long, help_heading = "Transfer")]
    pub(super) stable: bool,

    /// Print the digest of all bytes to standard error at the end, as a line for sha256sum -c or b3sum -c that names the file
    /// of -o, or else FILE, or - if it is of neither alone; with --json to standard error, only the last object has it.
    /// ALGORITHM is sha256 or blake3
    #[arg(
        long,
        value_name = "ALGORITHM",
        help_heading = "Transfer",
        hide_possible_values = true,
        value_parser = choice::parser::<Algorithm>()
    )]
    pub(super) hash: Option<Algorithm>,

    /// Watch the files that another process has open: PID, PID:FD, =NAME, or @ and a file with a list of these. A value
    /// with a slash is the path of a file that grows: it is watched until it has the size that -s gives, or until its last
    /// writer has closed it. Refuses -c and the options of the transfer, and ignores -x, -W and -v. -s is the size of each
    /// file that is named by PID:FD or by its path
    #[arg(
        short = 'd',
        long,
        value_name = "PID[:FD]|PATH",
        value_hint = ValueHint::FilePath,
        help_heading = "Modes",
        allow_hyphen_values = true
    )]
    pub(super) watchfd: Vec<OsString>,

    /// Change the display, the rate limit or the size of the running zc-pv PID
    #[arg(
        short = 'R',
        long,
        value_name = "PID",
        help_heading = "Modes",
        allow_hyphen_values = true
    )]
    pub(super) remote: Option<OsString>,

    /// Show the progress of the running zc-pv PID
    #[arg(
        short = 'Q',
        long,
        value_name = "PID",
        help_heading = "Modes",
        allow_hyphen_values = true
    )]
    pub(super) query: Option<OsString>,

    /// Run the command that the operands name, and show its input (in, 0), its output (out, 1) or both (both, 2). Write
    /// -- before the command, so that its options are left to it. -o and -X say where its output goes. Refuses -U and
    /// --per-file, and with both also --hash and --on-progress
    #[arg(
        short = 'M',
        long,
        value_name = "in|out|both",
        value_parser = suggest(&["in", "out", "both"]),
        hide_possible_values = true,
        help_heading = "Modes",
        allow_hyphen_values = true
    )]
    pub(super) monitor: Option<OsString>,

    /// Keep the process's number in FILE
    #[arg(
        short = 'P',
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        help_heading = "Modes",
        allow_hyphen_values = true
    )]
    pub(super) pidfile: Option<OsString>,

    /// Print how each input is going to be moved, and how it was, to standard error
    #[arg(long)]
    pub(super) explain: bool,

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
