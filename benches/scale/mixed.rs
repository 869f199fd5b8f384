//! Many relays in one process of an unprivileged user: half of them move bulk at a fixed rate, and
//! the others answer small questions.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::ping_pong::round_trip;
use super::process::{Serving, Usage};
use super::serve::RELAYS;
use crate::recording::format::{Against, Curve};

/// The bytes per second of all relays with bulk together, and of one write.
const RATE: u64 = 256 << 20;
const CHUNK: usize = 128 << 10;

/// The length of a question, and of its answer.
const QUESTION: usize = 64;

/// How long a turn of the measurement warms up, measures, and then waits for idle relays to rest.
#[derive(Clone, Copy)]
struct Times {
    warm_up: Duration,
    measured: Duration,
    rest: Duration,
}

/// The figures of one process.
#[derive(Clone)]
struct Figures {
    /// How long each answer took, sorted.
    answers: Vec<Duration>,
    bulk_bytes: u64,
    idle: Usage,
    busy: Usage,
    rested: Usage,
    cpu: Duration,
}

impl Figures {
    /// Returns how long an answer took, in microseconds.
    fn percentile(&self, permille: usize) -> f64 {
        let index = (self.answers.len() - 1) * permille / 1000;
        self.answers[index].as_secs_f64() * 1e6
    }
}

/// The benchmark fails if our drivers need more: bytes of resident memory for each further relay,
/// and the 99th percentile of the answer times, as a multiple of that with the fewest relays.
const MOST_RESIDENT: u64 = 16 << 10;
const MOST_P99: f64 = 3.0;

/// The figures that have a chart, with its title and unit.
type Column = (&'static str, &'static str, fn(&Figures) -> f64);

const COLUMNS: [Column; 2] = [
    ("A small answer beside bulk, 99th percentile", "µs", |it| {
        it.percentile(990)
    }),
    (
        "Relays of questions and bulk: resident memory",
        "MiB",
        |it| mebibytes(it.busy.resident_bytes),
    ),
];

/// Prints a table of the wanted drivers with several numbers of relays. Returns its curves, and the
/// bars that are missed.
#[expect(clippy::print_stdout, reason = "the program prints a table")]
pub(crate) fn report(is_test: bool, is_wanted: impl Fn(&str) -> bool) -> (Vec<Curve>, Vec<String>) {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.maximum;
    setrlimit(Resource::Nofile, Rlimit { current, ..limit }).expect("the soft limit may be raised");
    let second = Duration::from_secs(1);
    let times = Times {
        warm_up: second * 4,
        measured: second * 5,
        rest: second * 2,
    };
    let (numbers, times) = if is_test {
        let short = second / 10;
        let times = Times {
            warm_up: short,
            measured: short,
            rest: short,
        };
        (&[4][..], times)
    } else {
        (&[50, 100, 200, 500, 1000][..], times)
    };
    let (mut curves, mut missed) = (Vec::new(), Vec::new());
    for driver in RELAYS {
        let name = format!("mixed_relays/{driver}");
        if !is_wanted(&name) {
            continue;
        }
        println!("{name}");
        let mut columns = COLUMNS.map(|(figure, unit, _)| Curve {
            figure: figure.to_owned(),
            unit: unit.to_owned(),
            against: Against::Transfers,
            name: (*driver).to_owned(),
            points: Vec::new(),
        });
        let mut first = None;
        for &n_relays in numbers {
            let figures = match measure(driver, n_relays, times) {
                Ok(figures) => figures,
                Err(error) => {
                    println!("  {n_relays:5} relays: {error}");
                    if driver.starts_with("zcopy") {
                        missed.push(format!("{driver} with {n_relays} relays: {error}"));
                    }
                    continue;
                }
            };
            print(n_relays, times, &figures);
            for (curve, (.., figure)) in columns.iter_mut().zip(COLUMNS) {
                curve.points.push((n_relays as u64, figure(&figures)));
            }
            if driver.starts_with("zcopy") && !is_test {
                let (n_first, first) = first.get_or_insert((n_relays, figures.clone()));
                let n_more = n_relays - *n_first;
                let missed_here = judge(driver, first, &figures, n_more).into_iter();
                missed.extend(
                    missed_here.map(|bar| format!("{driver} with {n_relays} relays: {bar}")),
                );
            }
        }
        curves.extend(columns);
    }
    (curves, missed)
}

