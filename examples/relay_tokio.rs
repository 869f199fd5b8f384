//! Joins every TCP connection to one address with a new one to a backend, both ways, as tasks of
//! tokio: one thread for all connections.
//!
//! `cargo run --release --features tokio --example relay_tokio -- LISTEN-ADDRESS BACKEND-ADDRESS
//! [IDLE-SECONDS]`
//!
//! Port 0 takes any. Prints the address on the first line, and then one line for each connection
//! that has ended, with the bytes in both directions. A connection ends when nothing has moved for
//! IDLE-SECONDS [default: 300]. SIGINT and SIGTERM end the relay and all connections.

use std::io::{Write, stderr, stdout};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use zcopy::{Ended, Relay, RelayReport, Stop};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime
        .context("tokio")
        .and_then(|runtime| runtime.block_on(run()))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// `eprintln!` panics where standard error cannot be written.
fn complain(error: &anyhow::Error) {
    let _ = writeln!(stderr(), "relay_tokio: {error:#}");
}

async fn run() -> anyhow::Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [listen, backend, numbers @ ..] = &arguments[..] else {
        bail!("usage: relay_tokio LISTEN-ADDRESS BACKEND-ADDRESS [IDLE-SECONDS]");
    };
    let idle = numbers.first().map_or("300", String::as_str);
    let idle = Duration::try_from_secs_f64(idle.parse().context("IDLE-SECONDS")?)?;

    let stop = Stop::new()?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| listen.clone())?;
    writeln!(stdout(), "{}", listener.local_addr()?).context("standard output")?;
    let mut relays = JoinSet::new();
    loop {
        tokio::select! {
            _ = interrupted.recv() => break,
            _ = terminated.recv() => break,
            // Gives back what the tasks have left.
            Some(_) = relays.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((client, peer)) => {
                    let (backend, stop) = (backend.clone(), stop.clone());
                    relays.spawn(async move {
                        let result = join(client, peer, &backend, idle, &stop).await;
                        result.unwrap_or_else(|error| complain(&error.context(peer.to_string())));
                    });
                }
                Err(error) => {
                    complain(&anyhow::Error::from(error).context("accept"));
                    // Too many open files, for example: give others the time to end.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
        }
    }
    // A task that is dropped would lose the bytes that it has in flight: each relay ends by itself.
    stop.stop();
    while relays.join_next().await.is_some() {}
    Ok(())
}

/// Moves bytes both ways until both ways have ended, and prints how many.
async fn join(
    client: TcpStream,
    peer: SocketAddr,
    backend: &str,
    idle: Duration,
    stop: &Stop,
) -> anyhow::Result<()> {
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(backend)).await;
    let server = connected.context("the backend")?.context("the backend")?;
    // Bytes go on at once: their sender has decided how to divide them into segments.
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let print = |report: &RelayReport| {
        let (there, back) = (report.a_to_b().bytes(), report.b_to_a().bytes());
        let line = writeln!(stdout(), "{peer}: {there} bytes there, {back} bytes back");
        line.context("standard output")
    };
    // The ends are tokio's own streams, which wait by the registration that they have.
    let relay = Relay::new(client, server)
        .idle_timeout(idle)
        .stop_with(stop);
    match relay.run_async().await {
        Ok(report) => {
            print(&report)?;
            let is_idle = report.ended() == Ended::TimedOut;
            ensure!(!is_idle, "nothing has moved for {idle:?}");
            Ok(())
        }
        Err(error) => {
            if let Some(report) = error.relay_report() {
                print(report)?;
            }
            Err(error.into())
        }
    }
}
