//! Several sinks: how a [`Transfer`] becomes a [`FanOut`].

use std::os::fd::AsFd;

use super::Transfer;
use super::settings::Settings;
use crate::fan_out::FanOut;

#[cfg(doc)]
use crate::{Reflink, Sparse, Strategy};

impl<'a, Source: AsFd, Sink: AsFd + Send + 'a> Transfer<'a, Source, Sink> {
    /// Adds a sink that receives the same bytes, and returns the [`FanOut`] that serves both
    /// [default: the sink of [`new`](Self::new) only].
    ///
    /// The fan-out has the options and callbacks that the transfer has. It refuses those that serve
    /// one sink only: a [`strategy`](Self::strategy) other than [`Strategy::Tee`] and
    /// [`Strategy::Buffered`], [`Reflink::Always`], [`Sparse::Detect`],
    /// [`skip_errors`](Self::skip_errors), [`record_limit`](Self::record_limit),
    /// [`record_rate_limit`](Self::record_rate_limit) and [`prefix`](Self::prefix). Call `also_to`
    /// before other options, and such an option does not compile.
    ///
    /// # Errors
    ///
    /// See [`FanOut::run`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Write;
    /// use zcopy::Transfer;
    ///
    /// let (source, mut writer) = std::io::pipe()?;
    /// writer.write_all(b"hello world")?;
    /// let (reader, sink) = std::io::pipe()?;
    /// let (other_reader, other) = std::io::pipe()?;
    ///
    /// let report = Transfer::new(&source, sink).limit(5).also_to(other).run()?;
    /// assert_eq!(report.bytes(), 5);
    /// assert_eq!(std::io::read_to_string(reader)?, "hello");
    /// assert_eq!(std::io::read_to_string(other_reader)?, "hello");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn also_to(self, sink: impl AsFd + Send + 'a) -> FanOut<'a, Source> {
        FanOut::from(self).also_to(sink)
    }
}

/// Serves the sink of a transfer as one of several, with the options of the transfer: see
/// [`Transfer::also_to`].
///
/// # Examples
///
/// ```
/// use zcopy::{Ended, FanOut, OnSinkError, Transfer};
///
/// let zeros = std::fs::File::open("/dev/zero")?;
/// let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
/// let transfer = Transfer::new(&zeros, &full).limit(5);
/// let report = FanOut::from(transfer).on_sink_error(OnSinkError::Detach).run()?;
/// assert_eq!(report.ended(), Ended::NoSink);
/// # Ok::<(), std::io::Error>(())
/// ```
impl<'a, Source, Sink: AsFd + Send + 'a> From<Transfer<'a, Source, Sink>> for FanOut<'a, Source> {
    fn from(transfer: Transfer<'a, Source, Sink>) -> Self {
        let Transfer {
            source,
            sink,
            settings,
        } = transfer;
        let Settings {
            options,
            callbacks,
            rate_limiter,
            stop,
            prefix,
            // Its option is refused.
            record_rate_limiter: _,
            // It saves calls for small files that one sink receives.
            series_state: _,
        } = settings;
        FanOut::with_settings(source, sink, options, callbacks).share(rate_limiter, stop, prefix)
    }
}
