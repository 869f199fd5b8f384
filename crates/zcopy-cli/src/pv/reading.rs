//! All that a display shows at one moment.

use std::time::Duration;

use jiff::Zoned;

/// The most percent that are shown, as by pv 1.12.
const MOST_PERCENT: f64 = 100_000.0;

/// All that a display shows at one moment.
///
/// Amounts are in what is counted, bytes or lines; rates are that per second.
#[derive(Clone, Debug)]
pub struct Reading {
    /// How long the transfer has taken so far.
    pub elapsed: Duration,
    /// The amount moved so far.
    pub moved: u64,
    /// The amount that there is to move. A total of 0 is as good as unknown.
    pub total: Option<u64>,
    /// How many percent have been moved, where that is known without a total: of lines in files, by the bytes.
    pub share: Option<f64>,
    /// The rate over the last interval.
    pub rate: f64,
    /// The rate over the window of `-m`.
    pub average: f64,
    /// The highest rate seen, of which a gauge shows a share.
    pub fastest: f64,
    /// How much longer it takes at the average rate, if that can be told.
    pub remaining: Option<Duration>,
    /// The time of day, from which the time of finish is counted.
    pub now: Zoned,
    /// How much of the transfer's buffer is in use.
    pub buffer: BufferUse,
    /// The last bytes written, as many as the format asks for, or fewer.
    pub tail: Vec<u8>,
    /// The most recent whole line.
    pub line: Vec<u8>,
    /// How often the display has found that something moved: where the moving marker is.
    pub beat: u64,
    /// What the other side has moved for every byte of this side, where there is another side.
    pub ratio: Option<f64>,
    /// Whether this is the last display, when nothing is left to be waited for.
    pub is_over: bool,
}

impl Reading {
    /// A reading before anything has moved.
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
            beat: 0,
            ratio: None,
            is_over: false,
        }
    }

    /// How many percent have been moved, if the total is known.
    ///
    /// They are more than 100 if more has come than the total said, and 100,000 at most.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::pv::reading::Reading;
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
        Some(percent.min(MOST_PERCENT))
    }
}

/// How much of the transfer's buffer is in use, or what makes do without one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BufferUse {
    /// Nothing goes through a buffer, and nothing else is to be told: `{----}`.
    Unused,
    /// Bytes are spliced from the source into the sink: `{----}`.
    Splice,
    /// Bytes are spliced through a private pipe: `{-||-}`.
    PrivatePipe,
    /// Bytes are copied within the kernel, from file to file: `{--->}`.
    CopyFileRange,
    /// So many percent of the buffer hold bytes: `{ 42%}`.
    Percent(u8),
}

impl BufferUse {
    /// The six columns that show it.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::pv::reading::BufferUse;
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
