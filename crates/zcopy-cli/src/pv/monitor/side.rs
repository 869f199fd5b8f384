//! The sides of a command: standard input on its way to it, and its output.

use std::ffi::OsStr;
use std::io::PipeReader;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};

use super::Outcome;
use crate::pv::carrier::Carrier;
use crate::pv::changes::Changes;
use crate::pv::digest;
use crate::pv::display::{Display, Handles, Place, Shown, Stage};
use crate::pv::job::{self, Sizes};
use crate::pv::meter::Meter;
use crate::pv::output::Output;
use crate::pv::output_pipe::OutputPipe;
use crate::pv::settings::Settings;

/// How often to look whether the command still reads its input.
const READER_INTERVAL: Duration = Duration::from_millis(100);

/// One side that is shown, apart from its descriptors.
pub(super) struct Track {
    settings: Arc<Settings>,
    meter: Arc<Meter>,
    sizes: Sizes,
    pipe: Option<Arc<OutputPipe>>,
    changes: Arc<Changes>,
}

impl Track {
    pub(super) fn new(
        settings: Settings,
        sizes: Sizes,
        pipe: Option<Arc<OutputPipe>>,
        changes: Arc<Changes>,
    ) -> Self {
        Self {
            meter: job::meter(&settings),
            settings: Arc::new(settings),
            sizes,
            pipe,
            changes,
        }
    }

    pub(super) fn shown(&self) -> Shown {
        Shown {
            settings: Arc::clone(&self.settings),
            meter: Arc::clone(&self.meter),
            output: self.pipe.clone(),
            changes: Arc::clone(&self.changes),
            stage: Stage {
                name: self.settings.name.clone(),
                total: self.sizes.total,
                bytes: self.sizes.bytes,
                from: Place::default(),
            },
        }
    }

    /// The digest, and its line, if every byte has arrived.
    pub(super) fn digest(
        &self,
        outcome: &Outcome,
        file: Option<&OsStr>,
    ) -> Option<(String, Vec<u8>)> {
        let digest = self.meter.witness().digest().filter(|_| outcome.is_whole)?;
        let digest = digest.finish();
        Some((digest.to_string(), digest::line(&digest, file)))
    }
}

/// Standard input, on its way to the command.
pub(super) struct InputSide {
    pub(super) output: Output,
    pub(super) pipe: Option<Arc<OutputPipe>>,
}

impl InputSide {
    /// Moves standard input to the command until one of them ends, and closes both.
    pub(super) fn carry(self, track: &Track, display: &Display, handles: &Handles) -> Outcome {
        if let Some(pipe) = self.pipe.clone() {
            let stop = Arc::clone(&handles.stop);
            // Without this thread, the end of the command would be seen only when the next byte comes.
            thread::spawn(move || {
                while let Some(has_lost_reader) = pipe.has_lost_reader() {
                    if has_lost_reader {
                        // This signal has a handler that does nothing.
                        return stop.stop(libc::SIGUSR1);
                    }
                    thread::sleep(READER_INTERVAL);
                }
            });
        }
        let mut carrier = Carrier::new(
            &track.settings,
            &track.meter,
            (display, handles),
            &track.changes,
            track.sizes.limit,
        );
        let flow = carrier.carry_all(&track.settings.inputs, &self.output);
        let outcome = Outcome {
            status: carrier.status(),
            error: carrier
                .error()
                .map(str::to_owned)
                .filter(|_| !carrier.is_unread()),
            // A command need not read all of its input.
            is_unread: false,
            is_whole: flow.is_continue(),
        };
        // The command sees the end of its input, and the writer of standard input that nobody reads on.
        drop(self.output);
        if let Some(pipe) = self.pipe {
            pipe.close();
        }
        // Replaced in one call, because the display may open files meanwhile. A descriptor that stays open is no failure.
        let _ = open("/dev/null", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .and_then(|nothing| rustix::stdio::dup2_stdin(&nothing));
        outcome
    }
}

/// The output of the command.
pub(super) struct OutputSide {
    pub(super) reader: PipeReader,
    pub(super) output: Output,
}

impl OutputSide {
    /// Moves the command's output to its end, and closes it.
    pub(super) fn carry(
        self,
        track: &Track,
        program: &OsStr,
        display: &Display,
        handles: &Handles,
    ) -> Outcome {
        let mut carrier = Carrier::new(
            &track.settings,
            &track.meter,
            (display, handles),
            &track.changes,
            track.sizes.limit,
        );
        let flow = carrier.carry(program, &self.reader, &self.output);
        let mut outcome = Outcome {
            status: carrier.status(),
            error: carrier.error().map(str::to_owned),
            is_unread: carrier.is_unread(),
            is_whole: flow.is_continue(),
        };
        drop(self.reader);
        if let Some(pipe) = &track.pipe {
            pipe.close();
        }
        if let Err(refusal) = job::close(self.output, &[], display) {
            outcome.status.add(refusal.status);
            outcome.error.get_or_insert(refusal.message);
        }
        outcome
    }
}
