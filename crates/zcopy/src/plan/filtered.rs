//! The plan for bytes that become others: by read and write, since no call changes any.

use super::tee::skip_pairwise;
use super::{Candidate, Plan};
use crate::fd_info::FdInfo;
use crate::strategy::Strategy;

/// Plans to filter a source's bytes for a sink.
pub(crate) fn plan_filtered(source: &FdInfo, sink: &FdInfo) -> Plan {
    let buffered = Candidate::chosen(Strategy::Buffered, "the bytes become others on their way");
    let others = skip_pairwise("no call of the kernel changes bytes on their way");
    let candidates = std::iter::once(buffered).chain(others).collect();
    Plan::new(candidates, source, &[*sink])
}
