//! The same pairs, measured in turns: what counts is the ratio between two ways in one run.
//!
//! Prints a table: for each pair and size the median throughput of every mover with its spread, its
//! processor time and its system calls, and the plan's throughput as a ratio to the best single
//! strategy, to `buffered` and to `std::io::copy`, with its 95 % interval. At the end it names the
//! pairs at which read and write are ahead. `ZCOPY_BENCH_SIZES` and `ZCOPY_BENCH_TURNS` say how much
//! [default: 31 to 62 turns below 1 MiB and 15 to 30 from there on, until the intervals are
//! below 5 %]; arguments choose pairs by a part of their name.
//! The order within a turn is random, because the first transfer after a pause finds cold memory.
//! With `--apart` the writers of the sources end before a transfer begins, and the readers of the
//! sinks begin when it has ended: what is measured is the cost of the transfer alone. `--record DIR`
//! also writes the figures into a record, and `--note TEXT` says there what else the machine did.
//! `--wait SECONDS` waits before a pair until other work has ended, altogether no longer than this.

#![allow(
    clippy::cast_precision_loss,
    reason = "throughput is shown with three digits"
)]

#[path = "ratios/counter.rs"]
mod counter;
mod pairs;
mod recording;

use std::time::{Duration, Instant};

use counter::Counter;
use pairs::{Files, Mover, PAIRS, Pair, Peers, sizes_or};
use recording::format::Rival;
use recording::statistics::{Middle, spread};
use recording::{Recording, format, take_option};
use rustix::time::{ClockId, clock_gettime};

/// From what fits into a page to what no cache holds.
const SIZES: &str = "4KiB,32KiB,64KiB,128KiB,256KiB,512KiB,1MiB,16MiB,64MiB";

/// The sizes of which a pipe without privileges has room for twice as much, and sockets for all.
const SIZES_APART: &str = "1B,4KiB,32KiB,64KiB,256KiB,512KiB";

/// The width of an interval, as a part of its median, below which a pair needs no more turns.
const NARROW: f64 = 0.05;

/// How many turns a pair gets.
#[derive(Clone, Copy)]
struct Turns {
    least: usize,
    /// It gets more than the least, up to this many, until its intervals are narrow.
    most: usize,
}

/// The time and the processor time of one transfer.
struct Taken {
    time: Duration,
    cpu: Duration,
}

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_apart = arguments.iter().any(|argument| argument == "--apart");
    let (peers, default_sizes, name) = if is_apart {
        (Peers::Apart, SIZES_APART, "ratios --apart")
    } else {
        (Peers::Meanwhile, SIZES, "ratios")
    };
    let mut recording = Recording::begin(name, &mut arguments);
    // One command line serves `tools`, too.
    take_option(&mut arguments, "--peers");
    let is_test = arguments.iter().any(|argument| argument == "--test");
    let wanted: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    let turns = std::env::var("ZCOPY_BENCH_TURNS").ok();
    let wanted_turns = turns.and_then(|turns| turns.parse().ok());
    let turns_of = |bytes| {
        let exactly = |turns| Turns {
            least: turns,
            most: turns,
        };
        let at_least = |turns| Turns {
            least: turns,
            most: 2 * turns,
        };
        match wanted_turns {
            _ if is_test => exactly(1),
            Some(turns) => exactly(turns),
            // The times of short transfers spread more.
            None if bytes < 1 << 20 => at_least(31),
            None => at_least(15),
        }
    };
    let mut measured = Vec::new();
    for (size, bytes) in sizes_or(default_sizes) {
        let files = Files::new(bytes).with_peers(peers);
        let pairs = PAIRS.iter().filter(|pair| {
            wanted.is_empty() || wanted.iter().any(|part| pair.name.contains(part.as_str()))
        });
        let pairs: Vec<&Pair> = pairs.filter(|pair| pair.is_possible(&files)).collect();
        let mut of_size: Vec<_> = pairs
            .iter()
            .map(|pair| {
                recording.wait();
                measure(pair, &files, bytes, turns_of(bytes))
            })
            .collect();
        count_calls(&pairs, &files, bytes, &mut of_size);
        for pair in &of_size {
            report(pair, &size);
        }
        measured.extend(of_size);
    }
    report_losses(&measured);
    assert!(!measured.is_empty(), "no pair has such a name");
    let is_all = wanted.is_empty() && std::env::var_os("ZCOPY_BENCH_SIZES").is_none();
    recording.end(
        is_all,
        measured,
        |raw| match peers {
            Peers::Meanwhile => &mut raw.pairs,
            Peers::Apart => &mut raw.pairs_apart,
        },
        |a, b| (&a.name, a.bytes) == (&b.name, b.bytes),
    );
}

