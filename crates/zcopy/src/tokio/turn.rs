//! [`Turn`]: how much a task does before other tasks have their turn.

/// A task yields after this many bytes.
const MAX_BYTES: u64 = 1 << 20;

/// A task yields when fewer bytes than these are left: a call that moves a few bytes costs about as
/// much as one that moves many.
const MIN_BYTES: u64 = 64 << 10;

/// A task yields after this many steps, however few bytes they move.
const MAX_STEPS: u32 = 64;

/// The bytes and steps that a task has left before it yields.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    bytes: u64,
    steps: u32,
}

impl Turn {
    pub(super) fn new() -> Self {
        Self {
            bytes: MAX_BYTES,
            steps: MAX_STEPS,
        }
    }

    /// Returns how many bytes the next step may move.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Counts one step that moved this many bytes.
    pub(super) fn spend(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.steps = self.steps.saturating_sub(1);
    }

    pub(super) fn is_over(&self) -> bool {
        self.bytes < MIN_BYTES || self.steps == 0
    }

    /// Lets other tasks have their turn, if this one is over.
    pub(super) async fn pass_on(&mut self) {
        if self.is_over() {
            ::tokio::task::yield_now().await;
            *self = Self::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_step_is_cut_short_to_a_few_bytes() {
        let mut turn = Turn::new();
        turn.spend(MAX_BYTES - MIN_BYTES);
        assert_eq!((turn.bytes(), turn.is_over()), (MIN_BYTES, false));
        turn.spend(424);
        assert!(turn.is_over());
    }
}
