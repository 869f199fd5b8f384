//! The command that is run whenever more has been done.

use std::ffi::OsString;
use std::process::{Child, Command, Stdio};

use super::ending::State;
use super::reading::Reading;
use crate::sys;

/// What a command is told of the transfer, in its environment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HookEnv {
    pub(crate) state: State,
    /// As far as it is known.
    pub(crate) percent: Option<f64>,
    /// In what is counted: bytes, or lines.
    pub(crate) moved: u64,
    /// As far as it is known.
    pub(crate) total: Option<u64>,
    pub(crate) seconds: f64,
}

impl HookEnv {
    /// What is told of a reading.
    pub(crate) fn of(reading: &Reading, state: State) -> Self {
        Self {
            state,
            percent: reading.percent(),
            moved: reading.moved,
            total: reading.total,
            seconds: reading.elapsed.as_secs_f64(),
        }
    }
}

/// Runs a command by `sh` at every so many per cent, and once if the transfer fails.
///
/// One at a time, so that a slow one is not run over: what passes meanwhile is told by the next.
#[derive(Debug)]
pub(crate) struct Hook {
    command: OsString,
    every: f64,
    /// The step that has been told last.
    told: u32,
    running: Option<Child>,
}

impl Hook {
    pub(crate) fn new(command: OsString, every: f64) -> Self {
        Self {
            command,
            every,
            told: 0,
            running: None,
        }
    }

    /// Counts the steps of something else from the beginning.
    pub(crate) fn restart(&mut self) {
        self.told = 0;
    }

    /// Runs the command if another step has been reached and the last run is over.
    ///
    /// # Errors
    ///
    /// That no shell can be started.
    pub(crate) fn see(&mut self, told: HookEnv) -> std::io::Result<()> {
        if self.is_running()? {
            return Ok(());
        }
        let Some(percent) = told.percent else {
            return Ok(());
        };
        let reached = steps(percent, self.every);
        if reached <= self.told {
            return Ok(());
        }
        self.told = reached;
        self.running = Some(self.run(told)?);
        Ok(())
    }

    /// Tells of the end, after whatever still runs, and waits for the command, which is looked after between two
    /// calls of `wait`. If that returns false, nothing is waited for any longer. A failure is told whether a step has been
    /// reached or not.
    ///
    /// # Errors
    ///
    /// That no shell can be started.
    pub(crate) fn finish(
        mut self,
        told: HookEnv,
        mut wait: impl FnMut() -> bool,
    ) -> std::io::Result<()> {
        while self.is_running()? {
            if !wait() {
                return Ok(());
            }
        }
        match told.state {
            State::Running | State::Done => self.see(told)?,
            State::Failed | State::Interrupted => self.running = Some(self.run(told)?),
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

    fn run(&self, told: HookEnv) -> std::io::Result<Child> {
        let total = told
            .total
            .map_or_else(String::new, |total| total.to_string());
        let percent = told
            .percent
            .map_or_else(String::new, |percent| format!("{:.0}", percent.floor()));
        let mut command = Command::new("sh");
        sys::give_signals_back(&mut command);
        command
            .arg("-c")
            .arg(&self.command)
            // What it reads and prints is not to mix with the bytes.
            .stdin(Stdio::null())
            .stdout(std::io::stderr())
            .env("ZC_PV_STATE", told.state.word())
            .env("ZC_PV_PERCENT", percent)
            .env("ZC_PV_MOVED", told.moved.to_string())
            .env("ZC_PV_TOTAL", total)
            .env("ZC_PV_SECONDS", format!("{:.3}", told.seconds))
            .spawn()
    }
}

/// How many whole steps there are in a percentage.
#[allow(clippy::cast_sign_loss, reason = "percentages and steps are positive")]
fn steps(percent: f64, every: f64) -> u32 {
    // A tenth is not a whole number of thousandths in binary.
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
            hook.see(told(percent)).unwrap();
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
