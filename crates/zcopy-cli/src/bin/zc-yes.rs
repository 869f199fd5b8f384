//! `zc-yes`: repeats a line for ever, by the best route the kernel offers.

use std::process::ExitCode;

use zcopy_cli::common::cli::args;
use zcopy_cli::common::cli::message;
use zcopy_cli::yes;

fn main() -> ExitCode {
    message::prepare();
    let (args, strings) = match args::parse_beside_operands::<yes::Args>() {
        Ok(parsed) => parsed,
        Err(status) => return status,
    };
    match yes::run(&args, &strings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            message::error(&error);
            ExitCode::FAILURE
        }
    }
}
