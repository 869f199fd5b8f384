//! `SIGPIPE` belongs to the process: every strategy raises it, and none blocks it.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::SocketType;
use tempfile::NamedTempFile;
use zcopy::Strategy;

use crate::child_process::Child;
use crate::endpoints::{pipe, tcp, unix};
use crate::files::{file, pattern};
use crate::refused::allowed;
use crate::skip::has_program;

/// Opens a reader and a sink.
type Open = fn() -> (OwnedFd, OwnedFd);

/// `strace` shows the signal even where it is ignored, as in a Rust program.
#[test]
fn a_reader_that_has_gone_raises_the_signal_whatever_the_strategy() {
    let strategies = allowed([
        Strategy::Sendfile,
        Strategy::Splice,
        Strategy::SplicePipe,
        Strategy::Buffered,
    ]);
    let sinks: [(&str, Open); 3] = [
        ("pipe", pipe),
        ("unix", || unix(SocketType::STREAM)),
        ("tcp", tcp),
    ];
    if !has_program("strace") {
        return;
    }
    for strategy in strategies {
        for (name, open) in sinks {
            if strategy == Strategy::Splice && name != "pipe" {
                continue;
            }
            let (reader, sink) = open();
            drop(reader);
            if name == "tcp" {
                // The peer answers the first segment with a reset.
                rustix::net::shutdown(&sink, rustix::net::Shutdown::Write).unwrap();
            }
            let trace = NamedTempFile::new().unwrap();
            let child = Child::traced_to(trace.path()).strategy(Some(strategy));
            let report = child.run(file(&pattern(100_000)).into(), sink).unwrap();
            let what = format!("{strategy} into {name}: {report:?}");
            let epipe = Errno::PIPE.raw_os_error();
            assert_eq!(report.outcome, Err(("sink".to_owned(), epipe)), "{what}");
            let trace = std::fs::read_to_string(trace.path()).unwrap();
            assert!(trace.contains("--- SIGPIPE"), "{what}: {trace}");
            assert!(!trace.contains("MSG_NOSIGNAL"), "{what}: {trace}");
        }
    }
}
