//! Transfers in a child process: with limits, as another user, or under `strace`.
//!
//! The test binary is run again with the single test [`in_a_child`], which gets its instructions
//! from environment variables. Its source is descriptor 0 and its sink descriptor 2. It prints the
//! outcome on descriptor 1, among the lines of the test harness.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Resource, Rlimit, setrlimit};
use zcopy::{FilterTransfer, Repeat, Side, Strategy, Transfer};

use crate::skip::is_root;

/// The prefix of the lines that a child prints, and of the environment variables that it reads.
const MARK: &str = "ZCOPY_TEST_";
/// Files that do not exist. A trace shows the calls that ask for them.
const BEGIN: &str = "/zcopy-test-begins";
const END: &str = "/zcopy-test-ends";

/// One transfer to be made by a child.
#[derive(Debug)]
pub(crate) struct Child {
    command: Command,
}

/// The report of a child about its transfer.
#[derive(Debug)]
pub(crate) struct ChildReport {
    pub(crate) bytes: u64,
    pub(crate) strategy: String,
    /// `Ok`, or the side and the errno of the error.
    pub(crate) outcome: Result<(), (String, i32)>,
    pub(crate) undelivered: Vec<u8>,
    /// Strategy and errno (0 without an error) of every attempt.
    pub(crate) attempts: Vec<(String, i32)>,
}

impl Child {
    pub(crate) fn new() -> Self {
        Self::around(Command::new(std::env::current_exe().unwrap()))
    }

    /// A child that ignores `SIGXFSZ`, so that its writes fail with `EFBIG`.
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

    /// A child whose calls on a file fail with `EIO`. strace selects the calls by their numbers in
    /// `when`, and counts each kind of call by itself.
    pub(crate) fn that_fails_at(file: &Path, calls: &str, when: &str) -> Self {
        let mut strace = Command::new("strace");
        strace.args(["-f", "-o", "/dev/null", "-P"]).arg(file);
        strace.arg(format!("--inject={calls}:error=EIO:when={when}"));
        strace.arg(std::env::current_exe().unwrap());
        Self::around(strace)
    }

    /// A child that pauses for 0.1 s after each call of this name, so that others can act between
    /// two of its calls. The calls are written to a file.
    pub(crate) fn that_pauses_after(call: &str, trace: &Path) -> Self {
        let mut strace = Command::new("strace");
        strace.arg("-f").arg("-o").arg(trace);
        strace.arg(format!("--trace={call}"));
        strace.arg(format!("--inject={call}:delay_exit=100000"));
        strace.arg(std::env::current_exe().unwrap());
        Self::around(strace)
    }

    fn around(mut command: Command) -> Self {
        // With one thread the test runs in the thread that begins the trace.
        command.args(["--exact", "child_process::in_a_child", "--nocapture"]);
        command
            .arg("--test-threads=1")
            .env(format!("{MARK}RUN"), "1");
        Self { command }
    }

    pub(crate) fn strategy(self, strategy: Option<Strategy>) -> Self {
        match strategy {
            Some(strategy) => self.set("STRATEGY", strategy.to_string()),
            None => self,
        }
    }

    /// Detects blocks of zeros and makes holes of them.
    pub(crate) fn that_detects_holes(self) -> Self {
        self.set("DETECT", "1".to_owned())
    }

    /// Skips bad blocks.
    pub(crate) fn that_skips_errors(self) -> Self {
        self.set("SKIP", "1".to_owned())
    }

    /// Limits the size of the files that the child writes.
    pub(crate) fn file_size(self, bytes: u64) -> Self {
        self.set("FSIZE", bytes.to_string())
    }

    /// Lets the child open no more descriptors.
    pub(crate) fn without_descriptors(self) -> Self {
        self.set("NOFILE", "3".to_owned())
    }

    /// Runs the child as a user without privileges who has used up the budget for pipes.
    pub(crate) fn over_the_pipe_budget(mut self) -> Self {
        self.command.uid(NOBODY);
        self.set("FILL_PIPES", "1".to_owned())
    }

    /// Makes the child check, before its transfer, that transfers leave no descriptor open.
    pub(crate) fn counting_descriptors(self) -> Self {
        self.set("COUNT", "1".to_owned())
    }

    /// Repeats the first bytes of [`pattern`](crate::files::pattern) instead of a transfer.
    pub(crate) fn repeating(self, len: usize, limit: u64) -> Self {
        self.set("REPEAT", len.to_string())
            .set("LIMIT", limit.to_string())
    }

    /// Filters the source with [`toggle`](crate::filter::toggle) instead of a transfer.
    pub(crate) fn filtering(self) -> Self {
        self.set("FILTER", "1".to_owned())
    }

    /// Calls `std::io::copy` instead of a transfer.
    #[cfg(target_pointer_width = "64")]
    pub(crate) fn copying_by_std(self) -> Self {
        self.set("STD", "1".to_owned())
    }

    fn set(mut self, name: &str, value: String) -> Self {
        self.command.env(format!("{MARK}{name}"), value);
        self
    }

