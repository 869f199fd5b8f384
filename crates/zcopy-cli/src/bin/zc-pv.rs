//! `zc-pv`: moves bytes, and shows how far they have come.

use std::process::ExitCode;

use zcopy_cli::common::cli::args;
use zcopy_cli::common::cli::message;
use zcopy_cli::common::sys;
use zcopy_cli::pv;

fn main() -> ExitCode {
    message::prepare();
    // Two of its three threads seldom allocate.
    sys::share_heap();
    match args::parse_with_equals_signs::<pv::Args>(pv::MISUSE) {
        Ok((args, matches)) => pv::run(&args, &matches),
        Err(status) => status,
    }
}
