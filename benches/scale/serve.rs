//! The process that serves: it accepts connections, moves bytes for them by one driver, and tells
//! its usage when it is asked.

#[path = "serve/downloads.rs"]
mod downloads;
#[path = "serve/relays.rs"]
mod relays;

use std::fs::File;
use std::io::{BufRead, Result, Write, stdin, stdout};
use std::net::{TcpListener, TcpStream};
use std::thread;

use rustix::net::sockopt;
use rustix::pipe::fcntl_getpipe_size;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

pub(super) use downloads::DRIVERS as DOWNLOADS;
pub(super) use relays::{DRIVERS as RELAYS, READ_AND_WRITE};

/// The argument that makes this program the process that serves.
pub(crate) const SERVE: &str = "--serve";

/// Stands for the address of the backend if clients download a file.
pub(super) const NO_BACKEND: &str = "-";

/// The limit of descriptors of the process.
const DESCRIPTORS: u64 = 4096;

/// Serves until all connections have ended. With a backend, each client gets a relay to it. The
/// sockets get the receive buffer, unless it is 0.
#[expect(clippy::print_stdout, reason = "the other process reads it")]
pub(crate) fn serve(driver: &str, n_clients: &str, receive_buffer: &str, backend: &str) {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(DESCRIPTORS).min(DESCRIPTORS);
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    setrlimit(Resource::Nofile, limit).expect("a limit may be lowered");
    let file = (backend == NO_BACKEND).then(downloads::file);
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is up");
    println!("{}", listener.local_addr().expect("it is bound"));
    let n_clients = n_clients.parse().expect("a number");
    let receive_buffer = receive_buffer.parse().expect("a number");
    let mut clients = Vec::with_capacity(n_clients);
    let mut pairs = Vec::new();
    while clients.len() + pairs.len() < n_clients {
        let (client, _) = listener.accept().expect("a client connects");
        prepare(&client, receive_buffer);
        if file.is_some() {
            clients.push(client);
        } else {
            let server = TcpStream::connect(backend).expect("the backend listens");
            prepare(&server, receive_buffer);
            pairs.push((client, server));
        }
    }
    thread::spawn(|| {
        for line in stdin().lock().lines() {
            line.expect("standard input can be read");
            tell_usage();
        }
        // The other process has ended.
        std::process::exit(0);
    });
    if let Some(file) = &file {
        downloads::run(driver, file, &clients);
    } else {
        relays::run(driver, pairs);
    }
}

/// Sets `SO_RCVBUF` of a connected socket. The kernel doubles the value, for its own structures.
///
/// # Errors
///
/// The value is above `net.core.rmem_max`, which the kernel takes in its place without telling.
pub(super) fn set_receive_buffer(socket: &TcpStream, bytes: usize) -> Result<()> {
    sockopt::set_socket_recv_buffer_size(socket, bytes)?;
    let set = sockopt::socket_recv_buffer_size(socket)?;
    if set < 2 * bytes {
        let message = format!("net.core.rmem_max allows {} bytes of {bytes}", set / 2);
        return Err(std::io::Error::other(message));
    }
    Ok(())
}

fn prepare(socket: &TcpStream, receive_buffer: usize) {
    if receive_buffer > 0 {
        set_receive_buffer(socket, receive_buffer).expect("the other process could set it, too");
    }
    socket.set_nodelay(true).expect("it is a socket");
    socket.set_nonblocking(true).expect("it is a socket");
}

/// Prints the resident bytes, the pipes, their bytes, and the processor time in microseconds.
fn tell_usage() {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("procfs is mounted");
    let pages = statm.split(' ').nth(1).expect("it has seven numbers");
    let resident = pages.parse::<u64>().expect("a number") * rustix::param::page_size() as u64;
    let (mut n_pipe_ends, mut pipe_bytes) = (0, 0);
    for entry in std::fs::read_dir("/proc/self/fd").expect("procfs is mounted") {
        let path = entry.expect("procfs is mounted").path();
        let target = std::fs::read_link(&path).unwrap_or_default();
        let number = path
            .file_name()
            .and_then(|name| name.to_str()?.parse().ok());
        let is_standard = number.is_some_and(|number: i32| number <= 2);
        if !is_standard && target.to_string_lossy().starts_with("pipe:") {
            n_pipe_ends += 1;
            // Another pipe may be there by now, or none.
            let file = File::open(&path);
            pipe_bytes += file.map_or(0, |pipe| fcntl_getpipe_size(pipe).unwrap_or(0));
        }
    }
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let micros = time.tv_sec * 1_000_000 + time.tv_nsec / 1000;
    let mut stdout = stdout().lock();
    writeln!(
        stdout,
        "{resident} {} {} {micros}",
        n_pipe_ends / 2,
        pipe_bytes / 2
    )
    .expect("the other process reads it");
}
