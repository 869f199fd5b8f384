//! The programs that are compared, and where they stand.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use anyhow::Context as _;

/// The tools of this build.
const OURS: &[(&str, &str)] = &[
    ("zc-cat", env!("CARGO_BIN_EXE_zc-cat")),
    ("zc-dircopy", env!("CARGO_BIN_EXE_zc-dircopy")),
    ("zc-pv", env!("CARGO_BIN_EXE_zc-pv")),
    ("zc-tee", env!("CARGO_BIN_EXE_zc-tee")),
    ("zc-yes", env!("CARGO_BIN_EXE_zc-yes")),
];

/// Copies of the programs.
///
/// A file that the linker has written starts slower than its copy, and people run what `install` or
/// `dpkg` has copied.
pub(crate) struct Programs {
    copies: BTreeMap<&'static str, PathBuf>,
    pub(crate) missing: Vec<String>,
}

impl Programs {
    /// Looks for the programs in `DIR/bin` and then in `PATH`, and copies them to `to`.
    ///
    /// # Errors
    ///
    /// If a program cannot be copied.
    pub(crate) fn find(
        names: impl Iterator<Item = &'static str>,
        peers: Option<&Path>,
        to: &Path,
    ) -> anyhow::Result<Self> {
        let path = env::var_os("PATH").unwrap_or_default();
        let dirs = peers.map(|dir| dir.join("bin"));
        let dirs: Vec<_> = dirs.into_iter().chain(env::split_paths(&path)).collect();
        let mut found = Self {
            copies: BTreeMap::new(),
            missing: Vec::new(),
        };
        for name in names {
            if found.copies.contains_key(name) || found.missing.iter().any(|other| other == name) {
                continue;
            }
            let own = OURS.iter().find(|(own, _)| *own == name);
            let own = own.map(|(_, path)| PathBuf::from(path));
            let candidates = own.into_iter().chain(dirs.iter().map(|dir| dir.join(name)));
            let Some(program) = candidates.into_iter().find(|path| path.is_file()) else {
                found.missing.push(name.to_owned());
                continue;
            };
            let copy = to.join(name);
            fs::copy(&program, &copy).with_context(|| program.display().to_string())?;
            found.copies.insert(name, copy);
        }
        Ok(found)
    }

    /// The path of a program that is there.
    pub(crate) fn path(&self, name: &str) -> Option<&Path> {
        self.copies.get(name).map(PathBuf::as_path)
    }

    /// What each program says of its version.
    pub(crate) fn versions(&self) -> BTreeMap<String, String> {
        let version = |path: &Path| {
            let output = Command::new(path)
                .arg("--version")
                .stdin(Stdio::null())
                .stderr(Stdio::null())
                .output();
            let text = output.map(|output| output.stdout).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            text.lines().next().unwrap_or_default().to_owned()
        };
        let all = self.copies.iter();
        all.map(|(name, path)| ((*name).to_owned(), version(path)))
            .collect()
    }
}

/// Whether this machine has a program that measures others; says so if not.
pub(crate) fn has(name: &str, figure: &str) -> bool {
    let path: OsString = env::var_os("PATH").unwrap_or_default();
    let is_here = env::split_paths(&path).any(|dir| dir.join(name).is_file());
    if !is_here {
        eprintln!("NOT MEASURED: {figure}, because there is no {name}");
    }
    is_here
}
