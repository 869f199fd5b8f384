use super::{Job, run};
use crate::common::digest::Backend;
use crate::common::digest::backend::Kind;
use crate::common::digest::sha256::{Block, INITIAL};

#[test]
fn head_body_and_tail_are_hashed_in_this_order() {
    let blocks: Vec<Block> = (0..6).map(|at| [at; 64]).collect();
    for backend in Backend::all() {
        let Kind::MultiStream(compressor) = backend.kind() else {
            continue;
        };
        for n in 0..20 {
            let jobs = (0..n).map(|owner| Job {
                owner,
                state: INITIAL,
                head: &blocks[..owner % 3],
                body: &blocks[2..2 + owner % 4],
                tail: ([[8; 64], [9; 64]], owner % 2 + owner % 5 % 2),
            });
            let mut found = vec![None; n];
            run(compressor, jobs, |owner, state| {
                assert_eq!(found[owner].replace(state), None, "each is done once");
            });
            for (owner, found) in found.into_iter().enumerate() {
                let mut expected = INITIAL;
                let tail = &[[8; 64], [9; 64]][..owner % 2 + owner % 5 % 2];
                for blocks in [&blocks[..owner % 3], &blocks[2..2 + owner % 4], tail] {
                    sha2::block_api::compress256(&mut expected, blocks);
                }
                assert_eq!(found, Some(expected), "{backend}, {owner} of {n}");
            }
        }
    }
}
