//! Runs a real program while the kernel moves less than the program asks for.
//!
//! A tracer lowers the count of one chosen system call at its entry, and puts the register back at
//! its exit. So the running kernel makes a short transfer, and the program sees a short count that
//! is true: the bytes that were not moved are still where they were.
//!
//! The tools make their system calls themselves, without libc (rustix' `linux_raw` backend). A
//! library in `LD_PRELOAD` would not see these calls. So the tracer uses ptrace(2), which sees all
//! of them.
//!
//! A correct program ends with the same status, the same bytes and the same counts as without the
//! tracer.

use crate::sweep::{Options, print_names};
use crate::tracer::{Amount, Call, Extent, Intervention, Shortening, TracedCommand};

mod sweep;

/// Arguments for a sweep of scenarios, or for one run of one command.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    options: Options,

    /// Lower the count of this system call [default: each in turn; of a command none, which only
    /// reports the calls].
    #[arg(long, value_enum)]
    call: Option<Call>,

    /// Lower the count of the Nth such call of all processes together.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "call")]
    when: u32,

    /// Lower the count to this: `one`, `half`, `all-but-one`, or a number of bytes.
    #[arg(long, default_value_t = Amount::One, requires = "call")]
    amount: Amount,

    /// Lower the counts of the calls that follow, too.
    #[arg(long, requires = "call")]
    on: bool,

    #[command(flatten)]
    command: TracedCommand,
}

/// Sweeps scenarios, or runs one command.
///
/// # Errors
///
/// A command cannot be run or traced, it hangs, or the sweep finds something.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let only = args.call.map(|call| Shortening {
        call,
        first: args.when,
        extent: if args.on {
            Extent::FromThen
        } else {
            Extent::Once
        },
        amount: args.amount,
    });
    if args.command.is_given() {
        return args.command.run(only.map(Intervention::Shorten));
    }
    let scenarios = args.options.scenarios(|_| true);
    if args.options.list {
        print_names(&scenarios);
        return Ok(());
    }
    sweep::sweep(&args.options, &scenarios, only)
}
