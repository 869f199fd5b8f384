//! Whole pipelines: the tools beside the programs that they replace.
//!
//! `cargo bench -p zcopy-cli --bench tools -- --peers DIR` looks for the peers in `DIR/bin` and in
//! `PATH`, and says who is missing. All paths are relative to the root of the workspace. Arguments
//! choose jobs by a part of their name.
//!
//! The programs of a job take turns, each turn in random order. Each run has a wall time, and the
//! processor time of each process, as wait4(2) tells it. One run more counts the system calls
//! (strace), one the memory (time), one what stays in the page cache (fincore).
//!
//! - `--size SIZE` [default: 1GiB]: how much comes into a job; some take a part or a multiple of it
//! - `--verify`: measure nothing, and compare every byte that comes out
//! - `--record DIR`: write the figures into a record
//! - `--note TEXT`: the record says what else the machine did
//! - `--wait SECONDS`: before a job, wait until other work has ended, altogether no longer than this
//! - `--test`: every job once, with little data
//!
//! `ZCOPY_BENCH_TURNS` [default: 11] says how often; short jobs are run ten times as often. A job
//! that has taken 12 seconds and five turns has no further ones.

#![allow(
    clippy::cast_precision_loss,
    reason = "figures are shown with three digits"
)]

use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io};

use anyhow::{Context as _, bail, ensure};

#[path = "tools/contestants.rs"]
mod contestants;
#[path = "tools/ends.rs"]
mod ends;
#[path = "tools/expected.rs"]
mod expected;
#[path = "tools/extras.rs"]
mod extras;
#[path = "tools/inputs.rs"]
mod inputs;
#[path = "tools/job.rs"]
mod job;
#[path = "tools/jobs.rs"]
mod jobs;
#[allow(
    dead_code,
    clippy::expect_used,
    reason = "readers of pipelines have limits, and a writer without a reader may panic"
)]
#[path = "pairs/peers.rs"]
mod peers;
#[path = "tools/pipeline.rs"]
mod pipeline;
#[path = "tools/programs.rs"]
mod programs;
mod recording;
#[path = "tools/report.rs"]
mod report;

use contestants::Contestant;
use extras::{Extras, Instruments};
use inputs::Scratch;
use job::{Job, Load, Place, Sink};
use jobs::JOBS;
use pipeline::Pipeline;
use programs::Programs;
use recording::{Recording, format, from_root, take_option};

const MIB: usize = 1 << 20;

/// A job takes no further turns after this time.
const MOST_TIME: Duration = Duration::from_secs(12);
const FEWEST_TURNS: usize = 5;

/// The options of the command line.
struct Asked {
    size: u64,
    turns: usize,
    is_verified: bool,
}

fn main() -> anyhow::Result<()> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [end, way, bytes] = &arguments[..] {
        if end == ends::READ {
            return Ok(io::Write::write_all(
                &mut io::stdout(),
                ends::read(way, bytes)?.as_bytes(),
            )?);
        }
        if end == ends::WRITE {
            return Ok(ends::write(way, bytes)?);
        }
    }
    let mut recording = Recording::begin("tools", &mut arguments);
    let peers = take_option(&mut arguments, "--peers").map(|dir| from_root(&dir));
    let size = take_option(&mut arguments, "--size");
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let (is_test, is_verified) = (has("--test"), has("--verify"));
    let default_size = match (is_test, is_verified) {
        (true, _) => "1MiB",
        (_, true) => "64MiB",
        _ => "1GiB",
    };
    let size: byte_unit::Byte = size.as_deref().unwrap_or(default_size).parse()?;
    let turns = std::env::var("ZCOPY_BENCH_TURNS").ok();
    let turns = turns.map(|turns| turns.parse()).transpose()?.unwrap_or(11);
    let asked = Asked {
        size: size.as_u64(),
        turns: if is_test { 1 } else { turns },
        is_verified,
    };
    let parts: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    let is_wanted =
        |job: &&Job| parts.is_empty() || parts.iter().any(|part| job.name.contains(part.as_str()));

    let scratch = Scratch::new()?;
    let bin = scratch.dir(Place::Disk).join("bin");
    fs::create_dir(&bin)?;
    let jobs: Vec<&Job> = JOBS.iter().filter(is_wanted).collect();
    ensure!(!jobs.is_empty(), "no job has such a name");
    let contestants = jobs.iter().flat_map(|job| job.contestants);
    let names = contestants.flat_map(|contestant| contestant.steps.iter().map(|step| step.0));
    let programs = Programs::find(names, peers.as_deref(), &bin)?;
    if !programs.missing.is_empty() {
        let missing = programs.missing.join(", ");
        eprintln!("NOT COMPARED: {missing}, which neither --peers nor PATH has");
    }
    recording.programs = programs.versions();
    recording.missing.clone_from(&programs.missing);
    for (name, place) in [("memory", Place::Memory), ("disk", Place::Disk)] {
        let dir = scratch.dir(place).display().to_string();
        let kind = recording::output("stat", &["-f", "-c", "%T", &dir]);
        recording.file_systems.insert(name.to_owned(), kind);
    }

    let instruments = Instruments::find();
    let mut measured = Vec::new();
    let mut wrong = Vec::new();
    for job in jobs {
        let input = scratch.input(job, asked.size)?;
        let out = scratch.dir(pipeline::place(job)).join("written");
        fs::create_dir_all(&out)?;
        let mut pipeline = Pipeline {
            job,
            programs: &programs,
            input: &input,
            out: &out,
            wrapper: Vec::new(),
            is_digested: asked.is_verified,
        };
        let here = job.contestants.iter().filter(|contestant| {
            let mut names = contestant.steps.iter().map(|step| step.0);
            names.all(|name| programs.path(name).is_some())
        });
        let here: Vec<&Contestant> = here.collect();
        if asked.is_verified {
            wrong.extend(verify(&pipeline, &here));
        } else {
            recording.wait();
            let of_job = measure(
                &mut pipeline,
                &here,
                &asked,
                instruments,
                scratch.dir(Place::Disk),
            )
            .with_context(|| job.name)?;
            report::print(&of_job);
            measured.push(of_job);
        }
        fs::remove_dir_all(&out)?;
    }
    if !asked.is_verified {
        let is_same = |a: &format::Job, b: &format::Job| a.name == b.name;
        recording.end(parts.is_empty(), measured, |raw| &mut raw.jobs, is_same);
    }
    for problem in &wrong {
        eprintln!("WRONG: {problem}");
    }
    ensure!(wrong.is_empty(), "wrong bytes: {}", wrong.len());
    Ok(())
}

