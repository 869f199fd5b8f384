//! A process of an unprivileged user that serves, and the peers of its connections.

use std::io::{BufRead, BufReader, Error, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::net::sockopt;

use super::serve::{NO_BACKEND, SERVE, set_receive_buffer};

/// The user of the process. It owns nothing else, so that its budget for pipes is free.
const USER: u32 = 64_000;

/// The process. It ends when this is dropped.
pub(super) struct Serving {
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// The resources of the process.
#[derive(Clone, Copy)]
pub(super) struct Usage {
    pub(super) resident_bytes: u64,
    pub(super) n_pipes: u64,
    pub(super) pipe_bytes: u64,
    pub(super) cpu: Duration,
}

impl Serving {
    /// Starts relays, and connects a client and a server to each. Every socket gets the receive
    /// buffer, if there is one.
    pub(super) fn relays(
        driver: &str,
        n: usize,
        receive_buffer: Option<usize>,
    ) -> Result<(Self, Vec<(TcpStream, TcpStream)>)> {
        let backend = listener()?;
        let address = backend.local_addr()?.to_string();
        let (serving, relay) = Self::start(driver, n, receive_buffer, &address)?;
        let mut peers = Vec::with_capacity(n);
        for _ in 0..n {
            let client = connect(&relay, receive_buffer)?;
            let (server, _) = backend.accept()?;
            prepare(&server, receive_buffer)?;
            peers.push((client, server));
        }
        Ok((serving, peers))
    }

    /// Starts downloads, and connects a client to each. Every socket gets the receive buffer, if there
    /// is one.
    pub(super) fn downloads(
        driver: &str,
        n: usize,
        receive_buffer: Option<usize>,
    ) -> Result<(Self, Vec<TcpStream>)> {
        let (serving, server) = Self::start(driver, n, receive_buffer, NO_BACKEND)?;
        let clients = (0..n).map(|_| connect(&server, receive_buffer));
        Ok((serving, clients.collect::<Result<_>>()?))
    }

    /// Starts the process. Returns the address on which it listens, too.
    fn start(
        driver: &str,
        n: usize,
        receive_buffer: Option<usize>,
        backend: &str,
    ) -> Result<(Self, String)> {
        let receive_buffer = receive_buffer.unwrap_or(0).to_string();
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args([SERVE, driver, &n.to_string(), &receive_buffer, backend])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if rustix::process::geteuid().is_root() {
            command.uid(USER);
        }
        let mut process = command.spawn()?;
        let orders = process.stdin.take().expect("it is piped");
        let answers = BufReader::new(process.stdout.take().expect("it is piped"));
        let mut serving = Self {
            process,
            orders,
            answers,
        };
        let mut address = String::new();
        serving.answers.read_line(&mut address)?;
        Ok((serving, address.trim().to_owned()))
    }

    pub(super) fn usage(&mut self) -> Result<Usage> {
        writeln!(self.orders, "usage")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        let mut next = || match numbers.next() {
            Some(Ok(number)) => Ok(number),
            _ => Err(Error::other(format!("the process has ended: {line}"))),
        };
        Ok(Usage {
            resident_bytes: next()?,
            n_pipes: next()?,
            pipe_bytes: next()?,
            cpu: Duration::from_micros(next()?),
        })
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Two connected sockets, with nothing between them.
pub(super) fn connected() -> Result<(TcpStream, TcpStream)> {
    let listener = listener()?;
    let client = connect(&listener.local_addr()?.to_string(), None)?;
    let (server, _) = listener.accept()?;
    prepare(&server, None)?;
    Ok((client, server))
}

pub(super) fn listener() -> Result<TcpListener> {
    TcpListener::bind("127.0.0.1:0")
}

fn connect(address: &str, receive_buffer: Option<usize>) -> Result<TcpStream> {
    let client = TcpStream::connect(address)?;
    prepare(&client, receive_buffer)?;
    Ok(client)
}

fn prepare(peer: &TcpStream, receive_buffer: Option<usize>) -> Result<()> {
    if let Some(bytes) = receive_buffer {
        set_receive_buffer(peer, bytes)?;
    }
    without_pacing(peer)?;
    peer.set_nodelay(true)?;
    peer.set_read_timeout(Some(Duration::from_secs(10)))
}

/// Some congestion controls pace loopback, too.
pub(super) fn without_pacing(socket: &TcpStream) -> Result<()> {
    Ok(sockopt::set_tcp_congestion(socket, "reno")?)
}
