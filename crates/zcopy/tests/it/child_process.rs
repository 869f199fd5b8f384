//! Transfers in a process of their own: with limits, as another user, or under `strace`.
//!
//! This very program is run again with one test, [`in_a_child`], which finds its orders in the
//! environment. Its source is descriptor 0 and its sink descriptor 2; what became of it is told on
//! descriptor 1, between what the harness prints.

use std::collections::HashMap;
use std::fmt::Write;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Resource, Rlimit, setrlimit};
use zcopy::{FilterTransfer, Repeat, Side, Strategy, Transfer};

/// The prefix of the lines that a child prints, and of the environment variables that it reads.
const MARK: &str = "ZCOPY_TEST_";
/// Files that do not exist; asking for them shows up in a trace.
const BEGIN: &str = "/zcopy-test-begins";
const END: &str = "/zcopy-test-ends";

/// One transfer to be made by a child.
#[derive(Debug)]
pub(crate) struct Child {
    command: Command,
}

/// The outcome of a child's transfer.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) bytes: u64,
    pub(crate) strategy: String,
    /// `Ok` or the side and the errno of the error.
    pub(crate) outcome: Result<(), (String, i32)>,
    pub(crate) undelivered: Vec<u8>,
    /// Strategy and errno (0: none) of every attempt.
    pub(crate) attempts: Vec<(String, i32)>,
}

impl Child {
    pub(crate) fn new() -> Self {
        Self::around(Command::new(std::env::current_exe().unwrap()))
    }

