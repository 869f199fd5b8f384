//! The table "Which strategy for which pair" of `docs/strategies.md`, compared with the plan, row
//! by row.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::OFlags;
use rustix::net::SocketType;
use zcopy::{Candidate, Plan, Sparse, Strategy, Transfer, Verdict};

use crate::endpoints::{Sink, SinkKind as K, Source, SourceKind as S, pipe, unix};
use crate::files::{file_in, pattern, reopen, set_cursor, write_all};
use crate::mounts::Fs;

const PAGE: &str = include_str!("../../../../docs/strategies.md");

/// Sources and sinks; each source is paired with each sink.
type Pairs = &'static [(&'static [S], &'static [K])];

/// The rows that hold whatever the options, in the order of the table.
const ROWS: &[(&str, Pairs)] = &[
    (
        "file that claims size 0 (`/proc`), `/dev/null`, terminal, datagram socket, \
         unknown device → any",
        &[(
            &[S::ProcVersion, S::ProcStatus, S::Terminal, S::UnixDatagram],
            &K::ALL,
        )],
    ),
    (
        "any → sink in append mode, `/dev/full`, terminal, datagram socket, unknown device",
        &[(ANY, &[K::Append, K::Terminal])],
    ),
    (
        "`/dev/zero`, `/dev/random`, `/dev/urandom` → anything but a pipe",
        &[(&[S::Zero, S::Random], NO_PIPES)],
    ),
    (
        "regular → regular, within ext4, tmpfs",
        &[
            (&[S::Regular(Fs::Ext4)], &[EXT4]),
            (&[S::Regular(Fs::Tmpfs)], &[TMPFS]),
            (&[S::Memfd, S::SealedMemfd], &[K::Memfd]),
        ],
    ),
    (
        "regular → regular, within another file system, which may share blocks or copy by itself",
        &[
            (&[S::Regular(Fs::Btrfs)], &[K::Regular(Fs::Btrfs)]),
            (&[S::Regular(Fs::Xfs)], &[K::Regular(Fs::Xfs)]),
        ],
    ),
    (
        "regular → regular, two file systems",
        &[
            (&[S::Regular(Fs::Ext4)], &[TMPFS, K::Regular(Fs::Btrfs)]),
            (&[S::Regular(Fs::Xfs)], &[EXT4, K::Regular(Fs::Btrfs)]),
            (&[S::Regular(Fs::Tmpfs)], &[K::Memfd]),
        ],
    ),
    (
        "regular, memfd, block device → stream socket",
        &[(FILES, &[K::Tcp, K::UnixStream])],
    ),
    (
        "regular, memfd, block device, `/dev/zero`, `/dev/random`, `/dev/urandom` → pipe",
        &[
            (FILES, &[K::Pipe, K::Fifo]),
            (&[S::Zero, S::Random], &[K::Pipe, K::Fifo]),
        ],
    ),
    (
        "regular, memfd, block device → `/dev/null`",
        &[(FILES, &[K::Null])],
    ),
    (
        "regular, memfd, block device → block device; block device → regular",
        &[(FILES, &[K::Block]), (&[S::Block], &[EXT4, K::Memfd])],
    ),
    (
        "pipe → pipe; pipe → regular, memfd, block device at its cursor; stream socket → any",
        &[
            (&[S::Pipe, S::Fifo], &[K::Pipe, K::Fifo]),
            (&[S::Pipe, S::Fifo], &[EXT4, TMPFS, K::Memfd, K::Block]),
            (&[S::Tcp, S::UnixStream], &[K::Pipe, K::Fifo]),
            (&[S::Tcp, S::UnixStream], NO_PIPES),
        ],
    ),
    (
        "pipe → stream socket, `/dev/null`",
        &[(&[S::Pipe, S::Fifo], &[K::Tcp, K::UnixStream, K::Null])],
    ),
];

const EXT4: K = K::Regular(Fs::Ext4);
const TMPFS: K = K::Regular(Fs::Tmpfs);
const FILES: &[S] = &[
    S::Regular(Fs::Ext4),
    S::Regular(Fs::Xfs),
    S::Memfd,
    S::SealedMemfd,
    S::Block,
];
const ANY: &[S] = &[
    S::Regular(Fs::Tmpfs),
    S::Regular(Fs::Btrfs),
    S::Memfd,
    S::Pipe,
    S::Tcp,
    S::Zero,
    S::Block,
];
/// Sinks that are no pipes and take bytes from some source without read and write.
const NO_PIPES: &[K] = &[
    EXT4,
    TMPFS,
    K::Memfd,
    K::Tcp,
    K::UnixStream,
    K::Null,
    K::Block,
];

