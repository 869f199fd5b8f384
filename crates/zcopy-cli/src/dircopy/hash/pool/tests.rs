use std::thread;

use super::*;
use crate::common::digest::digests;

/// Bytes that are nowhere the same.
fn bytes(seed: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| ((at * 31 + seed * 17) >> 3) as u8)
        .collect()
}

fn queue(size: usize) -> Queue {
    Queue {
        size,
        block_size: 100_000,
    }
}

#[test]
fn as_many_bytes_may_wait_as_were_asked_for_and_two_blocks_of_any_length() {
    let queue = |size| Queue {
        size,
        block_size: 100,
    };
    assert_eq!([0, 1, 100].map(|len| queue(10).most(len)), [10; 3]);
    assert_eq!([101, 250, 500].map(|len| queue(10).most(len)), [9, 4, 2]);
    assert_eq!([1000, 100_000].map(|len| queue(10).most(len)), [2; 2]);
    assert_eq!([1, 100, 100_000].map(|len| queue(1).most(len)), [1; 3]);
}

/// Buffers that were as long as a long block are not kept beside those of short ones.
#[test]
fn a_tap_holds_no_more_than_its_queue_does() {
    thread::scope(|scope| {
        let pool = HashPool::start(scope, Algorithm::Blake3, Backend::best(), 1, queue(10));
        let mut client = pool.client();
        for _ in 0..20 {
            for len in [1 << 20, 100] {
                let mut stream_hasher = client.begin(u64::MAX);
                for _ in 0..30 {
                    stream_hasher.push(&vec![7; len]);
                }
                stream_hasher.finish().unwrap();
                let held: usize = client.spare.iter().map(Vec::capacity).sum();
                assert!(held <= 3 << 20, "{held}");
            }
        }
    });
}

#[test]
fn streams_of_many_taps_get_their_own_digests() {
    let ways = Backend::all().map(|backend| (backend, Algorithm::Sha256));
    for (backend, algorithm) in ways.chain([(Backend::best(), Algorithm::Blake3)]) {
        thread::scope(|scope| {
            let pool = HashPool::start(scope, algorithm, backend, 2, queue(3));
            let pool = &pool;
            thread::scope(|scope| {
                for worker in 0..5 {
                    scope.spawn(move || {
                        let mut client = pool.client();
                        for len in [0, 1, 1000, 70_001, 150_000] {
                            let file = bytes(worker, len);
                            // The announced length is a hint, and differs from the length of the
                            // file.
                            let mut stream_hasher = client.begin(u64::MAX);
                            for chunk in file.chunks(70_000) {
                                stream_hasher.push(chunk);
                            }
                            let expected = digests(algorithm, &[&file])[0];
                            let found = stream_hasher.finish();
                            assert_eq!(
                                found,
                                Some(Contents::Digest(expected)),
                                "{backend} {worker} {len}"
                            );
                        }
                    });
                }
            });
        });
    }
}

#[test]
fn a_stream_that_is_given_up_leaves_the_next_one_alone() {
    for backend in Backend::all() {
        thread::scope(|scope| {
            let pool = HashPool::start(scope, Algorithm::Sha256, backend, 1, queue(2));
            let mut client = pool.client();
            for _ in 0..20 {
                let mut stream_hasher = client.begin(u64::MAX);
                stream_hasher.push(&[1; 5000]);
                stream_hasher.push(&[2; 5000]);
                drop(stream_hasher);
                let mut stream_hasher = client.begin(u64::MAX);
                stream_hasher.push(b"abc");
                let expected = digests(Algorithm::Sha256, &[b"abc"])[0];
                assert_eq!(
                    stream_hasher.finish(),
                    Some(Contents::Digest(expected)),
                    "{backend}"
                );
            }
        });
    }
}

#[test]
fn who_is_too_far_ahead_waits() {
    thread::scope(|scope| {
        let pool = HashPool::start(scope, Algorithm::Sha256, Backend::best(), 1, queue(4));
        let mut client = pool.client();
        let mut stream_hasher = client.begin(u64::MAX);
        for _ in 0..1000 {
            stream_hasher.push(&[7; 10_000]);
        }
        assert!(stream_hasher.finish().is_some());
        assert!(client.n_buffers <= 4);
    });
}

#[test]
fn files_are_handed_over_while_a_core_would_be_idle() {
    thread::scope(|scope| {
        let pool = HashPool::start(scope, Algorithm::Blake3, Backend::best(), 1, queue(4));
        let (mut client, mut other) = (pool.client(), pool.client());
        assert!(matches!(client.begin(SHORT).route, Route::Local(..)));
        let lone = client.begin(SHORT + 1);
        assert!(matches!(lone.route, Route::Remote(_)));
        assert!(matches!(other.begin(SHORT + 1).route, Route::Local(..)));
        drop(lone);
        assert!(matches!(other.begin(SHORT + 1).route, Route::Remote(_)));
    });
}

