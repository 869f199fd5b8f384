//! Relays and servers in turns: throughput, and the processor time that the one in the middle
//! takes.
//!
//! One thread writes, another one reads, and the mover moves the bytes between them. The CPU
//! seconds per GB are those of the process minus those of these two threads: the threads of a pool
//! count. The table of each route shows medians, and the 10th and 90th percentiles.
//! `ZCOPY_BENCH_SIZES` and `ZCOPY_BENCH_TURNS` [default: 15] say how much; arguments choose routes
//! by a part of their name. The order within a turn is random.

#![allow(
    clippy::cast_precision_loss,
    clippy::expect_used,
    reason = "figures have three digits, and a benchmark that cannot run says why and ends"
)]

mod movers;
mod runtime;
mod sizes;

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use movers::{FILE_TO_TCP, Mover, TCP_TO_TCP};
use rustix::net::sockopt;
use rustix::time::{ClockId, clock_gettime};

/// Where the bytes come from.
enum From {
    Tcp,
    File(File),
}

/// The time and the processor time of one run of a mover.
#[derive(Clone, Copy)]
struct Taken {
    time: Duration,
    /// The processor time of the mover.
    cpu: Duration,
}

/// The benchmark fails if a mover takes more than this part of what a peer takes in the same turn.
struct Bar {
    mover: &'static str,
    peer: &'static str,
    most_cpu: f64,
    most_time: f64,
}

const SPLICE2: &str = "tokio_splice2::copy_bidirectional";
const TOKIO: &str = "tokio::io::copy_bidirectional";

const TCP_TO_TCP_BARS: &[Bar] = &[
    bar("zcopy::Relay::run", SPLICE2, 1.0, 1.0),
    bar("zcopy::Relay::run", TOKIO, 0.5, 1.0),
    bar("zcopy::Relay::run, blocking mode", TOKIO, 0.5, 1.0),
    #[cfg(feature = "tokio")]
    bar("zcopy::Relay::run_async", SPLICE2, 1.0, 1.0),
    #[cfg(feature = "tokio")]
    bar("zcopy::Relay::run_async", TOKIO, 0.5, 1.0),
];

const FILE_TO_TCP_BARS: &[Bar] = &[
    bar("zcopy::Transfer::run", "tokio::io::copy", 1.0, 0.5),
    bar("zcopy::Transfer::run", "tokio_splice2::sendfile", 1.0, 1.0),
    #[cfg(feature = "tokio")]
    bar("zcopy::Transfer::run_async", "tokio::io::copy", 1.0, 0.5),
];

/// How far a median may miss a bar: the machine is seldom quiet.
const TOLERANCE: f64 = 1.1;

/// Less is measured for other reasons than to judge.
const JUDGED_BYTES: u64 = 64 << 20;
const JUDGED_TURNS: u32 = 9;

const fn bar(mover: &'static str, peer: &'static str, most_cpu: f64, most_time: f64) -> Bar {
    Bar {
        mover,
        peer,
        most_cpu,
        most_time,
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_test = arguments.iter().any(|argument| argument == "--test");
    let is_wanted = |name: &str| {
        let mut parts = arguments
            .iter()
            .filter(|argument| !argument.starts_with('-'));
        parts.clone().next().is_none() || parts.any(|part| name.contains(part.as_str()))
    };
    let turns = std::env::var("ZCOPY_BENCH_TURNS")
        .ok()
        .and_then(|turns| turns.parse().ok());
    let turns = if is_test { 1 } else { turns.unwrap_or(15) };
    let mut missed = Vec::new();
    for (size, bytes) in sizes::sizes() {
        let routes = [
            ("tcp_to_tcp", From::Tcp, TCP_TO_TCP, TCP_TO_TCP_BARS),
            (
                "file_to_tcp",
                From::File(file_of(bytes)),
                FILE_TO_TCP,
                FILE_TO_TCP_BARS,
            ),
        ];
        for (name, from, movers, bars) in routes {
            if is_wanted(name) {
                let taken = measure(&from, movers, bytes, turns);
                report(name, &size, bytes, movers, &taken);
                let is_judged = bytes >= JUDGED_BYTES && turns >= JUDGED_TURNS;
                let missed_here = judge(movers, bars, &taken).into_iter();
                missed.extend(
                    missed_here
                        .filter(|_| is_judged)
                        .map(|bar| format!("{name}/{size}: {bar}")),
                );
            }
        }
    }
    if missed.is_empty() {
        return ExitCode::SUCCESS;
    }
    for bar in missed {
        eprintln!("missed: {bar}");
    }
    ExitCode::FAILURE
}

/// Measures the movers in turns, each turn in random order. Returns the runs of each mover.
fn measure(from: &From, movers: &[Mover], bytes: u64, turns: u32) -> Vec<Vec<Taken>> {
    let mut taken = vec![Vec::new(); movers.len()];
    let mut order: Vec<usize> = (0..movers.len()).collect();
    // The first turn warms up.
    for turn in 0..=turns {
        fastrand::shuffle(&mut order);
        for &index in &order {
            let one = run(from, &movers[index], bytes);
            if turn > 0 || turns == 1 {
                taken[index].push(one);
            }
        }
    }
    taken
}

/// Moves `bytes` once by one mover.
fn run(from: &From, mover: &Mover, bytes: u64) -> Taken {
    let (sink, mut reader) = connected();
    let reading = thread::spawn(move || {
        let mut room = vec![0; 256 << 10];
        let mut left = bytes;
        while left > 0 {
            let n = reader.read(&mut room).expect("the mover writes");
            assert!(n > 0, "the mover moves everything");
            left -= n as u64;
        }
        thread_time()
    });
    let (start, cpu) = (Instant::now(), process_time());
    let (time, others) = match from {
        From::Tcp => {
            let (mut writer, source) = connected();
            let writing = thread::spawn(move || {
                let room = vec![7; 256 << 10];
                let mut left = bytes;
                while left > 0 {
                    let n = left.min(room.len() as u64) as usize;
                    writer.write_all(&room[..n]).expect("the mover reads");
                    left -= n as u64;
                }
                thread_time()
            });
            (mover.run)(source.into(), sink);
            let writer = writing.join().expect("the writer does not panic");
            let reader = reading.join().expect("the reader does not panic");
            (start.elapsed(), writer + reader)
        }
        From::File(file) => {
            let mut source = file.try_clone().expect("there is a descriptor");
            source.rewind().expect("a file can seek");
            (mover.run)(source.into(), sink);
            let reader = reading.join().expect("the reader does not panic");
            (start.elapsed(), reader)
        }
    };
    let cpu = process_time().saturating_sub(cpu).saturating_sub(others);
    Taken { time, cpu }
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("processor time is positive")
}

fn process_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).expect("processor time is positive")
}

