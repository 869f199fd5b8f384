use proptest::prelude::*;
use sha2::Digest as _;

use super::{MultiStream, StreamId};
use crate::common::digest::{Algorithm, Backend, Digest, Stream, digests};

/// What `sha2` makes of it.
fn oracle(bytes: &[u8]) -> Digest {
    Digest::from_bytes(sha2::Sha256::digest(bytes).into())
}

/// Bytes that differ from place to place and from seed to seed.
fn bytes(len: usize, seed: u8) -> Vec<u8> {
    let seed = usize::from(seed);
    (0..len)
        .map(|at| (at.wrapping_mul(at + seed) >> 2) as u8 ^ seed as u8)
        .collect()
}

#[test]
fn a_stream_cut_anywhere_is_right_whoever_else_is_there() {
    let input = bytes(400, 7);
    let expected = oracle(&input);
    for backend in Backend::all() {
        for n_others in [0, 1, 2, 9] {
            for cut in (0..=input.len()).filter(|cut| cut % 64 < 3 || cut % 64 > 61) {
                let mut lanes = MultiStream::by(Algorithm::Sha256, backend);
                let others: Vec<_> = (0..n_others).map(|_| lanes.open()).collect();
                let lane = lanes.open();
                let all = others.iter().chain([&lane]);
                lanes.push_together(&all.map(|lane| (lane, &input[..cut])).collect::<Vec<_>>());
                lanes.push(&lane, &input[cut..]);
                let found = lanes.finish(lane);
                assert_eq!(found, expected, "{backend}, {n_others} others, {cut}");
                for other in others {
                    assert_eq!(
                        lanes.finish(other),
                        oracle(&input[..cut]),
                        "{backend}, {cut}"
                    );
                }
            }
        }
    }
}

#[test]
fn only_parts_of_blocks_wait() {
    for backend in Backend::all() {
        let mut lanes = MultiStream::by(Algorithm::Sha256, backend);
        let inputs: Vec<_> = (0..4).map(|seed| bytes(10_077, seed)).collect();
        let open: Vec<_> = inputs.iter().map(|_| lanes.open()).collect();
        for at in (0..10_077).step_by(1001) {
            for (lane, input) in open.iter().zip(&inputs) {
                lanes.push(lane, &input[at..input.len().min(at + 1001)]);
            }
            for slot in &lanes.slots {
                if let super::Slot::InLane(stream) = slot {
                    assert!(stream.waiting.len() < super::BLOCK, "{backend}");
                }
            }
        }
        for (lane, input) in open.into_iter().zip(&inputs) {
            assert_eq!(lanes.finish(lane), oracle(input), "{backend}");
        }
    }
}

#[test]
fn places_are_used_again() {
    let mut lanes = MultiStream::by(Algorithm::Sha256, Backend::in_lanes());
    for round in 0..20 {
        let open: Vec<_> = (0..10).map(|_| lanes.open()).collect();
        for (lane, seed) in open.iter().zip(0..) {
            lanes.push(lane, &bytes(round * 13, seed));
        }
        for (lane, seed) in open.into_iter().zip(0..) {
            if seed == 3 {
                lanes.abandon(lane);
            } else {
                assert_eq!(lanes.finish(lane), oracle(&bytes(round * 13, seed)));
            }
        }
        assert_eq!(lanes.slots.len(), 10);
    }
}

#[test]
fn an_ended_stream_is_hashed_with_the_others() {
    let mut lanes = MultiStream::by(Algorithm::Sha256, Backend::in_lanes());
    let inputs: Vec<_> = (0..8)
        .map(|seed| bytes(usize::from(seed) * 50, seed))
        .collect();
    let mut ended: Vec<_> = inputs
        .iter()
        .map(|input| {
            let lane = lanes.open();
            lanes.push(&lane, input);
            lanes.end(&lane);
            lanes.end(&lane);
            lane
        })
        .collect();
    let last = ended.pop().unwrap();
    assert_eq!(lanes.finish(last), oracle(&inputs[7]));
    for slot in &lanes.slots {
        if let super::Slot::InLane(stream) = slot {
            assert!(stream.waiting.is_empty());
        }
    }
    let found: Vec<_> = ended.into_iter().map(|lane| lanes.finish(lane)).collect();
    let expected: Vec<_> = inputs[..7].iter().map(|input| oracle(input)).collect();
    assert_eq!(found, expected);
}

#[test]
#[should_panic(expected = "each open stream is given once")]
fn a_stream_that_is_named_twice_is_not_hashed_wrongly() {
    let mut lanes = MultiStream::by(Algorithm::Sha256, Backend::in_lanes());
    let lane = lanes.open();
    lanes.push_together(&[(&lane, b"a"), (&lane, b"b")]);
}

