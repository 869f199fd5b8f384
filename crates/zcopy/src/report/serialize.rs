//! Reports for `serde`, by the values and names of their methods.

use std::io;

use serde::{Serialize, Serializer};

use super::{Attempt, BadRange, Ended, Report, SinkReport};
use crate::strategy::Strategy;

/// The text of an error, and its errno if it has one.
#[derive(Serialize)]
struct ErrorFields {
    errno: Option<i32>,
    message: String,
}

impl From<io::Error> for ErrorFields {
    fn from(error: io::Error) -> Self {
        Self {
            errno: error.raw_os_error(),
            message: error.to_string(),
        }
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields<'a> {
            bytes: u64,
            records: u64,
            ended: Ended,
            elapsed_seconds: f64,
            strategy: Option<Strategy>,
            attempts: &'a [Attempt],
            sinks: &'a [SinkReport],
            hole_bytes: u64,
            skipped_bytes: u64,
            shared_pages: bool,
            grown_source: Option<usize>,
            grown_sink: Option<usize>,
            undelivered_bytes: usize,
        }
        let fields = Fields {
            bytes: self.bytes(),
            records: self.records(),
            ended: self.ended(),
            elapsed_seconds: self.elapsed().as_secs_f64(),
            strategy: self.strategy(),
            attempts: self.attempts(),
            sinks: self.sinks(),
            hole_bytes: self.hole_bytes(),
            skipped_bytes: self.skipped_bytes(),
            shared_pages: self.shared_pages(),
            grown_source: self.grown_source(),
            grown_sink: self.grown_sink(),
            undelivered_bytes: self.undelivered().len(),
        };
        fields.serialize(serializer)
    }
}

impl Serialize for Attempt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields {
            strategy: Strategy,
            bytes: u64,
            calls: u64,
            error: Option<ErrorFields>,
        }
        let fields = Fields {
            strategy: self.strategy(),
            bytes: self.bytes(),
            calls: self.calls(),
            error: self.error().map(ErrorFields::from),
        };
        fields.serialize(serializer)
    }
}

impl Serialize for SinkReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields {
            index: usize,
            bytes: u64,
            ahead: u64,
            strategy: Option<Strategy>,
            error: Option<ErrorFields>,
        }
        let fields = Fields {
            index: self.index(),
            bytes: self.bytes(),
            ahead: self.ahead(),
            strategy: self.strategy(),
            error: self.error().map(ErrorFields::from),
        };
        fields.serialize(serializer)
    }
}

impl Serialize for BadRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields {
            offset: u64,
            bytes: u64,
            error: ErrorFields,
        }
        let fields = Fields {
            offset: self.offset(),
            bytes: self.bytes(),
            error: self.error().into(),
        };
        fields.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use serde_json::{json, to_value};

    use crate::call_error::Cause;
    use crate::progress::Progress;
    use crate::report::{Attempt, BadRange, Ended, PageSharing, Report, SinkReport};
    use crate::side::Side;
    use crate::strategy::Strategy;
    use crate::sys::Errno;

    /// The names are those of the methods, and strategies have their own.
    #[test]
    fn reports_and_progress_have_stable_names_and_keep_undelivered_bytes_to_themselves() {
        let full = json!({ "errno": 28, "message": "No space left on device (os error 28)" });
        let cause = Some(Cause::Errno(Errno::NOSPC));
        let report = Report {
            bytes: 5,
            records: 1,
            elapsed: Duration::from_millis(1500),
            attempts: vec![Attempt {
                bytes: 5,
                calls: 2,
                cause,
                ..Attempt::new(Strategy::SplicePipe)
            }],
            sinks: vec![SinkReport {
                is_detached: false,
                index: 0,
                bytes: 5,
                ahead: 0,
                strategy: None,
                cause: None,
            }],
            hole_bytes: 2,
            skipped_bytes: 3,
            shared_pages: PageSharing::OfFile,
            grown_sink: Some(4096),
            undelivered: b"secret".to_vec().into(),
            ..Report::of_nothing(Ended::NoSink, None)
        };
        let expected = json!({
            "bytes": 5,
            "records": 1,
            "ended": "no_sink",
            "elapsed_seconds": 1.5,
            "strategy": "splice_pipe",
            "attempts": [{ "strategy": "splice_pipe", "bytes": 5, "calls": 2, "error": full }],
            "sinks": [{ "index": 0, "bytes": 5, "ahead": 0, "strategy": null, "error": null }],
            "hole_bytes": 2,
            "skipped_bytes": 3,
            "shared_pages": true,
            "grown_source": null,
            "grown_sink": 4096,
            "undelivered_bytes": 6,
        });
        assert_eq!(to_value(&report).unwrap(), expected);

        let range = BadRange {
            offset: 4096,
            bytes: 512,
            errno: Errno::IO,
        };
        // glibc and musl name this errno differently.
        let message = io::Error::from(Errno::IO).to_string();
        let error = json!({ "errno": 5, "message": message });
        let expected = json!({ "offset": 4096, "bytes": 512, "error": error });
        assert_eq!(to_value(range).unwrap(), expected);

        let progress = Progress {
            bytes: 1,
            records: 0,
            total: Some(9),
            strategy: Strategy::CopyFileRange,
            blocked: Some(Side::Source),
        };
        let expected = json!({
            "bytes": 1,
            "records": 0,
            "total": 9,
            "strategy": "copy_file_range",
            "blocked": "source",
        });
        assert_eq!(to_value(progress).unwrap(), expected);
        for strategy in Strategy::PAIRWISE {
            assert_eq!(to_value(strategy).unwrap(), strategy.name());
        }
    }
}
