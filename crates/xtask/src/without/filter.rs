//! The seccomp filter.

use std::collections::BTreeMap;

use anyhow::Context;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::{Call, Refusal};

/// Refuses calls of this thread, of the threads and processes that it will start, and of the
/// program that it will execute.
///
/// It sets `no_new_privs`, so that it needs no privileges, and programs that are set-user-ID give
/// none.
///
/// # Errors
///
/// Fails on an architecture that `seccompiler` does not know, and where seccomp itself is refused.
pub(super) fn install(refusal: &Refusal) -> anyhow::Result<()> {
    let program = program(refusal).context("cannot build a seccomp filter")?;
    seccompiler::apply_filter(&program).context("cannot install a seccomp filter")
}

fn program(refusal: &Refusal) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules = BTreeMap::new();
    for &call in &refusal.calls {
        let (number, requests) = match call {
            Call::Splice => (libc::SYS_splice, &[][..]),
            Call::Tee => (libc::SYS_tee, &[][..]),
            Call::Sendfile => (libc::SYS_sendfile, &[][..]),
            Call::CopyFileRange => (libc::SYS_copy_file_range, &[][..]),
            Call::Ficlone => (libc::SYS_ioctl, &[libc::FICLONE, libc::FICLONERANGE][..]),
        };
        // A call without rules is refused whatever its arguments are.
        let requests = requests.iter().map(|&request| of_request(request));
        rules.insert(number, requests.collect::<Result<_, _>>()?);
    }
    let refuse = SeccompAction::Errno(refusal.errno.number().unsigned_abs());
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?.try_into()
}

/// Matches the ioctl of one request. The kernel takes 32 bits of the request, whatever the register
/// holds.
fn of_request(request: libc::Ioctl) -> Result<SeccompRule, seccompiler::BackendError> {
    let is_request = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, request)?;
    SeccompRule::new(vec![is_request])
}
