//! Joins every TCP connection to one address with a new one to another, both ways.
//!
//! `cargo run --release --example relay -- LISTEN-ADDRESS UPSTREAM-ADDRESS [CONNECTIONS]`
//!
//! Port 0 takes any. Says where it listens on the first line it prints, and ends after so many
//! connections, or never.

#![allow(clippy::print_stdout, reason = "it says where it listens")]

use std::error::Error;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(listen), Some(upstream)) = (arguments.next(), arguments.next()) else {
        return Err("usage: relay LISTEN-ADDRESS UPSTREAM-ADDRESS [CONNECTIONS]".into());
    };
    let connections = arguments.next().map_or(Ok(usize::MAX), |n| n.parse())?;

    let listener = TcpListener::bind(&listen)?;
    println!("{}", listener.local_addr()?);
    thread::scope(|threads| {
        for client in listener.incoming().take(connections) {
            let upstream = &upstream;
            threads.spawn(move || {
                let joined =
                    client.and_then(|client| join(&client, &TcpStream::connect(upstream)?));
                if let Err(error) = joined {
                    eprintln!("relay: {error:#}");
                }
            });
        }
    });
    Ok(())
}

/// Moves bytes both ways until both ways have ended.
fn join(client: &TcpStream, server: &TcpStream) -> std::io::Result<()> {
    thread::scope(|threads| {
        let there = threads.spawn(|| one_way(client, server));
        let back = one_way(server, client);
        there
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            .and(back)
    })
}

/// Moves bytes until `from` says that it has no more, and passes that on: the other way stays open.
fn one_way(from: &TcpStream, to: &TcpStream) -> std::io::Result<()> {
    let moved = zcopy::copy(from, to);
    if moved.is_err() {
        // Nothing can follow what was lost, so that the other way is of no use either.
        let _ = from.shutdown(Shutdown::Both);
    }
    // The peer may have gone already, and then there is nobody to tell.
    let _ = to.shutdown(Shutdown::Write);
    moved.map(|_| ()).map_err(Into::into)
}
