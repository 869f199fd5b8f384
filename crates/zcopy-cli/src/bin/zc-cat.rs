//! `zc-cat`: concatenates files to standard output, by the best route the kernel offers.

use std::process::ExitCode;

use zcopy_cli::cat::{self, Outcome};
use zcopy_cli::common::cli::args;
use zcopy_cli::common::cli::message;

fn main() -> ExitCode {
    message::prepare();
    let (args, files) = match args::parse_beside_operands::<cat::Args>() {
        Ok(parsed) => parsed,
        Err(status) => return status,
    };
    match cat::run(&args, &files) {
        Ok(Outcome::Complete) => ExitCode::SUCCESS,
        Ok(Outcome::Incomplete) => ExitCode::FAILURE,
        Err(error) => {
            message::error(&error);
            ExitCode::FAILURE
        }
    }
}
