//! Another process lowers the limit of descriptors of this one (`prlimit(2)`) below the number that
//! it polls. `poll(2)` fails then.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use zcopy::{Ended, Relay, Transfer};

use crate::endpoints::{pipe, tcp, unix};
use crate::files::{assert_same, pattern, read_to_end, write_all};
use crate::own_process::is_own_process;

const LEN: usize = 400_000;
const N_PAUSES: usize = 8;
const PAUSE: Duration = Duration::from_millis(100);

/// Lets the process have no further descriptor, and poll `n` together at most.
fn limit_descriptors(n: u64) -> Rlimit {
    let usual = getrlimit(Resource::Nofile);
    let current = Some(n);
    setrlimit(Resource::Nofile, Rlimit { current, ..usual }).unwrap();
    usual
}

/// Writes these bytes with pauses, and closes the descriptor.
fn write_slowly(fd: OwnedFd, bytes: Vec<u8>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for part in bytes.chunks(bytes.len() / N_PAUSES) {
            thread::sleep(PAUSE);
            assert!(write_all(&fd, part));
        }
    })
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap()
}

#[test]
fn a_limit_below_the_number_of_polled_descriptors_loses_no_byte_and_does_not_spin() {
    let name = "lowered_limit::a_limit_below_the_number_of_polled_descriptors_loses_no_byte_and_does_not_spin";
    if !is_own_process(name, |_| {}) {
        return;
    }
    let bytes = pattern(LEN);
    for (limit, n_sinks) in [(1, 1), (1, 3), (2, 3)] {
        let (source, writer) = pipe();
        let sinks: Vec<_> = (0..n_sinks).map(|_| pipe()).collect();
        let (readers, sinks): (Vec<_>, Vec<_>) = sinks.into_iter().unzip();
        let writing = write_slowly(writer, bytes.clone());
        let readers = readers
            .into_iter()
            .map(|fd| thread::spawn(move || read_to_end(&fd)));
        let readers: Vec<_> = readers.collect();
        let before = cpu_time();
        let usual = limit_descriptors(limit);
        let report = match &sinks[..] {
            [sink] => Transfer::new(&source, sink).tick(PAUSE).run(),
            [sink, others @ ..] => {
                let fan_out = Transfer::new(&source, sink).also_to(&others[0]);
                fan_out.also_to(&others[1]).watch_readers(true).run()
            }
            [] => unreachable!("there are sinks"),
        };
        setrlimit(Resource::Nofile, usual).unwrap();
        let busy = cpu_time().saturating_sub(before);
        let what = format!("{limit} descriptors, {n_sinks} sinks");
        let report = report.unwrap_or_else(|error| panic!("{what}: {error:#}"));
        assert_eq!(report.ended(), Ended::Eof, "{what}");
        writing.join().unwrap();
        drop(sinks);
        for reader in readers {
            assert_same(&reader.join().unwrap(), &bytes, &what);
        }
        assert!(busy < PAUSE * 4, "{what}: {busy:?}");
    }
}

/// The client keeps the connection open, and is silent. A call on a blocking socket would sleep.
#[test]
fn a_limit_of_one_descriptor_keeps_the_time_limits_of_a_relay() {
    let name = "lowered_limit::a_limit_of_one_descriptor_keeps_the_time_limits_of_a_relay";
    if !is_own_process(name, |_| {}) {
        return;
    }
    let bytes = pattern(LEN);
    for idle in [true, false] {
        let (client, front) = tcp();
        let (back, server) = tcp();
        let to_write = bytes.clone();
        let writing = thread::spawn(move || {
            assert!(write_all(&client, &to_write));
            client
        });
        let mut server = File::from(server);
        let reading = thread::spawn(move || {
            let mut arrived = vec![0; LEN];
            server.read_exact(&mut arrived).unwrap();
            (server, arrived)
        });
        let relay = Relay::new(&front, &back);
        let relay = if idle {
            relay.idle_timeout(PAUSE * 3)
        } else {
            relay.deadline(Instant::now() + PAUSE * 10)
        };
        let mut session = relay.start().unwrap();
        // Its private pipe may be open now.
        let _ = session.step(u64::MAX).unwrap();
        let usual = limit_descriptors(1);
        let ended = session.drive();
        setrlimit(Resource::Nofile, usual).unwrap();
        assert_eq!(ended.unwrap(), Ended::TimedOut);
        assert_eq!(session.finish().unwrap().a_to_b().bytes(), LEN as u64);
        let (_server, arrived) = reading.join().unwrap();
        assert_same(&arrived, &bytes, "the server");
        drop(writing.join().unwrap());
    }
}

#[test]
fn a_limit_of_one_descriptor_loses_no_byte_of_a_relay() {
    let name = "lowered_limit::a_limit_of_one_descriptor_loses_no_byte_of_a_relay";
    if !is_own_process(name, |_| {}) {
        return;
    }
    let bytes = pattern(LEN);
    let (client, front) = unix(rustix::net::SocketType::STREAM);
    let (back, server) = unix(rustix::net::SocketType::STREAM);
    let writing = write_slowly(client, bytes.clone());
    let reading = thread::spawn(move || read_to_end(&server));
    let usual = limit_descriptors(1);
    let report = Relay::new(&front, &back).run();
    setrlimit(Resource::Nofile, usual).unwrap();
    let report = report.unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(report.a_to_b().bytes(), LEN as u64);
    writing.join().unwrap();
    drop((front, back));
    assert_same(&reading.join().unwrap(), &bytes, "the server");
}
