use super::compress;
use crate::{Block, INITIAL, levels, width};

#[test]
fn every_lane_has_its_own_blocks_and_state() {
    for level in levels() {
        let n = width(level);
        let block = |lane: usize, at: usize| -> Block {
            std::array::from_fn(|byte| (lane * 83 + at * 29 + byte * 7) as u8)
        };
        let blocks: Vec<Vec<_>> = (0..n)
            .map(|lane| (0..5).map(|at| block(lane, at)).collect())
            .collect();
        let mut states: Vec<_> = (0..n)
            .map(|lane| INITIAL.map(|word| word ^ lane as u32))
            .collect();
        let mut expected = states.clone();
        for (state, blocks) in expected.iter_mut().zip(&blocks) {
            sha2::block_api::compress256(state, blocks);
        }
        let blocks: Vec<_> = blocks.iter().map(Vec::as_slice).collect();
        compress(level, &mut states, &blocks);
        assert_eq!(states, expected, "{level:?}");
    }
}

#[test]
fn the_lane_with_the_fewest_blocks_says_how_many() {
    for level in levels() {
        let n = width(level);
        for shortest in 0..n {
            let blocks = vec![[7; 64]; n + 2];
            let blocks: Vec<_> = (0..n)
                .map(|lane| &blocks[..if lane == shortest { 1 } else { lane + 2 }])
                .collect();
            let mut states = vec![INITIAL; n];
            compress(level, &mut states, &blocks);
            let mut expected = INITIAL;
            sha2::block_api::compress256(&mut expected, &[[7; 64]]);
            assert_eq!(states, vec![expected; n], "{level:?}");
        }
    }
}
