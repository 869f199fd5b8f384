//! Faults of file systems that begin in the middle of a transfer: every byte that is reported has
//! arrived, and every other byte is still in the source or handed back.
//!
//! The faults are real: a file system stops, a file becomes immutable, a quota is exceeded, a server
//! in user space fails.

mod copy_up;
mod immutable;
mod quota;
mod served;
mod stopped;

use std::fs::File;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::io::Errno;
use zcopy::{Error, Report, Side, Strategy, Transfer};

use crate::endpoints::{Source, SourceKind};
use crate::files::{file_in, pattern};

/// The length of a source without holes: three steps of the strategy with the longest steps that
/// serves it.
const LEN: usize = 3 << 20;

/// The length of the data before and behind the hole of a sparse source.
const DATA: usize = 1 << 20;

/// The offset of the data behind the hole. A clone of a range ends here, and a copy by
/// `copy_file_range(2)` at the beginning of the hole.
const BEHIND_THE_HOLE: usize = 64 << 20;

/// Runs a transfer, and calls `fault` after its first step. Returns how many bytes had moved then.
fn run_with_fault<Source: AsFd, Sink: AsFd>(
    transfer: Transfer<'_, Source, Sink>,
    fault: impl FnOnce() + Send,
) -> (zcopy::Result<Report>, u64) {
    let (mut fault, mut moved) = (Some(fault), 0);
    let outcome = transfer
        .observe(|progress| {
            if let Some(fault) = fault.take() {
                moved = progress.bytes();
                fault();
            }
            ControlFlow::Continue(())
        })
        .run();
    assert!(fault.is_none(), "the transfer took no step: {outcome:?}");
    (outcome, moved)
}

/// A source on the file system of this directory, its cursor at 0.
fn source_in(dir: &Path, bytes: &[u8]) -> Option<Source> {
    around(file_in(dir, bytes))
}

/// The same with a hole in the middle, and its bytes. Every strategy moves it in more than one step
/// if the transfer has a limit.
fn sparse_source_in(dir: &Path) -> Option<(Source, Vec<u8>)> {
    let file = file_in(dir, b"");
    let data = pattern(DATA);
    let mut bytes = vec![0; BEHIND_THE_HOLE + DATA];
    for start in [0, BEHIND_THE_HOLE] {
        file.write_all_at(&data, start as u64).unwrap();
        bytes[start..][..DATA].copy_from_slice(&data);
    }
    Some((around(file)?, bytes))
}

fn around(file: File) -> Option<Source> {
    let mut source = Source::new(SourceKind::Memfd, b"")?;
    source.fd = file.into();
    Some(source)
}

/// Asserts that a transfer failed with this errno, and that the error names the sink.
#[track_caller]
fn assert_sink_failed(error: &Error, errno: Errno, requested: Option<Strategy>, what: &str) {
    assert_eq!(error.side(), Side::Sink, "{what}: {error:#}");
    let expected = Some(errno.raw_os_error());
    assert_eq!(error.raw_os_error(), expected, "{what}: {error:#}");
    assert_last_was(error, requested, what);
}

/// Asserts that the requested strategy was the last that a failed transfer tried.
#[track_caller]
fn assert_last_was(error: &Error, requested: Option<Strategy>, what: &str) {
    if let Some(requested) = requested {
        let last = error.report().attempts().last().unwrap();
        assert_eq!(last.strategy(), requested, "{what}: {error:#}");
    }
}
