//! A message that goes to and fro through one relay: how long a round trip takes.

use std::io::{Read, Result, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::process::{Serving, connected};
use super::serve::{READ_AND_WRITE, RELAYS};
use crate::recording::format::{Against, Curve};
use crate::recording::statistics::quantile_of;

/// The lengths of the messages, in bytes.
const SIZES: [usize; 4] = [64, 1 << 10, 16 << 10, 64 << 10];

/// How long the round trips of one turn take, and how many turns there are.
const TURN: Duration = Duration::from_millis(150);
const TURNS: usize = 9;

const DIRECT: &str = "no relay";

/// A relay and its peers.
struct Route {
    name: &'static str,
    /// `None`: the peers are connected with each other.
    _relay: Option<Serving>,
    peers: (TcpStream, TcpStream),
    /// The round trips, by the index of the size.
    trips: [Vec<Duration>; SIZES.len()],
}

/// Prints a table of the wanted drivers with several sizes. Returns its curves.
///
/// # Errors
///
/// A relay has ended.
pub(crate) fn report(is_test: bool, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<Curve>> {
    let names = [DIRECT, READ_AND_WRITE].into_iter();
    let names = names.chain(RELAYS.iter().copied());
    let routes = names.filter(|name| is_wanted(&format!("ping_pong/{name}")));
    let mut routes = routes.map(Route::new).collect::<Result<Vec<_>>>()?;
    let (turn, turns) = if is_test {
        (Duration::from_millis(1), 1)
    } else {
        (TURN, TURNS)
    };
    let mut order: Vec<usize> = (0..routes.len()).collect();
    for (index, &size) in SIZES.iter().enumerate() {
        for _ in 0..turns {
            fastrand::shuffle(&mut order);
            for &route in &order {
                routes[route].measure(index, size, turn)?;
            }
        }
    }
    print(&routes);
    let figures = [
        ("Round trip through one relay, median", 0.5),
        ("Round trip through one relay, 99th percentile", 0.99),
    ];
    let curves = figures.into_iter().flat_map(|(figure, part)| {
        routes.iter().map(move |route| Curve {
            figure: figure.to_owned(),
            unit: "µs".to_owned(),
            against: Against::Bytes,
            name: route.name.to_owned(),
            points: route.points(part),
        })
    });
    Ok(curves.collect())
}

impl Route {
    fn new(name: &'static str) -> Result<Self> {
        let (relay, peers) = if name == DIRECT {
            (None, connected()?)
        } else {
            let (relay, mut peers) = Serving::relays(name, 1, None)?;
            (Some(relay), peers.remove(0))
        };
        Ok(Self {
            name,
            _relay: relay,
            peers,
            trips: Default::default(),
        })
    }

    /// Sends messages to and fro for a while. The first ones warm up.
    fn measure(&mut self, index: usize, size: usize, time: Duration) -> Result<()> {
        let mut room = vec![7; size];
        for _ in 0..10 {
            round_trip(&self.peers, &mut room)?;
        }
        let started = Instant::now();
        while started.elapsed() < time {
            self.trips[index].push(round_trip(&self.peers, &mut room)?);
        }
        Ok(())
    }

    /// For each size the quantile of its round trips, in microseconds.
    fn points(&self, part: f64) -> Vec<(u64, f64)> {
        let sizes = SIZES.iter().zip(&self.trips);
        let points = sizes.map(|(size, trips)| {
            let micros = trips.iter().map(|trip| trip.as_secs_f64() * 1e6);
            (*size as u64, quantile_of(micros, part))
        });
        points.collect()
    }
}

/// Sends a message from the client to the server, and the same message back.
pub(super) fn round_trip(
    (client, server): &(TcpStream, TcpStream),
    message: &mut [u8],
) -> Result<Duration> {
    let (mut client, mut server) = (client, server);
    let started = Instant::now();
    client.write_all(message)?;
    server.read_exact(message)?;
    server.write_all(message)?;
    client.read_exact(message)?;
    Ok(started.elapsed())
}

#[expect(clippy::print_stdout, reason = "the program prints a table")]
fn print(routes: &[Route]) {
    println!("ping_pong: median and 99th percentile of a round trip in us");
    for route in routes {
        let columns = route.points(0.5).into_iter().zip(route.points(0.99));
        let columns =
            columns.map(|((size, median), (_, p99))| format!("{size:6} B {median:6.1} {p99:7.1}"));
        let columns: Vec<_> = columns.collect();
        println!("  {:<34} {}", route.name, columns.join("  "));
    }
}
