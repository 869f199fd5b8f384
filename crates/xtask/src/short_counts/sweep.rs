//! Runs one scenario again and again, and lowers the count of another call each time.

use std::fmt;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};

use super::tracer::{self, Ending, Shortened, Traced};
use super::{Amount, Call, Extent, Shortening};

/// A scenario that is ready to run once.
pub(crate) struct Prepared {
    /// Made by [`tracer::command`], with its arguments and standard streams.
    pub(crate) command: Command,
    pub(crate) verdict: Verdict,
}

/// Says what is wrong after a run: bytes that are lost, doubled or changed, or a false report.
///
/// The status need not be compared: the sweep does so. The closure owns what the scenario runs
/// beside the program, such as a thread that feeds a pipe.
pub(crate) type Verdict = Box<dyn FnOnce(&Traced) -> Result<(), String>>;

/// Which calls a sweep goes through.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) calls: Vec<Call>,
    /// How many calls of each kind get their turn, from the first on. The last one always does.
    pub(crate) most: u32,
    /// After what time a run counts as hung.
    pub(crate) limit: Duration,
}

/// What a sweep found.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    pub(crate) runs: u32,
    /// Runs in which the kernel moved less than it would have.
    pub(crate) effective: u32,
    /// Runs in which no count was lowered, for example because the program made fewer calls.
    pub(crate) unreached: u32,
    /// Counts that could not be lowered: one block of a file with `O_DIRECT`, or an event.
    pub(crate) left_alone: u32,
    pub(crate) findings: Vec<Finding>,
}

/// A run that went otherwise than it goes without lower counts.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) shortening: Shortening,
    /// The first call with a lower count.
    pub(crate) shortened: Option<Shortened>,
    /// What is wrong.
    pub(crate) wrong: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.shortening, self.wrong)?;
        match &self.shortened {
            Some(shortened) => write!(f, " [{shortened}]"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Swept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Swept {
            runs,
            effective,
            unreached,
            left_alone,
            findings,
        } = self;
        write!(
            f,
            "{} findings in {runs} runs: {effective} moved less, {unreached} lowered no count",
            findings.len()
        )?;
        if *left_alone > 0 {
            write!(f, "; {left_alone} counts could not be lowered")?;
        }
        Ok(())
    }
}

/// Runs a scenario whole, and then once for each call, amount and extent.
///
/// # Errors
///
/// A run cannot be prepared or traced, or the scenario fails though no count is lowered.
pub(crate) fn sweep(
    prepare: impl Fn() -> anyhow::Result<Prepared>,
    bounds: &Bounds,
) -> anyhow::Result<Swept> {
    let (whole, verdict) = run(&prepare, None, bounds.limit)?;
    if whole.ending == Ending::Hung {
        bail!("the scenario hangs though no count is lowered");
    }
    if let Err(wrong) = verdict {
        bail!("the scenario fails though no count is lowered: {wrong}");
    }

    let mut swept = Swept::default();
    for (&call, results) in &whole.results {
        if !bounds.calls.contains(&call) {
            continue;
        }
        for (number, &result) in (1..).zip(results) {
            let is_last = results.len() == number as usize;
            if number > bounds.most && !is_last {
                continue;
            }
            for (extent, amount) in variants(result) {
                let shortening = Shortening {
                    call,
                    first: number,
                    extent,
                    amount,
                };
                let (traced, verdict) = run(&prepare, Some(&shortening), bounds.limit)
                    .with_context(|| shortening.to_string())?;
                swept.add(shortening, &traced, verdict, whole.ending);
            }
        }
    }
    Ok(swept)
}

