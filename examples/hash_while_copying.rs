//! Copies one file to another and prints the SHA-256 of the bytes that arrived, in one pass.
//!
//! `cargo run --release --example hash_while_copying -- SRC DST`
//!
//! The line it prints can be checked by `sha256sum -c`.

#![allow(clippy::print_stdout, reason = "the digest is for whoever runs it")]

use std::error::Error;
use std::fs::File;

use sha2::{Digest, Sha256};
use zcopy::Transfer;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(from), Some(to)) = (arguments.next(), arguments.next()) else {
        return Err("usage: hash_while_copying SRC DST".into());
    };
    let source = File::open(&from)?;
    let sink = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&to)?;

    let mut hash = Sha256::new();
    // Whoever inspects sees every byte that the sink accepted, once and in order. The plan knows
    // that the bytes then have to pass through user space.
    let report = Transfer::new(&source, &sink)
        .inspect(|bytes| hash.update(bytes))
        .run()?;
    if sink.metadata()?.is_file() {
        sink.set_len(report.bytes())?;
    }

    for byte in hash.finalize() {
        print!("{byte:02x}");
    }
    println!("  {}", to.display());
    Ok(())
}
