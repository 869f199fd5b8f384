//! A program with its inputs, its surroundings and its expected outputs.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use rustix::process::Signal;

use crate::programs::Program;
use tree::archive::LastRun;

pub(crate) use limits::TimeLimits;
pub(crate) use observed::Observed;

mod limits;
mod observed;
mod peers;
mod run;
pub(crate) mod tree;

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
    /// Whether `check` also judges killed runs.
    pub(crate) kills: Kills,
    /// The archive in the program's directory, by the end of the last run into it.
    pub(crate) archive: Option<LastRun>,
    /// The outcome without any fault, if that is a failure.
    pub(crate) usual_failure: Option<Failure>,
}

/// Whether the check of a scenario judges killed runs.
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
            archive: None,
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

    /// Checks what a run leaves behind, even a killed one.
    pub(crate) fn check_even_killed(self, check: Check) -> Self {
        Self {
            kills: Kills::Judged,
            ..self.check(check)
        }
    }

    /// Tells that `prepare` makes an archive.
    pub(crate) fn archive(mut self, last_run: LastRun) -> Self {
        self.archive = Some(last_run);
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
        let archive = match self.archive {
            None => "",
            Some(LastRun::Finished) => ", an archive",
            Some(LastRun::Killed) => ", an archive with a journal",
        };
        format!("{name} {args}{stdin}{stdout} ({size} bytes{archive})")
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
