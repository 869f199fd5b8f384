//! `zc-pv` on a terminal, as a person sees it.
//!
//! In scripts it is called `pv`, so that pv 1.12 can take its place where it is installed.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use tempfile::TempDir;

use crate::screen::{Seen, Terminal};

mod beside;
mod cursor;
mod formats;
mod hands;
mod messages;
mod numbers;
mod objects;
mod prompts;
mod several;
mod stops;
mod switches;
mod totals;
mod when;

/// How long something may take that takes no time unless it never comes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A shell script that calls `pv`, on a terminal of its own and in a directory of its own, which
/// holds
///
/// - `f`, 2048 bytes of `x`; `g`, 3072; `empty`; `dir` with files of 1000 and of 3000 bytes; the
///   `lines` 1 to 1000;
/// - the pipes `in` and `out`.
pub(crate) struct Desk {
    terminal: Terminal,
    directory: TempDir,
}

impl Desk {
    /// Eight rows of 72 columns.
    pub(crate) fn with(script: &str) -> Self {
        Self::sized(8, 72, script)
    }

    pub(crate) fn sized(rows: u16, columns: u16, script: &str) -> Self {
        Self::of(ours(), rows, columns, script)
    }

    fn of(pv: &Path, rows: u16, columns: u16, script: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let at = |name: &str| directory.path().join(name);
        for (name, len) in [("f", 2048), ("g", 3072), ("empty", 0)] {
            fs::write(at(name), vec![b'x'; len]).unwrap();
        }
        let lines: Vec<u8> = (1..=1000)
            .flat_map(|n| format!("{n}\n").into_bytes())
            .collect();
        fs::write(at("lines"), lines).unwrap();
        for name in ["dir", "bin", "tmp"] {
            fs::create_dir(at(name)).unwrap();
        }
        fs::write(at("dir/a"), [0; 1000]).unwrap();
        fs::write(at("dir/b"), [0; 3000]).unwrap();
        for name in ["in", "out"] {
            let mode = Mode::RUSR | Mode::WUSR;
            rustix::fs::mknodat(CWD, at(name), FileType::Fifo, mode, 0).unwrap();
        }
        symlink(pv, at("bin/pv")).unwrap();
        let mut paths = vec![at("bin")];
        paths.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
        let mut shell = Command::new("bash");
        shell
            .args(["--norc", "--noprofile", "-c"])
            .arg(format!(
                "cd '{}' || exit\n{script}",
                directory.path().display()
            ))
            .env("PATH", std::env::join_paths(paths).unwrap())
            .env("TMPDIR", at("tmp"))
            .env("TZ", "UTC");
        Self {
            terminal: Terminal::spawn(&shell, rows, columns),
            directory,
        }
    }

    /// The pipe `in`, to be written to, once somebody reads it. The source ends when this is
    /// dropped.
    pub(crate) fn source(&self) -> File {
        self.writer("in")
    }

    fn writer(&self, name: &str) -> File {
        let begin = Instant::now();
        let path = self.path(name);
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        loop {
            match OpenOptions::new()
                .write(true)
                .custom_flags(flags)
                .open(&path)
            {
                Ok(source) => {
                    rustix::fs::fcntl_setfl(&source, OFlags::empty()).unwrap();
                    return source;
                }
                Err(error) => assert_eq!(error.raw_os_error(), Some(Errno::NXIO.raw_os_error())),
            }
            assert!(begin.elapsed() < PATIENCE, "nobody reads");
            std::thread::yield_now();
        }
    }

