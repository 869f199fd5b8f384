//! `tee` in its smallest form: copies standard input to standard output and to files.
//!
//! `cargo run --release --example tee -- [-a] [FILE]...`
//!
//! With `-a` it appends to the files. The others receive everything when one file fails.

use std::fs::File;
use std::io::{Write, stderr, stdin, stdout};
use std::process::ExitCode;

use zcopy::{FanOut, OnSinkError};

fn main() -> ExitCode {
    let mut failed = false;
    let mut complain = |name: &str, error: &dyn std::fmt::Display| {
        failed = true;
        let _ = writeln!(stderr(), "tee: {name}: {error}");
    };
    let mut names: Vec<_> = std::env::args_os().skip(1).collect();
    let appends = names.first().is_some_and(|name| name == "-a");
    names.drain(..usize::from(appends));

    // The names of the sinks, in the order of their indices.
    let mut sinks = vec!["standard output".to_owned()];
    let mut fan_out = FanOut::new(stdin(), stdout());
    for name in names {
        let mut options = File::options();
        let options = options.create(true).write(true);
        let shown = name.display().to_string();
        match options.append(appends).truncate(!appends).open(&name) {
            Ok(file) => {
                fan_out = fan_out.also_to(file);
                sinks.push(shown);
            }
            Err(error) => complain(&shown, &error),
        }
    }
    let copied = fan_out
        // By default the first sink that fails ends the transfer.
        .on_sink_error_with(|sink| {
            if let Some(error) = sink.error() {
                complain(&sinks[sink.index()], &error);
            }
            OnSinkError::Detach
        })
        .run();
    if let Err(error) = copied {
        failed = true;
        let _ = writeln!(stderr(), "tee: {:#}", anyhow::Error::from(error));
    }
    ExitCode::from(u8::from(failed))
}
