use super::Stream;
use crate::common::digest::Algorithm;

#[test]
fn digests_are_those_of_the_standards() {
    let million = vec![b'a'; 1_000_000];
    for (algorithm, bytes, expected) in [
        (
            Algorithm::Sha256,
            &b""[..],
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ),
        (
            Algorithm::Sha256,
            b"abc",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
        (
            Algorithm::Sha256,
            &million,
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
        ),
        (
            Algorithm::Blake3,
            b"",
            "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
        ),
        (
            Algorithm::Blake3,
            b"abc",
            "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
        ),
    ] {
        let mut stream = Stream::new(algorithm);
        stream.update(bytes);
        assert_eq!(stream.finish().to_string(), expected, "{algorithm:?}");
    }
}

#[test]
fn it_does_not_matter_where_the_bytes_are_cut() {
    let bytes: Vec<u8> = (0..5000_u32).map(|at| ((at * at) >> 3) as u8).collect();
    for algorithm in [Algorithm::Sha256, Algorithm::Blake3] {
        let mut whole = Stream::new(algorithm);
        whole.update(&bytes);
        let whole = whole.finish();
        for len in [1, 63, 64, 65, 1024, 4999] {
            let mut stream = Stream::new(algorithm);
            for chunk in bytes.chunks(len) {
                stream.update(chunk);
            }
            assert_eq!(stream.finish(), whole, "{algorithm:?} by {len}");
        }
    }
    assert_eq!(
        Stream::new(Algorithm::Sha256).clone().finish().to_string()[..8],
        *"e3b0c442"
    );
}
