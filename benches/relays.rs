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
mod sizes;

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use movers::{FILE_TO_TCP, Mover, TCP_TO_TCP};
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

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let turns = std::env::var("ZCOPY_BENCH_TURNS")
        .ok()
        .and_then(|turns| turns.parse().ok());
    let turns = if is_test { 1 } else { turns.unwrap_or(15) };
    for (size, bytes) in sizes::sizes() {
        let file = file_of(bytes);
        let routes = [
            ("tcp_to_tcp", From::Tcp, TCP_TO_TCP),
            ("file_to_tcp", From::File(file), FILE_TO_TCP),
        ];
        for (name, from, movers) in routes {
            if wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str())) {
                report(name, &size, bytes, &measure(&from, movers, bytes, turns));
            }
        }
    }
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
    let address = listener.local_addr().expect("it is bound");
    let client = TcpStream::connect(address).expect("it listens");
    let (server, _) = listener.accept().expect("it has connected");
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

#[expect(clippy::print_stdout, reason = "the program prints a table")]
fn report(route: &str, size: &str, bytes: u64, taken: &[Vec<Taken>]) {
    let movers = if route.starts_with("tcp") {
        TCP_TO_TCP
    } else {
        FILE_TO_TCP
    };
    let gigabytes = bytes as f64 / 1e9;
    println!("{route}/{size}");
    for (mover, taken) in movers.iter().zip(taken) {
        let figures = |figure: &dyn Fn(&Taken) -> f64| {
            let mut figures: Vec<f64> = taken.iter().map(figure).collect();
            figures.sort_unstable_by(f64::total_cmp);
            let at = |percent: usize| figures[(figures.len() - 1) * percent / 100];
            (at(50), at(10), at(90))
        };
        let (rate, low, high) = figures(&|taken| gigabytes / taken.time.as_secs_f64());
        let (cpu, least, most) = figures(&|taken| taken.cpu.as_secs_f64() / gigabytes);
        println!(
            "  {:<34} {rate:6.2} GB/s [{low:.2}, {high:.2}]   {cpu:6.3} CPU s/GB [{least:.3}, {most:.3}]",
            mover.name
        );
    }
}
