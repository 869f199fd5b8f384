//! Runs transfers and fan-outs in the simulated kernel, as `Transfer::run` does in the real one.

use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};

use super::SimKernel;
use super::scenario::Driver;
#[cfg(feature = "tokio")]
use super::task::{Reactor, run_in_task, run_several_in_task};
use crate::copy_state::Inspector;
use crate::error::Error;
use crate::fan_out::FanOut;
use crate::options::{OnSinkError, Options};
use crate::progress::{Observer, Progress};
use crate::rate::RateLimiter;
use crate::report::{BadRange, Report, SinkReport};
use crate::session::Progressed;
use crate::strategy::Strategy;
use crate::sys::{Errno, Kernel, PollFd, PollFlags};
use crate::transfer::Transfer;
use crate::wait::Event;

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
    let (rate_limiter, kept) = own_rate_limiter(&options);
    let (source, sink) = (source.as_fd(), sink.as_fd());
    let driver = kernel.state.borrow().driver;
    let outcome = match driver {
        Driver::Library => {
            configured(source, sink, options, rate_limiter, callbacks).run_with(kernel)
        }
        #[cfg(feature = "tokio")]
        Driver::Task { polls } => {
            let reactor = Reactor::new(kernel);
            let (source, sink) = (reactor.source(source), reactor.sink(sink));
            let transfer = configured(source, sink, options, rate_limiter, callbacks);
            run_in_task(kernel, transfer, &reactor, polls)
        }
        _ => {
            let transfer = configured(source, sink, options, rate_limiter, callbacks);
            run_in_steps(kernel, transfer, driver.max_step())
        }
    };
    check_paid(kernel, kept.as_ref(), &outcome);
    outcome
}

/// Returns a transfer with these options and callbacks.
fn configured<Source: AsFd, Sink: AsFd>(
    source: Source,
    sink: Sink,
    options: Options,
    rate_limiter: Option<RateLimiter>,
    callbacks: Callbacks<'_>,
) -> Transfer<'_, Source, Sink> {
    let mut transfer = Transfer::new(source, sink).with_options(options);
    if let Some(rate_limiter) = rate_limiter {
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
    transfer
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
pub(crate) fn fan_out_with(
    kernel: &SimKernel,
    (source, sinks): (&OwnedFd, &[OwnedFd]),
    options: Options,
    callbacks: Callbacks<'_>,
) -> Result<Report, Error> {
    kernel.state.borrow_mut().has_several_sinks = true;
    let (rate_limiter, kept) = own_rate_limiter(&options);
    let driver = kernel.state.borrow().driver;
    let outcome = match driver {
        Driver::Library => {
            configured_several(source, sinks, options, rate_limiter, callbacks).run_with(kernel)
        }
        #[cfg(feature = "tokio")]
        Driver::Task { polls } => {
            let reactor = Reactor::new(kernel);
            let source = reactor.source(source.as_fd());
            let sinks: Vec<_> = sinks.iter().map(|fd| reactor.sink(fd.as_fd())).collect();
            let fan_out = configured_several(source, &sinks, options, rate_limiter, callbacks);
            run_several_in_task(kernel, fan_out, &sinks, &reactor, polls)
        }
        _ => {
            let fan_out = configured_several(source, sinks, options, rate_limiter, callbacks);
            run_several_in_steps(kernel, fan_out, driver.max_step())
        }
    };
    check_paid(kernel, kept.as_ref(), &outcome);
    outcome
}

/// Returns a fan-out with these options and callbacks.
fn configured_several<'a, Source: AsFd, Sink: AsFd + Sync>(
    source: Source,
    sinks: &'a [Sink],
    options: Options,
    rate_limiter: Option<RateLimiter>,
    callbacks: Callbacks<'a>,
) -> FanOut<'a, Source> {
    let fan_out = FanOut::new(source, &sinks[0]).with_options(options);
    let mut fan_out = sinks[1..].iter().fold(fan_out, FanOut::also_to);
    if let Some(rate_limiter) = rate_limiter {
        fan_out = fan_out.rate_limit(rate_limiter);
    }
    if let Some(observe) = callbacks.observe {
        fan_out = fan_out.observe(observe);
    }
    if let Some(inspect) = callbacks.inspect {
        fan_out = fan_out.inspect(inspect);
    }
    if let Some(on_sink_error) = callbacks.on_sink_error {
        fan_out = fan_out.on_sink_error_with(on_sink_error);
    }
    fan_out
}

/// Returns a limiter with the rate of the options, and a clone of it.
fn own_rate_limiter(options: &Options) -> (Option<RateLimiter>, Option<RateLimiter>) {
    let rate_limiter = options.rate_limit.map(|rate| RateLimiter::new(rate.get()));
    (rate_limiter.clone(), rate_limiter)
}

/// Asserts that a transfer has paid for the bytes that it has moved.
fn check_paid(
    kernel: &SimKernel,
    rate_limiter: Option<&RateLimiter>,
    outcome: &Result<Report, Error>,
) {
    let Some(rate_limiter) = rate_limiter else {
        return;
    };
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

/// Takes the steps of a transfer, and waits between them, as the caller of a session does.
fn run_in_steps<'a>(
    kernel: &'a SimKernel,
    transfer: Transfer<'a>,
    max_step: u64,
) -> Result<Report, Error> {
    let (source, sink) = transfer.ends();
    let mut parts = transfer.start_on(kernel)?;
    loop {
        match parts.value_mut().step(max_step)? {
            Progressed::Moved(_) => {}
            Progressed::Ended(_) => return parts.value_mut().finish(),
            Progressed::Blocked(interest) => {
                let source = (interest.source(), source, PollFlags::IN);
                let sink = (interest.sink(), sink, PollFlags::OUT);
                let wanted = [source, sink]
                    .into_iter()
                    .filter(|(is_wanted, ..)| *is_wanted);
                let mut fds: Vec<_> = wanted
                    .map(|(_, fd, events)| PollFd::from_borrowed_fd(fd, events))
                    .collect();
                // The next step sees what has come, or that a signal has.
                let _ = kernel.poll(&mut fds, interest.timeout());
            }
        }
    }
}

/// Takes the steps of a fan-out, and waits for the sinks that it names.
fn run_several_in_steps<'a>(
    kernel: &'a SimKernel,
    fan_out: FanOut<'a, &'a OwnedFd>,
    max_step: u64,
) -> Result<Report, Error> {
    let mut parts = fan_out.start_on(kernel)?;
    loop {
        match parts.value_mut().step(max_step)? {
            Progressed::Moved(_) => {}
            Progressed::Ended(_) => return parts.value_mut().finish(),
            Progressed::Blocked(interest) => {
                let (steps, ends) = (parts.value(), parts.owners());
                let mut fds = Vec::new();
                if interest.source() {
                    fds.push(PollFd::from_borrowed_fd(ends.source_fd(), PollFlags::IN));
                }
                for (index, fd) in ends.sink_fds().enumerate() {
                    let is_blocked = steps.awaited_event(index) == Some(Event::Ready);
                    assert!(
                        interest.sink() || !is_blocked,
                        "sink {index} is of no interest"
                    );
                    if is_blocked {
                        fds.push(PollFd::from_borrowed_fd(fd, PollFlags::OUT));
                    }
                }
                let _ = kernel.poll(&mut fds, interest.timeout());
            }
        }
    }
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
