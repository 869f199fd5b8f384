//! The plan for a filter: read and write, because no system call changes bytes.

use super::tee::skip_pairwise;
use super::{Candidate, Plan};
use crate::fd_info::FdInfo;
use crate::strategy::Strategy;

/// Plans a transfer through a filter.
pub(crate) fn plan_filtered(source: &FdInfo, sink: &FdInfo) -> Plan {
    let buffered = Candidate::chosen(
        Strategy::Buffered,
        "the filter changes bytes, so they must be read and written",
    );
    let others = skip_pairwise("the filter changes bytes, and no system call does that");
    let candidates = std::iter::once(buffered).chain(others).collect();
    Plan::new(candidates, source, &[*sink])
}
