//! `zc-yes`: repeats a line for ever, by the best route the kernel offers.

use std::process::ExitCode;

use zcopy_cli::{args, exit, yes};

fn main() -> ExitCode {
    exit::prepare();
    let args = match args::parse::<yes::Args>() {
        Ok(args) => args,
        Err(status) => return status,
    };
    match yes::run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            exit::complain(&error);
            ExitCode::FAILURE
        }
    }
}