impl Swept {
    fn add(
        &mut self,
        shortening: Shortening,
        traced: &Traced,
        verdict: Result<(), String>,
        expected: Ending,
    ) {
        self.runs += 1;
        self.effective += u32::from(traced.is_effective());
        self.unreached += u32::from(!traced.is_reached());
        self.left_alone += traced.left_alone;
        let wrong = if traced.ending == expected {
            verdict.err()
        } else {
            let stderr = String::from_utf8_lossy(&traced.stderr);
            let said = stderr.lines().next().unwrap_or_default();
            Some(format!("{} instead of {expected} {said:?}", traced.ending))
        };
        if let Some(wrong) = wrong {
            self.findings.push(Finding {
                shortening,
                shortened: traced.shortened.first().cloned(),
                wrong,
            });
        }
    }
}

fn run(
    prepare: &impl Fn() -> anyhow::Result<Prepared>,
    shortening: Option<&Shortening>,
    limit: Duration,
) -> anyhow::Result<(Traced, Result<(), String>)> {
    let Prepared { command, verdict } = prepare()?;
    let traced = tracer::run(command, shortening, limit)?;
    let verdict = verdict(&traced);
    Ok((traced, verdict))
}

/// What to try on a call that returned `result` when its count was whole.
///
/// Most reads ask for more than there is, and half of such a count changes nothing. So the lower
/// counts of single calls are parts of the result.
fn variants(result: i64) -> Vec<(Extent, Amount)> {
    let mut variants = vec![
        (Extent::Once, Amount::One),
        (Extent::FromThen, Amount::One),
        (Extent::FromThen, Amount::Half),
        (Extent::FromThen, Amount::AllButOne),
    ];
    match u64::try_from(result) {
        Ok(moved @ 3..) => variants.extend([
            (Extent::Once, Amount::Bytes(moved / 2)),
            (Extent::Once, Amount::Bytes(moved - 1)),
            (Extent::FromThen, Amount::Bytes(moved / 2)),
        ]),
        _ => variants.extend([
            (Extent::Once, Amount::Half),
            (Extent::Once, Amount::AllButOne),
        ]),
    }
    variants
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::Stdio;

    use tempfile::NamedTempFile;

    use super::*;

    fn sweep_of_dd(operands: &[&str]) -> Swept {
        let mut input = NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0..100).collect();
        input.write_all(&bytes).unwrap();
        let prepare = || {
            let mut command = tracer::command("dd");
            command.arg(format!("if={}", input.path().display()));
            command.args(operands).stdout(Stdio::piped());
            let bytes = bytes.clone();
            let verdict: Verdict = Box::new(move |traced| {
                if traced.stdout == bytes {
                    Ok(())
                } else {
                    Err(format!("{} bytes", traced.stdout.len()))
                }
            });
            Ok(Prepared { command, verdict })
        };
        let bounds = Bounds {
            calls: vec![Call::Read, Call::Write],
            most: 3,
            limit: Duration::from_secs(60),
        };
        sweep(prepare, &bounds).unwrap()
    }

    #[test]
    #[cfg_attr(
        not(all(target_arch = "x86_64", target_env = "gnu")),
        ignore = "needs x86_64 Linux with glibc"
    )]
    fn a_program_that_goes_on_after_short_counts_passes() {
        let swept = sweep_of_dd(&["bs=10", "status=none"]);
        assert!(swept.findings.is_empty(), "{:?}", swept.findings);
        assert!(swept.runs > 20, "{swept:?}");
        assert!(swept.effective > 20, "{swept:?}");
    }

    #[test]
    #[cfg_attr(
        not(all(target_arch = "x86_64", target_env = "gnu")),
        ignore = "needs x86_64 Linux with glibc"
    )]
    fn a_program_that_counts_reads_instead_of_bytes_is_found() {
        // After `count` reads dd is done, though they be short.
        let swept = sweep_of_dd(&["bs=10", "count=10", "status=none"]);
        assert!(!swept.findings.is_empty(), "{swept:?}");
        for finding in &swept.findings {
            assert_eq!(finding.shortening.call, Call::Read, "{finding}");
            assert!(finding.wrong.ends_with(" bytes"), "{finding}");
        }
    }
}