/// Two connected TCP sockets.
fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is up");
    sockopt::set_socket_recv_buffer_size(&listener, 8 << 20).expect("a receive buffer");
    let address = listener.local_addr().expect("it is bound");
    let client = TcpStream::connect(address).expect("it listens");
    let (server, _) = listener.accept().expect("it has connected");
    for end in [&client, &server] {
        sockopt::set_tcp_congestion(end, "reno").expect("a congestion control without pacing");
    }
    (client, server)
}

/// A file of this size in the page cache.
fn file_of(bytes: u64) -> File {
    let mut file = tempfile::tempfile().expect("there is space");
    let block = vec![7; 1 << 20];
    let mut left = bytes;
    while left > 0 {
        let n = left.min(block.len() as u64) as usize;
        file.write_all(&block[..n]).expect("there is space");
        left -= n as u64;
    }
    file
}

/// Returns the 10th percentile, the median and the 90th percentile.
fn percentiles(mut figures: Vec<f64>) -> [f64; 3] {
    figures.sort_unstable_by(f64::total_cmp);
    [10, 50, 90].map(|percent| figures[(figures.len() - 1) * percent / 100])
}

#[expect(clippy::print_stdout, reason = "the program prints a table")]
fn report(route: &str, size: &str, bytes: u64, movers: &[Mover], taken: &[Vec<Taken>]) {
    let gigabytes = bytes as f64 / 1e9;
    println!("{route}/{size}");
    for (mover, taken) in movers.iter().zip(taken) {
        let figures =
            |figure: &dyn Fn(&Taken) -> f64| percentiles(taken.iter().map(figure).collect());
        let [low, rate, high] = figures(&|taken| gigabytes / taken.time.as_secs_f64());
        let [least, cpu, most] = figures(&|taken| taken.cpu.as_secs_f64() / gigabytes);
        println!(
            "  {:<34} {rate:6.2} GB/s [{low:.2}, {high:.2}]   {cpu:6.3} CPU s/GB [{least:.3}, {most:.3}]",
            mover.name
        );
    }
}

/// Compares the movers in each turn, and prints the medians of the ratios. Returns the bars that
/// are missed by more than [`TOLERANCE`].
#[expect(clippy::print_stdout, reason = "the program prints a table")]
fn judge(movers: &[Mover], bars: &[Bar], taken: &[Vec<Taken>]) -> Vec<String> {
    let taken_by = |name: &str| {
        let index = movers.iter().position(|mover| mover.name == name);
        &taken[index.expect("a bar names movers of its route")]
    };
    let mut missed = Vec::new();
    for bar in bars {
        let turns = taken_by(bar.mover).iter().zip(taken_by(bar.peer));
        let ratios = |figure: fn(&Taken) -> Duration| {
            let ratio = |(ours, theirs)| figure(ours).as_secs_f64() / figure(theirs).as_secs_f64();
            percentiles(turns.clone().map(ratio).collect())
        };
        for (figure, most, [low, ratio, high]) in [
            ("CPU time", bar.most_cpu, ratios(|taken| taken.cpu)),
            ("time", bar.most_time, ratios(|taken| taken.time)),
        ] {
            let (ours, peer) = (bar.mover, bar.peer);
            let line = format!(
                "{ours} takes {ratio:.2} [{low:.2}, {high:.2}] of the {figure} of {peer}, at most {most}"
            );
            println!("  {line}");
            if ratio > most * TOLERANCE {
                missed.push(line);
            }
        }
    }
    missed
}
