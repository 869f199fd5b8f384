//! `Transfer::inspect`: the function sees the bytes that the sink accepted.

use zcopy::{Strategy, Transfer};

use crate::endpoints::pipe;
use crate::files::{contents, pattern};

#[test]
fn inspect_sees_the_bytes_that_the_sink_accepted() {
    let bytes = pattern(700_000);
    let source = crate::files::file(&bytes);
    let sink = crate::files::file(b"");
    let mut seen = Vec::new();
    let transfer = Transfer::new(&source, &sink);
    let transfer = transfer.inspect(|bytes| seen.extend_from_slice(bytes));
    let plan = transfer.plan().unwrap();
    assert_eq!(plan.strategy(), Strategy::Buffered);
    assert!(plan.candidates()[0].reason().contains("inspected"));
    let report = transfer.run().unwrap();
    assert_eq!(report.bytes(), 700_000);
    assert_eq!(report.strategy(), Strategy::Buffered);
    crate::files::assert_same(&seen, &contents(&sink), "seen");
    crate::files::assert_same(&seen, &bytes, "seen");
}

/// When a transfer fails, the function has seen the bytes that arrived, and no others.
#[test]
fn inspect_does_not_see_bytes_that_did_not_arrive() {
    let bytes = pattern(700_000);
    let source = crate::files::file(&bytes);
    let (reader, sink) = pipe();
    rustix::pipe::fcntl_setpipe_size(&sink, 1 << 20).unwrap();
    let mut reader = Some(reader);
    let mut seen = Vec::new();
    let transfer = Transfer::new(&source, &sink)
        .inspect(|bytes| seen.extend_from_slice(bytes))
        .observe(|_| {
            reader.take();
            std::ops::ControlFlow::Continue(())
        });
    let error = transfer.run().unwrap_err();
    assert_eq!(error.side(), zcopy::Side::Sink);
    assert_eq!(error.report().strategy(), Strategy::Buffered);
    assert_eq!(error.bytes(), seen.len() as u64);
    assert!(bytes.starts_with(&seen) && !seen.is_empty());
}
