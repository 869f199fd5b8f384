//! The sides of a monitored command: standard input on its way to the command, and the command's
//! output.

use std::ffi::OsStr;
use std::io::PipeReader;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};

use super::Outcome;
use crate::common::threads;
use crate::pv::cleanup::Cleanup;
use crate::pv::display::Display;
use crate::pv::display::displayed_transfer::{DisplayedTransfer, Handles};
use crate::pv::display::event::Phase;
use crate::pv::prepare;
use crate::pv::prepare::Sizes;
use crate::pv::settings::Settings;
use crate::pv::shared_progress::Position;
use crate::pv::shared_progress::SharedProgress;
use crate::pv::transfer::Copier;
use crate::pv::transfer::digest;
use crate::pv::transfer::output::Output;
use crate::pv::transfer::output_pipe::OutputPipe;

/// The interval of checks whether the command still reads its input.
const READER_INTERVAL: Duration = Duration::from_millis(100);

/// One side, without its descriptors.
pub(super) struct SideTransfer {
    settings: Arc<Settings>,
    progress: Arc<SharedProgress>,
    sizes: Sizes,
    pipe: Option<Arc<OutputPipe>>,
    cleanup: Arc<Cleanup>,
}

impl SideTransfer {
    pub(super) fn new(
        settings: Settings,
        sizes: Sizes,
        pipe: Option<Arc<OutputPipe>>,
        cleanup: Arc<Cleanup>,
    ) -> Self {
        Self {
            progress: prepare::shared_progress(&settings),
            settings: Arc::new(settings),
            sizes,
            pipe,
            cleanup,
        }
    }

    /// Returns the side for the display.
    pub(super) fn displayed_transfer(&self) -> DisplayedTransfer {
        DisplayedTransfer {
            settings: Arc::clone(&self.settings),
            progress: Arc::clone(&self.progress),
            output: self.pipe.clone(),
            cleanup: Arc::clone(&self.cleanup),
            phase: Phase {
                name: self.settings.name.clone(),
                total: self.sizes.total,
                bytes: self.sizes.bytes,
                from: Position::default(),
            },
        }
    }

    /// Returns the digest and its line, if every byte has arrived.
    pub(super) fn digest(
        &self,
        outcome: &Outcome,
        file: Option<&OsStr>,
    ) -> Option<(String, Vec<u8>)> {
        let digest = self
            .progress
            .inspector()
            .digest()
            .filter(|_| outcome.is_whole)?;
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
    /// Copies standard input to the command until one of them ends, and closes both.
    pub(super) fn copy_input(
        self,
        side: &SideTransfer,
        display: &Display,
        handles: &Handles,
    ) -> Outcome {
        if let Some(pipe) = self.pipe.clone() {
            let stop = Arc::clone(&handles.stop);
            // This thread notices the end of the command before the next byte of input comes. Without
            // it, the next byte does.
            let _ = threads::spawn("reader", move || {
                while let Some(has_lost_reader) = pipe.has_lost_reader() {
                    if has_lost_reader {
                        // The handler of this signal does nothing.
                        return stop.stop(libc::SIGUSR1);
                    }
                    thread::sleep(READER_INTERVAL);
                }
            });
        }
        let mut copier = Copier::new(
            &side.settings,
            &side.progress,
            (display, handles),
            &side.cleanup,
            side.sizes.limit,
        );
        let flow = copier.copy_inputs(&side.settings.inputs, &self.output);
        let outcome = Outcome {
            status: copier.status(),
            error: copier
                .error()
                .map(str::to_owned)
                .filter(|_| !copier.is_unread()),
            // A command need not read all of its input.
            is_unread: false,
            is_whole: flow.is_continue(),
        };
        // The command sees the end of its input, and the writer of standard input that it has no
        // reader.
        drop(self.output);
        if let Some(pipe) = self.pipe {
            pipe.close();
        }
        // `dup2` replaces it in one call, because the display may open files meanwhile. A
        // descriptor that stays open is no error.
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
    /// Copies the command's output to its end, and closes it.
    pub(super) fn copy_input(
        self,
        side: &SideTransfer,
        program: &OsStr,
        display: &Display,
        handles: &Handles,
    ) -> Outcome {
        let mut copier = Copier::new(
            &side.settings,
            &side.progress,
            (display, handles),
            &side.cleanup,
            side.sizes.limit,
        );
        let flow = copier.copy_input(program, &self.reader, &self.output);
        let mut outcome = Outcome {
            status: copier.status(),
            error: copier.error().map(str::to_owned),
            is_unread: copier.is_unread(),
            is_whole: flow.is_continue(),
        };
        drop(self.reader);
        if let Some(pipe) = &side.pipe {
            pipe.close();
        }
        if let Err(refusal) = prepare::close(self.output, &[], display) {
            outcome.status.add(refusal.status);
            outcome.error.get_or_insert(refusal.message);
        }
        outcome
    }
}
