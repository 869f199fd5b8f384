//! Transfers while other threads use the same open files, pipes, sockets and files.
//!
//! Two processes that use read(2) and write(2) give the expected result: the bytes of each writer
//! are there once, in order and unchanged, and every byte of a shared source arrives exactly once.
//! A transfer makes several calls, so that bytes of others may come between the bytes of two calls;
//! one write(2) of another thread stays in one piece.

mod changing_source;
mod empty_source;
mod messages;
mod nonblocking_mode;
mod packets;
mod parallel_ranges;
mod shared_sink;
mod shared_source;
mod source_cursor;
mod spliced_pages;
mod urgent_byte;

mod byte_coverage;
mod numbered_records;

use zcopy::{Filtered, Input};

/// Leaves the bytes as they are.
pub(crate) fn identity(input: Input<'_>, output: &mut [u8]) -> Filtered {
    let n = input.bytes.len().min(output.len());
    output[..n].copy_from_slice(&input.bytes[..n]);
    Filtered {
        consumed: n,
        produced: n,
    }
}