/// The rows that depend on options and lengths. Each has a test of its own.
const INSPECTED: &str = "any → any, with `inspect`; any → regular, with `Sparse::Detect`";
const STABLE: &str = "file that can still change, pipe, socket → pipe, socket, with `stable(true)`";
const STABLE_FILE: &str = "file that can still change → file, block device, with `stable(true)`, \
                           where no blocks can be shared";
const STABLE_CLONE: &str = "the same, where blocks may be shared";
const SMALL: &str = "any other pair, at most 32 KiB by size or limit";
const SMALL_TO_PIPE: &str = "regular, memfd → pipe, at most 12 KiB by size or limit";
const SMALL_FILE: &str =
    "regular on ext4, tmpfs, xfs → regular, `/dev/null`, at most 64 KiB by size or limit";
const SMALL_LOCAL: &str =
    "regular on ext4, tmpfs → regular at its cursor, at most 256 KiB by size or limit";
const SMALL_ACROSS: &str = "regular → regular, two file systems, at most 128 KiB by size or limit";
const DIRECT_STREAM: &str = "pipe, stream socket → sink with `O_DIRECT`";
const DIRECT_FILE: &str =
    "regular, memfd, block device → sink with `O_DIRECT`, where no blocks can be shared";
const OFFSET: &str = "pipe → regular, memfd, block device at an offset";
const SHORT: &str = "any of these, at most 256 KiB by size or limit; \
                     regular, memfd → pipe, `/dev/null`, at most 1 MiB";

/// The first and the second cell of every row.
fn table() -> Vec<(&'static str, &'static str)> {
    let mut lines = PAGE.lines();
    lines.find(|line| *line == "| source → sink | order |");
    assert_eq!(lines.next(), Some("|---|---|"));
    lines
        .map_while(|line| {
            line.strip_prefix("| ")?
                .strip_suffix(" |")?
                .split_once(" | ")
        })
        .collect()
}

/// The strategies that a row names, followed by the one that every row ends with, and the strategy
/// that the transfer begins with.
fn order(row: &str) -> (Vec<Strategy>, Option<Strategy>) {
    let table = table();
    let cell = table.iter().find(|(pair, _)| *pair == row);
    let (_, cell) = cell.unwrap_or_else(|| panic!("the table has no row: {row}"));
    let (order, warm_up) = match cell.split_once("; begins with ") {
        Some((order, warm_up)) => (order, Some(named(warm_up))),
        None => (*cell, None),
    };
    let order = order.trim_start_matches("the same in the order ");
    let mut order: Vec<_> = order.split(", ").map(named).collect();
    if order.last() != Some(&Strategy::Buffered) {
        order.push(Strategy::Buffered);
    }
    (order, warm_up)
}

fn named(name: &str) -> Strategy {
    let strategies = crate::strategies::STRATEGIES;
    let named = strategies.into_iter().find(|it| it.to_string() == name);
    named.unwrap_or_else(|| panic!("no strategy is called {name:?}"))
}

/// The strategies that a plan would try, in order, and the one that it begins with.
fn planned(plan: &Plan) -> (Vec<Strategy>, Option<Strategy>) {
    let candidates = plan.candidates().iter();
    let used = candidates.filter(|candidate| candidate.verdict() != Verdict::Skipped);
    (used.map(Candidate::strategy).collect(), plan.warm_up())
}

/// The plan for a pair with `len` bytes to move. The source has this size, or a limit where it has
/// no size; only a long stream has neither. Returns `None`, and reports a skip, if this machine has
/// no such pair.
fn plan(
    (from, to): (S, K),
    len: usize,
    option: impl for<'a> FnOnce(Transfer<'a>) -> Transfer<'a>,
) -> Option<Plan> {
    let source = Source::new(from, &pattern(len))?;
    let sink = Sink::new(to)?;
    let mut transfer = option(Transfer::new(source.fd.as_fd(), sink.fd.as_fd()));
    let has_size = matches!(from, S::Regular(_) | S::Memfd | S::SealedMemfd);
    if source.limit.is_some() || !has_size && len < LONG {
        transfer = transfer.limit(len as u64);
    }
    Some(transfer.plan().unwrap())
}

/// Longer than a short transfer.
const LONG: usize = 2 << 20;

