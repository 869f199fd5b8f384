//! Says which way the bytes of one path would go to another, and why. Moves nothing.
//!
//! `cargo run --release --example explain -- SRC DST`
//!
//! Paths of pipes, terminals and devices will do: `explain /dev/zero /dev/null`, `explain /dev/stdin FILE`.

#![allow(clippy::print_stdout, reason = "the plan is for whoever runs it")]

use std::error::Error;
use std::fs::File;

use zcopy::Transfer;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(from), Some(to)) = (arguments.next(), arguments.next()) else {
        return Err("usage: explain SRC DST".into());
    };
    let source = File::open(&from)?;
    // Opened for writing and not touched.
    let sink = File::options().write(true).open(&to)?;
    let transfer = Transfer::new(&source, &sink);

    println!("{}", transfer.plan()?);
    println!();
    println!("and if the source must not change under the reader:");
    println!("{}", transfer.stable(true).plan()?);
    Ok(())
}
