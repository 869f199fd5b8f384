//! Tests that this machine cannot run report a skip, or fail.

use std::collections::HashSet;
use std::io::Write;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Reports that part of a test is left out.
///
/// # Panics
///
/// With `ZCOPY_REQUIRE=all`, where nothing may be left out.
pub(crate) fn skip(reason: &str) {
    report(reason);
    let requires_all = std::env::var_os("ZCOPY_REQUIRE").is_some_and(|value| value == "all");
    assert!(
        !requires_all,
        "ZCOPY_REQUIRE=all forbids skipping: {reason}"
    );
}

/// Prints a reason once for each test, past the harness, which hides the output of passing tests.
/// Never fails: for conditions that no installation changes, such as a missing kernel driver.
pub(crate) fn report(reason: &str) {
    static REPORTED: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);
    // The harness names the thread of a test after it, if there are several.
    let line = match std::thread::current().name() {
        Some(test) if test != "main" => format!("{test}: {reason}"),
        _ => reason.to_owned(),
    };
    let mut reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    if reported.insert(line.clone()) {
        let _ = writeln!(std::io::stderr(), "SKIPPED: {line}");
    }
}

/// Whether a program is installed. Reports a skip if not.
pub(crate) fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|dir| dir.join(name).exists());
    if !is_there {
        skip(&format!("{name} is not installed"));
    }
    is_there
}

/// Whether this process is root. Reports a skip if not.
pub(crate) fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip("only root can do this");
    }
    is_root
}
