//! Other processes that write to the sinks meanwhile.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::io::read;
use zcopy::Transfer;

use crate::concurrency::bounded;
use crate::endpoints::pipe;
use crate::files::{file, write_all};
use crate::options::MaybeOptions as _;

/// Counts the zeros that come out of a pipe.
fn n_zeros(reader: &OwnedFd) -> u64 {
    let mut n_zeros = 0;
    let mut block = vec![1; 64 << 10];
    loop {
        let n = read(reader, &mut block).unwrap();
        if n == 0 {
            return n_zeros;
        }
        let zeros = block[..n].iter().map(|byte| u64::from(*byte == 0));
        n_zeros += zeros.sum::<u64>();
    }
}

/// tee(2) returns 0 if another process fills the pipe in the midst of the call.
#[test]
fn a_pipe_to_which_others_write_gets_all_bytes() {
    const LEN: u64 = 256 << 20;
    for (tick, written) in [
        (None, &[b'x'; 1000][..]),
        (None, b"x"),
        (Some(Duration::from_millis(100)), &[b'x'; 1000]),
    ] {
        bounded(move || {
            let source = file(b"");
            source.set_len(LEN).unwrap();
            let ((reader, sink), (other_reader, other_sink)) = (pipe(), pipe());
            let stranger = sink.try_clone().unwrap();
            let is_over = AtomicBool::new(false);
            thread::scope(|scope| {
                let is_over = &is_over;
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        assert!(write_all(&stranger, written));
                    }
                });
                let arrived = scope.spawn(|| n_zeros(&reader));
                let arrived_at_other = scope.spawn(|| n_zeros(&other_reader));
                let transfer = Transfer::new(&source, &sink).also_to(&other_sink);
                let report = transfer.grow_pipes(false).maybe_tick(tick).run();
                is_over.store(true, Ordering::Relaxed);
                drop((sink, other_sink));
                assert_eq!(arrived.join().unwrap(), LEN);
                assert_eq!(arrived_at_other.join().unwrap(), LEN);
                assert_eq!(report.unwrap().bytes(), LEN);
            });
        });
    }
}
