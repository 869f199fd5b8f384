//! Runs the program of a scenario.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use rustix::time::Timespec;

use super::peers::Peers;
use super::{Observed, STDOUT, Scenario, Stdin, Stdout, TimeLimits, UPSTREAM, observed};
use crate::programs::Programs;

impl Scenario {
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
        limits: TimeLimits,
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
        let mut peers = Peers::new(self, &dir, limits)?;
        let log = scratch.path().join("log");
        let wrapper = wrapper(&log);
        let mut command = Command::new("prlimit");
        let processor = limits.processor().as_secs();
        command.arg(format!("--cpu={processor}")).arg("--");
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
        let limit = Timespec::try_from(limits.wall())?;
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
            limits,
            scratch,
        };
        Ok((observed, String::from_utf8_lossy(&log).into_owned()))
    }

    /// The program's standard input, and for a regular file another descriptor with the same
    /// cursor.
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

/// Makes a file with these bytes, in which blocks of zeros are holes.
pub(super) fn write_with_holes(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
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
