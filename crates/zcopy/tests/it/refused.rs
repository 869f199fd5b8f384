//! System calls that the seccomp filter of `cargo xtask without` refuses.
//!
//! Bytes and counts are the same under such a filter. A test that claims that a strategy served a
//! pair asserts which one serves it instead. A test that requests strategies leaves the refused
//! ones out: `every_pair` of the library's tests asserts for every pair that such a strategy fails
//! as unsuitable and moves nothing.

use std::collections::HashSet;
use std::io::Write;
use std::sync::{LazyLock, Mutex, PoisonError};

use rustix::io::Errno;
use zcopy::{Candidate, Plan, Strategy, Verdict};

/// The calls that are refused, by the names that `cargo xtask without` gives them.
static CALLS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let calls = std::env::var("ZCOPY_WITHOUT").unwrap_or_default();
    let calls = calls.split(',').filter(|call| !call.is_empty());
    calls.map(str::to_owned).collect()
});

/// Whether a call is refused: `splice`, `tee`, `sendfile`, `copy_file_range` or `ficlone`.
pub(crate) fn is_call_refused(call: &str) -> bool {
    CALLS.iter().any(|refused| refused == call)
}

/// Whether the filter refuses a call that this strategy needs.
pub(crate) fn is_refused(strategy: Strategy) -> bool {
    let calls: &[&str] = match strategy {
        Strategy::Reflink => &["ficlone"],
        Strategy::CopyFileRange => &["copy_file_range"],
        Strategy::Sendfile => &["sendfile"],
        Strategy::Splice | Strategy::SplicePipe => &["splice"],
        // tee shares bytes between pipes; splice moves them in or out.
        Strategy::Tee => &["tee", "splice"],
        Strategy::Buffered => &[],
        _ => unreachable!("{strategy} has no row"),
    };
    calls.iter().any(|call| is_call_refused(call))
}

/// The errno that a refused call of this strategy fails with.
pub(crate) fn refused_with(strategy: Strategy) -> Option<Errno> {
    is_refused(strategy).then(errno)
}

fn errno() -> Errno {
    match std::env::var("ZCOPY_WITHOUT_ERRNO").as_deref() {
        Ok("ENOSYS") => Errno::NOSYS,
        Ok("EPERM") => Errno::PERM,
        other => panic!("no such errno: {other:?}"),
    }
}

/// Whether a strategy is not refused. `None`, which leaves the choice to the plan, never is.
pub(crate) fn is_allowed(strategy: impl Into<Option<Strategy>>) -> bool {
    strategy.into().is_none_or(|strategy| !is_refused(strategy))
}

/// The strategies that are not refused.
pub(crate) fn allowed<W>(strategies: impl IntoIterator<Item = W>) -> impl Iterator<Item = W>
where
    W: Copy + Into<Option<Strategy>>,
{
    strategies
        .into_iter()
        .filter(|strategy| is_allowed(*strategy))
}

/// The first of these strategies that is not refused, or `Buffered` if all are refused.
pub(crate) fn first_allowed(order: &[Strategy]) -> Strategy {
    let mut remaining = allowed(order.iter().copied());
    remaining.next().unwrap_or(Strategy::Buffered)
}

/// The first strategy of a plan that is not refused.
pub(crate) fn served_by(plan: &Plan) -> Strategy {
    let used = plan.candidates().iter();
    let used = used.filter(|candidate| candidate.verdict() != Verdict::Skipped);
    let order: Vec<_> = used.map(Candidate::strategy).collect();
    first_allowed(&order)
}

/// Returns true if no strategy is refused; otherwise prints one line that libtest does not capture,
/// unless this test has printed one already.
///
/// A test calls this before a claim that does not hold without the call. With `ZCOPY_REQUIRE=all` a
/// refusal is not a failure: no machine could run the test under that filter.
pub(crate) fn needs(strategies: &[Strategy]) -> bool {
    static PRINTED: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);
    let Some(refused) = strategies.iter().find(|strategy| is_refused(**strategy)) else {
        return true;
    };
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let mut printed = PRINTED.lock().unwrap_or_else(PoisonError::into_inner);
    if printed.insert(test.to_owned()) {
        let _ = writeln!(std::io::stderr(), "NEEDS A REFUSED CALL: {test}: {refused}");
    }
    false
}

/// If the filter were missing, tests would skip claims that they could check.
#[test]
fn each_call_in_zcopy_without_is_refused() {
    use rustix::pipe::SpliceFlags;
    if CALLS.is_empty() {
        return;
    }
    let (reader, writer) = std::io::pipe().unwrap();
    let (_other_reader, other) = std::io::pipe().unwrap();
    assert_eq!(rustix::io::write(&writer, b"x"), Ok(1));
    let [source, sink] = [(); 2].map(|()| tempfile::tempfile().unwrap());
    for call in &*CALLS {
        let flags = SpliceFlags::NONBLOCK;
        let found = match &**call {
            "splice" => rustix::pipe::splice(&reader, None, &other, None, 1, flags).map(drop),
            "tee" => rustix::pipe::tee(&reader, &other, 1, flags).map(drop),
            "sendfile" => rustix::fs::sendfile(&other, &source, None, 1).map(drop),
            "copy_file_range" => {
                rustix::fs::copy_file_range(&source, None, &sink, None, 1).map(drop)
            }
            "ficlone" => rustix::fs::ioctl_ficlone(&sink, &source),
            _ => panic!("no such call: {call}"),
        };
        assert_eq!(found, Err(errno()), "{call}");
    }
}
