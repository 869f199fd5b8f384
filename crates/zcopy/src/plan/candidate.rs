//! The place of one strategy in a plan.

use std::fmt;

use crate::strategy::Strategy;

/// The place of one strategy in a [`Plan`](crate::Plan), and the reason for it.
///
/// # Examples
///
/// ```
/// use zcopy::{Transfer, Verdict};
///
/// let source = std::fs::File::open("/proc/version")?;
/// let sink = std::fs::File::create("/dev/null")?;
/// let plan = Transfer::new(&source, &sink).plan()?;
/// let first = &plan.candidates()[0];
/// assert_eq!(first.verdict(), Verdict::Chosen);
/// assert_eq!(first.strategy(), plan.strategy());
/// assert!(first.reason().contains("size"), "files in /proc claim to be empty");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub(super) strategy: Strategy,
    pub(super) verdict: Verdict,
    pub(super) reason: &'static str,
}

/// Whether a transfer uses a strategy.
///
/// # Examples
///
/// ```
/// use zcopy::{Strategy, Transfer, Verdict};
///
/// let (source, _writer) = std::io::pipe()?;
/// let sink = std::fs::File::create("/dev/null")?;
/// let plan = Transfer::new(&source, &sink).strategy(Strategy::Splice).plan()?;
/// let (chosen, others) = plan.candidates().split_first().unwrap();
/// assert_eq!(chosen.verdict(), Verdict::Chosen);
/// assert!(others.iter().all(|other| other.verdict() == Verdict::Skipped));
/// assert_eq!(Verdict::Skipped.to_string(), "skipped");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// The transfer tries it first.
    Chosen,
    /// It takes over if the strategies before it cannot go on.
    Fallback,
    /// The transfer does not use it.
    Skipped,
}

impl Candidate {
    pub(super) fn chosen(strategy: Strategy, reason: &'static str) -> Self {
        Self::new(strategy, Verdict::Chosen, reason)
    }

    pub(super) fn skipped(strategy: Strategy, reason: &'static str) -> Self {
        Self::new(strategy, Verdict::Skipped, reason)
    }

    pub(super) fn new(strategy: Strategy, verdict: Verdict, reason: &'static str) -> Self {
        Self {
            strategy,
            verdict,
            reason,
        }
    }

    /// Returns the strategy.
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// Returns whether the transfer uses the strategy.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Returns the reason for the verdict, as text for people.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        self.reason
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<8}  {:<15}  {}",
            self.verdict, self.strategy, self.reason
        )
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Chosen => "chosen",
            Verdict::Fallback => "fallback",
            Verdict::Skipped => "skipped",
        })
    }
}
