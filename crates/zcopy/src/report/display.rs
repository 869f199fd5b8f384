//! The text of a report: one line, or all of it.

use std::fmt;

use super::{Attempt, Bytes, Ended, Report};

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ended = match self.ended {
            Ended::Eof => "to the end of the source",
            Ended::Limit => "up to the limit",
            Ended::Stopped => "until it was stopped",
            Ended::TimedOut => "until its time was over",
            Ended::NoSink => "until no sink was left",
            Ended::Failed => "until it failed",
        };
        write!(f, "{}", Bytes(self.bytes))?;
        if let Some(strategy) = self.strategy()
            && !self.attempts.is_empty()
        {
            write!(f, " by {strategy}")?;
        }
        if !f.alternate() && !self.elapsed.is_zero() {
            write!(f, " in {:.1?}", self.elapsed)?;
        }
        write!(f, ", {ended}")?;
        if !f.alternate() {
            return Ok(());
        }
        for attempt in &self.attempts {
            write!(f, "\n  {attempt}")?;
        }
        let found_nothing = |last: &Attempt| last.bytes == 0 && last.cause.is_none();
        if self.ended == Ended::Eof && self.attempts.last().is_some_and(found_nothing) {
            write!(f, ", which found the end")?;
        }
        for sink in &self.sinks {
            write!(f, "\n{sink}")?;
        }
        if self.records > 0 {
            write!(f, "\nrecords: {}", self.records)?;
        }
        if self.hole_bytes > 0 {
            write!(f, "\nholes: {} not written", Bytes(self.hole_bytes))?;
        }
        if self.skipped_bytes > 0 {
            let skipped = Bytes(self.skipped_bytes);
            write!(
                f,
                "\nskipped: {skipped} could not be read, replaced by zeros"
            )?;
        }
        for (end, grown) in [("source", self.grown_source), ("sink", self.grown_sink)] {
            if let Some(capacity) = grown {
                write!(f, "\npipe: the {end} was enlarged to {capacity} bytes")?;
            }
        }
        write!(f, "{}", self.shared_pages)?;
        let undelivered = Bytes(self.undelivered().len() as u64);
        if undelivered.0 > 0 {
            let whom = if self.sinks.is_empty() {
                "the sink"
            } else {
                "every sink"
            };
            write!(f, "\nundelivered: {undelivered} did not reach {whom}")?;
        }
        Ok(())
    }
}
