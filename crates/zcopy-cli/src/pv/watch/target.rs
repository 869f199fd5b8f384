//! The targets of `-d`, as the command line names them.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::common::cli::message;
use crate::common::cli::quote::quoted;

/// A target of `-d`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// All files that a process opens.
    Process(i32),
    /// One descriptor of a process.
    Descriptor(i32, RawFd),
    /// A file that grows.
    File(PathBuf),
}

impl Target {
    /// Returns the number of the process.
    #[must_use]
    pub fn pid(&self) -> Option<i32> {
        match self {
            Self::Process(pid) | Self::Descriptor(pid, _) => Some(*pid),
            Self::File(_) => None,
        }
    }

    /// Returns the number of the descriptor, if a single one is named.
    #[must_use]
    pub fn fd(&self) -> Option<RawFd> {
        match self {
            Self::Descriptor(_, fd) => Some(*fd),
            Self::Process(_) | Self::File(_) => None,
        }
    }

    /// Returns whether the target is one file, and not all files of a process.
    #[must_use]
    pub fn is_one_file(&self) -> bool {
        !matches!(self, Self::Process(_))
    }
}

/// The origin of a specification.
#[derive(Clone, Copy, Debug)]
enum SpecSource<'a> {
    /// The value of `-d`.
    Option,
    /// An operand.
    Operand,
    /// A line of a file, counted from 1.
    Line(&'a OsStr, usize),
}

/// Parses the values of `-d`, and the operands, which mean the same: `PID`, `PID:FD`, `=NAME`,
/// `@LISTFILE`, and the path of a file, which contains a slash.
///
/// A process that is named twice is watched once.
///
/// # Errors
///
/// Returns the error of the first specification that is invalid or whose list cannot be read, in
/// the wording of pv.
pub fn targets(options: &[OsString], operands: &[OsString]) -> Result<Vec<Target>, String> {
    let mut targets = Vec::new();
    for spec in options {
        add(&mut targets, spec, SpecSource::Option)?;
    }
    for spec in operands {
        add(&mut targets, spec, SpecSource::Operand)?;
    }
    Ok(targets)
}

fn add(targets: &mut Vec<Target>, spec: &OsStr, source: SpecSource<'_>) -> Result<(), String> {
    match spec.as_bytes() {
        [b'=', name @ ..] => {
            let name = OsStr::from_bytes(name);
            if name.is_empty() {
                return Err(source.wrong_kind('=', "missing process name"));
            }
            let pids = pids_of(name).map_err(|error| {
                let error = message::worded(&error);
                source.wrong_kind('=', &format!("pgrep: {error}"))
            })?;
            for pid in pids {
                add_once(targets, Target::Process(pid));
            }
        }
        [b'@', list @ ..] => add_list(targets, OsStr::from_bytes(list), source)?,
        _ => add_once(
            targets,
            parse(spec).map_err(|what| source.wrong(spec, what))?,
        ),
    }
    Ok(())
}

fn add_once(targets: &mut Vec<Target>, target: Target) {
    if !targets.contains(&target) {
        targets.push(target);
    }
}

/// Adds the targets in a file, one per line. Skips blank lines and those that begin with `#`.
fn add_list(targets: &mut Vec<Target>, list: &OsStr, source: SpecSource<'_>) -> Result<(), String> {
    if list.is_empty() {
        return Err(source.wrong_kind('@', "missing filename"));
    }
    if matches!(source, SpecSource::Line(..)) {
        // A list that includes itself would have no end.
        return Err(source.wrong_kind('@', "list within a list"));
    }
    let text = fs::read(list).map_err(|error| {
        let list = list.to_string_lossy();
        source.wrong_kind('@', &format!("{list}: {}", message::worded(&error)))
    })?;
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if !line.is_empty() && !line.starts_with(b"#") {
            add(
                targets,
                OsStr::from_bytes(line),
                SpecSource::Line(list, index + 1),
            )?;
        }
    }
    Ok(())
}

/// The expectation that an invalid specification does not meet.
const EXPECTED: &str = "process ID or pid:fd pair expected";

/// Parses the number of a process, with or without that of a descriptor, or a path, which contains
/// a slash.
fn parse(spec: &OsStr) -> Result<Target, &'static str> {
    if spec.as_bytes().contains(&b'/') {
        return Ok(Target::File(spec.into()));
    }
    let spec = spec.to_str().ok_or(EXPECTED)?;
    let (pid, fd) = match spec.split_once(':') {
        Some((pid, fd)) => (pid, Some(fd)),
        None => (spec, None),
    };
    // The parser of integers accepts a sign.
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(pid) || !fd.is_none_or(is_number) {
        return Err(EXPECTED);
    }
    let pid = pid.parse().ok().filter(|pid| *pid > 0);
    let fd = fd.map(str::parse).transpose();
    let pid = pid.ok_or("invalid process ID")?;
    Ok(match fd.map_err(|_| EXPECTED)? {
        Some(fd) => Target::Descriptor(pid, fd),
        None => Target::Process(pid),
    })
}

