//! The original that a tool is held beside, where there is one.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Once;

/// The pv that `ZCOPY_PV` names. Without it nothing is compared, which is said once; one that is
/// named and is no pv 1.12 fails the test.
///
/// This is no skip of what the machine cannot do: what is compared is also written down in the
/// tests.
pub(crate) fn pv() -> Option<PathBuf> {
    static SAID: Once = Once::new();
    let Some(path) = std::env::var_os("ZCOPY_PV") else {
        SAID.call_once(|| {
            let _ = writeln!(
                std::io::stderr(),
                "NOT COMPARED with pv: ZCOPY_PV names none"
            );
        });
        return None;
    };
    let version = std::process::Command::new(&path).arg("--version").output();
    let version = version.expect("ZCOPY_PV names a program").stdout;
    assert!(version.starts_with(b"pv 1.12"), "ZCOPY_PV is no pv 1.12");
    Some(path.into())
}
