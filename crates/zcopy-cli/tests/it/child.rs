//! A tool that runs beside the test.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How long something may take that takes no time unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// `zc-cat`, still without arguments.
pub(crate) fn zc_cat() -> Command {
    tool(env!("CARGO_BIN_EXE_zc-cat"))
}

/// `zc-yes`, still without arguments.
pub(crate) fn zc_yes() -> Command {
    tool(env!("CARGO_BIN_EXE_zc-yes"))
}

/// `zc-tee`, still without arguments.
pub(crate) fn zc_tee() -> Command {
    tool(env!("CARGO_BIN_EXE_zc-tee"))
}

/// `zc-dircopy`, still without arguments.
pub(crate) fn zc_dircopy() -> Command {
    tool(env!("CARGO_BIN_EXE_zc-dircopy"))
}

/// `zc-pv`, still without arguments.
pub(crate) fn zc_pv() -> Command {
    tool(env!("CARGO_BIN_EXE_zc-pv"))
}

fn tool(program: &str) -> Command {
    let mut command = Command::new(program);
    command
        .env("LC_ALL", "C.UTF-8")
        .env_remove("POSIXLY_CORRECT");
    command
}

/// The same program with the same arguments and environment, for which no signal is ignored: a
/// shell may have started the tests with signals ignored.
pub(crate) fn with_default_signals(command: &Command) -> Command {
    under(&["env", "--default-signal"], command)
}

/// The same program with the same arguments and environment, whose descriptor 3 leads where its
/// standard error would. Standard error leads to `/dev/null`.
pub(crate) fn with_stderr_as_3(command: &Command) -> Command {
    let exec = "exec \"$0\" \"$@\" 3>&2 2> /dev/null";
    under(&["sh", "-c", exec], command)
}

/// The same program with the same arguments and environment, run by another.
pub(crate) fn under(runner: &[&str], command: &Command) -> Command {
    let mut other = Command::new(runner[0]);
    other.args(&runner[1..]);
    other.arg(command.get_program()).args(command.get_args());
    copy_environment(command, &mut other);
    other
}

/// Makes the changes to the environment that one command makes, in another too.
pub(crate) fn copy_environment(from: &Command, to: &mut Command) {
    for (name, value) in from.get_envs() {
        match value {
            Some(value) => to.env(name, value),
            None => to.env_remove(name),
        };
    }
}

/// Waits for the end, and fails rather than hang.
#[track_caller]
pub(crate) fn end_of(mut child: Child) -> ExitStatus {
    let pid = rustix::process::Pid::from_child(&child);
    let (done, ended) = mpsc::channel();
    let waiter = thread::spawn(move || done.send(child.wait()));
    let Ok(status) = ended.recv_timeout(PATIENCE) else {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        let _ = waiter.join();
        panic!("it does not end");
    };
    status.unwrap()
}

/// Reads exactly `n` bytes, and fails rather than hang.
#[track_caller]
pub(crate) fn read_exactly(mut from: impl Read + Send + 'static, n: usize) -> Vec<u8> {
    let (done, bytes) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = vec![0; n];
        let read: io::Result<()> = from.read_exact(&mut bytes);
        done.send(read.map(|()| bytes))
    });
    bytes
        .recv_timeout(PATIENCE)
        .expect("the bytes do not come")
        .unwrap()
}

/// Waits until the file holds this, and fails rather than hang.
#[track_caller]
pub(crate) fn comes_to_hold(path: &Path, bytes: &[u8]) {
    let start = Instant::now();
    while std::fs::read(path).unwrap_or_default() != bytes {
        assert!(start.elapsed() < PATIENCE, "it does not come");
        thread::sleep(Duration::from_millis(1));
    }
}
