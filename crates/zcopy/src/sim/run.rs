//! Runs transfers and fan-outs in the simulated kernel, as `Transfer::run` does in the real one.

use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};

use super::SimKernel;
use crate::Transfer;
use crate::copy_state::Inspector;
use crate::error::Error;
use crate::options::{OnSinkError, Options};
use crate::progress::{Observer, Progress};
use crate::rate::RateLimiter;
use crate::report::{BadRange, Report, SinkReport};
use crate::strategy::Strategy;
use crate::sys::Errno;

type OnSkip<'a> = Box<dyn FnMut(&BadRange) + Send + 'a>;
type OnSinkFailure<'a> = Box<dyn FnMut(&SinkReport) -> OnSinkError + Send + 'a>;

/// The callbacks of a transfer, of which a test sets those that it needs.
#[derive(Default)]
pub(crate) struct Callbacks<'a> {
    pub(crate) observe: Option<Observer<'a>>,
    pub(crate) inspect: Option<Inspector<'a>>,
    pub(crate) on_skip: Option<OnSkip<'a>>,
    /// Decides after the failure of a sink [default: stop].
    pub(crate) on_sink_error: Option<OnSinkFailure<'a>>,
}

impl<'a> Callbacks<'a> {
    pub(crate) fn observing(observe: impl FnMut(&Progress) -> ControlFlow<()> + Send + 'a) -> Self {
        Self {
            observe: Some(Box::new(observe)),
            ..Self::default()
        }
    }

    pub(crate) fn inspecting(inspect: impl FnMut(&[u8]) + Send + 'a) -> Self {
        Self {
            inspect: Some(Box::new(inspect)),
            ..Self::default()
        }
    }

    pub(crate) fn skipping(on_skip: impl FnMut(&BadRange) + Send + 'a) -> Self {
        Self {
            on_skip: Some(Box::new(on_skip)),
            ..Self::default()
        }
    }
}

/// Runs a transfer without callbacks.
pub(crate) fn transfer(
    kernel: &SimKernel,
    ends: (&OwnedFd, &OwnedFd),
    options: Options,
) -> Result<Report, Error> {
    transfer_with(kernel, ends, options, Callbacks::default())
}

/// Runs a transfer with callbacks. With a rate limit, asserts that it has paid for each byte that
/// has moved, and for no other.
pub(crate) fn transfer_with(
    kernel: &SimKernel,
    (source, sink): (&OwnedFd, &OwnedFd),
    options: Options,
    callbacks: Callbacks<'_>,
) -> Result<Report, Error> {
    let transfer = Transfer::new(source.as_fd(), sink.as_fd()).with_options(options);
    run(kernel, transfer, &options, callbacks)
}

/// Runs a fan-out that makes this decision after each failure of a sink.
pub(crate) fn fan_out(
    kernel: &SimKernel,
    ends: (&OwnedFd, &[OwnedFd]),
    options: Options,
    decision: OnSinkError,
) -> Result<Report, Error> {
    let callbacks = Callbacks {
        on_sink_error: Some(Box::new(move |_| decision)),
        ..Callbacks::default()
    };
    fan_out_with(kernel, ends, options, callbacks)
}

/// Runs a fan-out with callbacks.
///
/// Even a single sink is served by the engine of fan-outs, because it may be detached.
pub(crate) fn fan_out_with(
    kernel: &SimKernel,
    (source, sinks): (&OwnedFd, &[OwnedFd]),
    options: Options,
    mut callbacks: Callbacks<'_>,
) -> Result<Report, Error> {
    kernel.state.borrow_mut().has_several_sinks = true;
    callbacks
        .on_sink_error
        .get_or_insert_with(|| Box::new(|_| OnSinkError::Stop));
    let mut transfer = Transfer::new(source.as_fd(), sinks[0].as_fd()).with_options(options);
    for sink in &sinks[1..] {
        transfer = transfer.also_to(sink);
    }
    run(kernel, transfer, &options, callbacks)
}

fn run<'a>(
    kernel: &SimKernel,
    mut transfer: Transfer<'a>,
    options: &Options,
    callbacks: Callbacks<'a>,
) -> Result<Report, Error> {
    let rate = options.rate_limit.map(NonZeroU64::get);
    let rate_limiter = rate.map(RateLimiter::new);
    if let Some(rate_limiter) = &rate_limiter {
        transfer = transfer.rate_limit(rate_limiter);
    }
    if let Some(observe) = callbacks.observe {
        transfer = transfer.observe(observe);
    }
    if let Some(inspect) = callbacks.inspect {
        transfer = transfer.inspect(inspect);
    }
    if let Some(on_skip) = callbacks.on_skip {
        transfer = transfer.on_skip(on_skip);
    }
    if let Some(on_sink_error) = callbacks.on_sink_error {
        transfer = transfer.on_sink_error_with(on_sink_error);
    }
    let outcome = transfer.run_with(kernel);
    if let Some(rate_limiter) = rate_limiter {
        let report = outcome.as_ref().unwrap_or_else(Error::report);
        let attempts = report.attempts().iter();
        let moved: u64 = attempts.map(|it| it.bytes - it.hole_bytes).sum();
        let spent = rate_limiter.spent_in_all();
        // A failure may take back zeros that were read, if they cannot become a hole at the end.
        let has_several_sinks = kernel.state.borrow().has_several_sinks;
        let may_take_back = outcome.is_err() && !has_several_sinks;
        let is_exact = spent == moved || may_take_back && spent > moved;
        assert!(is_exact, "{spent} paid for, {moved} moved: {report:?}");
    }
    outcome
}

/// Returns whether a transfer was refused before its first call.
pub(crate) fn has_not_begun(error: &Error) -> bool {
    (error.is_refused() || error.is_unsuitable()) && error.report().attempts().is_empty()
}

/// Returns each attempt of a report: its strategy, the bytes it moved, and the errno that ended it.
pub(crate) fn attempts(report: &Report) -> Vec<(Strategy, u64, Option<Errno>)> {
    let attempts = report.attempts().iter();
    attempts
        .map(|attempt| {
            let errno = attempt.error().and_then(|error| error.raw_os_error());
            let errno = errno.map(Errno::from_raw_os_error);
            (attempt.strategy(), attempt.bytes(), errno)
        })
        .collect()
}
