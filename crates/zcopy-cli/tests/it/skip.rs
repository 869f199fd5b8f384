//! What this machine cannot do.

use std::collections::HashSet;
use std::io::Write;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Says that part of a test is left out: once, and past the harness, which hides what passing tests print.
///
/// # Panics
///
/// With `ZCOPY_REQUIRE=all`, where nothing may be left out.
pub(crate) fn skip(reason: &str) {
    static SAID: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.insert(reason.to_owned()) {
        let _ = writeln!(std::io::stderr(), "SKIPPED: {reason}");
    }
    drop(said);
    let requires_all = std::env::var_os("ZCOPY_REQUIRE").is_some_and(|value| value == "all");
    assert!(
        !requires_all,
        "ZCOPY_REQUIRE=all forbids skipping: {reason}"
    );
}

/// Whether a program can be run; says so if not.
pub(crate) fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|dir| dir.join(name).exists());
    if !is_there {
        skip(&format!("{name} is not installed"));
    }
    is_there
}
