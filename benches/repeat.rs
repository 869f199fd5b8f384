//! `Repeat` by each of its strategies, into every kind of sink that the plan tells apart.
//!
//! `cargo bench --bench repeat -- yes_to_pipe/64MiB` for one of them;
//! `ZCOPY_BENCH_SIZES=64KiB,1MiB` for other sizes. The pattern is `y` and a newline, readers are
//! threads of this process, and what is timed is the repetition alone: from the call until it
//! returns. Files are on tmpfs (`/dev/shm`).

#![allow(missing_docs, reason = "criterion's macros write public items")]
#![allow(
    clippy::expect_used,
    reason = "a benchmark that cannot run says why and ends"
)]

#[allow(dead_code, reason = "the other benchmarks need more of it")]
#[path = "pairs/peers.rs"]
mod peers;
mod sizes;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use criterion::{
    BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main,
};
use peers::{read_all, splice_all};
use sizes::sizes;
use zcopy::{Repeat, Strategy};

const MIB: usize = 1 << 20;

/// A new sink, and whoever reads it.
type Open = fn() -> (OwnedFd, Option<JoinHandle<u64>>);

const SINKS: [(&str, Open); 5] = [
    ("yes_to_pipe", || {
        let (reader, writer) = io::pipe().expect("a pipe");
        let reader = thread::spawn(move || splice_all(&reader));
        (writer.into(), Some(reader))
    }),
    ("yes_to_pipe_read", || {
        let (reader, writer) = io::pipe().expect("a pipe");
        (writer.into(), Some(thread::spawn(move || read_all(reader))))
    }),
    ("yes_to_tmpfs", || {
        let name = format!("/dev/shm/zcopy-bench-repeat-{}", std::process::id());
        let file = File::create(&name).expect("a file");
        std::fs::remove_file(name).expect("the same file");
        (file.into(), None)
    }),
    ("yes_to_null", || {
        let null = File::options().write(true).open("/dev/null");
        (null.expect("a sink").into(), None)
    }),
    ("yes_to_unix", || {
        let (near, far) = UnixStream::pair().expect("a pair");
        (near.into(), Some(thread::spawn(move || read_all(far))))
    }),
];

/// Repeats `bytes` bytes once and returns how long that took.
fn time(open: Open, bytes: u64, way: Option<Strategy>) -> Duration {
    let (sink, reader) = open();
    let repeat = Repeat::new("y\n").limit(bytes);
    let repeat = match way {
        Some(strategy) => repeat.strategy(strategy),
        None => repeat,
    };
    let start = Instant::now();
    let report = repeat.run(&sink).expect("the repetition");
    let elapsed = start.elapsed();
    assert_eq!(report.bytes(), bytes);
    assert!(way.is_none_or(|strategy| report.strategy() == Some(strategy)));
    drop(sink);
    let arrived = reader.map(|reader| reader.join().expect("the reader"));
    assert!(arrived.is_none_or(|n| n == bytes));
    elapsed
}

fn repetitions(criterion: &mut Criterion) {
    for (size, bytes) in sizes() {
        for (name, open) in SINKS {
            let mut group = criterion.benchmark_group(format!("{name}/{size}"));
            group
                .throughput(Throughput::Bytes(bytes))
                .sampling_mode(SamplingMode::Flat)
                .sample_size(10)
                .warm_up_time(Duration::from_millis(200))
                .measurement_time(Duration::from_secs(2));
            for way in [None, Some(Strategy::Tee), Some(Strategy::Buffered)] {
                let id = way.map_or("plan".to_owned(), |strategy| strategy.to_string());
                group.bench_function(BenchmarkId::from_parameter(id), |bencher| {
                    bencher.iter_custom(|n| (0..n).map(|_| time(open, bytes, way)).sum());
                });
            }
            group.finish();
        }
    }
}

criterion_group!(benches, repetitions);
criterion_main!(benches);
