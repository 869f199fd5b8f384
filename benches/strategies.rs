//! Every strategy on every pair, and the standard library beside them.
//!
//! `cargo bench --bench strategies -- file_to_pipe/64MiB` for one of them;
//! `ZCOPY_BENCH_SIZES=64KiB,1MiB` for other sizes. Criterion measures one after the other; for
//! ratios on a noisy machine see `ratios`.

#![allow(missing_docs, reason = "criterion's macros write public items")]

mod pairs;

use std::time::Duration;

use criterion::{
    BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main,
};
use pairs::{Files, PAIRS, sizes};

fn strategies(criterion: &mut Criterion) {
    for (size, bytes) in sizes() {
        let files = Files::new(bytes);
        for pair in PAIRS.iter().filter(|pair| pair.is_possible(&files)) {
            let mut group = criterion.benchmark_group(format!("{}/{size}", pair.name));
            group
                .throughput(Throughput::Bytes(bytes))
                .sampling_mode(SamplingMode::Flat)
                .sample_size(10)
                .warm_up_time(Duration::from_millis(200))
                .measurement_time(Duration::from_secs(2));
            for mover in pair.movers() {
                group.bench_function(BenchmarkId::from_parameter(mover.name()), |bencher| {
                    bencher.iter_custom(|n| (0..n).map(|_| pair.time(&files, bytes, mover)).sum());
                });
            }
            group.finish();
        }
    }
}

criterion_group!(benches, strategies);
criterion_main!(benches);
