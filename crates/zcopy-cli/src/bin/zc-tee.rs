//! `zc-tee`: copies standard input to files and to standard output, by the best route the kernel
//! offers.

use std::process::ExitCode;

use zcopy_cli::common::cli::args;
use zcopy_cli::common::cli::message;
use zcopy_cli::tee::{self, Outcome};

fn main() -> ExitCode {
    message::prepare();
    let args = match args::parse::<tee::Args>() {
        Ok(args) => args,
        Err(status) => return status,
    };
    match tee::run(&args) {
        Outcome::Complete => ExitCode::SUCCESS,
        Outcome::Incomplete => ExitCode::FAILURE,
    }
}
