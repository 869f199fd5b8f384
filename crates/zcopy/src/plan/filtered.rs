//! The plan for bytes that become others: by read and write, since no call changes any.

use super::Plan;
use super::several::{chosen, skipped};
use crate::fd_info::FdInfo;
use crate::strategy::Strategy;

/// Plans to filter a source's bytes for a sink.
pub(crate) fn plan_filtered(source: &FdInfo, sink: &FdInfo) -> Plan {
    let candidates = Strategy::PAIRWISE
        .into_iter()
        .map(|strategy| match strategy {
            Strategy::Buffered => chosen(strategy, "the bytes become others on their way"),
            _ => skipped(strategy, "no call of the kernel changes bytes on their way"),
        });
    let mut candidates: Vec<_> = candidates.collect();
    candidates.sort_by_key(|candidate| candidate.strategy != Strategy::Buffered);
    Plan {
        candidates,
        source: *source,
        sinks: vec![*sink],
        ways: Vec::new(),
        opening: None,
    }
}
