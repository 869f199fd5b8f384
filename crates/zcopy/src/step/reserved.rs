//! What the calls have in common that name their ranges: both ends reserve them, and note what was moved.

use crate::call_error::Cause;
use crate::copy_state::CopyState;
use crate::step::Step;
use crate::sys::{Errno, Kernel, Result};

/// Moves up to `len` bytes from the source to the sink by one call, which is told how many it may move.
///
/// [`Step::Unsupported`], without a call, if they cannot be reserved at both ends: a sink whose cursor others may move
/// reserves nothing of a disk that is nearly full.
///
/// # Errors
///
/// What the call says, but for `EINTR`: each strategy has a table of its own.
pub(super) fn pass<'a, K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'a>,
    len: usize,
    call: impl FnOnce(&CopyState<'a>, usize) -> Result<usize>,
) -> Result<Step> {
    let len = reserve(kernel, state, len as u64);
    let step = make(state, len, call);
    if let Ok(Step::Moved(n)) = step {
        state.sink.advance(n);
    }
    step
}

/// The same, where the bytes do not go to the sink yet.
///
/// # Errors
///
/// As [`pass`].
pub(super) fn take<'a, K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'a>,
    len: usize,
    call: impl FnOnce(&CopyState<'a>, usize) -> Result<usize>,
) -> Result<Step> {
    let len = state.source.reserve_to_read(kernel, len as u64);
    make(state, len.map_err(Cause::from), call)
}

/// Reserves up to `len` bytes at both ends, and returns how many the call may move: 0 at the end of the source.
fn reserve<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    len: u64,
) -> std::result::Result<u64, Cause> {
    let len = if state.sink.goes_by_cursor() {
        // Bytes that do not come would leave a gap in the sink.
        state.source.clamp_to_known_eof(kernel, len)?
    } else {
        len
    };
    match len {
        0 => Ok(0),
        len => match state.source.reserve_to_read(kernel, len)? {
            0 => Ok(0),
            len => state.sink.reserve_to_write(kernel, len),
        },
    }
}

/// Makes the call, unless nothing was reserved for it.
fn make<'a>(
    state: &mut CopyState<'a>,
    reserved: std::result::Result<u64, Cause>,
    call: impl FnOnce(&CopyState<'a>, usize) -> Result<usize>,
) -> Result<Step> {
    let len = match reserved {
        Ok(0) => return Ok(Step::Eof),
        Ok(len) => len as usize,
        Err(cause) => return Ok(Step::Unsupported(cause)),
    };
    state.calls += 1;
    match call(state, len) {
        Ok(0) => Ok(Step::Eof),
        Ok(n) => {
            state.source.advance(n as u64);
            Ok(Step::Moved(n as u64))
        }
        Err(Errno::INTR) => Ok(Step::Interrupted),
        Err(errno) => Err(errno),
    }
}