/// Compares every byte that the programs write. Returns what is wrong with ours; peers are only told
/// of.
#[expect(
    clippy::print_stdout,
    reason = "the program prints what it has compared"
)]
fn verify(pipeline: &Pipeline<'_>, contestants: &[&Contestant]) -> Vec<String> {
    let mut wrong = Vec::new();
    for contestant in contestants {
        let checked = pipeline
            .run(contestant)
            .and_then(|sample| expected::check(pipeline, contestant, &sample));
        let name = format!("{}: {}", pipeline.job.name, contestant.label);
        match checked {
            Ok(()) => println!("{name}: every byte is right"),
            Err(error) if contestant.label.starts_with("zc-") => {
                wrong.push(format!("{name}: {error:#}"));
            }
            Err(error) => eprintln!("A PEER DIFFERS: {name}: {error:#}"),
        }
    }
    wrong
}

/// Has the programs do the job in turns, each turn in random order.
///
/// # Errors
///
/// If one of our tools fails. A peer that fails is left out, and told of.
fn measure(
    pipeline: &mut Pipeline<'_>,
    contestants: &[&Contestant],
    asked: &Asked,
    instruments: Instruments,
    scratch: &Path,
) -> anyhow::Result<format::Job> {
    let job = pipeline.job;
    // Programs that fail are not measured. The trial also reads them from the disk.
    let mut able: Vec<(&Contestant, format::Contestant)> = Vec::new();
    for &contestant in contestants {
        match pipeline.run(contestant) {
            Ok(_) => able.push((contestant, new_figures(contestant))),
            Err(error) if contestant.label.starts_with("zc-") => {
                return Err(error.context(contestant.label));
            }
            Err(error) => eprintln!("LEFT OUT of {}: {}: {error:#}", job.name, contestant.label),
        }
    }
    let is_short = job.load == Load::OneByte || job.sink == Sink::FirstByte;
    let turns = if is_short && asked.turns > 1 {
        asked.turns * 10
    } else {
        asked.turns
    };
    let mut order: Vec<usize> = (0..able.len()).collect();
    let begun = Instant::now();
    for turn in 0..turns {
        if turn >= FEWEST_TURNS && begun.elapsed() > MOST_TIME {
            break;
        }
        fastrand::shuffle(&mut order);
        for &index in &order {
            let (contestant, figures) = &mut able[index];
            let sample = pipeline.run(contestant).context(contestant.label)?;
            let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            figures.nanoseconds.push(ns(sample.time));
            figures.cpu_nanoseconds.push(ns(sample.cpu));
            figures.others_cpu_nanoseconds.push(ns(sample.others_cpu));
        }
    }
    for (contestant, figures) in &mut able {
        let Extras {
            system_calls,
            peak_kib,
            residue_kib,
        } = instruments
            .measure(pipeline, contestant, scratch)
            .context(contestant.label)?;
        figures.system_calls = system_calls;
        figures.peak_kib = peak_kib;
        figures.residue_kib = residue_kib;
    }
    if able.is_empty() {
        bail!("no program can do this job");
    }
    Ok(format::Job {
        name: job.name.to_owned(),
        title: job.title.to_owned(),
        group: job.group.to_owned(),
        bytes: pipeline.input.bytes,
        unit: job.unit,
        contestants: able.into_iter().map(|(_, figures)| figures).collect(),
    })
}

fn new_figures(contestant: &Contestant) -> format::Contestant {
    format::Contestant {
        name: contestant.label.to_owned(),
        nanoseconds: Vec::new(),
        cpu_nanoseconds: Vec::new(),
        others_cpu_nanoseconds: Vec::new(),
        system_calls: None,
        peak_kib: None,
        residue_kib: None,
    }
}