#[test]
fn short_files_are_kept_where_there_are_lanes_and_hashed_at_once_where_there_are_none() {
    for backend in Backend::all() {
        thread::scope(|scope| {
            let pool = HashPool::start(scope, Algorithm::Sha256, backend, 1, queue(4));
            let mut client = pool.client();
            for len in [0, 1, 5000, SHORT as usize] {
                let file = bytes(3, len);
                let mut stream_hasher = client.begin(len as u64);
                for chunk in file.chunks(1000) {
                    stream_hasher.push(chunk);
                }
                let contents = stream_hasher.finish().unwrap();
                assert_eq!(
                    client.digest_of(&contents),
                    digests(Algorithm::Sha256, &[&file])[0]
                );
                let is_kept = contents == Contents::Buffered(file);
                assert_eq!(is_kept, backend.lanes() > 1, "{backend} {len}");
            }
        });
    }
}

/// A file can be longer than it claimed to be.
#[test]
fn no_more_is_kept_than_a_short_file() {
    for backend in Backend::all() {
        thread::scope(|scope| {
            let pool = HashPool::start(scope, Algorithm::Sha256, backend, 1, queue(4));
            let mut client = pool.client();
            let file = bytes(5, SHORT as usize + 1);
            let mut stream_hasher = client.begin(0);
            for chunk in file.chunks(100_000) {
                stream_hasher.push(chunk);
            }
            let expected = digests(Algorithm::Sha256, &[&file])[0];
            assert_eq!(
                stream_hasher.finish(),
                Some(Contents::Digest(expected)),
                "{backend}"
            );
        });
    }
}

#[test]
fn what_was_kept_is_hashed_together() {
    for backend in Backend::all() {
        thread::scope(|scope| {
            let pool = HashPool::start(scope, Algorithm::Sha256, backend, 1, queue(4));
            let files: Vec<_> = (0..40).map(|at| bytes(at, at * 377)).collect();
            let files: Vec<_> = files.iter().map(Vec::as_slice).collect();
            let expected = digests(Algorithm::Sha256, &files);
            assert_eq!(pool.client().digests(&files), expected, "{backend}");
        });
    }
}

#[test]
fn short_files_that_are_wanted_at_once_are_not_kept() {
    for backend in Backend::all() {
        thread::scope(|scope| {
            let pool = HashPool::start(scope, Algorithm::Sha256, backend, 1, queue(4));
            let mut client = pool.client();
            let mut stream_hasher = client.begin_alone(3);
            stream_hasher.push(b"abc");
            let expected = digests(Algorithm::Sha256, &[b"abc"])[0];
            let found = stream_hasher.finish();
            assert_eq!(found, Some(Contents::Digest(expected)), "{backend}");
        });
    }
}

/// Where lanes cost time, they are shared only if no core is idle.
#[test]
fn two_streams_are_interleaved_if_all_cores_are_busy() {
    let Some(backend) = Backend::interleaved() else {
        eprintln!("SKIPPED: this processor has no instructions for SHA-256");
        return;
    };
    thread::scope(|scope| {
        let pool = HashPool::start(scope, Algorithm::Sha256, backend, 4, queue(4));
        let mut clients: Vec<_> = (0..8).map(|_| pool.client()).collect();
        let mut open = Vec::new();
        let n_open = |client| {
            open.push(Client::begin(client, u64::MAX));
            let n_open = pool.threads.iter().map(|worker| &worker.n_open);
            let mut n_open: Vec<_> = n_open.map(|n| n.load(Ordering::Relaxed)).collect();
            n_open.sort_unstable();
            n_open.try_into().unwrap()
        };
        let found: Vec<[usize; 4]> = clients.iter_mut().map(n_open).collect();
        let few = [[0, 0, 0, 1], [0, 0, 1, 1], [0, 0, 1, 2], [0, 0, 2, 2]];
        let many = [[0, 1, 2, 2], [0, 2, 2, 2], [1, 2, 2, 2], [2, 2, 2, 2]];
        assert_eq!(found, [few, many].concat());
    });
}

/// Full lanes take no longer than half of them, and a thread without streams leaves its core to
/// those who copy.
#[test]
fn the_lanes_of_one_thread_are_filled_before_those_of_the_next() {
    for backend in Backend::all().filter(|backend| backend.lanes() > 1) {
        thread::scope(|scope| {
            let pool = HashPool::start(scope, Algorithm::Sha256, backend, 2, queue(4));
            let mut clients: Vec<_> = (0..backend.lanes() + 2).map(|_| pool.client()).collect();
            let mut flows: Vec<_> = clients
                .iter_mut()
                .map(|client| client.begin(u64::MAX))
                .collect();
            let n_open = || {
                pool.threads
                    .iter()
                    .map(|worker| worker.n_open.load(Ordering::Relaxed))
            };
            let mut found: Vec<_> = n_open().collect();
            found.sort_unstable();
            assert_eq!(found, [2, backend.lanes()], "{backend}");
            flows.clear();
            assert_eq!(n_open().sum::<usize>(), 0, "{backend}");
        });
    }
}

