//! Joins every TCP connection to one address with a new one to a backend, both ways.
//!
//! `cargo run --release --example relay -- LISTEN-ADDRESS BACKEND-ADDRESS [IDLE-SECONDS
//! [CONNECTIONS]]`
//!
//! Port 0 takes any. Prints the address on the first line, and then one line for each connection
//! that has ended, with the bytes in both directions. A connection ends when nothing has moved for
//! IDLE-SECONDS [default: 300]. SIGINT and SIGTERM end the relay and all connections, and so does
//! the end of the last of CONNECTIONS connections [default: no limit].

use std::io::{ErrorKind, Read, Write, stderr, stdout};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustix::event::{PollFd, PollFlags, poll};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use zcopy::{Ended, Relay, RelayReport, Stop};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// `eprintln!` panics where standard error cannot be written.
fn complain(error: &anyhow::Error) {
    let _ = writeln!(stderr(), "relay: {error:#}");
}

fn run() -> anyhow::Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [listen, backend, numbers @ ..] = &arguments[..] else {
        bail!("usage: relay LISTEN-ADDRESS BACKEND-ADDRESS [IDLE-SECONDS [CONNECTIONS]]");
    };
    let idle = numbers.first().map_or("300", String::as_str);
    let idle = Duration::try_from_secs_f64(idle.parse().context("IDLE-SECONDS")?)?;
    let connections = numbers.get(1).map_or(Ok(u64::MAX), |n| n.parse());
    let connections = connections.context("CONNECTIONS")?;
    let backend = backend
        .to_socket_addrs()
        .with_context(|| backend.clone())?
        .next();
    let backend = backend.context("the backend has no address")?;

    let stop = stop_at_signals()?;
    let listener = TcpListener::bind(listen).with_context(|| listen.clone())?;
    // It is polled together with the signals.
    listener.set_nonblocking(true)?;
    writeln!(stdout(), "{}", listener.local_addr()?).context("standard output")?;
    // The scope ends when the last of its threads has.
    thread::scope(|threads| {
        let mut accepted = 0;
        while accepted < connections && !stop.is_stopped() {
            let [client, signal] = [
                PollFd::new(&listener, PollFlags::IN),
                PollFd::new(&stop, PollFlags::IN),
            ];
            let _ = poll(&mut [client, signal], None);
            let client = listener.accept();
            if client
                .as_ref()
                .is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
            {
                continue;
            }
            accepted += 1;
            let (client, peer) = match client {
                Ok(client) => client,
                Err(error) => {
                    complain(&anyhow::Error::from(error).context("accept"));
                    // Too many open files, for example: give others the time to end.
                    thread::sleep(Duration::from_millis(100));
                    continue;
                }
            };
            let stop = &stop;
            let serve = move || {
                let served = join(client, peer, backend, idle, stop);
                served.unwrap_or_else(|error| complain(&error.context(peer.to_string())));
            };
            let thread = thread::Builder::new().spawn_scoped(threads, serve);
            if let Err(error) = thread {
                complain(&anyhow::Error::from(error).context("a thread for a client"));
            }
        }
    });
    Ok(())
}

/// Moves bytes both ways until both ways have ended, and prints how many.
fn join(
    client: TcpStream,
    peer: SocketAddr,
    backend: SocketAddr,
    idle: Duration,
    stop: &Stop,
) -> anyhow::Result<()> {
    let server = TcpStream::connect_timeout(&backend, CONNECT_TIMEOUT).context("the backend")?;
    // Bytes go on at once: their sender has decided how to divide them into segments.
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let print = |report: &RelayReport| {
        let (there, back) = (report.a_to_b().bytes(), report.b_to_a().bytes());
        writeln!(stdout(), "{peer}: {there} bytes there, {back} bytes back")
            .context("standard output")
    };
    match Relay::new(client, server)
        .idle_timeout(idle)
        .stop_with(stop)
        .run()
    {
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

/// Returns what SIGINT and SIGTERM stop.
fn stop_at_signals() -> anyhow::Result<Stop> {
    let stop = Stop::new()?;
    let (mut reader, writer) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM] {
        // The handler writes one byte.
        pipe::register(signal, writer.try_clone()?)?;
    }
    let stopper = stop.clone();
    thread::Builder::new().spawn(move || {
        while reader.read(&mut [0]).is_err() {}
        stopper.stop();
    })?;
    Ok(stop)
}