/// Returns the processes with a name, without this one.
///
/// Runs pgrep because it reads the name as a pattern, in its own dialect.
fn pids_of(name: &OsStr) -> io::Result<Vec<i32>> {
    let found = Command::new("pgrep")
        .arg("--")
        .arg(name)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    let this = rustix::process::getpid().as_raw_nonzero().get();
    let lines = String::from_utf8_lossy(&found.stdout);
    let pids = lines.lines().filter_map(|line| line.trim().parse().ok());
    Ok(pids.filter(|pid| *pid != this).collect())
}

impl SpecSource<'_> {
    /// Returns the error of a specification whose kind is known by its first character.
    fn wrong_kind(self, kind: char, what: &str) -> String {
        match self {
            Self::Option => format!("-d {kind}: {what}"),
            Self::Operand => format!("{kind}: {what}"),
            Self::Line(..) => format!("{self}: {kind}: {what}"),
        }
    }

    /// Returns the error of a specification that may be a number. pv leaves out the value of `-d`.
    fn wrong(self, spec: &OsStr, what: &str) -> String {
        match self {
            Self::Option => format!("{self}: {what}"),
            Self::Operand => format!("{}: {what}", quoted(spec)),
            Self::Line(..) => format!("{self}: {}: {what}", quoted(spec)),
        }
    }
}

impl fmt::Display for SpecSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option => f.write_str("-d"),
            Self::Operand => f.write_str("operand"),
            Self::Line(list, number) => write!(f, "{}:{number}", list.to_string_lossy()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use zcopy_fuzz::holds_for_bytes;

    use super::*;

    fn of(specs: &[&str]) -> Result<Vec<Target>, String> {
        let specs: Vec<OsString> = specs.iter().map(OsString::from).collect();
        targets(&specs[..1], &specs[1..])
    }

    fn all_of(pid: i32) -> Target {
        Target::Process(pid)
    }

    #[test]
    fn numbers_are_processes_and_pairs_are_descriptors() {
        let one = Target::Descriptor(12, 0);
        assert_eq!(
            of(&["12", "12:0", "7", "12"]),
            Ok(vec![all_of(12), one, all_of(7)])
        );
    }

    #[test]
    fn a_slash_makes_it_a_path() {
        let file = |path: &str| Target::File(path.into());
        assert_eq!(
            of(&["./12", "/a/b:1", "./12"]),
            Ok(vec![file("./12"), file("/a/b:1")])
        );
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (spec, complaint) in [
            ("abc", EXPECTED),
            ("", EXPECTED),
            (":3", EXPECTED),
            ("12:", EXPECTED),
            ("12:x", EXPECTED),
            ("+12", EXPECTED),
            ("12:99999999999", EXPECTED),
            ("0", "invalid process ID"),
            ("99999999999", "invalid process ID"),
        ] {
            assert_eq!(of(&[spec]), Err(format!("-d: {complaint}")), "{spec}");
            let complaint = format!("{}: {complaint}", quoted(spec.as_ref()));
            assert_eq!(of(&["12", spec]), Err(complaint), "{spec}");
        }
        for (spec, complaint) in [
            ("=", "-d =: missing process name"),
            ("@", "-d @: missing filename"),
            (
                "@/nonexistent",
                "-d @: /nonexistent: No such file or directory",
            ),
        ] {
            assert_eq!(of(&[spec]), Err(complaint.to_owned()), "{spec}");
        }
    }

    #[test]
    fn the_lines_of_a_list_are_specifications_and_their_complaints_have_numbers() {
        let directory = tempfile::tempdir().unwrap();
        let list = directory.path().join("list");
        let spec = format!("@{}", list.display());
        fs::write(&list, "# two\n\n 12 \n7\n").unwrap();
        assert_eq!(of(&[&spec]), Ok(vec![all_of(12), all_of(7)]));
        for (line, complaint) in [
            ("0:5", "'0:5': invalid process ID"),
            ("x", "x: process ID or pid:fd pair expected"),
            ("=", "=: missing process name"),
            ("@list", "@: list within a list"),
        ] {
            fs::write(&list, format!("12\n{line}\n")).unwrap();
            let complaint = format!("{}:2: {complaint}", list.display());
            assert_eq!(of(&[&spec]), Err(complaint), "{line}");
        }
    }

    #[test]
    fn any_specification_is_a_path_or_numbers_that_are_written_the_same() {
        holds_for_bytes(
            &[b"12:0", b"./a:1", b"007", b"2147483648"],
            |bytes| match parse(OsStr::from_bytes(bytes)) {
                Ok(Target::File(path)) => {
                    assert_eq!(path.as_os_str().as_bytes(), bytes);
                    assert!(bytes.contains(&b'/'));
                }
                Ok(target) => {
                    let (pid, fd) = (target.pid().unwrap(), target.fd());
                    assert!(pid > 0 && fd.is_none_or(|fd| fd >= 0));
                    let again = fd.map_or(format!("{pid}"), |fd| format!("{pid}:{fd}"));
                    assert_eq!(parse(again.as_ref()), Ok(target));
                }
                Err(_) => assert!(!bytes.contains(&b'/')),
            },
        );
    }
}
