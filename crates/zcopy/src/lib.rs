//! Moves bytes between any two file descriptors by the best route the Linux kernel offers, says
//! which route it took and why, and loses nothing when something fails.
//!
//! # One line
//!
//! [`copy`] moves everything from one descriptor to another. Files, pipes, sockets, devices:
//! anything that has a descriptor will do.
//!
//! ```
//! # use std::io::Write;
//! # let (source, mut writer) = std::io::pipe()?;
//! # writer.write_all(b"hello")?;
//! # drop(writer);
//! # let sink = std::fs::File::create("/dev/null")?;
//! let bytes = zcopy::copy(&source, &sink)?;
//! assert_eq!(bytes, 5);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # What happened
//!
//! [`Transfer`] is the same with options, and its [`Report`] tells what was done.
//!
//! ```
//! # use zcopy::{Ended, Transfer};
//! # let source = std::fs::File::open("/dev/zero")?;
//! # let sink = std::fs::File::create("/dev/null")?;
//! let report = Transfer::new(&source, &sink).limit(64 << 20).run()?;
//! assert_eq!(report.bytes(), 64 << 20);
//! assert_eq!(report.ended(), Ended::Limit);
//! println!("{report}");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # What would happen
//!
//! The route is chosen from what the descriptors are. [`Transfer::plan`] says which, and why, and
//! touches nothing: every [`Strategy`] has its line, chosen, held in reserve, or skipped.
//!
//! ```
//! # use zcopy::{Strategy, Transfer};
//! # let (source, _writer) = std::io::pipe()?;
//! # let sink = std::fs::File::create("/dev/null")?;
//! let plan = Transfer::new(&source, &sink).plan()?;
//! assert_eq!(plan.strategy(), Strategy::SplicePipe);
//! println!("{plan}");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Watching it
//!
//! An observer is called after every step and, with a [`tick`](Transfer::tick), also while nothing
//! moves. It can stop the transfer.
//!
//! ```
//! # use std::ops::ControlFlow;
//! # use std::time::Duration;
//! # use zcopy::Transfer;
//! # let source = std::fs::File::open("/dev/zero")?;
//! # let sink = std::fs::File::create("/dev/null")?;
//! let report = Transfer::new(&source, &sink)
//!     .tick(Duration::from_millis(100))
//!     .observe(|progress| {
//!         eprint!("\r{} bytes", progress.bytes());
//!         if progress.bytes() < 10 << 20 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
//!     })
//!     .run()?;
//! assert!(report.bytes() >= 10 << 20);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # The same for ever
//!
//! [`Repeat`] has no source: it gives a sink one pattern over and over, at the speed at which pages
//! can be shared.
//!
//! ```
//! # use zcopy::Repeat;
//! let (reader, writer) = std::io::pipe()?;
//! let report = Repeat::new("y\n").limit(10).run(&writer)?;
//! drop(writer);
//! assert_eq!(std::io::read_to_string(reader)?, "y\ny\ny\ny\ny\n");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Other bytes
//!
//! [`FilterTransfer`] gives a sink what a [`Filter`] makes of the bytes of one source after the other, in the same memory however
//! long they are. A filter takes what it can of what it is shown, and what it leaves is shown again when more has come.
//!
//! ```
//! # use std::io::Write;
//! use zcopy::{Input, FilterTransfer, Filtered};
//! # let (source, mut writer) = std::io::pipe()?;
//! # writer.write_all(b"one\ntwo\n")?;
//! # drop(writer);
//! let (reader, sink) = std::io::pipe()?;
//!
//! let on_one_line = |input: Input<'_>, room: &mut [u8]| {
//!     let n = input.bytes.len().min(room.len());
//!     for (produced, byte) in room.iter_mut().zip(input.bytes) {
//!         *produced = if *byte == b'\n' { b' ' } else { *byte };
//!     }
//!     Filtered { consumed: n, produced: n }
//! };
//! let mut filter = FilterTransfer::new(&sink, on_one_line);
//! let report = filter.run(&source)?;
//! assert_eq!(report.bytes(), 8);
//! filter.finish()?;
//! # drop(sink);
//! assert_eq!(std::io::read_to_string(reader)?, "one two ");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Several sinks
//!
//! [`Transfer::also_to`] adds a sink for the same bytes. Pipes share the same pages, by `tee(2)`; what
//! becomes of the transfer when one sink fails is the caller's [decision](OnSinkError).
//!
//! ```
//! # use std::io::Write;
//! # use zcopy::{OnSinkError, Transfer};
//! let (source, mut writer) = std::io::pipe()?;
//! writer.write_all(b"hello")?;
//! drop(writer);
//! let (reader, sink) = std::io::pipe()?;
//! let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
//!
//! let report = Transfer::new(&source, &sink)
//!     .also_to(&full)
//!     .on_sink_error(OnSinkError::Detach)
//!     .run()?;
//! assert_eq!(report.bytes(), 5);
//! assert!(report.sinks()[1].error().is_some(), "the disk was full, and the pipe got everything");
//! # drop(sink);
//! # assert_eq!(std::io::read_to_string(reader)?, "hello");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # When something fails
//!
//! An [`Error`] says which call failed, on which side, and how many bytes the sink had accepted.
//! Bytes that had been taken from the source by then are not lost: a file is rewound over them, and
//! what came from a pipe or socket is [handed back](Error::undelivered).
//!
//! ```
//! # use std::io::Write;
//! # use zcopy::Side;
//! let (source, mut writer) = std::io::pipe()?;
//! writer.write_all(b"hello")?;
//! let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
//!
//! let error = zcopy::copy(&source, &full).unwrap_err();
//! assert_eq!((error.side(), error.bytes()), (Side::Sink, 0));
//! assert_eq!(error.undelivered(), b"hello");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! A disk that cannot be read everywhere need not be the end either: with
//! [`skip_errors`](Transfer::skip_errors) its bad blocks become zeros.
//!
//! # Messages
//!
//! A datagram or seqpacket socket is read and written message by message. An empty datagram ends
//! the transfer, as a read of 0 bytes does anywhere else. A [limit](Transfer::limit) cuts no message.
//!
//! # Page sharing
//!
//! From a file into a pipe or socket the kernel passes the page cache's own pages. It is what makes
//! this fast, and it means that **a later write to the file can change bytes that were already
//! moved and not yet read**. A pipe or socket as the source may hold pages of a file that somebody
//! spliced or sent there, and they are passed on to another pipe or socket in the same way. Where
//! that matters, ask for [`stable(true)`](Transfer::stable). Plan and report say whether pages are
//! shared. What an offload saves is the copy through user space;
//! the kernel may still copy on its own account.
//!
//! # Signals
//!
//! `SIGPIPE` and `SIGXFSZ` are the process's own affair: see [`Transfer`].
//!
//! # Promises
//!
//! 1. The bytes reported are the bytes the sink accepted, whatever happened.
//! 2. The strategy changes the speed, nothing else.
//! 3. Falling back is invisible and exact.
//! 4. Nothing surprising happens to the caller's descriptors.
//! 5. Blocking and non-blocking descriptors both work.
//! 6. No single call takes long, so that watching and stopping are prompt.
//! 7. It is never slower than read and write, beyond noise.
//! 8. Page sharing is never silent.
//! 9. It is not alone: what others do with the same files, pipes and sockets meanwhile is kept.

