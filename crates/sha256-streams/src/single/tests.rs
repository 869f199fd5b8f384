use crate::{Block, Compressor, INITIAL};

#[test]
fn any_number_of_blocks_goes_on_from_any_state() {
    let blocks: Vec<Block> = (0..40_usize)
        .map(|at| std::array::from_fn(|byte| (at * 31 + byte * byte) as u8))
        .collect();
    for compressor in Compressor::all() {
        for n in 0..blocks.len() {
            let mut found = INITIAL.map(|word| word.rotate_left(n as u32));
            let mut expected = found;
            compressor.compress_one(&mut found, &blocks[..n]);
            sha2::block_api::compress256(&mut expected, &blocks[..n]);
            assert_eq!(found, expected, "{compressor}, {n} blocks");
        }
    }
}
