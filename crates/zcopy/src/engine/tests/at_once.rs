//! Whole files that are to share their blocks.

use std::os::fd::OwnedFd;

use super::{attempts, transfer};
use crate::options::{Options, Reflink};
use crate::report::Ended;
use crate::scripted::Scripted;
use crate::scripted::objects::{File, Object, patterned};
use crate::scripted::script::{Call, Twist};
use crate::strategy::Strategy;
use crate::sys::OFlags;

const LEN: usize = 70_000;

/// Both from their beginnings, and nothing but shared blocks.
fn whole() -> Options {
    Options {
        reflink: Reflink::Always,
        source_offset: Some(0),
        sink_offset: Some(0),
        ..Options::default()
    }
}

fn ends(kernel: &Scripted) -> (OwnedFd, OwnedFd) {
    let file = |bytes: &[u8]| {
        let mut file = File::holding(bytes);
        file.magic = 0x9123_683e;
        Object::File(file)
    };
    let source = kernel.source(file(&patterned(LEN)), OFlags::empty());
    (source, kernel.sink(file(&[]), OFlags::empty()))
}

#[test]
fn a_whole_file_is_cloned_by_one_call_and_nothing_is_read() {
    let kernel = Scripted::default();
    let (source, sink) = ends(&kernel);
    let report = transfer(&kernel, (&source, &sink), whole()).unwrap();
    assert_eq!(attempts(&report), [(Strategy::Reflink, LEN as u64, None)]);
    assert_eq!(
        (report.ended(), report.attempts()[0].calls()),
        (Ended::Eof, 1)
    );
    assert_eq!(kernel.answers(Call::CloneFile).len(), 1);
    assert_eq!(kernel.answers(Call::Read), []);
    assert!(kernel.contents(&sink) == patterned(LEN));
}

#[test]
fn a_clone_that_fails_once_or_is_cut_short_ends_in_all_bytes_or_an_error() {
    for twist in [
        Twist::Interrupted,
        Twist::Short(4096),
        Twist::Short(0),
        Twist::Fails(crate::sys::Errno::IO),
        Twist::Refused(0),
    ] {
        let kernel = Scripted::default();
        let (source, sink) = ends(&kernel);
        kernel.twist(Call::CloneFile, &[twist]);
        match transfer(&kernel, (&source, &sink), whole()) {
            Ok(report) => {
                assert_eq!(report.bytes(), LEN as u64, "{twist:?}");
                assert!(kernel.contents(&sink) == patterned(LEN), "{twist:?}");
            }
            Err(error) => {
                let n = kernel.contents(&sink).len() as u64;
                assert!(error.bytes() <= n && n < LEN as u64, "{twist:?}: {error}");
            }
        }
    }
}
