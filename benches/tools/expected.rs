//! Makes the digests of the bytes that each job must deliver, without any of the programs.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};

use crate::contestants::Contestant;
use crate::job::{Sink, Source};
use crate::pipeline::{Pipeline, Sample};

/// Compares every byte that a run has written with what it must be.
///
/// # Errors
///
/// If a byte differs.
pub(crate) fn check(
    pipeline: &Pipeline<'_>,
    contestant: &Contestant,
    sample: &Sample,
) -> anyhow::Result<()> {
    let job = pipeline.job;
    if let Source::Tree(_) = job.source {
        return check_tree(pipeline);
    }
    let expected = expected(pipeline, contestant)?;
    let expected_digest = blake3::hash(&expected).to_string();
    if let Some((n, digest)) = &sample.arrived {
        ensure!(
            *n == expected.len() as u64,
            "{n} bytes came instead of {}",
            expected.len()
        );
        ensure!(*digest == expected_digest, "other bytes came");
    }
    let written = pipeline.written();
    let n_files = match job.sink {
        Sink::File(_) => 1,
        Sink::Operands(_) => 2,
        _ => 0,
    };
    ensure!(written.len() == n_files, "{} files", written.len());
    for path in &written {
        ensure!(
            same(path, &expected_digest)?,
            "{} has other bytes",
            path.display()
        );
    }
    if sample.arrived.is_none() && n_files == 0 {
        bail!("nothing was checked");
    }
    Ok(())
}

fn same(path: &Path, digest: &str) -> anyhow::Result<bool> {
    Ok(blake3::hash(&fs::read(path)?).to_string() == digest)
}

/// Each file of the tree is there, with the same bytes.
fn check_tree(pipeline: &Pipeline<'_>) -> anyhow::Result<()> {
    for file in &pipeline.input.files {
        let copy = pipeline.out.join("OUT").join(file);
        let original = blake3::hash(&fs::read(pipeline.input.path.join(file))?);
        let context = || file.display().to_string();
        ensure!(
            same(&copy, &original.to_string()).with_context(context)?,
            "{} has other bytes",
            copy.display()
        );
    }
    Ok(())
}

fn expected(pipeline: &Pipeline<'_>, contestant: &Contestant) -> anyhow::Result<Vec<u8>> {
    let input = pipeline.input;
    let len = usize::try_from(input.bytes)?;
    Ok(match pipeline.job.source {
        Source::WrittenPipe | Source::TeedPipe => vec![7; len],
        Source::Endless => b"y\n".iter().copied().cycle().take(len).collect(),
        Source::SmallFiles => {
            let files = input.files.iter();
            let contents = files.map(|file| fs::read(input.path.join(file)));
            contents.collect::<Result<Vec<_>, _>>()?.concat()
        }
        Source::Log if contestant.label.ends_with("-n") => numbered(&fs::read(&input.path)?),
        Source::Log if contestant.label.ends_with("-A") => shown(&fs::read(&input.path)?),
        _ => fs::read(&input.path)?,
    })
}

fn numbered(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() * 2);
    for (line, n) in text.split_inclusive(|byte| *byte == b'\n').zip(1_u64..) {
        out.extend(format!("{n:6}\t").as_bytes());
        out.extend(line);
    }
    out
}

/// As `cat -A` shows bytes.
fn shown(text: &[u8]) -> Vec<u8> {
    let mut out = String::with_capacity(text.len() * 2);
    for &byte in text {
        let (prefix, low) = if byte < 128 {
            ("", byte)
        } else {
            ("M-", byte - 128)
        };
        out.push_str(prefix);
        let written = match (low, prefix) {
            (b'\n', "") => writeln!(out, "$"),
            (0..32, _) => write!(out, "^{}", char::from(low + 64)),
            (127, _) => write!(out, "^?"),
            _ => write!(out, "{}", char::from(low)),
        };
        debug_assert!(written.is_ok(), "a string takes everything");
    }
    out.into_bytes()
}
