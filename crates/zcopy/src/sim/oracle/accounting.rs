//! Checks what a transfer reports: calls, bytes that left the source, message boundaries, ticks,
//! and capacities of pipes.

use std::os::fd::OwnedFd;
use std::time::Duration;

use super::{Check, Gap, check_source_position, read};
use crate::report::{Attempt, Report};
use crate::sim::SimKernel;
use crate::sim::objects::Object;
use crate::sim::scenario::{Kind, SinkSpec, SourceSpec};
use crate::sim::script::Call;

/// The greatest number of reads that a transfer makes to confirm an end of file.
const MAX_CONFIRMING_READS: u64 = 3;

/// Checks the number of calls that reports of successful transfers count: every call that moved
/// bytes, and no call that was not made. Reads that only confirm an end are not counted; they may
/// return bytes if other processes write. Nor are the reads, at most `n_returned`, each of which
/// takes a packet out of a private pipe, to hand it back.
pub(crate) fn check_calls(kernel: &SimKernel, reports: &[Report], n_returned: usize) -> Check<()> {
    let state = kernel.state.borrow();
    let moves = state.log.iter().filter(|(call, _)| call.moves_bytes());
    let n_moved = moves.clone().filter(|(_, n)| matches!(n, Ok(1..))).count() as u64;
    // A query for the next message counts if there is none.
    let looks = state
        .log
        .iter()
        .filter(|(call, _)| *call == Call::NextDatagram);
    let n_made = (moves.count() + looks.count()) as u64;
    let attempts = reports.iter().flat_map(Report::attempts);
    let n_counted: u64 = attempts.map(Attempt::calls).sum();
    let n_uncounted = MAX_CONFIRMING_READS * reports.len() as u64 + n_returned as u64;
    if (n_moved.saturating_sub(n_uncounted)..=n_made).contains(&n_counted) {
        return Ok(());
    }
    Err(format!(
        "{n_counted} calls are counted; {n_made} were made, of which {n_moved} moved bytes"
    ))
}

/// Checks that the source has lost exactly the bytes that a report counts or hands back.
///
/// Returns the number of bytes removed from a pipe, socket or device. Returns `None` for a file,
/// whose position is checked instead, and for a pipe from which a read may have removed more of a
/// packet than the transfer moved.
pub(crate) fn check_consumed(
    kernel: &SimKernel,
    (fd, spec): (&OwnedFd, &SourceSpec),
    data: &[u8],
    report: &Report,
    gap: Gap,
) -> Check<Option<usize>> {
    let back = report.undelivered();
    let n = report.bytes() as usize;
    let end = n + back.len();
    if end > data.len() {
        return Err(format!("{end} bytes of {}", data.len()));
    }
    if back != &data[n..end] {
        return Err("other bytes are handed back than were read".into());
    }
    let left = kernel.contents(fd);
    let consumed = match spec.kind {
        Kind::File | Kind::Block => {
            if !back.is_empty() && read(kernel, fd).is_empty() {
                return Err("bytes of a file are handed back, which could be rewound".into());
            }
            return check_source_position(kernel, (fd, spec), end as u64, gap).map(|()| None);
        }
        Kind::Device => kernel.with(fd, |object| match object {
            Object::Random(taken) => *taken as usize,
            _ => unreachable!(),
        }),
        Kind::Pipe | Kind::Stream | Kind::Messages => data.len() - left.len(),
    };
    // Only a splice removes a part of a packet and leaves the rest.
    let may_exceed = spec.is_packet && kernel.has_refused_a_splice();
    if consumed < end || consumed > end && !may_exceed {
        return Err(format!(
            "{consumed} bytes are consumed, and {end} accounted for"
        ));
    }
    if may_exceed {
        return Ok(None);
    }
    if spec.kind != Kind::Device && left != data[consumed..] {
        return Err("the rest of the source has changed".into());
    }
    Ok(Some(consumed))
}

/// Checks that a message sink holds the first messages of a message source, with their boundaries.
pub(crate) fn check_boundaries(
    kernel: &SimKernel,
    source: &SourceSpec,
    (fd, sink): (&OwnedFd, &SinkSpec),
) -> Check<()> {
    if source.kind != Kind::Messages || sink.kind != Kind::Messages {
        return Ok(());
    }
    let arrived: Vec<_> = kernel.with(fd, |object| match object {
        Object::Messages(messages) => {
            let all = messages.taken.iter().chain(&messages.queue);
            all.cloned().collect()
        }
        _ => Vec::new(),
    });
    if source.messages().starts_with(&arrived) {
        Ok(())
    } else {
        Err("the boundaries of messages have changed".into())
    }
}

/// Checks that an observer was called at least once in every tick.
pub(crate) fn check_ticks(kernel: &SimKernel, calls: &[Duration], tick: Option<u64>) -> Check<()> {
    let Some(tick) = tick.map(Duration::from_millis) else {
        return Ok(());
    };
    let times = [&[Duration::ZERO], calls, &[kernel.elapsed()]].concat();
    let gaps = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
    match gaps.max() {
        Some(gap) if gap > tick => Err(format!("{gap:?} without a tick")),
        _ => Ok(()),
    }
}

/// Checks that no pipe has shrunk, and that none has grown unless the options allow it. `before`
/// are the capacities before the transfer.
pub(crate) fn check_capacities<'a>(
    kernel: &SimKernel,
    fds: impl Iterator<Item = &'a OwnedFd>,
    before: &[usize],
    may_grow: bool,
) -> Check<()> {
    for (fd, before) in fds.zip(before) {
        let after = kernel.capacity(fd);
        if after < *before {
            return Err("a pipe has shrunk".into());
        }
        if after > *before && !may_grow {
            return Err("a pipe has grown, which the options do not allow".into());
        }
    }
    Ok(())
}
