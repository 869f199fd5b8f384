use super::{Job, hash_jobs};
use crate::{Block, Compressor, INITIAL};

#[test]
fn head_body_and_tail_are_hashed_in_this_order() {
    let blocks: Vec<Block> = (0..6).map(|at| [at; 64]).collect();
    for compressor in Compressor::all() {
        for n in 0..20 {
            let jobs = (0..n).map(|owner| Job {
                owner,
                state: INITIAL,
                head: &blocks[..owner % 3],
                body: &blocks[2..2 + owner % 4],
                tail: ([[8; 64], [9; 64]], owner % 2 + owner % 5 % 2),
            });
            let mut found = vec![None; n];
            hash_jobs(compressor, jobs, |owner, state| {
                assert_eq!(found[owner].replace(state), None, "each is done once");
            });
            for (owner, found) in found.into_iter().enumerate() {
                let mut expected = INITIAL;
                let tail = &[[8; 64], [9; 64]][..owner % 2 + owner % 5 % 2];
                for blocks in [&blocks[..owner % 3], &blocks[2..2 + owner % 4], tail] {
                    sha2::block_api::compress256(&mut expected, blocks);
                }
                assert_eq!(found, Some(expected), "{compressor}, {owner} of {n}");
            }
        }
    }
}
