//! The report of one of several sinks.

use std::fmt;
use std::io;

use super::Bytes;
use crate::call_error::Cause;
use crate::strategy::Strategy;

/// How a transfer ended for one of several sinks.
///
/// # Examples
///
/// ```
/// use std::io::{ErrorKind, Write};
/// use zcopy::{OnSinkError, Strategy, Transfer};
///
/// let (source, mut writer) = std::io::pipe()?;
/// writer.write_all(b"hello")?;
/// drop(writer);
/// let null = std::fs::File::create("/dev/null")?;
/// let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
///
/// let report = Transfer::new(&source, &null)
///     .also_to(&full)
///     .on_sink_error(OnSinkError::Detach)
///     .run()?;
/// assert_eq!(report.bytes(), 5, "the remaining sink has all bytes");
/// let [null, full] = report.sinks() else { panic!("two sinks") };
/// assert_eq!((null.bytes(), full.bytes()), (5, 0));
/// assert!(null.error().is_none());
/// assert!(full.error().is_some_and(|error| error.kind() == ErrorKind::StorageFull));
/// assert_eq!(full.strategy(), Some(Strategy::Buffered));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SinkReport {
    pub(crate) index: usize,
    pub(crate) bytes: u64,
    pub(crate) ahead: u64,
    /// `None` if there was no plan.
    pub(crate) strategy: Option<Strategy>,
    pub(crate) cause: Option<Cause>,
    pub(crate) is_detached: bool,
}

impl SinkReport {
    /// Returns the index of the sink: 0 is the one given to
    /// [`Transfer::new`](crate::Transfer::new) or [`FanOut::new`](crate::FanOut::new), and those of
    /// [`also_to`](crate::FanOut::also_to) follow in their order. (The texts of plans and reports,
    /// which are for people, count from 1.)
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the number of bytes that this sink accepted.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns how many bytes this sink has accepted beyond
    /// [`Report::bytes`](crate::Report::bytes): 0 for the slowest sink, and for each sink when the
    /// source or the limit ended the transfer.
    ///
    /// With it a caller continues after a stop, a time-out or a failure, and no sink receives a
    /// byte twice. [`FanOut`](crate::FanOut#continue-after-a-stop) has a function that does it. The
    /// bytes that follow `Report::bytes` are:
    ///
    /// 1. [`Report::undelivered`](crate::Report::undelivered), out of a pipe, a socket, or another
    ///    source without a cursor.
    /// 2. The bytes that the source still has. The cursor of a file stands behind `Report::bytes`;
    ///    a [source offset](crate::FanOut::source_offset) has to be advanced by that number.
    ///
    /// Each sink has the first `ahead` of these bytes already: of a pipe, it lacks
    /// `undelivered()[ahead..]`, and then the bytes in the pipe; of a file, the bytes from `ahead`
    /// behind the cursor on.
    ///
    /// A sink that was detached stays where it was. It can continue in the same way, unless it has
    /// fewer bytes than `Report::bytes`: then the bytes that it lacks are lost.
    ///
    /// # Examples
    ///
    /// Three sinks receive what a pipe holds. The third one has no room for it, and no process
    /// reads from it, until the fan-out gives up:
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// use std::time::Duration;
    /// use zcopy::{Ended, Transfer};
    ///
    /// let bytes: Vec<u8> = (0..50_000_u32).map(|n| (n % 251) as u8).collect();
    /// let (mut source, mut writer) = std::io::pipe()?;
    /// writer.write_all(&bytes)?;
    /// drop(writer);
    ///
    /// let path = std::env::temp_dir().join(format!("zcopy-doc-ahead-{}", std::process::id()));
    /// let file = std::fs::File::create(&path)?;
    /// let (mut reader, roomy) = std::io::pipe()?;
    /// let (mut slow_reader, narrow) = std::io::pipe()?;
    /// (&narrow).write_all(&[0; 40_000])?;
    ///
    /// let fan_out = Transfer::new(&source, &file).also_to(&roomy).also_to(&narrow);
    /// let report = fan_out.grow_pipes(false).idle_timeout(Duration::from_millis(50)).run()?;
    /// assert_eq!(report.ended(), Ended::TimedOut);
    /// let ahead: Vec<_> = report.sinks().iter().map(|sink| sink.ahead() as usize).collect();
    /// assert_eq!(ahead[2], 0, "the others are ahead of it");
    /// assert_eq!(report.bytes() as usize + ahead[1], 50_000, "the second has everything");
    ///
    /// // Continue by hand, now that the slow reader reads.
    /// let reading = std::thread::spawn(move || {
    ///     let mut arrived = Vec::new();
    ///     slow_reader.read_to_end(&mut arrived).map(|_| arrived)
    /// });
    /// let mut rest = report.undelivered().to_vec();
    /// source.read_to_end(&mut rest)?;
    /// (&file).write_all(&rest[ahead[0]..])?;
    /// (&roomy).write_all(&rest[ahead[1]..])?;
    /// (&narrow).write_all(&rest[ahead[2]..])?;
    ///
    /// drop((roomy, narrow));
    /// let mut arrived = Vec::new();
    /// reader.read_to_end(&mut arrived)?;
    /// assert!(std::fs::read(&path)? == bytes && arrived == bytes);
    /// assert!(reading.join().expect("it does not panic")?[40_000..] == bytes);
    /// std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn ahead(&self) -> u64 {
        self.ahead
    }

    /// Returns the strategy by which the sink received its bytes:
    /// [`Buffered`](Strategy::Buffered) if most were written, otherwise the one that served it last
    /// ([`Plan::sink_candidates`](crate::Plan::sink_candidates)). `None` means that there was no
    /// plan, because the input was [refused](crate::ErrorKind::Refused).
    #[must_use]
    pub fn strategy(&self) -> Option<Strategy> {
        self.strategy
    }

    /// Returns the error for which the sink was detached or the transfer failed.
    #[must_use]
    pub fn error(&self) -> Option<io::Error> {
        self.cause.map(Cause::to_io_error)
    }
}

impl fmt::Display for SinkReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, bytes) = (self.index + 1, Bytes(self.bytes));
        write!(f, "sink {number}: {bytes}")?;
        if let Some(strategy) = self.strategy {
            write!(f, " by {strategy}")?;
        }
        match self.error() {
            Some(error) => write!(f, ", ended by: {error}"),
            None => Ok(()),
        }
    }
}
