//! Moves bytes between any two Linux file descriptors by the fastest system calls that serve the
//! pair, reports which ones it used and why, and loses no bytes when something fails.
//!
//! # Copy everything
//!
//! [`copy`] moves everything from one descriptor to another: files, pipes, sockets and devices.
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
//! # Set options and read the report
//!
//! [`Transfer`] copies with options, and returns a [`Report`] of what it did.
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
//! # See the plan
//!
//! A [`Strategy`] is one way to move bytes, by a few system calls. The transfer chooses it by
//! the types of both descriptors and by the options. [`Transfer::plan`] moves nothing and returns
//! the choice: it lists the strategies as chosen, fallback or skipped, each with its reason.
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
//! # Show progress, and stop
//!
//! The transfer calls an [observer](Transfer::observe) after every step and, with a
//! [`tick`](Transfer::tick), also while it waits. The observer can stop the transfer.
//!
//! ```
//! # use std::ops::ControlFlow;
//! # use std::time::Duration;
//! # use zcopy::{Ended, Transfer};
//! # let source = std::fs::File::open("/dev/zero")?;
//! # let sink = std::fs::File::create("/dev/null")?;
//! let report = Transfer::new(&source, &sink)
//!     .tick(Duration::from_millis(100))
//!     .observe(|progress| {
//!         eprint!("\r{} bytes", progress.bytes());
//!         match progress.bytes() {
//!             0..10_000_000 => ControlFlow::Continue(()),
//!             _ => ControlFlow::Break(()),
//!         }
//!     })
//!     .run()?;
//! assert!(report.bytes() >= 10_000_000);
//! assert_eq!(report.ended(), Ended::Stopped);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! A [`Stop`] ends a transfer from another thread, and
//! [`idle_timeout`](Transfer::idle_timeout) and [`deadline`](Transfer::deadline) end it in time. No
//! byte is lost: the report counts what arrived, and tells where the rest is.
//!
//! # Relay between two sockets
//!
//! A [`Relay`] moves bytes in both directions, in one thread, and passes on the end of each.
//!
//! ```
//! # use std::io::{Read, Write};
//! # use std::os::unix::net::UnixStream;
//! # use zcopy::Relay;
//! let (mut client, front) = UnixStream::pair()?;
//! let (back, mut server) = UnixStream::pair()?;
//! let relay = std::thread::spawn(|| Relay::new(front, back).run());
//! client.write_all(b"question")?;
//! client.shutdown(std::net::Shutdown::Write)?;
//! # let mut question = String::new();
//! # server.read_to_string(&mut question)?;
//! drop(server);
//! let report = relay.join().expect("the thread does not panic")?;
//! assert_eq!((report.a_to_b().bytes(), report.b_to_a().bytes()), (8, 0));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Take the steps
//!
//! [`Transfer::start`] returns a [`Session`], which never waits: its caller serves many of them in
//! one thread, or does something else between two steps. [`Relay::start`] does the same.
//!
//! ```
//! # use zcopy::{Progressed, Transfer};
//! let zeros = std::fs::File::open("/dev/zero")?;
//! let sink = std::fs::File::create("/dev/null")?;
//! let mut session = Transfer::new(zeros, sink).limit(1 << 20).start()?;
//! while let Progressed::Moved(n) = session.step(100_000)? {
//!     assert!(n <= 100_000);
//! }
//! assert_eq!(session.finish()?.bytes(), 1 << 20);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Repeat a pattern
//!
//! [`Repeat`] writes one pattern again and again, as `yes` does. It shares the same pages with a
//! pipe each time, instead of copying them.
//!
//! ```
//! # use zcopy::Repeat;
//! let (reader, writer) = std::io::pipe()?;
//! let report = Repeat::new("y\n").limit(10).run(&writer)?;
//! assert_eq!(report.bytes(), 10);
//! drop(writer);
//! assert_eq!(std::io::read_to_string(reader)?, "y\ny\ny\ny\ny\n");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Change the bytes
//!
//! [`FilterTransfer`] passes the bytes of one source after another through a [`Filter`], and writes
//! its output to a sink. Its memory does not grow with the input. A filter consumes as much of its
//! input as it can; the next call offers the rest again, followed by new bytes.
//!
//! ```
//! # use std::io::Write;
//! use zcopy::{FilterTransfer, Filtered, Input};
//! # let (source, mut writer) = std::io::pipe()?;
//! # writer.write_all(b"one\ntwo\n")?;
//! # drop(writer);
//! let (reader, sink) = std::io::pipe()?;
//!
//! let join_lines = |input: Input<'_>, output: &mut [u8]| {
//!     let n = input.bytes.len().min(output.len());
//!     for (out, byte) in output.iter_mut().zip(input.bytes) {
//!         *out = if *byte == b'\n' { b' ' } else { *byte };
//!     }
//!     Filtered { consumed: n, produced: n }
//! };
//! let mut filter = FilterTransfer::new(&sink, join_lines);
//! let report = filter.run(&source)?;
//! assert_eq!(report.bytes(), 8);
//! filter.finish()?;
//! # drop(sink);
//! assert_eq!(std::io::read_to_string(reader)?, "one two ");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Move bytes from a reader or to a writer
//!
//! [`Transfer::from_reader`] takes bytes from anything that implements [`Read`](std::io::Read): a
//! decompressor, a TLS stream, bytes in memory. [`Transfer::to_writer`] gives them to anything that
//! implements [`Write`](std::io::Write): a compressor, a hasher, a `Vec`. An [`IoTransfer`] reads
//! and writes, and has the report, the limit, the observer and the rate of a [`Transfer`].
//!
//! ```
//! # use zcopy::{Ended, Transfer};
//! let (reader, writer) = std::io::pipe()?;
//! let report = Transfer::from_reader(&b"hello world"[..], writer).limit(5).run()?;
//! assert_eq!((report.bytes(), report.ended()), (5, Ended::Limit));
//!
//! let mut bytes = Vec::new();
//! Transfer::to_writer(reader, &mut bytes).run()?;
//! assert_eq!(bytes, b"hello");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Copy to several sinks
//!
//! [`Transfer::also_to`] adds a sink that receives the same bytes, and returns a [`FanOut`]. Pipes
//! share the same pages, by `tee(2)`. [`OnSinkError`] decides whether the fan-out continues when
//! one sink fails.
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
//! assert!(report.sinks()[1].error().is_some(), "/dev/full accepts no bytes");
//! # drop(sink);
//! assert_eq!(std::io::read_to_string(reader)?, "hello");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Handle errors
//!
//! An [`Error`] contains the call that failed, its side, and the number of bytes that the sink had
//! accepted. A transfer that fails loses no bytes: it moves the cursor of a file back to the first
//! byte that the sink did not accept, and [returns](Error::undelivered) the bytes that it had
//! already taken from a pipe or socket.
//!
//! ```
//! # use std::io::Write;
//! # use zcopy::{ErrorKind, Side};
//! let (source, mut writer) = std::io::pipe()?;
//! writer.write_all(b"hello")?;
//! let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
//!
//! let error = zcopy::copy(&source, &full).unwrap_err();
//! assert_eq!((error.side(), error.bytes()), (Side::Sink, 0));
//! assert_eq!(error.undelivered(), b"hello");
//! assert_eq!(error.kind(), ErrorKind::CallFailed);
//! assert!(!error.is_disconnected(), "the disk is full, and no reader has gone");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! A read error of a damaged disk need not end the transfer: with
//! [`skip_errors`](Transfer::skip_errors) the sink receives zeros in place of bad blocks.
//!
//! # With tokio
//!
//! With the feature `tokio`, a task of tokio takes the steps of a transfer, fan-out or relay, and
//! waits for its ends without a thread of its own: `run_async` of [`Transfer`], [`FanOut`] and
//! [`Relay`], and `drive_async` of their sessions, whose futures can be dropped at any time without
//! losing a byte. The module `zcopy::tokio` says which ends it takes, and what it asks of the
//! runtime.
//!
//! ```
//! # #[cfg(feature = "tokio")]
//! # {
//! use std::io::Read;
//! use zcopy::Transfer;
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let (stream, mut peer) = std::os::unix::net::UnixStream::pair()?;
//! let version = std::fs::File::open("/proc/version")?;
//! let task = tokio::spawn(Transfer::new(version, stream).run_async());
//! let report = task.await.expect("the task does not panic")?;
//!
//! let mut found = Vec::new();
//! peer.read_to_end(&mut found)?;
//! assert_eq!(report.bytes(), found.len() as u64);
//! # Ok::<(), std::io::Error>(())
//! # })?;
//! # }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Messages
//!
//! The transfer reads and writes datagram and seqpacket sockets message by message. An empty
//! datagram ends the transfer, as a read that returns 0 does on every source. A
//! [limit](Transfer::limit) divides no message.
//!
//! # Page sharing
//!
//! From a file to a pipe or socket the kernel passes the pages of the page cache instead of a copy.
//! This makes the transfer fast, but **a later write to the file can change bytes that were already
//! moved and not yet read**. A source that is a pipe or socket may hold pages of a file, too,
//! because another process spliced or sent them there; the transfer passes them on to another pipe
//! or socket in the same way. [`stable(true)`](Transfer::stable) forbids both. The plan and the
//! report say whether pages are shared. Strategies other than read and write save the copy through
//! user space; the kernel may still copy internally.
//!
//! # Signals
//!
//! A write to a pipe or socket without a reader raises `SIGPIPE`, and a write beyond `RLIMIT_FSIZE`
//! raises `SIGXFSZ`, by every strategy alike: no call that moves bytes inside the kernel can
//! suppress them. Both belong to the process, so that the library neither blocks nor ignores them.
//! Rust programs ignore `SIGPIPE`, and get `EPIPE` instead.
//!
//! A C program does not, unless it says so. Rust code inside one (a `cdylib`, a plug-in) ends the
//! whole process when a reader has gone. It can block the signal in its own thread meanwhile, which
//! the rest of the process does not notice:
//!
//! ```
//! /// Runs `action` without a `SIGPIPE` in this thread. A write to a closed pipe fails with `EPIPE`.
//! fn without_sigpipe<T>(action: impl FnOnce() -> T) -> T {
//!     // SAFETY: each call gets pointers to initialised sets that outlive it. `SIGPIPE` is raised
//!     // for the thread that writes, so that the mask of this thread decides.
//!     unsafe {
//!         let mut sigpipe: libc::sigset_t = std::mem::zeroed();
//!         libc::sigemptyset(&mut sigpipe);
//!         libc::sigaddset(&mut sigpipe, libc::SIGPIPE);
//!         let mut pending = sigpipe;
//!         libc::sigpending(&mut pending);
//!         let was_pending = libc::sigismember(&pending, libc::SIGPIPE) == 1;
//!         let mut before = sigpipe;
//!         libc::pthread_sigmask(libc::SIG_BLOCK, &sigpipe, &mut before);
//!         let result = action();
//!         if !was_pending {
//!             // Take back the signal that the action may have raised.
//!             let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
//!             libc::sigtimedwait(&sigpipe, std::ptr::null_mut(), &at_once);
//!         }
//!         libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
//!         result
//!     }
//! }
//!
//! # // As in a C program.
//! # unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
//! let (reader, writer) = std::io::pipe()?;
//! drop(reader);
//! let version = std::fs::File::open("/proc/version")?;
//! let error = without_sigpipe(|| zcopy::copy(&version, &writer)).unwrap_err();
//! assert!(error.is_disconnected());
//! # unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Programs
//!
//! The repository has programs to begin with, in `examples/`:
//!
//! - `pv`: the whole of it in under 75 lines, with bar, rate and time left.
//! - `cat` and `tee`: many sources into one sink, and one source into several sinks.
//! - `serve_file`: an HTTP/1.1 server with ranges, one rate for all clients, and time-outs.
//! - `relay` and `relay_tokio`: a TCP proxy with an idle time-out, which SIGTERM ends, by threads
//!   and by tasks of tokio.
//! - `resume_copy`: a copy with a progress bar, which the next run continues after Ctrl-C.
//! - `ship_log`: a fan-out to a TCP peer and standard output, while the peer goes and comes back.
//! - `copy`, `explain`, `hash_while_copying` and `number_lines`: the report, the plan, an inspector
//!   and a filter.
//!
//! # Features
//!
//! - `serde` [default: off]: `Serialize` for [`Report`], [`RelayReport`], [`Attempt`],
//!   [`SinkReport`], [`BadRange`], [`Progress`], [`Strategy`], [`Ended`] and [`Side`]. Fields have
//!   the names of the methods, and values of enums are in snake case. An error is `null`, or has an
//!   `errno`, which may be `null`, and a `message`. The time is `elapsed_seconds`, and
//!   `undelivered_bytes` is a number.
//!
//! - `tokio` [default: off]: `zcopy::tokio`, for programs that use that runtime.
//!
//! # Promises
//!
//! 1. The report and the error count exactly the bytes that the sink accepted.
//! 2. A strategy that the plan chooses changes nothing but the speed, and whether the kernel shares
//!    pages.
//! 3. A change of strategy neither loses nor doubles a byte, and the caller sees it in the report
//!    only.
//! 4. Descriptors stay open and keep their flags, and cursors end behind the last byte that
//!    arrived.
//! 5. Blocking and non-blocking descriptors both work.
//! 6. Each call moves a bounded number of bytes, so that observers are called often and can stop
//!    the transfer promptly.
//! 7. A transfer is never slower than read and write, beyond noise. The page "Benchmarks" of the
//!    repository lists where that was not reached.
//! 8. The plan and the report say whether the kernel shares pages.
//! 9. Other processes and threads may use the same files, pipes and sockets meanwhile: the transfer
//!    neither overwrites, doubles nor skips their bytes.

