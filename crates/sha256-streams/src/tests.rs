use super::padded;

#[test]
fn the_padding_is_the_standards() {
    for len in 0..64 {
        let rest: Vec<u8> = (1..=len).collect();
        let n_bytes = 64 * 1_000_000_000_007 + u64::from(len);
        let (blocks, n_blocks) = padded(&rest, n_bytes);
        let bytes = blocks[..n_blocks].as_flattened();
        let (rest, padding) = bytes.split_at(len.into());
        assert_eq!(rest, (1..=len).collect::<Vec<_>>());
        let (mark, zeros) = padding.split_first().unwrap();
        assert_eq!(*mark, 0x80);
        let (zeros, length) = zeros.split_at(zeros.len() - 8);
        assert!(zeros.iter().all(|byte| *byte == 0) && zeros.len() < 64);
        assert_eq!(length, (n_bytes * 8).to_be_bytes());
    }
}
