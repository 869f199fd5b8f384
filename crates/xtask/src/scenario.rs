//! A program on small inputs of one kind, what surrounds it, and what it must make of them.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use rustix::time::Timespec;

use crate::programs::{Program, Programs};
use peers::Peers;

pub(crate) use observed::Observed;

mod observed;
mod peers;
pub(crate) mod tree;

/// How long a program may run. A program that needs more is taken for one that hangs.
const WALL_SECONDS: u64 = 20;
/// How much processor time it may take. `prlimit` passes the limit on to it.
const CPU_SECONDS: u64 = 5;

/// The standard input of a program.
#[derive(Debug, Clone)]
pub(crate) enum Stdin {
    Null,
    /// A regular file with these bytes, and a cursor that stands there.
    File {
        bytes: Vec<u8>,
        cursor: u64,
    },
    Pipe(Vec<u8>),
    /// A socket of the UNIX domain.
    Unix(Vec<u8>),
    Tcp(Vec<u8>),
}

/// The standard output of a program.
#[derive(Debug, Clone)]
pub(crate) enum Stdout {
    Null,
    File,
    /// A regular file open for appending, with these bytes in it.
    Append(Vec<u8>),
    /// A pipe that is read to its end.
    Pipe,
    /// A pipe whose reader leaves after this many bytes.
    PipeReadFor(usize),
    Unix,
    Tcp,
    /// A pipe on which a server says where it listens. A client then asks for its file by HTTP; the
    /// response's body counts as output.
    Http,
    /// The same of a relay: a client sends these bytes, and receives the others from a server
    /// behind it.
    BothWays {
        there: Vec<u8>,
        back: Vec<u8>,
    },
}

/// The bytes that an output must hold in the end.
#[derive(Debug, Clone)]
pub(crate) enum Expected {
    /// The bytes of all inputs in turn. A program may go on with the next one after it could not
    /// read all of one.
    Inputs(Vec<Vec<u8>>),
    /// Any number of repetitions of these bytes, and at least this many bytes.
    Repeated(Vec<u8>, usize),
}

/// The output that a program has by its descriptor 1.
pub(crate) const STDOUT: &str = "standard output";
/// The output of a relay to the server behind it.
pub(crate) const UPSTREAM: &str = "upstream";

/// A check of what a run left behind, besides its outputs: it lists what is wrong.
pub(crate) type Check = fn(&Scenario, &Observed) -> Vec<String>;

/// A program with its inputs and its expected outputs.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) program: Program,
    pub(crate) args: Vec<&'static str>,
    pub(crate) stdin: Stdin,
    pub(crate) stdout: Stdout,
    /// Regular files in the program's directory.
    pub(crate) files: Vec<(&'static str, Vec<u8>)>,
    /// FIFOs there, to which these bytes are written when the program opens them.
    pub(crate) fifos: Vec<(&'static str, Vec<u8>)>,
    /// Makes what else there is in the program's directory.
    pub(crate) prepare: Option<fn(&Path) -> anyhow::Result<()>>,
    /// The expected outputs, by name: [`STDOUT`], [`UPSTREAM`], or a path in the program's
    /// directory.
    pub(crate) outputs: Vec<(&'static str, Expected)>,
    pub(crate) check: Option<Check>,
    /// Whether that judges runs that were killed, too.
    pub(crate) kills: Kills,
    /// What the name of the scenario says of the surroundings.
    surroundings: &'static str,
    /// The outcome without any fault, if that is a failure.
    pub(crate) usual_failure: Option<Failure>,
}

/// Whether the check of a scenario judges what a killed run leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kills {
    Judged,
    NotJudged,
}

/// The exact outcome of a program that fails with status 1.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) stdout: String,
    pub(crate) stderr: &'static str,
}

