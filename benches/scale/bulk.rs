//! As many bytes as pass many relays, or as one process sends to many clients: throughput, processor
//! time, memory, and how equal the parts of the connections are.

use std::io::{ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use super::process::Serving;
use super::serve::{DOWNLOADS, RELAYS};
use crate::recording::format::{Against, Curve};
use crate::recording::statistics::spread;

/// The transfers that are measured.
#[derive(Clone, Copy)]
enum Load {
    /// From a client to a server, through a relay each.
    Relays,
    /// A file to each client.
    Downloads,
}

/// The numbers of connections.
const NUMBERS: [usize; 5] = [1, 4, 16, 64, 256];

const TURNS: usize = 3;
const WARM_UP: Duration = Duration::from_millis(700);
const MEASURED: Duration = Duration::from_millis(1500);

/// The bytes of one write, and of one read.
const CHUNK: usize = 128 << 10;
const ROOM: usize = 256 << 10;

/// The figures of one turn.
struct Figures {
    gigabytes_per_second: f64,
    /// The seconds of processor time of the process for a GB.
    cpu_per_gigabyte: f64,
    resident_mebibytes: f64,
    /// The bytes of the slowest connection, as a part of those of the fastest.
    slowest_of_fastest: f64,
}

/// One figure of [`Figures`], with the title and the unit of its chart.
type Column = (&'static str, &'static str, fn(&Figures) -> f64);

const COLUMNS: [Column; 4] = [
    ("throughput", "GB/s", |it| it.gigabytes_per_second),
    ("processor time", "CPU s/GB", |it| it.cpu_per_gigabyte),
    ("resident memory", "MiB", |it| it.resident_mebibytes),
    ("slowest / fastest", "", |it| it.slowest_of_fastest),
];

impl Load {
    fn name(self) -> &'static str {
        match self {
            Self::Relays => "bulk_relays",
            Self::Downloads => "downloads",
        }
    }

    /// The beginning of the titles of its charts.
    fn title(self, receive_buffer: Option<usize>) -> String {
        let title = match self {
            Self::Relays => "TCP relays at full speed",
            Self::Downloads => "A file to many TCP clients",
        };
        match receive_buffer {
            Some(bytes) => format!("{title}, receive buffers of {} KiB", bytes >> 10),
            None => title.to_owned(),
        }
    }

    fn drivers(self) -> &'static [&'static str] {
        match self {
            Self::Relays => RELAYS,
            Self::Downloads => DOWNLOADS,
        }
    }
}

/// Prints a table of the wanted drivers with several numbers of connections. Returns its curves. Every
/// socket gets the receive buffer, if there is one.
pub(crate) fn report(
    is_test: bool,
    receive_buffer: Option<usize>,
    is_wanted: impl Fn(&str) -> bool,
) -> Vec<Curve> {
    let loads = [Load::Relays, Load::Downloads].into_iter();
    let curves = loads.flat_map(|load| {
        let name = |driver: &&&str| is_wanted(&format!("{}/{driver}", load.name()));
        let drivers: Vec<&str> = load.drivers().iter().filter(name).copied().collect();
        of_load(load, receive_buffer, &drivers, is_test)
    });
    curves.collect()
}

#[expect(clippy::print_stdout, reason = "the program prints a table")]
fn of_load(
    load: Load,
    receive_buffer: Option<usize>,
    drivers: &[&str],
    is_test: bool,
) -> Vec<Curve> {
    let title = load.title(receive_buffer);
    let mut curves: Vec<Curve> = COLUMNS
        .iter()
        .flat_map(|(figure, unit, _)| drivers.iter().map(move |driver| (figure, unit, driver)))
        .map(|(figure, unit, driver)| Curve {
            figure: format!("{title}: {figure}"),
            unit: (*unit).to_owned(),
            against: Against::Transfers,
            name: (*driver).to_owned(),
            points: Vec::new(),
        })
        .collect();
    let (numbers, turns) = if is_test {
        (&NUMBERS[..2], 1)
    } else {
        (&NUMBERS[..], TURNS)
    };
    for &n in numbers {
        let measure = |driver: &str| measure(load, driver, n, receive_buffer, is_test);
        let taken = take_turns(drivers, turns, measure, |driver| {
            format!("{}/{n} {driver}", load.name())
        });
        for (index, (driver, taken)) in drivers.iter().zip(&taken).enumerate() {
            if taken.is_empty() {
                continue;
            }
            let columns = COLUMNS.iter().enumerate().map(|(column, (.., figure))| {
                let figure = spread(taken.iter().map(figure));
                // Without a byte there is no processor time of a byte.
                if figure.median.is_finite() {
                    let curve = &mut curves[column * drivers.len() + index];
                    curve.points.push((n as u64, figure.median));
                }
                figure
            });
            let columns: Vec<_> = columns.collect();
            let [rate, cpu, memory, parts] = &columns[..] else {
                unreachable!("there are four columns");
            };
            println!(
                "{}/{n:<3} {driver:<34} {:6.2} GB/s [{:.2}, {:.2}]  {:6.3} CPU s/GB [{:.3}, {:.3}]  {:6.1} MiB  slowest / fastest {:.2}",
                load.name(),
                rate.median,
                rate.low,
                rate.high,
                cpu.median,
                cpu.low,
                cpu.high,
                memory.median,
                parts.median
            );
        }
    }
    curves
}