fn pairs(pairs: Pairs) -> impl Iterator<Item = (S, K)> {
    pairs.iter().flat_map(|(sources, sinks)| {
        sources
            .iter()
            .flat_map(|from| sinks.iter().map(|to| (*from, *to)))
    })
}

#[test]
fn the_table_has_the_rows_that_are_tested() {
    let mut tested: Vec<_> = ROWS.iter().map(|(row, _)| *row).collect();
    tested.extend([STABLE_FILE, STABLE_CLONE]);
    tested.extend([INSPECTED, STABLE, SMALL, SMALL_FILE, SMALL_LOCAL]);
    tested.push(SMALL_TO_PIPE);
    tested.extend([SMALL_ACROSS, DIRECT_STREAM, DIRECT_FILE, OFFSET, SHORT]);
    tested.sort_unstable();
    let mut rows: Vec<_> = table().into_iter().map(|(row, _)| row).collect();
    rows.sort_unstable();
    assert_eq!(rows, tested);
}

#[test]
fn each_pair_is_planned_as_its_row_says() {
    for (row, pairs_of_row) in ROWS {
        let expected = order(row);
        for pair in pairs(pairs_of_row) {
            let Some(plan) = plan(pair, LONG, |it| it) else {
                continue;
            };
            assert_eq!(planned(&plan), expected, "{row}: {pair:?}\n{plan}");
        }
    }
}

#[test]
fn short_transfers_take_the_same_strategies_in_the_order_of_the_last_row() {
    let (short_order, _) = order(SHORT);
    for (row, pairs_of_row) in ROWS {
        let (mut expected, _) = order(row);
        expected.sort_by_key(|it| short_order.iter().position(|other| other == it));
        for pair in pairs(pairs_of_row) {
            // Files on ext4 and tmpfs have no lengths between small and long.
            for len in [small(pair) + 1, short(pair)]
                .into_iter()
                .filter(|len| small(pair) < *len && *len <= short(pair))
            {
                let Some(plan) = plan(pair, len, |it| it) else {
                    continue;
                };
                let (found, _) = planned(&plan);
                assert_eq!(found, expected, "{row}: {pair:?}, {len} bytes\n{plan}");
            }
        }
    }
}

#[test]
fn small_transfers_are_read_and_written() {
    let expected = order(SMALL);
    for row in [SMALL_TO_PIPE, SMALL_FILE, SMALL_LOCAL, SMALL_ACROSS] {
        assert_eq!(order(row), expected, "{row}");
    }
    for (row, pairs_of_row) in ROWS {
        for pair in pairs(pairs_of_row) {
            let Some(plan) = plan(pair, small(pair), |it| it) else {
                continue;
            };
            assert_eq!(planned(&plan), expected, "{row}: {pair:?}\n{plan}");
        }
    }
}

/// The largest length to which the last row applies.
fn short((from, to): (S, K)) -> usize {
    let is_file = matches!(from, S::Regular(_) | S::Memfd | S::SealedMemfd);
    if is_file && matches!(to, K::Pipe | K::Fifo | K::Null) {
        1 << 20
    } else {
        256 << 10
    }
}

/// The largest length to which a row for small transfers applies.
fn small((from, to): (S, K)) -> usize {
    const MEMFD: &str = "a tmpfs of its own";
    let source = match from {
        S::Regular(fs) => Some(format!("{fs:?}")),
        S::Memfd | S::SealedMemfd => Some(MEMFD.to_owned()),
        _ => None,
    };
    let sink = match to {
        K::Regular(fs) => Some(format!("{fs:?}")),
        K::Memfd => Some(MEMFD.to_owned()),
        _ => None,
    };
    match (source, sink) {
        (Some(source), Some(_)) if ["Ext4", "Tmpfs", MEMFD].contains(&&*source) => 256 << 10,
        (Some(source), Some(sink)) if source != sink => 128 << 10,
        (Some(_), None) if matches!(to, K::Pipe | K::Fifo) => 12 << 10,
        (Some(source), None) if to == K::Null && source != "Btrfs" => 64 << 10,
        (Some(source), Some(_)) if source != "Btrfs" => 64 << 10,
        _ => 32 << 10,
    }
}

#[test]
fn inspected_bytes_and_detected_zeros_are_read_and_written() {
    let expected = order(INSPECTED);
    for (row, pairs_of_row) in ROWS {
        for pair in pairs(pairs_of_row) {
            if let Some(plan) = plan(pair, LONG, |it| it.inspect(|_| ())) {
                assert_eq!(planned(&plan), expected, "{row}: {pair:?}\n{plan}");
            }
            if matches!(pair.1, K::Regular(_) | K::Memfd)
                && let Some(plan) = plan(pair, LONG, |it| it.sparse(Sparse::Detect))
            {
                assert_eq!(planned(&plan), expected, "{row}: {pair:?}\n{plan}");
            }
        }
    }
}

