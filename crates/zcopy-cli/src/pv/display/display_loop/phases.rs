//! The start and the end of a phase.

use super::{TransferView, with_name_of};
use crate::common::progress::units;
use crate::pv::display::event::Phase;
use crate::pv::display::json;
use crate::pv::display::reading::Reading;
use crate::pv::settings::Form;

impl TransferView {
    /// Leaves the last line in place, and continues below it.
    pub(super) fn begin_phase(&mut self, mut phase: Phase) {
        // The transfer has continued meanwhile.
        let reading = self.sampler.read_last_at(phase.from);
        if self.writes_objects() && !self.is_early() {
            let line = self.object(&reading, None);
            self.put_object(&line);
        }
        self.end_phase(&reading);
        if let Some(hook) = &mut self.hook {
            hook.restart();
        }
        self.n_phases += 1;
        // `-R` may have changed the name.
        phase.name.clone_from(&self.settings.name);
        self.format = with_name_of(&phase, &self.settings.format);
        self.sampler.begin_phase(phase);
        self.due = self.first_due();
    }

    /// Shows how the phase has ended. As with pv, there is nothing to show if no input could be
    /// opened.
    pub(super) fn end_phase(&mut self, reading: &Reading) {
        if !self.sampler.progress().has_input() && !self.screen.has_drawn() {
            return self.screen.finish();
        }
        if self.is_shown() && !self.is_early() {
            self.show_reading(reading);
        }
        if !self.settings.stats {
            return self.screen.finish();
        }
        let statistics = self.sampler.statistics();
        if self.writes_objects() {
            let line = crate::common::progress::json::line(&json::Rates::new(&statistics));
            self.put_object(&line);
        }
        let line = match (self.settings.form, self.settings.unit) {
            (Form::Json, _) => return self.screen.finish(),
            (_, units::Unit::Bits) => statistics.in_bits(),
            _ => statistics.to_string(),
        };
        self.end_with(&line, reading);
    }

    /// Ends the display, and writes one more line below it, or above it if other displays draw
    /// below.
    pub(super) fn end_with(&mut self, message: &str, reading: &Reading) {
        if self.screen.has_own_row() {
            self.screen.write_message(message);
            self.show_reading(reading);
            self.screen.finish();
        } else {
            self.screen.finish();
            self.screen.write_message(message);
        }
    }
}
