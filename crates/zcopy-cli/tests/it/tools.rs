//! The programs.

/// The name and the path of each.
pub(crate) const TOOLS: [(&str, &str); 5] = [
    ("zc-cat", env!("CARGO_BIN_EXE_zc-cat")),
    ("zc-dircopy", env!("CARGO_BIN_EXE_zc-dircopy")),
    ("zc-pv", env!("CARGO_BIN_EXE_zc-pv")),
    ("zc-tee", env!("CARGO_BIN_EXE_zc-tee")),
    ("zc-yes", env!("CARGO_BIN_EXE_zc-yes")),
];
