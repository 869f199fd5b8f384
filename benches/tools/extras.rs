//! Figures that need a run of their own: system calls, memory, and what stays in the page cache.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::contestants::Contestant;
use crate::inputs::evict;
use crate::job::{Job, Place, Sink, Source};
use crate::pipeline::Pipeline;
use crate::programs::has;

/// The programs that measure others, as far as this machine has them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instruments {
    strace: bool,
    time: bool,
    fincore: bool,
}

/// The system calls, the memory and the pages of the cache that one program takes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Extras {
    pub(crate) system_calls: Option<u64>,
    pub(crate) peak_kib: Option<u64>,
    pub(crate) residue_kib: Option<u64>,
}

impl Instruments {
    /// Looks which programs are here, and says what is not measured without them.
    pub(crate) fn find() -> Self {
        Self {
            strace: has("strace", "system calls"),
            time: has("time", "memory"),
            fincore: has("fincore", "what stays in the page cache"),
        }
    }

    /// Runs the job once with each instrument.
    ///
    /// # Errors
    ///
    /// If the job fails.
    pub(crate) fn measure(
        self,
        pipeline: &mut Pipeline<'_>,
        contestant: &Contestant,
        scratch: &Path,
    ) -> anyhow::Result<Extras> {
        let mut extras = Extras::default();
        let log = scratch.join("instrument");
        // All steps of a job write into the same file.
        let wrapped = |pipeline: &mut Pipeline<'_>, words: &[&str]| {
            let _ = fs::remove_file(&log);
            pipeline.wrapper = words.iter().map(OsString::from).collect();
            pipeline.wrapper.push(log.clone().into());
            let ran = pipeline.run(contestant);
            pipeline.wrapper.clear();
            ran.map(|_| fs::read_to_string(&log).unwrap_or_default())
        };
        if self.strace && contestant.steps.len() == 1 {
            let log = wrapped(pipeline, &["strace", "-f", "-c", "-o"])?;
            extras.system_calls = Some(calls(&log));
        }
        if self.time {
            // This program is too large itself: a child inherits the peak of its parent.
            let log = wrapped(pipeline, &["time", "-a", "-f", "%M", "-o"])?;
            let peaks = log.lines().filter_map(|line| line.parse().ok());
            extras.peak_kib = peaks.max();
        }
        if self.fincore && leaves_pages(pipeline.job) {
            let has_file = pipeline.job.source != Source::WrittenPipe;
            if has_file {
                evict(&pipeline.input.path)?;
            }
            pipeline.run(contestant)?;
            let mut files = pipeline.written();
            files.extend(has_file.then(|| pipeline.input.path.clone()));
            let output = Command::new("fincore")
                .args(["-b", "-n", "-o", "RES"])
                .args(files)
                .output()?;
            let pages = String::from_utf8_lossy(&output.stdout);
            let pages = pages
                .lines()
                .filter_map(|line| line.trim().parse::<u64>().ok());
            extras.residue_kib = Some(pages.sum::<u64>() >> 10);
        }
        Ok(extras)
    }
}

/// Whether the job reads or writes single files of a disk.
fn leaves_pages(job: &Job) -> bool {
    let writes = matches!(
        job.sink,
        Sink::File(Place::Disk) | Sink::Operands(Place::Disk)
    );
    let is_tree = matches!(job.source, Source::Tree(_));
    job.source == Source::ColdDisk || (writes && !is_tree)
}

/// The fourth column of what `strace -c` prints.
fn calls(log: &str) -> u64 {
    let rows = log.lines().filter(|line| !line.ends_with(" total"));
    let calls = rows.filter_map(|line| line.split_whitespace().nth(3)?.parse::<u64>().ok());
    calls.sum()
}
