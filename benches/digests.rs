//! SHA-256 of many files at once: one by one, by each crate for single streams, two interleaved, and
//! in every kind of lanes.
//!
//! `cargo bench -p zcopy-cli --bench digests -- eight_streams/1MiB` for one of them;
//! `ZCOPY_BENCH_SIZES=64KiB,1MiB` for other sizes. Eight streams are of that size each; of files of
//! 8 KiB there are 10,000 for every MiB of it.

#![allow(missing_docs, reason = "criterion's macros write public items")]
#![allow(
    clippy::expect_used,
    reason = "a benchmark that cannot run says why and ends"
)]

mod sizes;

use criterion::measurement::WallTime;
use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
};
use sha2::Digest as _;
use zcopy_cli::common::digest::{Algorithm, Backend, Digest, MultiStream, digest_each};

const MIB: usize = 1 << 20;

/// What a copier reads at once.
const CHUNK: usize = 128 * 1024;

/// `n` files of `len` bytes, all different.
fn files(n: usize, len: usize) -> Vec<Vec<u8>> {
    let file = |seed| (0..len).map(move |at| (at.wrapping_mul(at + seed) >> 3) as u8);
    (0..n).map(|seed| file(seed).collect()).collect()
}

/// The sizes that eight streams fit into memory with.
fn sizes() -> Vec<(String, usize)> {
    let all = sizes::sizes().into_iter();
    let all = all.map(|(name, size)| (name, usize::try_from(size).expect("a size")));
    all.filter(|(_, size)| *size <= MIB).collect()
}

/// The digests of all files by every way there is, each held against `sha2`.
fn by_each(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, files: &[Vec<u8>]) {
    let files: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
    group.throughput(Throughput::Bytes(
        files.iter().map(|file| file.len() as u64).sum(),
    ));
    let expected: Vec<[u8; 32]> = files
        .iter()
        .map(|file| sha2::Sha256::digest(file).into())
        .collect();
    group.bench_function(BenchmarkId::new(name, "sha2"), |bencher| {
        bencher.iter(|| {
            for (file, expected) in files.iter().zip(&expected) {
                assert_eq!(sha2::Sha256::digest(file)[..], expected[..]);
            }
        });
    });
    group.bench_function(BenchmarkId::new(name, "ring"), |bencher| {
        bencher.iter(|| {
            for (file, expected) in files.iter().zip(&expected) {
                let found = ring::digest::digest(&ring::digest::SHA256, file);
                assert_eq!(found.as_ref(), expected);
            }
        });
    });
    let expected: Vec<_> = expected.into_iter().map(Digest::from_bytes).collect();
    for backend in Backend::all() {
        let mut found = expected.clone();
        group.bench_function(BenchmarkId::new(name, backend), |bencher| {
            bencher.iter(|| {
                digest_each(Algorithm::Sha256, backend, &files, &mut found);
                assert_eq!(found, expected);
            });
        });
    }
}

fn eight_streams(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("eight_streams");
    for (name, size) in sizes() {
        by_each(&mut group, &name, &files(8, size));
    }
}

fn small_files(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("8KiB_files");
    group.sample_size(10);
    for (name, size) in sizes() {
        let n = 10_000 * size / MIB;
        by_each(&mut group, &name, &files(n.max(1), 8 * 1024));
    }
}

/// Eight streams in chunks, as they come out of files that are read in turns.
fn chunks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("chunks");
    for (name, size) in sizes() {
        let files = files(8, size);
        group.throughput(Throughput::Bytes(8 * size as u64));
        let expected: Vec<[u8; 32]> = files
            .iter()
            .map(|file| sha2::Sha256::digest(file).into())
            .collect();
        let backends = [Some(Backend::sequential()), Backend::interleaved()];
        let backends = backends.into_iter().chain([Some(Backend::in_lanes())]);
        for backend in backends.flatten() {
            let mut lanes = MultiStream::by(Algorithm::Sha256, backend);
            group.bench_function(BenchmarkId::new(&name, backend), |bencher| {
                bencher.iter(|| {
                    let open: Vec<_> = files.iter().map(|_| lanes.open()).collect();
                    for at in (0..size).step_by(CHUNK) {
                        let end = size.min(at + CHUNK);
                        let pieces = open.iter().zip(&files);
                        let pieces = pieces.map(|(lane, file)| (lane, &file[at..end]));
                        lanes.push_together(&pieces.collect::<Vec<_>>());
                    }
                    for lane in &open {
                        lanes.end(lane);
                    }
                    for (lane, expected) in open.into_iter().zip(&expected) {
                        assert_eq!(lanes.finish(lane).as_bytes(), expected);
                    }
                });
            });
        }
    }
}

criterion_group!(benches, eight_streams, small_files, chunks);
criterion_main!(benches);
