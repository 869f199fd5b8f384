//! One source to several sinks: sharing pages, one buffer for all, and the plain loop that reads
//! once and writes to each.
//!
//! `cargo bench --bench fanout -- pipe_to_pipe_and_null/64MiB` for one of them;
//! `ZCOPY_BENCH_SIZES=64KiB,1MiB` for other sizes.

#![allow(missing_docs, reason = "criterion's macros write public items")]

// The ends and their peers, as between one source and one sink.
#[allow(dead_code, reason = "the pairs need more of it")]
mod pairs;

use std::time::Duration;

use criterion::{
    BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main,
};
use pairs::{FANS, Files, sizes};

fn fanout(criterion: &mut Criterion) {
    for (size, bytes) in sizes() {
        let files = Files::new(bytes);
        for fan in FANS.iter().filter(|fan| fan.is_possible(&files)) {
            let mut group = criterion.benchmark_group(format!("{}/{size}", fan.name));
            group
                .throughput(Throughput::Bytes(bytes))
                .sampling_mode(SamplingMode::Flat)
                .sample_size(10)
                .warm_up_time(Duration::from_millis(200))
                .measurement_time(Duration::from_secs(2));
            for mover in fan.movers(bytes) {
                group.bench_function(BenchmarkId::from_parameter(mover.name()), |bencher| {
                    bencher.iter_custom(|n| (0..n).map(|_| fan.time(&files, bytes, mover)).sum());
                });
            }
            group.finish();
        }
    }
}

criterion_group!(benches, fanout);
criterion_main!(benches);