    /// A child that ignores `SIGXFSZ` and so is told `EFBIG`.
    pub(crate) fn that_ignores_xfsz() -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]);
        shell.arg(std::env::current_exe().unwrap());
        Self::around(shell)
    }

    /// A child whose system calls are written to a file.
    pub(crate) fn traced_to(trace: &Path) -> Self {
        let mut strace = Command::new("strace");
        strace.arg("-f").arg("-o").arg(trace);
        strace.arg(std::env::current_exe().unwrap());
        Self::around(strace)
    }

    /// A child that is told `EIO` by those of these calls on a file that `when` names, as strace
    /// counts them: each kind of call by itself.
    pub(crate) fn that_fails_at(file: &Path, calls: &str, when: &str) -> Self {
        let mut strace = Command::new("strace");
        strace.args(["-f", "-o", "/dev/null", "-P"]).arg(file);
        strace.arg(format!("--inject={calls}:error=EIO:when={when}"));
        strace.arg(std::env::current_exe().unwrap());
        Self::around(strace)
    }

    /// A child that stands still for a while after each call of this name, which is written to a
    /// file before: so that others can act between two of its calls.
    pub(crate) fn that_dawdles_after(call: &str, trace: &Path) -> Self {
        let mut strace = Command::new("strace");
        strace.arg("-f").arg("-o").arg(trace);
        strace.arg(format!("--trace={call}"));
        strace.arg(format!("--inject={call}:delay_exit=100000"));
        strace.arg(std::env::current_exe().unwrap());
        Self::around(strace)
    }

    fn around(mut command: Command) -> Self {
        // One thread: the test then runs in the one that the trace begins with, and nothing else
        // happens meanwhile.
        command.args(["--exact", "child_process::in_a_child", "--nocapture"]);
        command
            .arg("--test-threads=1")
            .env(format!("{MARK}RUN"), "1");
        Self { command }
    }

    pub(crate) fn strategy(self, strategy: Option<Strategy>) -> Self {
        match strategy {
            Some(strategy) => self.order("STRATEGY", strategy.to_string()),
            None => self,
        }
    }

    /// Makes it look for zeros.
    pub(crate) fn that_detects_holes(self) -> Self {
        self.order("DETECT", "1".to_owned())
    }

    /// Makes it skip what it cannot read.
    pub(crate) fn that_skips_errors(self) -> Self {
        self.order("SKIP", "1".to_owned())
    }

    /// Limits the size of the files it writes.
    pub(crate) fn file_size(self, bytes: u64) -> Self {
        self.order("FSIZE", bytes.to_string())
    }

    /// Lets it open no more descriptors.
    pub(crate) fn without_descriptors(self) -> Self {
        self.order("NOFILE", "3".to_owned())
    }

    /// Makes it a user without privileges who has used up the budget for pipes.
    pub(crate) fn over_the_pipe_budget(mut self) -> Self {
        self.command.uid(65534);
        self.order("FILL_PIPES", "1".to_owned())
    }

    /// Makes it try what could leave descriptors open, before its transfer.
    pub(crate) fn counting_descriptors(self) -> Self {
        self.order("COUNT", "1".to_owned())
    }

    /// Makes it repeat the first bytes of [`pattern`](crate::files::pattern) instead.
    pub(crate) fn repeating(self, len: usize, limit: u64) -> Self {
        let len = self.order("REPEAT", len.to_string());
        len.order("LIMIT", limit.to_string())
    }

    /// Makes it filter its source, by [`toggle`](crate::filter::toggle), instead.
    pub(crate) fn filtering(self) -> Self {
        self.order("REWRITE", "1".to_owned())
    }

    fn order(mut self, name: &str, value: String) -> Self {
        self.command.env(format!("{MARK}{name}"), value);
        self
    }

    /// Runs it to its end. An error if it could not be started.
    pub(crate) fn run(mut self, source: OwnedFd, sink: OwnedFd) -> std::io::Result<Told> {
        self.command
            .stdin(source)
            .stderr(sink)
            .stdout(Stdio::piped());
        let child = self.command.spawn()?;
        // The ends the command holds would keep pipes open.
        drop(self);
        let output = child.wait_with_output()?;
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{}: {printed}", output.status);
        let told: HashMap<_, _> = printed
            .split(MARK)
            .skip(1)
            .filter_map(|told| told.lines().next()?.split_once('='))
            .collect();
        let side = told["SIDE"];
        let errno = told["ERRNO"].parse().unwrap();
        let undelivered = told["UNDELIVERED"].as_bytes().chunks(2);
        let attempts = told["ATTEMPTS"].split_whitespace();
        Ok(Told {
            bytes: told["BYTES"].parse().unwrap(),
            strategy: told["STRATEGY"].to_owned(),
            outcome: match side {
                "" => Ok(()),
                side => Err((side.to_owned(), errno)),
            },
            undelivered: undelivered
                .map(|hex| u8::from_str_radix(std::str::from_utf8(hex).unwrap(), 16).unwrap())
                .collect(),
            attempts: attempts
                .map(|attempt| attempt.split_once(':').unwrap())
                .map(|(strategy, errno)| (strategy.to_owned(), errno.parse().unwrap()))
                .collect(),
        })
    }
}

/// The calls in a trace that the thread of the marks made between them, by the names that they
/// have on 64-bit machines.
pub(crate) fn calls_between(trace: &Path) -> Vec<String> {
    let trace = std::fs::read_to_string(trace).unwrap();
    let mut inside = trace.lines().skip_while(|line| !line.contains(BEGIN));
    let thread_of = |line: &str| line.split_whitespace().next().map(str::to_owned);
    let thread = inside.next().and_then(thread_of);
    inside
        .take_while(|line| !line.contains(END))
        .filter(|line| thread_of(line) == thread)
        .map(|line| line.split_whitespace().nth(1).unwrap())
        // A call that another thread's call interrupts in the trace has a second line.
        .filter(|call| *call != "<...")
        .map(|call| match call.split('(').next().unwrap() {
            "mmap2" => "mmap".to_owned(),
            "sendfile64" => "sendfile".to_owned(),
            call => call.to_owned(),
        })
        .collect()
}

