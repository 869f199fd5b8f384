//! One strategy's place in a plan.

use std::fmt;

use crate::strategy::Strategy;

/// One strategy's place in a [`Plan`](crate::Plan).
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

/// What the plan makes of a strategy.
///
/// # Examples
///
/// See [`Candidate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// It comes first.
    Chosen,
    /// It takes over if those before it cannot go on.
    Reserve,
    /// It is not used for this pair.
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

    /// The strategy.
    ///
    /// # Examples
    ///
    /// See [`Candidate`].
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// Whether it is used.
    ///
    /// # Examples
    ///
    /// See [`Candidate`].
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Why, in words for people.
    ///
    /// # Examples
    ///
    /// See [`Candidate`].
    #[must_use]
    pub fn reason(&self) -> &'static str {
        self.reason
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<7}  {:<15}  {}",
            self.verdict, self.strategy, self.reason
        )
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Chosen => "chosen",
            Verdict::Reserve => "reserve",
            Verdict::Skipped => "skipped",
        })
    }
}
