//! Errors that come at any step: each is made by `strace`, once or from then on.

use std::fs::File;

use crate::child_process::Child;
use crate::endpoints::pipe;
use crate::files::{assert_same, contents, file, pattern, read_to_end};
use crate::skip::has_program;

const LEN: usize = (3 << 20) + 777;

/// A named file; it is by the name that its calls are picked.
fn source(bytes: &[u8]) -> tempfile::NamedTempFile {
    let source = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(source.path(), bytes).unwrap();
    source
}

#[test]
fn an_error_that_does_not_come_again_loses_nothing() {
    if !has_program("strace") {
        return;
    }
    let bytes = pattern(LEN);
    for step in 1..=5 {
        let source = source(&bytes);
        let from = File::open(source.path()).unwrap();
        let sink = file(b"");
        // What is read once more, by itself, is read by `pread64`.
        let calls = "read,splice,sendfile,copy_file_range";
        let child = Child::that_fails_at(source.path(), calls, &step.to_string());
        let child = child.that_skips_errors();
        let told = child
            .run(from.into(), sink.try_clone().unwrap().into())
            .unwrap();
        assert_eq!((told.bytes, told.outcome), (LEN as u64, Ok(())), "{step}");
        assert_same(&contents(&sink), &bytes, &format!("{step}"));
        let has_failed = told.attempts.iter().any(|(_, errno)| *errno == 5);
        assert!(has_failed || step > 1, "{:?}", told.attempts);
    }
}

#[test]
fn after_a_short_splice_an_error_that_stays_leaves_what_came_before() {
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
        let told = child.run(from.into(), sink).unwrap();
        assert_eq!((told.bytes, told.outcome), (LEN as u64, Ok(())), "{step}");
        let arrived = arrived.join().unwrap();
        let n_good = arrived
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |at| at + 1);
        assert_same(&arrived[..n_good], &bytes[..n_good], &format!("{step}"));
        assert_eq!(arrived.len(), LEN);
        assert_eq!(n_good > 0, step > 1, "what had been read has arrived");
    }
}