#[test]
#[should_panic(expected = "a stream that has ended gets no more bytes")]
fn a_stream_that_has_ended_takes_no_bytes() {
    let mut lanes = MultiStream::by(Algorithm::Sha256, Backend::in_lanes());
    let lane = lanes.open();
    lanes.end(&lane);
    lanes.push(&lane, b"a");
}

#[test]
fn blake3_streams_are_passed_on() {
    for backend in Backend::all() {
        let mut lanes = MultiStream::by(Algorithm::Blake3, backend);
        let (one, two) = (lanes.open(), lanes.open());
        lanes.push_together(&[(&one, b"a"), (&two, b"x")]);
        lanes.push(&one, b"bc");
        lanes.end(&one);
        let found = [lanes.finish(one), lanes.finish(two)];
        assert_eq!(found[..], digests(Algorithm::Blake3, &[b"abc", b"x"]));
    }
}

/// What may happen to streams.
#[derive(Clone, Debug)]
enum Event {
    Open,
    Push(usize, usize),
    Together(Vec<(usize, usize)>),
    End(usize),
    Finish(usize),
    Abandon(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let len = || prop_oneof![0..200_usize, 0..20_000_usize];
    let at = 0..64_usize;
    prop_oneof![
        4 => Just(Event::Open),
        8 => (at.clone(), len()).prop_map(|(at, len)| Event::Push(at, len)),
        3 => prop::collection::vec((at.clone(), len()), 0..10).prop_map(Event::Together),
        1 => at.clone().prop_map(Event::End),
        2 => at.clone().prop_map(Event::Finish),
        1 => at.prop_map(Event::Abandon),
    ]
}

/// A stream, what it should come to, and whether it has ended.
struct Held {
    lane: StreamId,
    expected: sha2::Sha256,
    ended: bool,
}

fn check(backend: Backend, events: &[Event]) {
    let mut lanes = MultiStream::by(Algorithm::Sha256, backend);
    let mut open: Vec<Held> = Vec::new();
    let mut seed = 0_u8;
    let finish = |lanes: &mut MultiStream, held: Held| {
        let expected = Digest::from_bytes(held.expected.finalize().into());
        assert_eq!(lanes.finish(held.lane), expected, "{backend}");
    };
    for event in events {
        seed = seed.wrapping_add(1);
        let n_open = open.len();
        match event {
            Event::Open => open.push(Held {
                lane: lanes.open(),
                expected: sha2::Sha256::new(),
                ended: false,
            }),
            _ if n_open == 0 => {}
            Event::Push(at, len) => {
                let held = &mut open[at % n_open];
                if !held.ended {
                    held.expected.update(bytes(*len, seed));
                    lanes.push(&held.lane, &bytes(*len, seed));
                }
            }
            Event::Together(chunks) => {
                let mut inputs = vec![None; n_open];
                for (at, len) in chunks {
                    let held = &mut open[at % n_open];
                    if !held.ended && inputs[at % n_open].is_none() {
                        held.expected.update(bytes(*len, seed));
                        inputs[at % n_open] = Some(bytes(*len, seed));
                    }
                }
                let pairs = open.iter().zip(&inputs);
                let chunks: Vec<_> = pairs
                    .filter_map(|(held, input)| Some((&held.lane, input.as_deref()?)))
                    .collect();
                lanes.push_together(&chunks);
            }
            Event::End(at) => {
                open[at % n_open].ended = true;
                lanes.end(&open[at % n_open].lane);
            }
            Event::Finish(at) => finish(&mut lanes, open.swap_remove(at % n_open)),
            Event::Abandon(at) => lanes.abandon(open.swap_remove(at % n_open).lane),
        }
    }
    for held in open {
        finish(&mut lanes, held);
    }
}

proptest! {
    // The vectors are slow where nothing is inlined.
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn whatever_happens_to_streams_their_digests_are_right(
        events in prop::collection::vec(event(), 0..120),
    ) {
        for backend in Backend::all() {
            check(backend, &events);
        }
    }
}

#[test]
fn sequential_a_lane_is_a_stream() {
    let mut lanes = MultiStream::by(Algorithm::Sha256, Backend::sequential());
    let lane = lanes.open();
    lanes.push(&lane, b"abc");
    let mut stream = Stream::new(Algorithm::Sha256);
    stream.update(b"abc");
    assert_eq!(lanes.finish(lane), stream.finish());
}
