//! `zc-dircopy`: copies a tree, and leaves the digests of all its files behind.

use std::process::ExitCode;

use zcopy_cli::common::cli::args;
use zcopy_cli::common::cli::message;
use zcopy_cli::dircopy::{self, MISUSE, Outcome};

fn main() -> ExitCode {
    message::prepare();
    let (args, matches) = match args::parse_as::<dircopy::Args>(MISUSE) {
        Ok(parsed) => parsed,
        Err(status) => return status,
    };
    match dircopy::run(&args, &matches) {
        Outcome::Complete => ExitCode::SUCCESS,
        Outcome::Incomplete => ExitCode::FAILURE,
        Outcome::Misused => MISUSE.into(),
    }
}