/// One that brings nothing does not hold up the others.
#[test]
fn a_stream_without_bytes_is_not_waited_for() {
    for backend in Backend::all() {
        thread::scope(|scope| {
            // Where streams are hashed one by one, each has a thread.
            let n_threads = if backend.lanes() > 1 { 1 } else { 2 };
            let pool = HashPool::start(scope, Algorithm::Sha256, backend, n_threads, queue(2));
            let (mut idle, mut busy) = (pool.client(), pool.client());
            let idle = idle.begin(u64::MAX);
            let file = bytes(1, 2_000_000);
            let mut stream_hasher = busy.begin(u64::MAX);
            assert!(matches!(stream_hasher.route, Route::Remote(_)));
            for chunk in file.chunks(100_000) {
                stream_hasher.push(chunk);
            }
            let expected = digests(Algorithm::Sha256, &[&file])[0];
            assert_eq!(
                stream_hasher.finish(),
                Some(Contents::Digest(expected)),
                "{backend}"
            );
            drop(idle);
        });
    }
}

/// Long blocks would have others wait for long. As many bytes may wait as were asked for all the
/// same.
#[test]
fn long_blocks_are_hashed_in_pieces_where_there_are_lanes() {
    for backend in Backend::all() {
        thread::scope(|scope| {
            for (size, block_size) in [
                (10, 1 << 20),
                (1, 4 << 20),
                (3, PIECE),
                (3, PIECE + 1),
                (3, 200_000),
                (3, 5000),
            ] {
                let queue = Queue { size, block_size };
                let pool = HashPool::start(scope, Algorithm::Sha256, backend, 1, queue);
                let Queue {
                    size: n_pieces,
                    block_size: piece,
                } = pool.queue;
                let (held, wanted) = (n_pieces * piece, size * block_size);
                assert!(
                    (wanted..wanted + n_pieces).contains(&held),
                    "{backend}: {held}"
                );
                assert!(piece <= PIECE || backend.lanes() == 1, "{backend}");
                let file = bytes(1, 1_000_001);
                let mut client = pool.client();
                let mut stream_hasher = client.begin(u64::MAX);
                for chunk in file.chunks(430_000) {
                    stream_hasher.push(chunk);
                }
                let expected = digests(Algorithm::Sha256, &[&file])[0];
                assert_eq!(
                    stream_hasher.finish(),
                    Some(Contents::Digest(expected)),
                    "{backend}"
                );
            }
        });
    }
}

#[test]
fn an_open_stream_tells_the_digests_of_its_first_bytes() {
    let algorithms = [Algorithm::Sha256, Algorithm::Blake3];
    for (backend, algorithm) in
        Backend::all().flat_map(|backend| algorithms.map(|algorithm| (backend, algorithm)))
    {
        for n_threads in [0, 1, 2] {
            thread::scope(|scope| {
                let pool = HashPool::start(scope, algorithm, backend, n_threads, queue(3));
                let (mut client, mut other) = (pool.client(), pool.client());
                let all = bytes(5, 1_000_003);
                let mut neighbour = other.begin_alone(u64::MAX);
                let mut stream = client.begin_alone(u64::MAX);
                let mut expected = Vec::new();
                let mut pushed = 0;
                for len in [0, 1, 63, 64, 65, 300_000, 0, 500_000] {
                    stream.push(&all[pushed..pushed + len]);
                    neighbour.push(&all[..len / 2]);
                    pushed += len;
                    stream.request_digest();
                    expected.extend(digests(algorithm, &[&all[..pushed]]));
                }
                let mut found: Vec<_> = stream.requested_digest().into_iter().collect();
                while found.len() < expected.len() {
                    neighbour.push(&[1; 1000]);
                    found.extend(stream.wait_for_digest());
                }
                assert_eq!(found, expected, "{backend} {algorithm:?} {n_threads}");
                assert_eq!(stream.requested_digest(), None);
                stream.push(&all[pushed..]);
                let whole = digests(algorithm, &[&all])[0];
                assert_eq!(stream.finish(), Some(Contents::Digest(whole)));
                drop(neighbour);
                // A request without an answer is forgotten with its stream.
                let mut stream = client.begin_alone(u64::MAX);
                stream.push(&all);
                stream.request_digest();
                stream.restart();
                stream.push(b"abc");
                stream.request_digest();
                assert_eq!(
                    stream.wait_for_digest(),
                    digests(algorithm, &[b"abc"]).pop()
                );
                stream.request_digest();
                drop(stream);
                let mut stream = client.begin_alone(u64::MAX);
                stream.request_digest();
                assert_eq!(stream.wait_for_digest(), digests(algorithm, &[b""]).pop());
            });
        }
    }
}
