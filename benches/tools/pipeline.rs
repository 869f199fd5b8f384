//! One run of a pipeline.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{PipeReader, PipeWriter, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use wait4::{ResourceUsage, Wait4 as _};

use crate::contestants::Contestant;
use crate::ends;
use crate::inputs::{Input, evict};
use crate::job::{Job, Place, Sink, Source};
use crate::programs::Programs;

/// All that the runs of a job have in common.
pub(crate) struct Pipeline<'a> {
    pub(crate) job: &'a Job,
    pub(crate) programs: &'a Programs,
    pub(crate) input: &'a Input,
    /// A directory for what the programs write.
    pub(crate) out: &'a Path,
    /// What else is started in front of the program: `strace`, for example.
    pub(crate) wrapper: Vec<OsString>,
    /// The reader makes a digest, and is there where `/dev/null` would be.
    pub(crate) is_digested: bool,
}

/// What one run took.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    pub(crate) time: Duration,
    pub(crate) cpu: Duration,
    /// The processor time of the writer and the reader.
    pub(crate) others_cpu: Duration,
    /// What the reader has counted, and its digest.
    pub(crate) arrived: Option<(u64, String)>,
}

impl Pipeline<'_> {
    /// Runs the job once.
    ///
    /// The writer and the reader are started first. The clock runs from the start of the program
    /// until it and the reader have ended.
    ///
    /// # Errors
    ///
    /// If a program fails, or something else arrives than was sent.
    pub(crate) fn run(&self, contestant: &Contestant) -> anyhow::Result<Sample> {
        self.clear()?;
        let mut sample = Sample::default();
        let mut writer = None;
        let mut reader = None;
        let mut stdin = Some(Stdio::null());
        match self.job.source {
            Source::Input => stdin = Some(File::open(&self.input.path)?.into()),
            Source::WrittenPipe => {
                let (near, far) = std::io::pipe()?;
                writer = Some(self.writer("write", far)?);
                stdin = Some(near.into());
            }
            Source::TeedPipe => {
                let (near, far) = std::io::pipe()?;
                writer = Some(self.writer("tee", far)?);
                stdin = Some(near.into());
            }
            Source::ColdDisk => evict(&self.input.path)?,
            _ => {}
        }
        let mut first_byte = None;
        let mut stdout: Option<Stdio> = Some(match self.job.sink {
            Sink::FirstByte if !self.is_digested => {
                let (near, far) = std::io::pipe()?;
                first_byte = Some(near);
                far.into()
            }
            Sink::File(_) => File::create(self.out.join("OUT"))?.into(),
            Sink::Null | Sink::Operands(_) if !self.is_digested => {
                File::create("/dev/null")?.into()
            }
            sink => {
                let way = match sink {
                    _ if self.is_digested => "digest",
                    Sink::Splicing => "splice",
                    _ => "read",
                };
                let (near, far) = std::io::pipe()?;
                reader = Some(self.reader(way, near)?);
                far.into()
            }
        });
        let start = Instant::now();
        for (index, (program, arguments)) in contestant.steps.iter().enumerate() {
            let mut command = self.command(program, arguments)?;
            command.stdin(stdin.take().unwrap_or_else(Stdio::null));
            command.stdout(stdout.take().unwrap_or_else(Stdio::null));
            let mut child = command.spawn().with_context(|| (*program).to_owned())?;
            // It holds the ends of the pipes.
            drop(command);
            if let Some(mut pipe) = first_byte.take() {
                let n = pipe.read(&mut [0; 4096])?;
                sample.time = start.elapsed();
                ensure!(n > 0, "nothing came");
            }
            let used = child.wait4()?;
            sample.cpu += cpu(&used.rusage);
            // Its reader has gone before the end.
            let may_fail = self.job.source == Source::Endless || self.job.sink == Sink::FirstByte;
            ensure!(
                used.status.success() || may_fail,
                "{program}, step {}: {}",
                index + 1,
                used.status
            );
        }
        if let Some(mut reader) = reader {
            let mut text = String::new();
            if let Some(stdout) = &mut reader.stdout {
                stdout.read_to_string(&mut text)?;
            }
            let used = reader.wait4()?;
            ensure!(used.status.success(), "the reader: {}", used.status);
            sample.others_cpu += cpu(&used.rusage);
            let (n, digest) = text.split_once(' ').context("the reader counts")?;
            sample.arrived = Some((n.parse()?, digest.to_owned()));
        }
        if sample.time.is_zero() {
            sample.time = start.elapsed();
        }
        if let Some(mut writer) = writer {
            let used = writer.wait4()?;
            ensure!(used.status.success(), "the writer: {}", used.status);
            sample.others_cpu += cpu(&used.rusage);
        }
        if !self.is_digested {
            self.check_length(&sample)?;
        }
        Ok(sample)
    }

    /// The files that the program has written.
    pub(crate) fn written(&self) -> Vec<PathBuf> {
        let all = ["OUT", "OUT2"].map(|name| self.out.join(name));
        all.into_iter().filter(|path| path.exists()).collect()
    }

    /// Removes what the last run has written.
    fn clear(&self) -> anyhow::Result<()> {
        for path in self.written() {
            if path.is_dir() {
                fs::remove_dir_all(path)?;
            } else {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    fn check_length(&self, sample: &Sample) -> anyhow::Result<()> {
        let bytes = self.input.bytes;
        if let Some((n, _)) = &sample.arrived {
            ensure!(*n == bytes, "{n} bytes came instead of {bytes}");
        }
        for path in self.written() {
            let metadata = fs::metadata(&path)?;
            ensure!(
                metadata.is_dir() || metadata.len() == bytes,
                "a file has {} bytes instead of {bytes}",
                metadata.len()
            );
        }
        Ok(())
    }

    fn command(&self, program: &str, arguments: &[&str]) -> anyhow::Result<Command> {
        let path = self.programs.path(program).context("it is missing")?;
        let mut words = self.wrapper.clone();
        words.push(path.into());
        for argument in arguments {
            let under = |root: &Path| {
                let files = self.input.files.iter();
                files
                    .map(|file| root.join(file).into())
                    .collect::<Vec<OsString>>()
            };
            match *argument {
                "IN" => words.push(self.input.path.clone().into()),
                "IN/" => words.push(self.input.path.join("").into()),
                "OUT" | "OUT2" => words.push(self.out.join(argument).into()),
                "FILES" => words.extend(under(&self.input.path)),
                "COPIED" => words.extend(under(&self.out.join("OUT"))),
                other => words.push(other.into()),
            }
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stderr(Stdio::null());
        Ok(command)
    }

    fn writer(&self, way: &str, pipe: PipeWriter) -> anyhow::Result<Child> {
        let child = Command::new(std::env::current_exe()?)
            .args([ends::WRITE, way, &self.input.bytes.to_string()])
            .stdin(Stdio::null())
            .stdout(pipe)
            .spawn()?;
        Ok(child)
    }

    fn reader(&self, way: &str, pipe: PipeReader) -> anyhow::Result<Child> {
        let limit = match self.job.source {
            Source::Endless => self.input.bytes,
            _ => u64::MAX,
        };
        let child = Command::new(std::env::current_exe()?)
            .args([ends::READ, way, &limit.to_string()])
            .stdin(pipe)
            .stdout(Stdio::piped())
            .spawn()?;
        Ok(child)
    }
}

fn cpu(usage: &ResourceUsage) -> Duration {
    usage.utime + usage.stime
}

/// Where the programs of a job write.
pub(crate) fn place(job: &Job) -> Place {
    match job.sink {
        Sink::File(place) | Sink::Operands(place) => place,
        _ => Place::Memory,
    }
}
