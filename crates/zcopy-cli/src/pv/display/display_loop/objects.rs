//! Objects in JSON, for programs.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::TransferView;
use crate::pv::display::json;
use crate::pv::display::objects::{Objects, is_broken_pipe, write_error};
use crate::pv::display::reading::Reading;
use crate::pv::ending::Ending;
use crate::pv::settings::{Form, Side};
use crate::pv::status::Status;

impl TransferView {
    pub(super) fn writes_objects(&self) -> bool {
        self.settings.form == Form::Json || self.objects.is_some()
    }

    /// Formats a reading as an object. It is the last one if it has an ending.
    pub(super) fn object(&self, reading: &Reading, ending: Option<&Ending>) -> String {
        let name = self.sampler.phase().name.as_deref();
        let bytes = self.sampler.bytes();
        let counts_bytes = self.sampler.counts_bytes();
        let route = self.sampler.strategy();
        let side = self.settings.side.map(Side::word);
        let line = json::Line::new(reading, name, bytes, counts_bytes, route).side(side);
        match ending {
            Some(ending) => crate::common::progress::json::line(&line.ending(ending)),
            None => crate::common::progress::json::line(&line),
        }
    }

    pub(super) fn put_object(&mut self, line: &str) {
        match &self.objects {
            Some(objects) => {
                let written = lock(objects).put(line);
                self.check_objects(written);
            }
            None => self.screen.write_message(line),
        }
    }

    /// Writes the last object, if objects are wanted.
    pub(super) fn put_ending(&mut self, reading: &Reading, ending: &Ending) {
        if !self.writes_objects() {
            return;
        }
        let line = self.object(reading, Some(ending));
        if let Some(objects) = &self.objects {
            let written = lock(objects).put_last(&line);
            self.check_objects(written);
        } else {
            // A full queue would drop the object.
            self.screen.begin_end();
            self.screen.close();
            self.screen.write_message(&line);
        }
    }

    /// Returns the error of objects that could not be written, as a status. The screen has been
    /// closed: what waits there is lost.
    pub(super) fn objects_status(&self) -> Status {
        let is_on_stderr = self.settings.form == Form::Json && self.objects.is_none();
        let is_lost = is_on_stderr && self.screen.has_pending();
        if is_lost || self.objects_error().is_some() {
            Status::INTERNAL
        } else {
            Status::GOOD
        }
    }

    /// Returns the message about objects that could not be written.
    pub(super) fn objects_error(&self) -> Option<String> {
        let on_stderr = || {
            let error = self.screen.write_error()?;
            let is_lost = self.settings.form == Form::Json && !is_broken_pipe(&error);
            is_lost.then(|| write_error("(stderr)", &error))
        };
        self.objects_error.clone().or_else(on_stderr)
    }

    fn check_objects(&mut self, written: io::Result<()>) {
        if let (Err(error), Some(objects), None) = (written, &self.objects, &self.objects_error) {
            let message = write_error(lock(objects).name(), &error);
            self.warn(&message);
            self.objects_error = Some(message);
        }
    }
}

fn lock(objects: &Mutex<Objects>) -> MutexGuard<'_, Objects> {
    objects.lock().unwrap_or_else(PoisonError::into_inner)
}