impl Scenario {
    /// A program without input whose output is discarded.
    pub(crate) fn new(program: Program, args: &[&'static str]) -> Self {
        Self {
            program,
            args: args.to_vec(),
            stdin: Stdin::Null,
            stdout: Stdout::Null,
            files: Vec::new(),
            fifos: Vec::new(),
            prepare: None,
            outputs: Vec::new(),
            check: None,
            kills: Kills::NotJudged,
            surroundings: "",
            usual_failure: None,
        }
    }

    pub(crate) fn file(mut self, name: &'static str, bytes: &[u8]) -> Self {
        self.files.push((name, bytes.to_vec()));
        self
    }

    pub(crate) fn fifo(mut self, name: &'static str, bytes: &[u8]) -> Self {
        self.fifos.push((name, bytes.to_vec()));
        self
    }

    pub(crate) fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = stdin;
        self
    }

    /// Sets standard output, and the bytes that have to be in it.
    pub(crate) fn stdout(self, stdout: Stdout, bytes: &[u8]) -> Self {
        self.joins(stdout, &[bytes])
    }

    /// Sets standard output, and what has to be in it from each of several inputs.
    pub(crate) fn joins(mut self, stdout: Stdout, inputs: &[&[u8]]) -> Self {
        self.stdout = stdout;
        let inputs = inputs.iter().map(|bytes| bytes.to_vec()).collect();
        self.outputs.push((STDOUT, Expected::Inputs(inputs)));
        self
    }

    /// Adds an output.
    pub(crate) fn writes(mut self, name: &'static str, bytes: &[u8]) -> Self {
        self.outputs
            .push((name, Expected::Inputs(vec![bytes.to_vec()])));
        self
    }

    /// Sets standard output, which gets `bytes` over and over, and at least `least` bytes.
    pub(crate) fn repeats(mut self, stdout: Stdout, bytes: &[u8], least: usize) -> Self {
        self.stdout = stdout;
        let expected = Expected::Repeated(bytes.to_vec(), least);
        self.outputs.push((STDOUT, expected));
        self
    }

    pub(crate) fn prepare(mut self, prepare: fn(&Path) -> anyhow::Result<()>) -> Self {
        self.prepare = Some(prepare);
        self
    }

    pub(crate) fn check(mut self, check: Check) -> Self {
        self.check = Some(check);
        self
    }

    /// Checks what a run left behind, also if it was killed.
    pub(crate) fn check_even_killed(self, check: Check) -> Self {
        Self {
            kills: Kills::Judged,
            ..self.check(check)
        }
    }

    /// Says in the name of the scenario what surrounds the program.
    pub(crate) fn surroundings(mut self, text: &'static str) -> Self {
        self.surroundings = text;
        self
    }

    /// Collects standard output, which `check` judges.
    pub(crate) fn collects(mut self, stdout: Stdout) -> Self {
        self.stdout = stdout;
        self
    }

    /// Says that the program fails without any fault, and prints exactly this.
    pub(crate) fn fails(mut self, stdout: String, stderr: &'static str) -> Self {
        self.usual_failure = Some(Failure { stdout, stderr });
        self
    }

    /// Whether the program meets an archive that earlier runs have filled.
    pub(crate) fn has_archive(&self) -> bool {
        !self.surroundings.is_empty()
    }

    /// Whether a program goes on until its reader leaves.
    pub(crate) fn is_endless(&self) -> bool {
        matches!(self.stdout, Stdout::PipeReadFor(_))
    }

    /// Whether the program serves clients, and goes on after the failure of one.
    pub(crate) fn is_server(&self) -> bool {
        matches!(self.stdout, Stdout::Http | Stdout::BothWays { .. })
    }

