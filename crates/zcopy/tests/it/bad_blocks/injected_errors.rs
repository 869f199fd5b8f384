//! Errors at any step, injected by `strace` once or from a step on.

use std::fs::File;

use crate::child_process::Child;
use crate::endpoints::pipe;
use crate::files::{assert_same, contents, file, pattern, read_to_end};
use crate::skip::has_program;

const LEN: usize = (3 << 20) + 777;

/// A file with a name, by which `strace` selects its calls.
fn source(bytes: &[u8]) -> tempfile::NamedTempFile {
    let source = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(source.path(), bytes).unwrap();
    source
}

#[test]
fn an_error_that_is_not_repeated_loses_nothing() {
    if !has_program("strace") {
        return;
    }
    let bytes = pattern(LEN);
    for step in 1..=5 {
        let source = source(&bytes);
        let from = File::open(source.path()).unwrap();
        let sink = file(b"");
        // A second read of the failing bytes is a `pread64`, which does not fail.
        let calls = "read,splice,sendfile,copy_file_range";
        let child = Child::that_fails_at(source.path(), calls, &step.to_string());
        let child = child.that_skips_errors();
        let report = child
            .run(from.into(), sink.try_clone().unwrap().into())
            .unwrap();
        assert_eq!(
            (report.bytes, report.outcome),
            (LEN as u64, Ok(())),
            "{step}"
        );
        assert_same(&contents(&sink), &bytes, &format!("{step}"));
        let has_failed = report.attempts.iter().any(|(_, errno)| *errno == 5);
        assert!(has_failed || step > 1, "{:?}", report.attempts);
    }
}

#[test]
fn a_lasting_error_leaves_the_bytes_before_it() {
    if !has_program("strace") {
        return;
    }
    let bytes = pattern(LEN);
    for step in 1..=4 {
        let source = source(&bytes);
        let from = File::open(source.path()).unwrap();
        let (reader, sink) = pipe();
        let arrived = std::thread::spawn(move || read_to_end(&reader));
        let calls = "read,pread64,splice,sendfile,copy_file_range";
        let child = Child::that_fails_at(source.path(), calls, &format!("{step}+"));
        let child = child.that_skips_errors();
        let report = child.run(from.into(), sink).unwrap();
        assert_eq!(
            (report.bytes, report.outcome),
            (LEN as u64, Ok(())),
            "{step}"
        );
        let arrived = arrived.join().unwrap();
        let n_before_error = arrived
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |at| at + 1);
        assert_same(
            &arrived[..n_before_error],
            &bytes[..n_before_error],
            &format!("{step}"),
        );
        assert_eq!(arrived.len(), LEN);
        assert_eq!(
            n_before_error > 0,
            step > 1,
            "bytes that were read before the error arrive"
        );
    }
}
