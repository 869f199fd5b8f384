//! What programs are told.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Face;
use crate::exit;
use crate::pv::ending::Ending;
use crate::pv::json;
use crate::pv::objects::Objects;
use crate::pv::reading::Reading;
use crate::pv::settings::{Form, Side};

impl Face {
    pub(super) fn writes_objects(&self) -> bool {
        self.settings.form == Form::Json || self.objects.is_some()
    }

    /// A reading as an object, which is the last one if it has an ending.
    pub(super) fn object(&self, reading: &Reading, ending: Option<&Ending>) -> String {
        let name = self.instrument.stage().name.as_deref();
        let bytes = self.instrument.bytes();
        let counts_bytes = self.instrument.counts_bytes();
        let route = self.instrument.strategy();
        let side = self.settings.side.map(Side::word);
        let line = json::Line::of(reading, name, bytes, counts_bytes, route).side(side);
        match ending {
            Some(ending) => crate::json::line(&line.ending(ending)),
            None => crate::json::line(&line),
        }
    }

    pub(super) fn put_object(&mut self, line: &str) {
        match &self.objects {
            Some(objects) => {
                let written = lock(objects).put(line);
                self.check_objects(written);
            }
            None => self.screen.say(line),
        }
    }

    /// Writes the last object, if objects are wanted.
    pub(super) fn put_ending(&mut self, reading: &Reading, ending: &Ending) {
        if !self.writes_objects() {
            return;
        }
        let line = self.object(reading, Some(ending));
        match &self.objects {
            Some(objects) => {
                let written = lock(objects).put_last(&line);
                self.check_objects(written);
            }
            None => self.screen.say(&line),
        }
    }

    fn check_objects(&mut self, written: io::Result<()>) {
        if let (Err(error), Some(objects)) = (written, &self.objects) {
            let name = lock(objects).name().to_owned();
            let message = format!("{name}: write error: {}", exit::worded(&error));
            self.complain(&message);
        }
    }
}

fn lock(objects: &Mutex<Objects>) -> MutexGuard<'_, Objects> {
    objects.lock().unwrap_or_else(PoisonError::into_inner)
}