    /// The pipe `out`, to be read from. Nobody reads it before, and then it is not closed.
    pub(crate) fn sink(&self) -> File {
        self.open("out")
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Waits until the script has written a line to a file, and says which.
    pub(crate) fn line_in(&self, name: &str) -> String {
        let begin = Instant::now();
        let path = self.path(name);
        loop {
            match fs::read_to_string(&path) {
                Ok(line) if line.ends_with('\n') => return line.trim_end().to_owned(),
                _ => assert!(begin.elapsed() < PATIENCE, "{name} is not written"),
            }
            std::thread::yield_now();
        }
    }

    /// How many whole lines a file has that may not exist yet.
    pub(crate) fn lines_in(&self, name: &str) -> usize {
        let text = fs::read_to_string(self.path(name)).unwrap_or_default();
        text.matches('\n').count()
    }

    /// Waits until a file has so many lines.
    pub(crate) fn wait_for_lines(&self, name: &str, n_lines: usize) {
        let begin = Instant::now();
        while self.lines_in(name) < n_lines {
            assert!(begin.elapsed() < PATIENCE, "{name} has no {n_lines} lines");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until a text stands somewhere in a file.
    pub(crate) fn wait_for_text(&self, name: &str, text: &str) {
        let begin = Instant::now();
        let read = || fs::read_to_string(self.path(name)).unwrap_or_default();
        while !read().contains(text) {
            assert!(begin.elapsed() < PATIENCE, "{name} has no {text}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until a file holds this.
    pub(crate) fn wait_for_file(&self, name: &str, expected: &str) {
        let begin = Instant::now();
        while fs::read_to_string(self.path(name)).ok().as_deref() != Some(expected) {
            assert!(begin.elapsed() < PATIENCE, "{}", self.read(name));
            std::thread::yield_now();
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Ends a pipe to which nobody has written, once somebody reads it.
    pub(crate) fn end_pipe(&self, name: &str) {
        drop(self.writer(name));
    }

    /// Whether somebody takes what comes to the screen.
    pub(crate) fn read_screen(&self, reads: bool) {
        self.terminal.read(reads);
    }

    fn open(&self, name: &str) -> File {
        let path = self.path(name);
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .unwrap()
    }

    /// Waits until a row is like the pattern.
    #[track_caller]
    pub(crate) fn wait_for_row(&self, pattern: &str) {
        self.wait_for(|seen| has_row(seen, pattern));
    }

    /// Waits until the script has ended, and says what is left on the screen.
    #[track_caller]
    pub(crate) fn left(&mut self) -> Vec<String> {
        let _ = self.end();
        let mut rows = self.seen().rows();
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        rows
    }
}

impl Deref for Desk {
    type Target = Terminal;

    fn deref(&self) -> &Terminal {
        &self.terminal
    }
}

impl DerefMut for Desk {
    fn deref_mut(&mut self) -> &mut Terminal {
        &mut self.terminal
    }
}

fn ours() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_zc-pv"))
}

/// What a script leaves on a screen of 72 columns.
#[track_caller]
pub(crate) fn left_by(script: &str) -> Vec<String> {
    Desk::with(script).left()
}

/// The pipe `in`, with so many bytes in it.
pub(crate) fn fed(desk: &Desk, bytes: usize) -> File {
    let mut source = desk.source();
    source.write_all(&vec![0; bytes]).unwrap();
    source
}

/// Sees that a script leaves rows like these patterns, and no others.
#[track_caller]
pub(crate) fn leaves(script: &str, patterns: &[&str]) {
    let rows = left_by(script);
    let is_so = rows.len() == patterns.len()
        && rows
            .iter()
            .zip(patterns)
            .all(|(row, pattern)| is_like(row, pattern));
    assert!(is_so, "{script}\nleaves {rows:#?}\nnot {patterns:#?}");
}

/// Sees that a script leaves the same as with pv 1.12, if there is one, but for times and rates,
/// and says what.
#[track_caller]
pub(crate) fn as_pv(script: &str) -> Vec<String> {
    // Both at one time: what takes long is waiting.
    let mut ours = Desk::with(script);
    let theirs = crate::peer::pv().map(|pv| Desk::of(&pv, 8, 72, script));
    let ours = ours.left();
    if let Some(mut theirs) = theirs {
        let theirs = theirs.left();
        let masked = |rows: &[String]| rows.iter().map(|row| masked(row)).collect::<Vec<_>>();
        assert_eq!(masked(&ours), masked(&theirs), "{script}");
    }
    ours
}

/// The row without what is never twice the same.
fn masked(row: &str) -> String {
    let mut masked = String::new();
    for word in row
        .replace("[ ", "[")
        .replace("( ", "(")
        .replace("  B/s", "B/s")
        .split(' ')
    {
        let is_rate = word.contains("B/s") || word.contains("b/s");
        let is_time = word.split(':').count() == 3;
        masked.push_str(match (is_rate, is_time) {
            (true, _) => "RATE",
            (_, true) => "TIME",
            _ => word,
        });
        masked.push(' ');
    }
    masked
}

/// Whether a row is like a pattern, in which `?` is any character.
pub(crate) fn is_like(row: &str, pattern: &str) -> bool {
    row.chars().count() == pattern.chars().count()
        && row
            .chars()
            .zip(pattern.chars())
            .all(|(c, p)| p == '?' || p == c)
}

pub(crate) fn has_row(seen: &Seen, pattern: &str) -> bool {
    seen.rows().iter().any(|row| is_like(row, pattern))
}