#[test]
fn stable_reads_and_writes_only_bytes_that_could_change() {
    for (row, pairs_of_row) in ROWS {
        for pair in pairs(pairs_of_row) {
            use S::{Block, Fifo, Memfd, Pipe, Regular, Tcp, UnixStream};
            // A pipe or socket may hold pages of a file.
            let may_change = matches!(
                pair.0,
                Regular(_) | Memfd | Block | Pipe | Fifo | Tcp | UnixStream
            );
            let shares_pages = matches!(pair.1, K::Pipe | K::Fifo | K::Tcp | K::UnixStream);
            let is_file = matches!(pair.1, K::Regular(_) | K::Memfd | K::Block);
            let is_file_to_file = matches!(pair.0, Regular(_) | Memfd | Block) && is_file;
            let clones = matches!(
                pair,
                (Regular(Fs::Btrfs), K::Regular(Fs::Btrfs))
                    | (Regular(Fs::Xfs), K::Regular(Fs::Xfs))
            );
            let expected = order(match () {
                () if may_change && shares_pages => STABLE,
                () if is_file_to_file && clones => STABLE_CLONE,
                () if is_file_to_file => STABLE_FILE,
                () => row,
            });
            let Some(plan) = plan(pair, LONG, |it| it.stable(true)) else {
                continue;
            };
            assert_eq!(planned(&plan), expected, "{row}: {pair:?}\n{plan}");
        }
    }
}

#[test]
fn a_direct_sink_is_spliced_to_from_files_alone() {
    let sources = [
        (
            DIRECT_STREAM,
            &[S::Pipe, S::Fifo, S::Tcp, S::UnixStream][..],
        ),
        (DIRECT_FILE, &[S::Regular(Fs::Ext4), S::Memfd, S::Block][..]),
    ];
    for fs in Fs::direct().filter(|fs| matches!(fs, Fs::Ext4 | Fs::Tmpfs)) {
        for (row, sources) in sources {
            for from in sources {
                let (Some(source), Some(dir)) = (Source::new(*from, &pattern(LONG)), fs.dir())
                else {
                    continue;
                };
                let sink = reopen(&file_in(&dir, b""), OFlags::DIRECT | OFlags::RDWR);
                let plan = Transfer::new(&source.fd, &sink).plan().unwrap();
                assert_eq!(planned(&plan), order(row), "{from:?} to {fs:?}\n{plan}");
            }
        }
    }
}

#[test]
fn a_pipe_is_spliced_to_a_file_at_an_offset() {
    for from in [S::Pipe, S::Fifo] {
        for to in [EXT4, TMPFS, K::Memfd, K::Block] {
            let Some(plan) = plan((from, to), LONG, |it| it.sink_offset(0)) else {
                continue;
            };
            assert_eq!(planned(&plan), order(OFFSET), "{from:?} to {to:?}\n{plan}");
        }
    }
}

/// The descriptors that only the first two rows name.
#[test]
fn odd_descriptors_are_read_and_written() {
    let source = rustix::fs::memfd_create("zcopy", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    assert!(write_all(&source, &pattern(LONG)));
    set_cursor(&source, 0);
    let (reader, writer) = pipe();
    let (datagrams, _other) = unix(SocketType::DGRAM);
    let unknown: OwnedFd = eventfd(0, EventfdFlags::empty()).unwrap();
    let open = |path| File::options().read(true).write(true).open(path).unwrap();
    let (null, full) = (open("/dev/null"), open("/dev/full"));
    let pairs: [[BorrowedFd<'_>; 2]; 7] = [
        [null.as_fd(), writer.as_fd()],
        [unknown.as_fd(), writer.as_fd()],
        [source.as_fd(), full.as_fd()],
        [reader.as_fd(), full.as_fd()],
        [source.as_fd(), datagrams.as_fd()],
        [source.as_fd(), unknown.as_fd()],
        [reader.as_fd(), unknown.as_fd()],
    ];
    for [source, sink] in pairs {
        let plan = Transfer::new(&source, &sink).plan().unwrap();
        assert_eq!(planned(&plan), (vec![Strategy::Buffered], None), "{plan}");
    }
}
