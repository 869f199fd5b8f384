//! Readers and writers that panic, or that claim more bytes than they were given.

use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use zcopy::{Report, Transfer};

use super::{ReadFn, WriteFn};
use crate::endpoints::null;
use crate::files::{assert_same, contents, file, pattern};

/// Returns the message of the panic of a transfer.
fn panic_of(run: impl FnOnce() -> zcopy::Result<Report>) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap()
}

#[test]
fn a_reader_that_panics_loses_no_accepted_count() {
    let bytes = pattern(40_000);
    for k in 0..10 {
        let (mut rest, mut n_calls) = (&bytes[..], 0);
        let reader = ReadFn(|room: &mut [u8]| {
            assert!(n_calls < k, "call {k} of the reader");
            n_calls += 1;
            rest.read(&mut room[..4000])
        });
        let sink = file(b"");
        let (mut seen, mut inspected) = (0, 0);
        let message = panic_of(|| {
            Transfer::from_reader(reader, &sink)
                .observe(|progress| {
                    seen = progress.bytes();
                    ControlFlow::Continue(())
                })
                .inspect(|bytes| inspected += bytes.len() as u64)
                .run()
        });
        assert_eq!(message, format!("call {k} of the reader"));
        assert_same(&contents(&sink), &bytes[..4000 * k], "the sink");
        assert_eq!((seen, inspected), (4000 * k as u64, 4000 * k as u64));
    }
}

#[test]
fn a_writer_that_panics_loses_no_accepted_count() {
    let bytes = pattern(40_000);
    for k in 0..10 {
        let mut written = Vec::new();
        let mut n_calls = 0;
        let writer = WriteFn(|bytes: &[u8]| {
            assert!(n_calls < k, "call {k} of the writer");
            n_calls += 1;
            written.write(&bytes[..4000])
        });
        let source = file(&bytes);
        let mut seen = 0;
        let message = panic_of(|| {
            Transfer::to_writer(&source, writer)
                .observe(|progress| {
                    seen = progress.bytes();
                    ControlFlow::Continue(())
                })
                .run()
        });
        assert_eq!(message, format!("call {k} of the writer"));
        assert_same(&written, &bytes[..4000 * k], "the writer");
        assert_eq!(seen, 4000 * k as u64);
    }
}

#[test]
fn a_reader_or_writer_that_claims_too_many_bytes_panics() {
    for excess in [1, usize::MAX / 2] {
        let reader = ReadFn(|room: &mut [u8]| Ok(room.len() + excess));
        let message = panic_of(|| Transfer::from_reader(reader, null()).run());
        assert_eq!(message, "a reader returned more bytes than it had room for");

        let writer = WriteFn(|bytes: &[u8]| -> io::Result<usize> { Ok(bytes.len() + excess) });
        let message = panic_of(|| Transfer::to_writer(file(b"hello"), writer).run());
        assert_eq!(message, "a writer accepted more bytes than it was given");
    }
}
