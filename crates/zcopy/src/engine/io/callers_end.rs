//! The end that is no descriptor: a reader or writer of the caller's.
//!
//! | result | meaning | next |
//! |---|---|---|
//! | `Interrupted` | a signal arrived | repeated |
//! | any other error, also `WouldBlock` | an error of this side | fails |
//! | a read returns 0 | the end of the source | the transfer ends |
//! | a write returns 0 | the sink accepts nothing | fails |
//! | more bytes than were offered | a bug of the reader or writer | panics |
//!
//! A `WouldBlock` fails the transfer: no poll tells when the reader or writer is ready again, and
//! one around a socket in blocking mode returns it when the time-out of that socket has expired.

use std::io::{self, Read, Write};

use crate::call_error::{CallError, Cause};
use crate::copy_state::{CopyState, StepBudget};
use crate::side::Side;
use crate::step::{Step, buffered};
use crate::sys::Kernel;

/// A reader or writer of the caller's.
pub(crate) trait CallersEnd {
    /// Reads once if no bytes are ready to be written, and writes once, as
    /// [`buffered`] does. If the reader or writer fails, its error is stored
    /// in `failed`.
    fn step<K: Kernel>(
        &mut self,
        kernel: &K,
        state: &mut CopyState<'_>,
        budget: &StepBudget,
        failed: &mut Option<io::Error>,
    ) -> Result<Step, CallError>;

    /// Flushes a writer that has not failed.
    fn flush(&mut self) -> io::Result<()>;
}

/// The caller's reader, as the source.
pub(crate) struct CallersReader<R>(pub(crate) R);

impl<R: Read> CallersEnd for CallersReader<R> {
    fn step<K: Kernel>(
        &mut self,
        kernel: &K,
        state: &mut CopyState<'_>,
        budget: &StepBudget,
        failed: &mut Option<io::Error>,
    ) -> Result<Step, CallError> {
        let fill = |kernel: &K, state: &mut CopyState<'_>, budget: &StepBudget| {
            state.calls += 1;
            let room = buffered::room_for_reader(kernel, state, budget)?;
            let len = room.len();
            match self.0.read(room) {
                Ok(0) => Ok(Step::Eof),
                Ok(n) => {
                    assert!(
                        n <= len,
                        "a reader returned more bytes than it had room for"
                    );
                    state.buffer.fill(n);
                    Ok(Step::Filled)
                }
                Err(error) => on_error("read", Side::Source, error, failed),
            }
        };
        buffered::step_by(kernel, state, budget, fill, buffered::drain)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The caller's writer, as the sink.
pub(crate) struct CallersWriter<W> {
    writer: W,
    /// Whether a write has failed.
    is_broken: bool,
}

impl<W> CallersWriter<W> {
    pub(crate) fn new(writer: W) -> Self {
        Self {
            writer,
            is_broken: false,
        }
    }
}

impl<W: Write> CallersEnd for CallersWriter<W> {
    fn step<K: Kernel>(
        &mut self,
        kernel: &K,
        state: &mut CopyState<'_>,
        budget: &StepBudget,
        failed: &mut Option<io::Error>,
    ) -> Result<Step, CallError> {
        let drain = |_: &K, state: &mut CopyState<'_>, ready: usize, _| {
            state.calls += 1;
            // A read may have had room for more, so that it divided no packet.
            let ready = ready.min(state.buffer.max_capacity());
            let bytes = &state.buffer.pending()[..ready];
            let written = match self.writer.write(bytes) {
                Ok(0) => Err(CallError::new("write", Side::Sink, Cause::ReturnedZero)),
                Ok(n) => {
                    assert!(n <= ready, "a writer accepted more bytes than it was given");
                    let bytes = state.buffer.consume(n);
                    state.records.accepted(bytes);
                    if let Some(inspect) = &mut state.inspect {
                        inspect(bytes);
                    }
                    Ok(Step::Moved(n as u64))
                }
                Err(error) => on_error("write", Side::Sink, error, failed),
            };
            self.is_broken = written.is_err();
            written
        };
        buffered::step_by(kernel, state, budget, buffered::fill, drain)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.is_broken {
            return Ok(());
        }
        loop {
            match self.writer.flush() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                flushed => return flushed,
            }
        }
    }
}

/// Returns the result of a step in which the reader or writer has returned an error. Stores the
/// error if it is final.
fn on_error(
    call: &'static str,
    side: Side,
    error: io::Error,
    failed: &mut Option<io::Error>,
) -> Result<Step, CallError> {
    if error.kind() == io::ErrorKind::Interrupted {
        return Ok(Step::Repeat);
    }
    let cause = Cause::of(&error);
    *failed = Some(error);
    Err(CallError::new(call, side, cause))
}
