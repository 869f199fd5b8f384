//! The process with the relays. It accepts connections, joins each with a new one to the backend,
//! and tells its usage when it is asked.

use std::fs::File;
use std::io::{BufRead, Write, stdin, stdout};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::pipe::fcntl_getpipe_size;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use zcopy::{EndInterest, Relay, RelayInterest, RelayProgressed, RelaySession};

/// The ways to drive the relays of one process.
pub(super) const DRIVERS: &[&str] = &[
    "zcopy::RelaySession::step",
    #[cfg(feature = "tokio")]
    "zcopy::Relay::run_async",
    "zcopy::Relay::run",
    "tokio_splice2::copy_bidirectional",
    "tokio::io::copy_bidirectional",
];

/// The limit of descriptors of the process.
const DESCRIPTORS: u64 = 4096;

/// Runs the relays until all connections have ended.
#[expect(clippy::print_stdout, reason = "the other process reads it")]
pub(crate) fn serve(driver: &str, n_relays: &str, backend: &str) {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(DESCRIPTORS).min(DESCRIPTORS);
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    setrlimit(Resource::Nofile, limit).expect("a limit may be lowered");
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is up");
    println!("{}", listener.local_addr().expect("it is bound"));
    let n_relays = n_relays.parse().expect("a number");
    let mut pairs = Vec::with_capacity(n_relays);
    while pairs.len() < n_relays {
        let (client, _) = listener.accept().expect("a client connects");
        let server = TcpStream::connect(backend).expect("the backend listens");
        for socket in [&client, &server] {
            socket.set_nodelay(true).expect("it is a socket");
            socket.set_nonblocking(true).expect("it is a socket");
        }
        pairs.push((client, server));
    }
    thread::spawn(|| {
        for line in stdin().lock().lines() {
            line.expect("standard input can be read");
            tell_usage();
        }
        // The other process has ended.
        std::process::exit(0);
    });
    match driver {
        "zcopy::RelaySession::step" => step(pairs),
        "zcopy::Relay::run" => run(pairs),
        _ => run_async(driver, pairs),
    }
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

type Pairs = Vec<(TcpStream, TcpStream)>;

/// One thread for each relay.
fn run(pairs: Pairs) {
    thread::scope(|scope| {
        for (client, server) in pairs {
            scope.spawn(move || {
                // The other process closes its ends in any order.
                let _ = Relay::new(client, server).run();
            });
        }
    });
}

/// A relay of [`step`].
struct Served {
    session: RelaySession<TcpStream, TcpStream>,
    /// The events that epoll waits for at each end.
    awaited: [epoll::EventFlags; 2],
    /// When the next step is due, whatever the ends do.
    due: Option<Instant>,
    is_blocked: bool,
}

/// One thread that waits for the ends of all sessions by epoll(7).
fn step(pairs: Pairs) {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("there is a descriptor");
    let mut relays: Vec<Option<Served>> = Vec::with_capacity(pairs.len());
    for (index, (client, server)) in pairs.into_iter().enumerate() {
        let data = epoll::EventData::new_u64(index as u64);
        for end in [&client, &server] {
            epoll::add(&epoll, end, data, epoll::EventFlags::empty())
                .expect("a socket can be polled");
        }
        let session = Relay::new(client, server)
            .start()
            .expect("both ends are sockets");
        relays.push(Some(Served {
            session,
            awaited: [epoll::EventFlags::empty(); 2],
            due: None,
            is_blocked: false,
        }));
    }
    let mut n_left = relays.len();
    let mut ready: Vec<usize> = (0..relays.len()).collect();
    let mut events = Vec::with_capacity(1024);
    let mut looked = Instant::now();
    while n_left > 0 {
        let mut unblocked = Vec::new();
        for index in ready.drain(..) {
            let Some(served) = &mut relays[index] else {
                continue;
            };
            if advance(&epoll, served, index) {
                if !served.is_blocked {
                    unblocked.push(index);
                }
            } else {
                relays[index] = None;
                n_left -= 1;
            }
        }
        let now = Instant::now();
        if now - looked > Duration::from_millis(100) {
            looked = now;
            let is_due = |index: &usize| {
                let due = relays[*index].as_ref().and_then(|served| served.due);
                due.is_some_and(|due| due <= now)
            };
            ready.extend((0..relays.len()).filter(is_due));
        }
        let millis = if unblocked.is_empty() && ready.is_empty() {
            100
        } else {
            0
        };
        let at_most = Timespec {
            tv_sec: 0,
            tv_nsec: millis * 1_000_000,
        };
        events.clear();
        epoll::wait(&epoll, spare_capacity(&mut events), Some(&at_most))
            .expect("no signal has a handler");
        ready.extend(events.iter().map(|event| event.data.u64() as usize));
        ready.append(&mut unblocked);
        ready.sort_unstable();
        ready.dedup();
    }
}

/// Takes some steps, and tells epoll what to wait for. Returns false if the relay has ended.
fn advance(epoll: impl AsFd, served: &mut Served, index: usize) -> bool {
    served.is_blocked = false;
    for _ in 0..4 {
        match served.session.step(1 << 20) {
            Ok(RelayProgressed::Moved { .. }) => {}
            Ok(RelayProgressed::Blocked(interest)) => {
                served.is_blocked = true;
                served.due = interest.timeout().map(|timeout| Instant::now() + timeout);
                wait_for(&epoll, served, interest, index);
                return true;
            }
            _ => return false,
        }
    }
    true
}

fn wait_for(epoll: impl AsFd, served: &mut Served, interest: RelayInterest, index: usize) {
    let data = epoll::EventData::new_u64(index as u64);
    let events = |interest: EndInterest| {
        let mut events = epoll::EventFlags::empty();
        events.set(epoll::EventFlags::IN, interest.readable());
        events.set(epoll::EventFlags::OUT, interest.writable());
        events
    };
    let ends = [
        (served.session.a(), interest.a()),
        (served.session.b(), interest.b()),
    ];
    for ((end, interest), awaited) in ends.into_iter().zip(&mut served.awaited) {
        let events = events(interest);
        if events != *awaited {
            *awaited = events;
            let end = end.expect("the relay has not ended");
            epoll::modify(&epoll, end, data, events).expect("it was added");
        }
    }
}

/// One thread with a task of tokio for each relay.
fn run_async(driver: &str, pairs: Pairs) {
    super::super::movers::runtime().block_on(async {
        let mut tasks = Vec::with_capacity(pairs.len());
        for (client, server) in pairs {
            let socket =
                |socket| tokio::net::TcpStream::from_std(socket).expect("the runtime is entered");
            let (mut client, mut server) = (socket(client), socket(server));
            // The other process closes its ends in any order.
            tasks.push(match driver {
                "tokio::io::copy_bidirectional" => tokio::spawn(async move {
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                }),
                "tokio_splice2::copy_bidirectional" => tokio::spawn(async move {
                    let moved = tokio_splice2::copy_bidirectional(&mut client, &mut server).await;
                    if let Err(error) = moved {
                        eprintln!("a relay has failed: {error}");
                        std::process::exit(1);
                    }
                }),
                #[cfg(feature = "tokio")]
                "zcopy::Relay::run_async" => tokio::spawn(async move {
                    let _ = Relay::new(client, server).run_async().await;
                }),
                other => panic!("{other} is no driver"),
            });
        }
        for task in tasks {
            task.await.expect("no task panics");
        }
    });
}