    /// Runs the child to its end. Fails if the child cannot be started.
    pub(crate) fn run(mut self, source: OwnedFd, sink: OwnedFd) -> std::io::Result<ChildReport> {
        self.command
            .stdin(source)
            .stderr(sink)
            .stdout(Stdio::piped());
        let child = self.command.spawn()?;
        // The command holds copies of source and sink, which would keep pipes open.
        drop(self);
        let output = child.wait_with_output()?;
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{}: {printed}", output.status);
        let fields: HashMap<_, _> = printed
            .split(MARK)
            .skip(1)
            .filter_map(|line| line.lines().next()?.split_once('='))
            .collect();
        let side = fields["SIDE"];
        let errno = fields["ERRNO"].parse().unwrap();
        let undelivered = fields["UNDELIVERED"].as_bytes().chunks(2);
        let attempts = fields["ATTEMPTS"].split_whitespace();
        Ok(ChildReport {
            bytes: fields["BYTES"].parse().unwrap(),
            strategy: fields["STRATEGY"].to_owned(),
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

/// The calls between the two marks, of the thread that made the marks, by their names on 64-bit
/// machines.
pub(crate) fn calls_between(trace: &Path) -> Vec<String> {
    let trace = std::fs::read_to_string(trace).unwrap();
    let mut inside = trace.lines().skip_while(|line| !line.contains(BEGIN));
    let thread_of = |line: &str| line.split_whitespace().next().map(str::to_owned);
    let thread = inside.next().and_then(thread_of);
    inside
        .take_while(|line| !line.contains(END))
        .filter(|line| thread_of(line) == thread)
        .map(|line| line.split_whitespace().nth(1).unwrap())
        // A call that is interrupted in the trace has a second line. The time costs a call where
        // the processor's clock cannot be used, as in an emulator.
        .filter(|call| *call != "<..." && !call.starts_with("clock_gettime"))
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
    let variable = |name: &str| std::env::var(format!("{MARK}{name}")).ok();
    if variable("RUN").is_none() {
        return;
    }
    if variable("COUNT").is_some() {
        crate::promises::leave_no_descriptor_open();
    }
    let (source, sink) = (std::io::stdin(), std::io::stderr());
    let _budget = variable("FILL_PIPES").map(|_| fill_pipes());
    let mut transfer = Transfer::new(&source, &sink);
    if let Some(name) = variable("STRATEGY") {
        transfer = transfer.strategy(strategy(&name));
    }
    if variable("DETECT").is_some() {
        transfer = transfer.sparse(zcopy::Sparse::Detect);
    }
    if variable("SKIP").is_some() {
        transfer = transfer.skip_errors(zcopy::SkipErrors::Adaptive);
    }
    let limit = |resource, name: &str| {
        let maximum = rustix::process::getrlimit(resource).maximum;
        if let Some(current) = variable(name).map(|bytes| bytes.parse().unwrap()) {
            let current = Some(current);
            setrlimit(resource, Rlimit { current, maximum }).unwrap();
        }
    };
    limit(Resource::Fsize, "FSIZE");
    limit(Resource::Nofile, "NOFILE");

    let repeated = variable("REPEAT").map(|len| {
        let limit: u64 = variable("LIMIT").unwrap().parse().unwrap();
        (crate::files::pattern(len.parse().unwrap()), limit)
    });

    let mark = |path| rustix::fs::access(path, rustix::fs::Access::EXISTS).unwrap_err();
    if variable("STD").is_some() {
        let file = |fd: BorrowedFd<'_>| File::from(fd.try_clone_to_owned().unwrap());
        let (source, sink) = (file(source.as_fd()), file(sink.as_fd()));
        mark(BEGIN);
        let bytes = std::io::copy(&mut &source, &mut &sink);
        mark(END);
        println!("{MARK}BYTES={}", bytes.unwrap());
        for name in ["STRATEGY", "SIDE", "ERRNO", "UNDELIVERED", "ATTEMPTS"] {
            println!("{MARK}{name}={}", if name == "ERRNO" { "0" } else { "" });
        }
        return;
    }
    mark(BEGIN);
    let outcome = match &repeated {
        Some((pattern, limit)) => Repeat::new(pattern).limit(*limit).run(&sink),
        None if variable("FILTER").is_some() => {
            FilterTransfer::new(&sink, crate::filter::toggle).run(&source)
        }
        None => transfer.run(),
    };
    mark(END);

    let report = match &outcome {
        Ok(report) => report,
        Err(error) => error.report(),
    };
    let side = match outcome.as_ref().err().map(zcopy::Error::side) {
        Some(Side::Source) => "source",
        Some(Side::Sink) => "sink",
        Some(_) => "neither",
        None => "",
    };
    let errno = outcome.as_ref().err().and_then(zcopy::Error::raw_os_error);
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
    let strategy = report.strategy().map_or("", Strategy::name);
    println!("{MARK}STRATEGY={strategy}");
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

/// The user ID of `nobody`. The kernel limits the memory of this user's pipes.
pub(crate) const NOBODY: u32 = 65534;

/// Returns whether this process may run a child process as the user [`NOBODY`].
pub(crate) fn can_run_as_nobody() -> bool {
    rustix::process::geteuid().as_raw() == NOBODY || is_root()
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
        // This fails if it would exceed the budget; the pipe then counts with 64 KiB.
        let _ = rustix::pipe::fcntl_setpipe_size(&writer, 1 << 20);
        pipes.extend([reader, writer]);
        assert!(pipes.len() < 10_000, "this user has no budget");
    }
}
