//! The command that is run whenever more has been done.

use std::ffi::OsString;
use std::process::{Child, Command, Stdio};

use super::reading::Reading;
use crate::sys;

/// What a command is told of the transfer, in its environment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) percent: f64,
    /// In what is counted: bytes, or lines.
    pub(crate) moved: u64,
    /// As far as it is known.
    pub(crate) total: Option<u64>,
    pub(crate) seconds: f64,
}

impl Told {
    /// What is told of a reading, if there is a total to have a share of.
    pub(crate) fn of(reading: &Reading) -> Option<Self> {
        Some(Self {
            percent: reading.percent()?,
            moved: reading.moved,
            total: reading.total,
            seconds: reading.elapsed.as_secs_f64(),
        })
    }
}

/// Runs a command by `sh` at every so many per cent.
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

    /// Runs the command if another step has been reached and the last run is over.
    ///
    /// # Errors
    ///
    /// That no shell can be started.
    pub(crate) fn see(&mut self, told: Told) -> std::io::Result<()> {
        if self.is_running()? {
            return Ok(());
        }
        let reached = steps(told.percent, self.every);
        if reached <= self.told {
            return Ok(());
        }
        self.told = reached;
        self.running = Some(self.run(told)?);
        Ok(())
    }

    /// Tells of the end, after whatever still runs, and waits for the command, which is looked after between two
    /// calls of `wait`.
    ///
    /// # Errors
    ///
    /// That no shell can be started.
    pub(crate) fn finish(mut self, told: Told, mut wait: impl FnMut()) -> std::io::Result<()> {
        while self.is_running()? {
            wait();
        }
        self.see(told)?;
        while self.is_running()? {
            wait();
        }
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

    fn run(&self, told: Told) -> std::io::Result<Child> {
        let total = told
            .total
            .map_or_else(String::new, |total| total.to_string());
        let mut command = Command::new("sh");
        sys::give_signals_back(&mut command);
        command
            .arg("-c")
            .arg(&self.command)
            // What it reads and prints is not to mix with the bytes.
            .stdin(Stdio::null())
            .stdout(std::io::stderr())
            .env("ZC_PV_PERCENT", format!("{:.0}", told.percent.floor()))
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
    use super::{Hook, Told, steps};

    fn told(percent: f64) -> Told {
        Told {
            percent,
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
        hook.finish(told(100.0), std::thread::yield_now).unwrap();
        assert_eq!(std::fs::read_to_string(log).unwrap(), "51 7 70\n100 7 70\n");
    }
}
