//! `zc-yes`: repeats a line for ever, by the best route the kernel offers.

use std::process::ExitCode;

use zcopy_cli::common::cli::args;
use zcopy_cli::common::cli::message;
use zcopy_cli::yes;

fn main() -> ExitCode {
    message::prepare();
    let args = match args::parse::<yes::Args>() {
        Ok(args) => args,
        Err(status) => return status,
    };
    match yes::run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            message::error(&error);
            ExitCode::FAILURE
        }
    }
}
