//! The command of `--on-progress`.

use std::ffi::OsString;
use std::process::{Child, Command, Stdio};

use crate::common::sys;
use crate::pv::display::reading::Reading;
use crate::pv::ending::State;

/// The environment of the command: the state of the transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HookEnv {
    pub(crate) state: State,
    /// `None` if it is unknown.
    pub(crate) percent: Option<f64>,
    /// In counted units: bytes or lines.
    pub(crate) moved: u64,
    /// `None` if it is unknown.
    pub(crate) total: Option<u64>,
    pub(crate) seconds: f64,
}

impl HookEnv {
    /// Creates the environment for a reading.
    pub(crate) fn new(reading: &Reading, state: State) -> Self {
        Self {
            state,
            percent: reading.percent(),
            moved: reading.moved,
            total: reading.total,
            seconds: reading.elapsed.as_secs_f64(),
        }
    }
}

/// Runs a command by `sh` at every `every` percent, and once if the transfer fails.
///
/// Only one command runs at a time. Steps that pass meanwhile are reported by the next one.
#[derive(Debug)]
pub(crate) struct Hook {
    command: OsString,
    every: f64,
    /// The last step for which the command was run.
    last_step: u32,
    running: Option<Child>,
}

impl Hook {
    pub(crate) fn new(command: OsString, every: f64) -> Self {
        Self {
            command,
            every,
            last_step: 0,
            running: None,
        }
    }

    /// Restarts the count of steps for another phase.
    pub(crate) fn restart(&mut self) {
        self.last_step = 0;
    }

    /// Runs the command if another step has been reached and the last run is over.
    ///
    /// # Errors
    ///
    /// Returns an error if no shell can be started.
    pub(crate) fn note_progress(&mut self, env: HookEnv) -> std::io::Result<()> {
        if self.is_running()? {
            return Ok(());
        }
        let Some(percent) = env.percent else {
            return Ok(());
        };
        let reached = steps(percent, self.every);
        if reached <= self.last_step {
            return Ok(());
        }
        self.last_step = reached;
        self.running = Some(self.run(env)?);
        Ok(())
    }

    /// Runs the command for the end, after the one that still runs, and waits for it. Calls `wait`
    /// between two checks of the command, and stops waiting if it returns false. After a failure
    /// the command runs even if no step has been reached.
    ///
    /// # Errors
    ///
    /// Returns an error if no shell can be started.
    pub(crate) fn finish(
        mut self,
        env: HookEnv,
        mut wait: impl FnMut() -> bool,
    ) -> std::io::Result<()> {
        while self.is_running()? {
            if !wait() {
                return Ok(());
            }
        }
        match env.state {
            State::Running | State::Done => self.note_progress(env)?,
            State::Failed | State::Interrupted => self.running = Some(self.run(env)?),
        }
        while self.is_running()? && wait() {}
        Ok(())
    }

    fn is_running(&mut self) -> std::io::Result<bool> {
        if let Some(running) = &mut self.running
            && running.try_wait()?.is_none()
        {
            return Ok(true);
        }
        self.running = None;
        Ok(false)
    }

    fn run(&self, env: HookEnv) -> std::io::Result<Child> {
        let total = env
            .total
            .map_or_else(String::new, |total| total.to_string());
        let percent = env
            .percent
            .map_or_else(String::new, |percent| format!("{:.0}", percent.floor()));
        let mut command = Command::new("sh");
        sys::give_signals_back(&mut command);
        command
            .arg("-c")
            .arg(&self.command)
            // Its input and output must not mix with the bytes.
            .stdin(Stdio::null())
            .stdout(std::io::stderr())
            .env("ZC_PV_STATE", env.state.word())
            .env("ZC_PV_PERCENT", percent)
            .env("ZC_PV_MOVED", env.moved.to_string())
            .env("ZC_PV_TOTAL", total)
            .env("ZC_PV_SECONDS", format!("{:.3}", env.seconds))
            .spawn()
    }
}

/// Returns the number of whole steps in a percentage.
#[allow(clippy::cast_sign_loss, reason = "percentages and steps are positive")]
fn steps(percent: f64, every: f64) -> u32 {
    // 0.1 is inexact in binary.
    (percent / every + 1e-9).floor() as u32
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use super::{Hook, HookEnv, State, steps};

    fn told(percent: f64) -> HookEnv {
        HookEnv {
            state: State::Running,
            percent: Some(percent),
            moved: 7,
            total: Some(70),
            seconds: 1.5,
        }
    }

    #[test]
    fn steps_are_whole() {
        assert_eq!(steps(9.9, 10.0), 0);
        assert_eq!(steps(10.0, 10.0), 1);
        assert_eq!(steps(0.3, 0.1), 3);
        assert_eq!(steps(100.0, 33.0), 3);
    }

    #[test]
    fn every_step_is_told_once_and_the_end_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let command = format!(
            "echo $ZC_PV_PERCENT $ZC_PV_MOVED $ZC_PV_TOTAL >> {}",
            log.display()
        );
        let mut hook = Hook::new(command.into(), 50.0);
        for percent in [0.0, 49.0, 51.0] {
            hook.note_progress(told(percent)).unwrap();
        }
        let wait = || {
            std::thread::yield_now();
            true
        };
        hook.finish(told(100.0), wait).unwrap();
        assert_eq!(std::fs::read_to_string(log).unwrap(), "51 7 70\n100 7 70\n");
    }

    #[test]
    fn a_failure_is_told_whether_a_step_has_been_reached_or_not() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let command = format!("echo $ZC_PV_STATE:$ZC_PV_PERCENT >> {}", log.display());
        for (state, percent) in [
            (State::Failed, Some(3.0)),
            (State::Interrupted, None),
            (State::Done, Some(3.0)),
            (State::Done, Some(100.0)),
        ] {
            let hook = Hook::new(command.clone().into(), 50.0);
            let end = HookEnv {
                state,
                percent,
                ..told(0.0)
            };
            hook.finish(end, || true).unwrap();
        }
        let told = std::fs::read_to_string(log).unwrap();
        assert_eq!(told, "failed:3\ninterrupted:\ndone:100\n");
    }
}