    /// Whether a run ended as it does if nothing goes wrong. A server goes on after a client's
    /// failure, and says so.
    pub(crate) fn has_succeeded(&self, observed: &Observed) -> bool {
        let Some(status) = observed.status else {
            return false;
        };
        if self.is_server()
            && observed
                .stderr
                .contains(&format!("{}: ", self.program.name()))
        {
            return false;
        }
        // A tracer reports a signal as shells do.
        let by_signal = [status.signal(), status.code().map(|code| code - 128)];
        let has_no_reader = self.is_endless() && by_signal.contains(&Some(Signal::PIPE.as_raw()));
        let is_usual = match &self.usual_failure {
            None => status.success(),
            Some(Failure { stdout, stderr }) => {
                let found = observed.outputs.get(STDOUT).map(Vec::as_slice);
                // strace writes its own messages there.
                let lines = observed.stderr.lines();
                let messages = lines.filter(|line| !line.starts_with("strace: "));
                status.code() == Some(1)
                    && found == Some(stdout.as_bytes())
                    && messages.eq(stderr.lines())
            }
        };
        is_usual || has_no_reader
    }

    /// The scenario in one line, as a shell would have it.
    pub(crate) fn name(&self) -> String {
        let stdin = match &self.stdin {
            Stdin::Null => "",
            Stdin::File { .. } => " < file",
            Stdin::Pipe(_) => " < pipe",
            Stdin::Unix(_) => " < unix socket",
            Stdin::Tcp(_) => " < tcp socket",
        };
        let stdout = match &self.stdout {
            Stdout::Null => " > /dev/null",
            Stdout::File => " > file",
            Stdout::Append(_) => " >> file",
            Stdout::Pipe => " > pipe",
            Stdout::PipeReadFor(_) => " > pipe that closes",
            Stdout::Unix => " > unix socket",
            Stdout::Tcp => " > tcp socket",
            Stdout::Http => " for an HTTP client",
            Stdout::BothWays { .. } => " between two sockets",
        };
        let (name, args) = (self.program.name(), self.args.join(" "));
        let size: usize = self.files.iter().map(|(_, bytes)| bytes.len()).sum();
        let size = size + self.stdin.len();
        let surroundings = self.surroundings;
        format!("{name} {args}{stdin}{stdout} ({size} bytes{surroundings})")
    }

