//! Joins every TCP connection to one address with a new one to another, both ways.
//!
//! `cargo run --release --example relay -- LISTEN-ADDRESS UPSTREAM-ADDRESS [CONNECTIONS]`
//!
//! Port 0 takes any. Says where it listens on the first line it prints, and ends after so many
//! connections, or never.

use std::io::{ErrorKind, Write, stderr, stdout};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::ExitCode;
use std::thread;

use anyhow::{Context, bail};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // `eprintln!` panics where standard error cannot be written.
            let _ = writeln!(stderr(), "relay: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let arguments: Option<Vec<_>> = std::env::args_os()
        .skip(1)
        .map(|argument| argument.into_string().ok())
        .collect();
    let (listen, upstream, connections) = match arguments.as_deref() {
        Some([listen, upstream]) => (listen, upstream, usize::MAX),
        Some([listen, upstream, connections]) => {
            let connections = connections.parse().with_context(|| connections.clone())?;
            (listen, upstream, connections)
        }
        _ => bail!("usage: relay LISTEN-ADDRESS UPSTREAM-ADDRESS [CONNECTIONS]"),
    };
    let listener = TcpListener::bind(listen).with_context(|| listen.clone())?;
    writeln!(stdout(), "{}", listener.local_addr()?).context("standard output")?;
    thread::scope(|threads| {
        for client in listener.incoming().take(connections) {
            // One client's trouble is not the next one's.
            let report = |error| {
                let _ = writeln!(stderr(), "relay: {error:#}");
            };
            let serve = move || {
                let joined = client
                    .context("accept")
                    .and_then(|client| join(&client, upstream));
                joined.unwrap_or_else(report);
            };
            let thread = thread::Builder::new().spawn_scoped(threads, serve);
            if let Err(error) = thread.context("a thread for a client") {
                report(error);
            }
        }
    });
    Ok(())
}

/// Moves bytes both ways until both ways have ended.
fn join(client: &TcpStream, upstream: &str) -> anyhow::Result<()> {
    let server = &TcpStream::connect(upstream).with_context(|| upstream.to_owned())?;
    thread::scope(|threads| {
        let there = thread::Builder::new()
            .spawn_scoped(threads, || one_way(client, server))
            .context("a thread for the other way")?;
        let back = one_way(server, client);
        let there = there
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        there.context("from the client")?;
        back.context("to the client")
    })
}

/// Moves bytes until `from` says that it has no more, and passes that on: the other way stays open.
fn one_way(from: &TcpStream, to: &TcpStream) -> anyhow::Result<()> {
    let moved = zcopy::copy(from, to);
    if moved.is_err() {
        // Nothing can follow what was lost, so that the other way is of no use either.
        let _ = from.shutdown(Shutdown::Both);
    }
    let told = to.shutdown(Shutdown::Write);
    moved?;
    match told {
        // The peer may have gone already, and then there is nobody to tell.
        Err(error) if error.kind() != ErrorKind::NotConnected => {
            Err(error).context("the end of the bytes cannot be passed on")
        }
        _ => Ok(()),
    }
}