#![cfg_attr(docsrs, feature(doc_cfg))]

/// Compiles one of two lists of items, as the crate `cfg-if` does. rustfmt finds the modules in it
/// by its name. Without it, other systems would report an error for every module.
macro_rules! cfg_if {
    (if #[cfg($condition:meta)] { $($item:item)* } else { $($other:item)* }) => {
        $(#[cfg($condition)] $item)*
        $(#[cfg(not($condition))] $other)*
    };
}

cfg_if! {
    if #[cfg(any(target_os = "linux", target_os = "android"))] {
        // In the order of ARCHITECTURE.md: each module imports from later ones only.
        #[cfg(feature = "tokio")]
        #[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
        pub mod tokio;
        mod transfer;
        mod fan_out;
        mod io_transfer;
        mod relay;
        mod repeat;
        mod filter_transfer;
        mod session;
        mod drive;
        mod engine;
        mod fast_path;
        mod classify;
        mod context;
        mod plan;
        mod preflight;
        mod step;
        mod copy_state;
        mod bad_blocks;
        mod drop_window;
        mod records;
        mod sparse;
        mod pacer;
        mod time_limits;
        mod reopened;
        mod wait;
        mod endpoint;
        mod rate;
        mod error;
        mod filter;
        mod options;
        mod progress;
        mod report;
        mod stop;
        mod strategy;
        mod fd_info;
        mod buffer;
        mod call_error;
        mod pipe;
        mod sys;
        mod side;

        #[cfg(test)]
        mod sim;

        pub use fan_out::FanOut;
        pub use filter::{Filter, Filtered, Input, Remaining};
        pub use filter_transfer::FilterTransfer;
        pub use io_transfer::{FromReader, IoTransfer, ToWriter};
        pub use relay::{
            EndInterest, Relay, RelayInterest, RelayProgress, RelayProgressed, RelaySession,
        };
        pub use repeat::Repeat;
        pub use session::{Interest, Progressed, Session, Sinks};
        pub use transfer::{Series, Transfer, copy, copy_buffered};

        pub use options::{Cache, OnSinkError, Reflink, SkipErrors, Sparse, SyncData};
        pub use plan::{Candidate, Plan, Verdict};
        pub use progress::Progress;
        pub use rate::RateLimiter;
        pub use report::{Attempt, BadRange, Ended, RelayReport, Report, SinkReport};
        pub use stop::Stop;
        pub use strategy::{ParseStrategyError, Strategy};

        pub use error::{Error, ErrorKind, Result};
        pub use side::Side;
    } else {
        compile_error!("zcopy needs Linux or Android: other kernels lack its system calls");
    }
}

/// Compiles and runs the examples of the project's README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ProjectReadme;

/// Compiles and runs the examples of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