/// Measures the drivers in turns, each turn in random order. A driver that fails has no figures.
#[expect(clippy::print_stderr, reason = "a driver that fails is named")]
fn take_turns(
    drivers: &[&str],
    turns: usize,
    measure: impl Fn(&str) -> Result<Figures>,
    name: impl Fn(&str) -> String,
) -> Vec<Vec<Figures>> {
    let mut taken: Vec<Vec<Figures>> = drivers.iter().map(|_| Vec::new()).collect();
    let mut order: Vec<usize> = (0..drivers.len()).collect();
    for _ in 0..turns {
        fastrand::shuffle(&mut order);
        for &index in &order {
            match measure(drivers[index]) {
                Ok(figures) => taken[index].push(figures),
                Err(error) => eprintln!("{}: {error}", name(drivers[index])),
            }
        }
    }
    taken
}

fn measure(
    load: Load,
    driver: &str,
    n: usize,
    receive_buffer: Option<usize>,
    is_test: bool,
) -> Result<Figures> {
    let (mut serving, senders, receivers) = match load {
        Load::Relays => {
            let (serving, peers) = Serving::relays(driver, n, receive_buffer)?;
            let (clients, servers) = peers.into_iter().unzip();
            (serving, clients, servers)
        }
        Load::Downloads => {
            let (serving, clients) = Serving::downloads(driver, n, receive_buffer)?;
            (serving, Vec::new(), clients)
        }
    };
    let (warm_up, measured) = if is_test {
        (Duration::from_millis(20), Duration::from_millis(50))
    } else {
        (WARM_UP, MEASURED)
    };
    let stop = &AtomicBool::new(false);
    let arrived: &[AtomicU64] = &(0..n).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
    let bytes = || -> Vec<u64> {
        let arrived = arrived.iter();
        arrived.map(|bytes| bytes.load(Ordering::Relaxed)).collect()
    };
    thread::scope(|scope| {
        let sending = scope.spawn(|| send(&senders, stop));
        let receiving = scope.spawn(|| receive(&receivers, stop, arrived));
        let observed = (|| {
            thread::sleep(warm_up);
            let (started, cpu, before) = (Instant::now(), serving.usage()?.cpu, bytes());
            thread::sleep(measured);
            let (time, usage, after) = (started.elapsed(), serving.usage()?, bytes());
            let parts = after
                .iter()
                .zip(before)
                .map(|(after, before)| after - before);
            let parts: Vec<u64> = parts.collect();
            let [gigabytes, least, most] = [
                parts.iter().sum(),
                parts.iter().copied().min().unwrap_or(0),
                parts.iter().copied().max().unwrap_or(0),
            ]
            .map(|bytes: u64| bytes as f64 / 1e9);
            let cpu = usage.cpu.saturating_sub(cpu);
            Ok::<_, std::io::Error>(Figures {
                gigabytes_per_second: gigabytes / time.as_secs_f64(),
                cpu_per_gigabyte: cpu.as_secs_f64() / gigabytes,
                resident_mebibytes: usage.resident_bytes as f64 / f64::from(1 << 20),
                slowest_of_fastest: least / most,
            })
        })();
        stop.store(true, Ordering::Relaxed);
        let sent = sending.join().expect("the sender does not panic");
        let received = receiving.join().expect("the receiver does not panic");
        sent.and(received).and(observed)
    })
}

/// Sends to each socket what it takes.
fn send(sockets: &[TcpStream], stop: &AtomicBool) -> Result<()> {
    let chunk = vec![7; CHUNK];
    let send = |mut socket: &TcpStream| socket.write(&chunk).map(drop);
    serve_ready(sockets, epoll::EventFlags::OUT, stop, |_, socket| {
        send(socket)
    })
}

/// Receives what comes, and counts the bytes.
fn receive(sockets: &[TcpStream], stop: &AtomicBool, arrived: &[AtomicU64]) -> Result<()> {
    let mut room = vec![0; ROOM];
    serve_ready(sockets, epoll::EventFlags::IN, stop, |index, mut socket| {
        let n = socket.read(&mut room)?;
        arrived[index].fetch_add(n as u64, Ordering::Relaxed);
        if n == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    })
}

/// Calls `serve` for each socket that is ready, again and again until `stop` is set.
fn serve_ready(
    sockets: &[TcpStream],
    awaited: epoll::EventFlags,
    stop: &AtomicBool,
    mut serve: impl FnMut(usize, &TcpStream) -> Result<()>,
) -> Result<()> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (index, socket) in sockets.iter().enumerate() {
        socket.set_nonblocking(true)?;
        epoll::add(
            &epoll,
            socket,
            epoll::EventData::new_u64(index as u64),
            awaited,
        )?;
    }
    let mut events = Vec::with_capacity(sockets.len().max(1));
    let at_most = Timespec {
        tv_sec: 0,
        tv_nsec: 10_000_000,
    };
    while !stop.load(Ordering::Relaxed) {
        events.clear();
        epoll::wait(&epoll, spare_capacity(&mut events), Some(&at_most))?;
        for event in &events {
            let index = event.data.u64() as usize;
            match serve(index, &sockets[index]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                served => served?,
            }
        }
    }
    Ok(())
}