/// Compares the figures with those of fewer relays.
fn judge(driver: &str, fewest: &Figures, figures: &Figures, n_more: usize) -> Vec<String> {
    let mut missed = Vec::new();
    let [p99, least] = [figures, fewest].map(|figures| figures.percentile(990));
    if p99 > least * MOST_P99 {
        missed.push(format!("p99 {p99:.0} us, with the fewest {least:.0} us"));
    }
    let most = fewest.busy.resident_bytes + n_more as u64 * MOST_RESIDENT;
    // Each thread has a stack.
    if figures.busy.resident_bytes > most && driver != "zcopy::Relay::run" {
        missed.push(format!(
            "{} bytes resident, at most {most}",
            figures.busy.resident_bytes
        ));
    }
    if figures.rested.n_pipes > 0 {
        missed.push(format!(
            "{} pipes after the last byte",
            figures.rested.n_pipes
        ));
    }
    missed
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[expect(clippy::print_stdout, reason = "the program prints a table")]
fn print(n_relays: usize, times: Times, figures: &Figures) {
    let Figures {
        idle, busy, rested, ..
    } = figures;
    println!(
        "  {n_relays:5} relays: {:6} answers, {:5.0} us, p99 {:6.0} us, p99.9 {:6.0} us; bulk {:4.0} MiB/s, CPU {:4.1} %; \
         resident {:5.1} MiB idle, {:5.1} busy, {:5.1} rested; {:4} pipes of {:3.0} MiB busy, {} rested",
        figures.answers.len(),
        figures.percentile(500),
        figures.percentile(990),
        figures.percentile(999),
        mebibytes(figures.bulk_bytes) / times.measured.as_secs_f64(),
        figures.cpu.as_secs_f64() / times.measured.as_secs_f64() * 100.0,
        mebibytes(idle.resident_bytes),
        mebibytes(busy.resident_bytes),
        mebibytes(rested.resident_bytes),
        busy.n_pipes,
        mebibytes(busy.pipe_bytes),
        rested.n_pipes,
    );
}

fn measure(driver: &str, n_relays: usize, times: Times) -> std::io::Result<Figures> {
    let (mut serving, peers) = Serving::relays(driver, n_relays, None)?;
    let idle = serving.usage()?;
    let (bulk, asked): (Vec<_>, Vec<_>) = peers
        .iter()
        .enumerate()
        .partition(|(index, _)| index % 2 == 0);
    let (stop, bulk_bytes) = (AtomicBool::new(false), AtomicU64::new(0));
    let figures = thread::scope(|scope| {
        let sending = scope.spawn(|| send(bulk.iter().map(|(_, peers)| &peers.0), &stop));
        let receiving =
            scope.spawn(|| receive(bulk.iter().map(|(_, peers)| &peers.1), &stop, &bulk_bytes));
        let measured = (|| {
            let asked = asked.iter().map(|(_, peers)| *peers);
            ask(asked.clone(), times.warm_up)?;
            let (before, n_before) = (serving.usage()?, bulk_bytes.load(Ordering::Relaxed));
            let answers = ask(asked, times.measured)?;
            let (busy, n_after) = (serving.usage()?, bulk_bytes.load(Ordering::Relaxed));
            Ok::<_, std::io::Error>((
                answers,
                n_after - n_before,
                busy,
                busy.cpu.saturating_sub(before.cpu),
            ))
        })();
        stop.store(true, Ordering::Relaxed);
        let sent = sending.join().expect("the sender does not panic");
        let received = receiving.join().expect("the receiver does not panic");
        sent.and(received).and(measured)
    });
    let (mut answers, bulk_bytes, busy, cpu) = figures?;
    answers.sort_unstable();
    // A busy machine needs longer.
    let mut rested = busy;
    for _ in 0..5 {
        thread::sleep(times.rest);
        rested = serving.usage()?;
        if rested.n_pipes == 0 || !driver.starts_with("zcopy") {
            break;
        }
    }
    Ok(Figures {
        answers,
        bulk_bytes,
        idle,
        busy,
        rested,
        cpu,
    })
}

/// Asks each server in turn through its relay, and answers. Returns how long each answer took.
fn ask<'a>(
    peers: impl Iterator<Item = &'a (TcpStream, TcpStream)> + Clone,
    time: Duration,
) -> std::io::Result<Vec<Duration>> {
    let mut answers = Vec::new();
    let mut question = [1; QUESTION];
    let started = Instant::now();
    for peers in peers.cycle() {
        answers.push(round_trip(peers, &mut question)?);
        if started.elapsed() >= time {
            break;
        }
        // Questions come at a fixed rate, too, however fast the answers are.
        thread::sleep(Duration::from_micros(500));
    }
    Ok(answers)
}

/// Sends in turn to each relay, at [`RATE`] altogether.
fn send<'a>(
    clients: impl Iterator<Item = &'a TcpStream> + Clone,
    stop: &AtomicBool,
) -> std::io::Result<()> {
    let chunk = vec![7; CHUNK];
    for client in clients.clone() {
        client.set_nonblocking(true)?;
    }
    let (started, mut n_sent) = (Instant::now(), 0);
    for mut client in clients.cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        match client.write(&chunk) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        n_sent += CHUNK as u64;
        let due = Duration::from_secs_f64(n_sent as f64 / RATE as f64);
        thread::sleep(due.saturating_sub(started.elapsed()));
    }
    Ok(())
}

/// Receives what comes, and counts the bytes.
fn receive<'a>(
    servers: impl Iterator<Item = &'a TcpStream>,
    stop: &AtomicBool,
    bytes: &AtomicU64,
) -> std::io::Result<()> {
    let servers: Vec<_> = servers.collect();
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (index, server) in servers.iter().enumerate() {
        epoll::add(
            &epoll,
            server,
            epoll::EventData::new_u64(index as u64),
            epoll::EventFlags::IN,
        )?;
    }
    let mut events = Vec::with_capacity(256);
    let mut room = vec![0; 256 << 10];
    let at_most = rustix::event::Timespec {
        tv_sec: 0,
        tv_nsec: 10_000_000,
    };
    while !stop.load(Ordering::Relaxed) {
        events.clear();
        epoll::wait(
            &epoll,
            rustix::buffer::spare_capacity(&mut events),
            Some(&at_most),
        )?;
        for event in &events {
            let mut server = servers[event.data.u64() as usize];
            let n = server.read(&mut room)?;
            if n == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            bytes.fetch_add(n as u64, Ordering::Relaxed);
        }
    }
    Ok(())
}
