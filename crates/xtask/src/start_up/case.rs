//! One run of a program that moves one byte.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tempfile::TempDir;

/// A program with its arguments.
#[derive(Debug)]
pub(super) struct Case {
    /// The name of the original. The tool's is the same with `zc-` in front.
    pub(super) program: &'static str,
    option: Option<&'static str>,
    input: Input,
    output: Output,
    /// Whether standard error is a terminal, not /dev/null.
    has_terminal: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    /// The byte is in a file, which is the operand.
    Operand,
    /// The byte is in a pipe, which is standard input.
    Pipe,
    /// No input: the output is endless, and its reader takes one line.
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    Pipe,
    /// A regular file: pv sleeps until the reader of a pipe has read everything.
    File,
}

const fn case(
    program: &'static str,
    option: Option<&'static str>,
    input: Input,
    output: Output,
) -> Case {
    Case {
        program,
        option,
        input,
        output,
        has_terminal: false,
    }
}

pub(super) static CASES: &[Case] = &[
    case("cat", None, Input::Operand, Output::Pipe),
    case("cat", Some("-n"), Input::Operand, Output::Pipe),
    case("tee", None, Input::Pipe, Output::Pipe),
    case("yes", None, Input::None, Output::Pipe),
    case("pv", None, Input::Operand, Output::File),
    case("pv", Some("-q"), Input::Operand, Output::File),
    Case {
        has_terminal: true,
        ..case("pv", None, Input::Operand, Output::File)
    },
];

impl Case {
    /// The command, for people.
    pub(super) fn name(&self) -> String {
        let option = self.option.map(|option| format!(" {option}"));
        let option = option.unwrap_or_default();
        let terminal = if self.has_terminal {
            " on a terminal"
        } else {
            ""
        };
        format!("{}{option}{terminal}", self.program)
    }
}

/// The files and the terminal that all runs use.
#[derive(Debug)]
pub(super) struct Ends {
    scratch: TempDir,
    /// The side of the terminal that shows what programs write.
    screen: File,
    terminal: OwnedFd,
}

impl Ends {
    /// Makes the file of one byte, and a terminal.
    ///
    /// # Errors
    ///
    /// If the system refuses one of them.
    pub(super) fn new() -> anyhow::Result<Self> {
        let scratch = tempfile::tempdir()?;
        std::fs::write(scratch.path().join("byte"), b"\n")?;
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&screen)?;
        unlockpt(&screen)?;
        let terminal = rustix::fs::open(
            ptsname(&screen, Vec::new())?,
            OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        rustix::io::fcntl_setfd(&screen, rustix::io::FdFlags::CLOEXEC)?;
        rustix::fs::fcntl_setfl(&screen, OFlags::NONBLOCK)?;
        Ok(Self {
            scratch,
            screen: screen.into(),
            terminal,
        })
    }

    /// Copies a program to a directory of its own, so that its name stays, and returns the path of
    /// the copy.
    ///
    /// # Errors
    ///
    /// If the program cannot be read, or the copy cannot be written.
    pub(super) fn copy_program(&self, path: &Path) -> anyhow::Result<PathBuf> {
        let name = path.file_name().context("a program has a name")?;
        let dir = tempfile::tempdir_in(self.scratch.path())?.keep();
        let copy = dir.join(name);
        std::fs::copy(path, &copy).with_context(|| path.display().to_string())?;
        Ok(copy)
    }

    /// Runs a program once, and returns the time from its start to its end, or to its first line if
    /// it would not end.
    ///
    /// # Errors
    ///
    /// If the program cannot be run, fails, or does not pass on the byte.
    pub(super) fn time(&self, case: &Case, path: &Path) -> anyhow::Result<Duration> {
        let mut command = Command::new(path);
        command.args(case.option).stdin(Stdio::null());
        match case.input {
            Input::Operand => {
                command.arg(self.scratch.path().join("byte"));
            }
            Input::Pipe => {
                let (reader, mut writer) = std::io::pipe()?;
                writer.write_all(b"\n")?;
                command.stdin(reader);
            }
            Input::None => {}
        }
        let path = self.scratch.path().join("output");
        let mut output = match case.output {
            Output::Pipe => {
                let (reader, writer) = std::io::pipe()?;
                command.stdout(writer);
                File::from(OwnedFd::from(reader))
            }
            Output::File => {
                command.stdout(File::create(&path)?);
                File::open(&path)?
            }
        };
        command.stderr(if case.has_terminal {
            self.terminal.try_clone()?.into()
        } else {
            Stdio::null()
        });
        let mut buffer = [0; 4096];
        let begin = Instant::now();
        let mut child = command.spawn()?;
        if case.input == Input::None {
            let taken = output.read(&mut buffer)?;
            let time = begin.elapsed();
            drop(output);
            drop(command);
            child.wait()?;
            ensure!(buffer[..taken].starts_with(b"y\n"), "no line came");
            return Ok(time);
        }
        let status = child.wait()?;
        let time = begin.elapsed();
        // With it goes this program's own copy of the pipe's other end.
        drop(command);
        ensure!(status.success(), "{status}");
        let mut passed = Vec::new();
        output.read_to_end(&mut passed)?;
        ensure!(passed.ends_with(b"\n"), "the byte did not come");
        if case.has_terminal {
            let shown = (&self.screen).read(&mut buffer);
            ensure!(shown.context("the terminal")? > 0, "nothing was shown");
        }
        Ok(time)
    }
}
