//! Reservations around a call that names its ranges.

use crate::call_error::Cause;
use crate::copy_state::CopyState;
use crate::step::Step;
use crate::sys::{Errno, Kernel, Result};

/// Reserves up to `len` bytes at both ends, and moves them with `call`, which receives the reserved
/// length.
///
/// Returns [`Step::Unsupported`] without a call if they cannot be reserved. A sink that goes by the
/// cursor reserves nothing on a disk that is nearly full, because a range that cannot be filled
/// would stay a gap.
///
/// # Errors
///
/// The errno of `call`, except `EINTR`.
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

/// Reserves up to `len` bytes of the source, and takes them out with `call`, which receives the
/// reserved length. The bytes do not go to the sink yet.
///
/// # Errors
///
/// The errno of `call`, except `EINTR`.
pub(super) fn take<'a, K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'a>,
    len: usize,
    call: impl FnOnce(&CopyState<'a>, usize) -> Result<usize>,
) -> Result<Step> {
    let len = state.source.reserve_to_read(kernel, len as u64);
    make(state, len.map_err(Cause::from), call)
}

/// Reserves up to `len` bytes at both ends, and returns the length for the call: 0 at the end of
/// the source.
fn reserve<K: Kernel>(
    kernel: &K,
    state: &mut CopyState<'_>,
    len: u64,
) -> std::result::Result<u64, Cause> {
    let len = if state.sink.goes_by_cursor() {
        // Bytes that do not arrive would leave a gap in the sink.
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

/// Makes the call, unless nothing was reserved for it, and moves the source's position.
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