    /// Runs the program in a new directory below `scratch`. `wrapper` makes the command that runs
    /// it, such as strace with its options, and is told a path for a log.
    ///
    /// # Errors
    ///
    /// If the surroundings cannot be made.
    pub(crate) fn run(
        &self,
        programs: &Programs,
        scratch: &Path,
        wrapper: impl FnOnce(&Path) -> Command,
    ) -> anyhow::Result<(Observed, String)> {
        let scratch = tempfile::Builder::new()
            .prefix("run-")
            .tempdir_in(scratch)?;
        let dir = scratch.path().join("dir");
        fs::create_dir(&dir)?;
        for (name, bytes) in &self.files {
            write_with_holes(&dir.join(name), bytes).with_context(|| (*name).to_owned())?;
        }
        if let Some(prepare) = self.prepare {
            prepare(&dir)?;
        }
        let mut peers = Peers::new(self, &dir)?;
        let log = scratch.path().join("log");
        let wrapper = wrapper(&log);
        let mut command = Command::new("prlimit");
        command.arg(format!("--cpu={CPU_SECONDS}")).arg("--");
        command.arg(wrapper.get_program()).args(wrapper.get_args());
        command.arg(programs.path(self.program));
        let upstream = peers.upstream();
        command.args(self.args.iter().map(|arg| match (*arg, &upstream) {
            ("UPSTREAM", Some(address)) => address.clone(),
            (arg, _) => arg.to_owned(),
        }));
        command.current_dir(&dir).process_group(0);
        observed::set_environment(&mut command, scratch.path());

        let (input, cursor) = self.open_stdin(scratch.path(), &mut peers)?;
        let output = self.open_stdout(scratch.path(), &mut peers)?;
        let messages = OwnedFd::from(File::create(scratch.path().join("stderr"))?);
        let stdio = [name_of(&input)?, name_of(&output)?, name_of(&messages)?];
        command.stdin(input).stdout(output).stderr(messages);
        let mut child = command.spawn().context("prlimit")?;
        // The command holds the program's ends of pipes and sockets.
        drop(command);

        let pid = Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        let limit = Timespec::try_from(Duration::from_secs(WALL_SECONDS))?;
        let has_ended = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&limit))? > 0;
        // The strace of a program that hangs, and what a program leaves running.
        // As long as the first process is not waited for, the group's number is not used again.
        let _ = kill_process_group(pid, Signal::KILL);
        let status = child.wait()?;
        let mut outputs = peers.finish()?;
        for (name, _) in &self.outputs {
            let path = match (*name, &self.stdout) {
                (STDOUT, Stdout::File | Stdout::Append(_)) => scratch.path().join("stdout"),
                (STDOUT | UPSTREAM, _) => continue,
                (name, _) => dir.join(name),
            };
            if let Ok(bytes) = fs::read(path) {
                outputs.insert(name, bytes);
            }
        }
        let stderr = fs::read(scratch.path().join("stderr"))?;
        let log = fs::read(log).unwrap_or_default();
        let cursor = cursor.map(|mut file| file.stream_position()).transpose()?;
        let observed = Observed {
            status: has_ended.then_some(status),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
            outputs,
            cursor,
            stdio,
            program: programs.path(self.program),
            scratch,
        };
        Ok((observed, String::from_utf8_lossy(&log).into_owned()))
    }

    /// The program's standard input, and of a regular file another descriptor with the same cursor.
    fn open_stdin(&self, dir: &Path, peers: &mut Peers) -> anyhow::Result<(OwnedFd, Option<File>)> {
        let end = match &self.stdin {
            Stdin::Null => File::open("/dev/null")?.into(),
            Stdin::File { bytes, cursor } => {
                let path = dir.join("stdin");
                fs::write(&path, bytes)?;
                let mut file = File::open(path)?;
                file.seek(SeekFrom::Start(*cursor))?;
                return Ok((file.try_clone()?.into(), Some(file)));
            }
            Stdin::Pipe(bytes) => peers.feed_pipe(bytes)?,
            Stdin::Unix(bytes) => peers.feed_unix(bytes)?,
            Stdin::Tcp(bytes) => peers.feed_tcp(bytes)?,
        };
        Ok((end, None))
    }

    fn open_stdout(&self, dir: &Path, peers: &mut Peers) -> anyhow::Result<OwnedFd> {
        let path = dir.join("stdout");
        let end = match &self.stdout {
            Stdout::Null => File::options().write(true).open("/dev/null")?.into(),
            Stdout::File => File::create(path)?.into(),
            Stdout::Append(bytes) => {
                fs::write(&path, bytes)?;
                File::options().append(true).open(path)?.into()
            }
            Stdout::Pipe => peers.collect_pipe(usize::MAX)?,
            Stdout::PipeReadFor(len) => peers.collect_pipe(*len)?,
            Stdout::Unix => peers.collect_unix()?,
            Stdout::Tcp => peers.collect_tcp()?,
            Stdout::Http => peers.ask_by_http()?,
            Stdout::BothWays { there, back } => peers.talk(there, back)?,
        };
        Ok(end)
    }
}

impl Stdin {
    fn len(&self) -> usize {
        match self {
            Self::Null => 0,
            Self::File { bytes, .. } | Self::Pipe(bytes) | Self::Unix(bytes) | Self::Tcp(bytes) => {
                bytes.len()
            }
        }
    }
}

/// Makes a file with these bytes, in which blocks of zeros are holes.
fn write_with_holes(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    const BLOCK: usize = 4096;
    let file = File::create(path)?;
    file.set_len(bytes.len() as u64)?;
    for (block, at) in bytes.chunks(BLOCK).zip((0..).step_by(BLOCK)) {
        if block.iter().any(|byte| *byte != 0) {
            file.write_all_at(block, at)?;
        }
    }
    Ok(())
}

/// The name of a descriptor in `/proc/self/fd`, which strace prints too.
fn name_of(end: &OwnedFd) -> anyhow::Result<PathBuf> {
    use std::os::fd::AsRawFd;
    let link = format!("/proc/self/fd/{}", end.as_fd().as_raw_fd());
    Ok(fs::read_link(link)?)
}
