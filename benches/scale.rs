//! Many transfers in one process, and short messages through one relay: what a server needs to know.
//!
//! The process that serves belongs to an unprivileged user; this one has its peers. `bulk_relays`
//! and `downloads` measure the throughput of 1 to 256 connections at full speed, the processor time
//! and the memory of the process, and how equal the parts of the connections are, in turns of random
//! order. `mixed_relays` answers small questions beside bulk, with 50 to 1,000 relays, and fails if
//! ours need more than they promise. `ping_pong` measures round trips of 64 bytes to 64 KiB. Arguments
//! choose loads and drivers by a part of their name. `--receive-buffer BYTES` sets `SO_RCVBUF` of the
//! sockets of `bulk_relays` and `downloads`, which the kernel enlarges otherwise. `--record DIR` also
//! writes the curves into a record.

#![allow(
    clippy::cast_precision_loss,
    clippy::expect_used,
    reason = "figures have three digits, and a benchmark that cannot run says why and ends"
)]

#[path = "scale/bulk.rs"]
mod bulk;
#[path = "scale/mixed.rs"]
mod mixed;
#[path = "scale/ping_pong.rs"]
mod ping_pong;
#[path = "scale/process.rs"]
mod process;
mod recording;
mod runtime;
#[path = "scale/serve.rs"]
mod serve;

use std::num::NonZeroUsize;
use std::process::ExitCode;

use recording::{Recording, take_option};

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, driver, n_clients, receive_buffer, backend] = &arguments[..]
        && first == serve::SERVE
    {
        serve::serve(driver, n_clients, receive_buffer, backend);
        return ExitCode::SUCCESS;
    }
    let mut recording = Recording::begin("scale", &mut arguments);
    // One command line serves `tools`, too.
    take_option(&mut arguments, "--peers");
    let receive_buffer = take_option(&mut arguments, "--receive-buffer").map(|bytes| {
        let bytes: NonZeroUsize = bytes
            .parse()
            .expect("--receive-buffer needs a number above 0");
        bytes.get()
    });
    let is_test = arguments.iter().any(|argument| argument == "--test");
    let wanted: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    let is_wanted =
        |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()));
    recording.wait();
    let mut curves = bulk::report(is_test, receive_buffer, is_wanted);
    let trips = ping_pong::report(is_test, is_wanted).expect("the relays go on");
    let (answers, missed) = mixed::report(is_test, is_wanted);
    curves.extend(trips.into_iter().chain(answers));
    assert!(!curves.is_empty(), "no curve has such a name");
    recording.end(
        wanted.is_empty(),
        curves,
        |raw| &mut raw.curves,
        |a, b| (&a.figure, &a.name) == (&b.figure, &b.name),
    );
    for bar in &missed {
        eprintln!("missed: {bar}");
    }
    if missed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
