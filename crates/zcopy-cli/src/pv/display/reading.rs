//! The values that a display shows at one moment.

use std::time::Duration;

use jiff::Zoned;

/// The highest percentage that is shown, as in pv 1.12.
const MAX_PERCENT: f64 = 100_000.0;

/// The values that a display shows at one moment.
///
/// Amounts are in counted units, bytes or lines. Rates are in units per second.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The elapsed time.
    pub elapsed: Duration,
    /// The amount moved so far.
    pub moved: u64,
    /// The total amount. 0 means that it is unknown.
    pub total: Option<u64>,
    /// The percentage, if it is known without a total: for lines of files, from the bytes.
    pub share: Option<f64>,
    /// The rate over the last interval.
    pub rate: f64,
    /// The rate over the window of `-m`.
    pub average: f64,
    /// The highest rate so far. A gauge shows the rate in proportion to it.
    pub fastest: f64,
    /// The time left at the average rate, if it is known.
    pub remaining: Option<Duration>,
    /// The time of day, for the time of finish.
    pub now: Zoned,
    /// The use of the transfer's buffer.
    pub buffer: BufferUse,
    /// The last bytes written: as many as the format shows, or fewer.
    pub tail: Vec<u8>,
    /// The most recent complete line.
    pub line: Vec<u8>,
    /// The number of readings in which the amount had changed: the position of the moving marker.
    pub tick: u64,
    /// The amount that the other side has moved for each byte of this side, if there is another
    /// side.
    pub ratio: Option<f64>,
    /// Whether this is the last reading.
    pub is_over: bool,
}

impl Reading {
    /// Creates the reading of a transfer that has moved nothing.
    #[must_use]
    pub fn before(now: Zoned, total: Option<u64>) -> Self {
        Self {
            elapsed: Duration::ZERO,
            moved: 0,
            total,
            share: None,
            rate: 0.0,
            average: 0.0,
            fastest: 0.0,
            remaining: None,
            now,
            buffer: BufferUse::Unused,
            tail: Vec::new(),
            line: Vec::new(),
            tick: 0,
            ratio: None,
            is_over: false,
        }
    }

    /// Returns the percentage that has been moved, if the total is known.
    ///
    /// It exceeds 100 if more has been moved than the total, and is at most 100,000.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::pv::display::reading::Reading;
    ///
    /// let mut reading = Reading::before(jiff::Zoned::default(), Some(200));
    /// reading.moved = 25;
    /// assert_eq!(reading.percent(), Some(12.5));
    /// reading.moved = 300;
    /// assert_eq!(reading.percent(), Some(150.0));
    /// reading.total = Some(0);
    /// assert_eq!(reading.percent(), None);
    /// ```
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        reason = "a percentage needs no more digits"
    )]
    pub fn percent(&self) -> Option<f64> {
        let total = self.total.filter(|total| *total > 0);
        let of_total = |total| self.moved as f64 * 100.0 / total as f64;
        let percent = self.share.or_else(|| total.map(of_total))?;
        Some(percent.min(MAX_PERCENT))
    }
}

/// The use of the transfer's buffer, or the call that moves bytes without one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BufferUse {
    /// Bytes pass through no buffer: `{----}`.
    Unused,
    /// Bytes are spliced from the source into the sink: `{----}`.
    Splice,
    /// Bytes are spliced through a private pipe: `{-||-}`.
    PrivatePipe,
    /// Bytes are copied within the kernel, from file to file: `{--->}`.
    CopyFileRange,
    /// This percentage of the buffer holds bytes: `{ 42%}`.
    Percent(u8),
}

impl BufferUse {
    /// Formats the use in six columns.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::pv::display::reading::BufferUse;
    ///
    /// assert_eq!(BufferUse::PrivatePipe.shown(), "{-||-}");
    /// assert_eq!(BufferUse::Percent(7).shown(), "{  7%}");
    /// ```
    #[must_use]
    pub fn shown(self) -> String {
        match self {
            Self::Unused | Self::Splice => "{----}".to_owned(),
            Self::PrivatePipe => "{-||-}".to_owned(),
            Self::CopyFileRange => "{--->}".to_owned(),
            Self::Percent(percent) => format!("{{{:>3}%}}", percent.min(100)),
        }
    }
}