/// Does nothing unless another test runs it.
#[test]
#[allow(clippy::print_stdout, reason = "the parent reads it")]
fn in_a_child() {
    let order = |name: &str| std::env::var(format!("{MARK}{name}")).ok();
    if order("RUN").is_none() {
        return;
    }
    if order("COUNT").is_some() {
        crate::promises::leave_no_descriptor_open();
    }
    let (source, sink) = (std::io::stdin(), std::io::stderr());
    let _budget = order("FILL_PIPES").map(|_| fill_pipes());
    let mut transfer = Transfer::new(&source, &sink);
    if let Some(name) = order("STRATEGY") {
        transfer = transfer.strategy(strategy(&name));
    }
    if order("DETECT").is_some() {
        transfer = transfer.sparse(zcopy::Sparse::Detect);
    }
    if order("SKIP").is_some() {
        transfer = transfer.skip_errors(zcopy::SkipErrors::Adaptive);
    }
    let limit = |resource, name: &str| {
        let maximum = rustix::process::getrlimit(resource).maximum;
        if let Some(current) = order(name).map(|bytes| bytes.parse().unwrap()) {
            let current = Some(current);
            setrlimit(resource, Rlimit { current, maximum }).unwrap();
        }
    };
    limit(Resource::Fsize, "FSIZE");
    limit(Resource::Nofile, "NOFILE");

    let repeated = order("REPEAT").map(|len| {
        let limit = order("LIMIT").unwrap().parse().unwrap();
        (crate::files::pattern(len.parse().unwrap()), limit)
    });

    let mark = |path| rustix::fs::access(path, rustix::fs::Access::EXISTS).unwrap_err();
    mark(BEGIN);
    let done = match &repeated {
        Some((pattern, limit)) => Repeat::new(pattern).limit(*limit).run(&sink),
        None if order("REWRITE").is_some() => {
            FilterTransfer::new(&sink, crate::filter::toggle).run(&source)
        }
        None => transfer.run(),
    };
    mark(END);

    let report = match &done {
        Ok(report) => report,
        Err(error) => error.report(),
    };
    let side = match done.as_ref().err().map(zcopy::Error::side) {
        Some(Side::Source) => "source",
        Some(Side::Sink) => "sink",
        Some(_) => "neither",
        None => "",
    };
    let errno = done.as_ref().err().and_then(zcopy::Error::raw_os_error);
    let hex = report
        .undelivered()
        .iter()
        .fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
    let attempts = report.attempts().iter().map(|attempt| {
        let errno = attempt.error().and_then(|error| error.raw_os_error());
        format!("{}:{}", attempt.strategy(), errno.unwrap_or(0))
    });
    let attempts: Vec<_> = attempts.collect();
    println!("{MARK}BYTES={}", report.bytes());
    println!("{MARK}STRATEGY={}", report.strategy());
    println!("{MARK}SIDE={side}");
    println!("{MARK}ERRNO={}", errno.unwrap_or(0));
    println!("{MARK}UNDELIVERED={hex}");
    println!("{MARK}ATTEMPTS={}", attempts.join(" "));
}

fn strategy(name: &str) -> Strategy {
    crate::strategies::STRATEGIES
        .into_iter()
        .find(|strategy| strategy.to_string() == name)
        .unwrap()
}

/// Opens pipes until the kernel gives this user small ones.
pub(crate) fn fill_pipes() -> Vec<OwnedFd> {
    let mut pipes = Vec::new();
    loop {
        let (reader, writer) = crate::endpoints::pipe();
        let capacity = rustix::pipe::fcntl_getpipe_size(&writer).unwrap();
        if capacity < 64 << 10 {
            return pipes;
        }
        // Fails when it would exceed the budget; the pipe counts with 64 KiB then.
        let _ = rustix::pipe::fcntl_setpipe_size(&writer, 1 << 20);
        pipes.extend([reader, writer]);
        assert!(pipes.len() < 10_000, "this user has no budget");
    }
}
