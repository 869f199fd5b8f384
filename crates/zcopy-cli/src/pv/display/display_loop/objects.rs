//! Objects in JSON, for programs.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::TransferView;
use crate::pv::display::json;
use crate::pv::display::objects::{self, Objects};
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
                let message = lock(objects).put(line);
                self.warn_of(message);
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
            let message = lock(objects).put_last(&line);
            self.warn_of(message);
        } else {
            // A full queue would drop the object.
            self.screen.begin_end();
            self.screen.close();
            self.screen.write_message(&line);
        }
    }

    /// Ends the output of objects, and returns [`Status::INTERNAL`] if some are lost.
    pub(super) fn close_objects(&mut self) -> Status {
        let message = self
            .objects
            .as_ref()
            .and_then(|objects| lock(objects).close());
        self.warn_of(message);
        self.screen.close();
        let separate = self.objects.as_ref().map(|objects| lock(objects));
        objects::status(separate.as_deref(), self.settings.form, &self.screen)
    }

    /// Returns the message about objects that are lost, if any are.
    pub(super) fn objects_loss(&self) -> Option<String> {
        let separate = self.objects.as_ref().map(|objects| lock(objects));
        objects::loss(separate.as_deref(), self.settings.form, &self.screen)
    }

    fn warn_of(&mut self, message: Option<String>) {
        if let Some(message) = message {
            self.warn(&message);
        }
    }
}

fn lock(objects: &Mutex<Objects>) -> MutexGuard<'_, Objects> {
    objects.lock().unwrap_or_else(PoisonError::into_inner)
}