/// Measures the movers of a pair in turns, each turn in random order.
fn measure(pair: &Pair, files: &Files, bytes: u64, turns: Turns) -> format::Pair {
    /// The intervals are checked again after this many further turns.
    const TURNS_PER_CHECK: usize = 8;
    let movers: Vec<Mover> = pair.movers().collect();
    // Short transfers are repeated within a turn, so that one turn lasts about as long as 64 MiB
    // take.
    let repeats = (64 << 20) / bytes.clamp(1 << 20, 64 << 20);
    let empty = |mover: &Mover| format::Mover {
        name: mover.name(),
        nanoseconds: Vec::new(),
        cpu_nanoseconds: Vec::new(),
        system_calls: None,
    };
    let mut measured = format::Pair {
        name: pair.name.to_owned(),
        bytes,
        movers: movers.iter().map(empty).collect(),
    };
    let mut order: Vec<usize> = (0..movers.len()).collect();
    // The first of several turns warms up.
    let mut is_warm = turns.most == 1;
    loop {
        let taken = measured.movers[0].nanoseconds.len();
        let further = taken.checked_sub(turns.least);
        if taken == turns.most
            || further.is_some_and(|n| n.is_multiple_of(TURNS_PER_CHECK)) && is_narrow(&measured)
        {
            return measured;
        }
        fastrand::shuffle(&mut order);
        for &index in &order {
            let taken: Vec<_> = (0..repeats)
                .map(|_| time(pair, files, bytes, movers[index]))
                .collect();
            if !is_warm {
                continue;
            }
            let middle = spread(taken.iter().map(|taken| taken.time.as_nanos() as f64)).median;
            let cpu: Duration = taken.iter().map(|taken| taken.cpu).sum();
            // A median of whole numbers is positive, or a time would be.
            #[allow(clippy::cast_sign_loss, reason = "times are positive")]
            measured.movers[index]
                .nanoseconds
                .push(middle.round() as u64);
            let cpu = cpu.as_nanos() / u128::from(repeats);
            measured.movers[index].cpu_nanoseconds.push(cpu as u64);
        }
        is_warm = true;
    }
}

fn is_narrow(pair: &format::Pair) -> bool {
    ratios(pair).all(|(_, ratio)| ratio.high - ratio.low < NARROW * ratio.median)
}

/// Moves the bytes once.
fn time(pair: &Pair, files: &Files, bytes: u64, mover: Mover) -> Taken {
    let before = || (thread_time(), Instant::now());
    pair.observe(files, bytes, mover, before, |(cpu, start)| {
        let time = start.elapsed();
        let cpu = thread_time().saturating_sub(cpu);
        Taken { time, cpu }
    })
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Has every mover move the bytes once more, and counts its system calls.
fn count_calls(pairs: &[&Pair], files: &Files, bytes: u64, measured: &mut [format::Pair]) {
    let Some(counter) = Counter::attach() else {
        return;
    };
    for pair in pairs {
        for mover in pair.movers() {
            pair.observe(files, bytes, mover, Counter::mark, |()| Counter::mark());
        }
    }
    let movers = measured.iter_mut().flat_map(|pair| &mut pair.movers);
    for (mover, calls) in movers.zip(counter.counts()) {
        mover.system_calls = Some(calls);
    }
}

#[expect(clippy::print_stdout, reason = "the table is what it is for")]
fn report(pair: &format::Pair, size: &str) {
    println!("{}/{size}", pair.name);
    let gigabytes = pair.bytes as f64 / 1e9;
    let gibibytes = pair.bytes as f64 / f64::from(1 << 30);
    for mover in &pair.movers {
        let rates = mover
            .nanoseconds
            .iter()
            .map(|ns| pair.bytes as f64 / *ns as f64);
        let Middle { low, median, high } = spread(rates);
        let cpu = mover
            .cpu_nanoseconds
            .iter()
            .map(|ns| *ns as f64 / 1e9 / gigabytes);
        let cpu = spread(cpu).median;
        let calls = mover
            .system_calls
            .map(|calls| format!("{calls:5} calls, {:8.0} per GiB", calls as f64 / gibibytes));
        println!(
            "  {:<16} {median:8.2} GB/s  [{low:.2}, {high:.2}]  {cpu:7.3} CPU s/GB  {}",
            mover.name,
            calls.unwrap_or_default(),
        );
    }
    for (name, Middle { low, median, high }) in ratios(pair) {
        println!("  plan: {median:.2} [{low:.2}, {high:.2}] x {name}");
    }
}

/// Returns the plan's ratios to its rivals, which are named.
fn ratios(pair: &format::Pair) -> impl Iterator<Item = (&'static str, Middle)> {
    let rivals = [
        ("the best strategy", Rival::BestStrategy),
        ("buffered", Rival::Buffered),
        ("std::io::copy", Rival::Std),
    ];
    rivals
        .into_iter()
        .filter_map(|(name, rival)| Some((name, pair.ratio_to(rival)?)))
}

/// Names the pairs at which the plan is more than 3 % behind read and write.
#[expect(clippy::print_stdout, reason = "the list is what it is for")]
fn report_losses(pairs: &[format::Pair]) {
    println!("read and write are ahead of the plan, by more than 3 %, at these:");
    let mut is_none = true;
    for pair in pairs {
        let Some(Middle { low, median, high }) = pair.ratio_to(Rival::Buffered) else {
            continue;
        };
        if median < 0.97 && high < 1.0 {
            is_none = false;
            let (name, bytes) = (&pair.name, pair.bytes);
            println!("  {name}, {bytes} bytes: {median:.2} [{low:.2}, {high:.2}]");
        }
    }
    if is_none {
        println!("  none");
    }
}