/// Chooses between items, as the crate `cfg-if` does. The name matters: rustfmt looks for modules in macros that bear it.
macro_rules! cfg_if {
    (if #[cfg($condition:meta)] { $($item:item)* } else { $($other:item)* }) => {
        $(#[cfg($condition)] $item)*
        $(#[cfg(not($condition))] $other)*
    };
}

cfg_if! {
    if #[cfg(any(target_os = "linux", target_os = "android"))] {
        mod filter_transfer;
        mod repeat;
        mod transfer;

        mod drive;

        mod engine;
        mod fast_path;

        mod classify;
        mod context;
        mod filter;
        mod plan;
        mod preflight;

        mod error;
        mod options;
        mod progress;
        mod report;

        mod step;

        mod wait;

        mod bad_blocks;
        mod drop_window;
        mod pacer;
        mod rate;
        mod records;
        mod copy_state;
        mod sparse;

        mod buffer;
        mod reopened;
        mod endpoint;
        mod fd_info;
        mod call_error;
        mod pipe;
        mod strategy;
        mod side;
        mod sys;

        #[cfg(test)]
        mod sim;

        pub use repeat::Repeat;
        pub use filter::{Input, Remaining, Filter, Filtered};
        pub use filter_transfer::FilterTransfer;
        pub use transfer::{Series, Transfer, copy};

        pub use options::{Cache, OnSinkError, Reflink, SkipErrors, Sparse, SyncData};
        pub use rate::RateLimiter;
        pub use plan::{Candidate, Plan, Verdict};
        pub use progress::Progress;
        pub use report::{Attempt, Ended, Report, SinkReport, BadRange};
        pub use strategy::Strategy;

        pub use error::{Error, Result};
        pub use side::Side;
    } else {
        compile_error!("zcopy needs Linux or Android: no other kernel has the system calls that it makes");
    }
}

/// The README's own example, so that it works when it is pasted.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
