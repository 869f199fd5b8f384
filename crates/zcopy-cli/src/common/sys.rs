//! System calls and C functions that need `unsafe`, each wrapped in a safe function.

#![allow(
    unsafe_code,
    reason = "the one module of this crate that calls C; every block says why it is sound"
)]

mod descriptors;
mod inherited;
mod locks;
mod pending;
mod signals;
mod threads;
mod write_back;

pub mod locale;
pub mod title;

pub use descriptors::{allow_descriptors, check_open, close_file, hold_closed_descriptors};
pub(crate) use descriptors::{close_stdin, close_stdout, duplicate, most_descriptors};
pub use inherited::{give_signals_back, restore_inherited};
pub use locks::{is_byte_locked, lock_byte};
pub(crate) use pending::is_blocked;
pub use pending::{block_signal, deliver_pending, is_pending, signalfd, unblock_signal};
pub(crate) use signals::{FirstSignal, do_not_restart_calls, end_on_second};
pub use signals::{
    ignore_sigint, ignore_sigpipe, ignore_sigttou, ignore_sigxfsz, is_ignored, raise_default, reset,
};
pub(crate) use threads::ThreadId;
pub use threads::share_heap;
pub(crate) use write_back::begin_write_back;
