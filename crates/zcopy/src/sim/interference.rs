//! Interference: other processes that use the same open files, files, pipes and sockets.

use std::os::fd::RawFd;

use super::channel::Peer;
use super::kernel::State;
use super::objects::{Found, Object, pattern};
use super::queue::PACKET;
use super::script::Call;
use crate::sys::OFlags;

/// One call of another process during a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interference {
    pub(crate) moment: Moment,
    /// The kind of calls that `nth` counts [default: all].
    pub(crate) call: Option<Call>,
    /// Counted from 0.
    pub(crate) nth: usize,
    pub(crate) target: Target,
    pub(crate) action: Action,
}

/// A position behind everything that a random transfer or filter writes, for [`Action::WriteAt`]. A
/// filter makes at most three bytes of each byte of two sources of 600,000 bytes.
pub(crate) const FAR: u64 = 4 << 20;

/// When another process acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Before the call.
    Before,
    /// After a call without an offset has read the position of the open file, and before it stores
    /// the new one. A call that locks the position (`read`, `write`, `lseek`) completes first.
    Inside,
}

/// The descriptor that another process uses: that of the n-th source or sink, in the order of
/// opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Source(usize),
    Sink(usize),
}

/// The call that another process makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// `write(2)` of this many bytes through the same open file, or into the same pipe or socket.
    Write(usize),
    /// `read(2)` of up to this many bytes, in the same way.
    Read(usize),
    /// `write(2)` of this many bytes through another open file with `O_APPEND`.
    Append(usize),
    /// `pwrite(2)` at this position, of this many bytes.
    WriteAt(u64, usize),
    /// `ftruncate(2)` to this length, if the file is longer.
    Truncate(u64),
    /// `ftruncate(2)` to this length, if the file is shorter.
    Extend(u64),
    /// `fallocate(2)` punches a hole at this position, of this length.
    Punch(u64, u64),
}

/// An effect of interference.
#[derive(Clone, Debug)]
pub(crate) struct EffectRecord {
    pub(crate) object: usize,
    /// The number of calls that the transfer had completed.
    pub(crate) n_calls: usize,
    pub(crate) effect: Effect,
}

#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// These bytes were written at this position. In a pipe or socket this is the number of bytes
    /// before them.
    Wrote(u64, Vec<u8>),
    /// These bytes were read.
    Read(u64, Vec<u8>),
    /// The file was changed through another open file. It held these bytes before.
    Changed(Vec<u8>),
}

impl Interference {
    /// Returns `action` before the n-th call of one kind, counted from 0.
    pub(crate) fn before(call: Call, nth: usize, target: Target, action: Action) -> Self {
        let (moment, call) = (Moment::Before, Some(call));
        Self {
            moment,
            call,
            nth,
            target,
            action,
        }
    }

    /// Returns `action` inside the n-th call of one kind, counted from 0.
    pub(crate) fn inside(call: Call, nth: usize, target: Target, action: Action) -> Self {
        Self {
            moment: Moment::Inside,
            ..Self::before(call, nth, target, action)
        }
    }
}

impl Interference {
    /// Returns whether it changes the file that the transfer reads.
    pub(crate) fn changes_source(&self) -> bool {
        matches!(self.target, Target::Source(_)) && !matches!(self.action, Action::Read(_))
    }

    pub(crate) fn changes_sink_size(&self) -> bool {
        matches!(self.target, Target::Sink(_)) && !matches!(self.action, Action::Read(_))
    }
}

impl State {
    /// Performs the interference before a call, and keeps the interference inside it for later.
    pub(crate) fn begin_call(&mut self, call: Call) {
        self.position_read_of = None;
        self.act_inside_call();
        let (mut before, mut inside) = (Vec::new(), Vec::new());
        for which in [None, Some(call)] {
            let counter = self.n_calls_begun.entry(which).or_default();
            let nth = *counter;
            *counter += 1;
            for interference in &self.interferences {
                if (interference.call, interference.nth) != (which, nth) {
                    continue;
                }
                match interference.moment {
                    Moment::Before => before.push(*interference),
                    Moment::Inside => inside.push(*interference),
                }
            }
        }
        self.inside.extend(inside);
        for interference in before {
            self.act(interference);
        }
    }

    /// Performs the interference inside a call.
    pub(crate) fn act_inside_call(&mut self) {
        for interference in std::mem::take(&mut self.inside) {
            self.act(interference);
        }
    }

    fn act(&mut self, interference: Interference) {
        let fd = match interference.target {
            Target::Source(index) => self.sources.get(index),
            Target::Sink(index) => self.sinks.get(index),
        };
        let Some(fd) = fd.copied() else {
            return;
        };
        let object = self.descriptor(fd).object;
        let effect = match (interference.action, &self.objects[object]) {
            (Action::Write(n), Object::File(_)) => self.write_along(fd, n),
            (Action::Read(n), Object::File(_)) => self.read_along(fd, n),
            (Action::Write(n), Object::Channel(_)) => self.write_among(object, n),
            (Action::Read(n), Object::Channel(_)) => self.read_among(object, n),
            (action, Object::File(_)) => self.change(object, action),
            _ => None,
        };
        if let Some(effect) = effect {
            let n_calls = self.log.len();
            self.effects.push(EffectRecord {
                object,
                n_calls,
                effect,
            });
        }
    }

    /// Returns capital letters, by which bytes of another process are recognized. The first letter
    /// differs from write to write.
    fn letters(&self, n: usize) -> Vec<u8> {
        let first = self.effects.len() as u8 % 26;
        let letters = (0..26).cycle().skip(usize::from(first));
        letters.take(n).map(|letter| b'A' + letter).collect()
    }

    fn write_along(&mut self, fd: RawFd, n: usize) -> Option<Effect> {
        let descriptor = *self.descriptor(fd);
        let bytes = self.letters(n);
        let Object::File(file) = &mut self.objects[descriptor.object] else {
            return None;
        };
        let position = if descriptor.flags.contains(OFlags::APPEND) {
            file.bytes.len() as u64
        } else {
            descriptor.cursor
        };
        let Found::Some(room) = file.found(position, i64::MAX as u64) else {
            return None;
        };
        let bytes = &bytes[..n.min(room)];
        file.put(position, bytes);
        self.descriptor_mut(fd).cursor = position + bytes.len() as u64;
        self.refresh_pages(descriptor.object);
        Some(Effect::Wrote(position, bytes.to_vec()))
    }

    fn read_along(&mut self, fd: RawFd, n: usize) -> Option<Effect> {
        let descriptor = *self.descriptor(fd);
        let position = descriptor.cursor;
        let Object::File(file) = &mut self.objects[descriptor.object] else {
            return None;
        };
        let Found::Some(found) = file.found(position, file.bytes.len() as u64) else {
            return None;
        };
        let from = position as usize;
        let bytes = file.bytes[from..from + n.min(found)].to_vec();
        self.descriptor_mut(fd).cursor += bytes.len() as u64;
        Some(Effect::Read(position, bytes))
    }

    /// A write of at most `PIPE_BUF` is atomic: it is complete, or writes nothing.
    fn write_among(&mut self, object: usize, n: usize) -> Option<Effect> {
        let bytes = self.letters(n.min(PACKET));
        let object = &mut self.objects[object];
        let place = object.contents().len() as u64;
        let Object::Channel(channel) = object else {
            return None;
        };
        // A packet occupies a whole slot, even if it is shorter.
        let free = channel.capacity.saturating_sub(channel.queue.len());
        let has_room = free >= bytes.len() && channel.has_slot();
        if !has_room || channel.failure().is_some() || !matches!(channel.peer, Peer::Reads { .. }) {
            return None;
        }
        channel.write(&bytes);
        Some(Effect::Wrote(place, bytes))
    }

    /// Reads with room for a whole packet. It leaves alone a socket with urgent bytes.
    fn read_among(&mut self, object: usize, n: usize) -> Option<Effect> {
        let Object::Channel(channel) = &mut self.objects[object] else {
            return None;
        };
        let is_fed = matches!(channel.peer, Peer::Writes { .. });
        if !is_fed || channel.queue.is_empty() || !channel.urgent_marks.is_empty() {
            return None;
        }
        let n = if channel.queue.begins_with_packet() {
            n.max(PACKET)
        } else {
            n
        };
        let place = channel.n_removed;
        Some(Effect::Read(place, channel.read(n)))
    }

    fn change(&mut self, object: usize, action: Action) -> Option<Effect> {
        let letters = |n: usize| self.letters(n);
        let letters = match action {
            Action::WriteAt(_, n) => letters(n),
            _ => Vec::new(),
        };
        let Object::File(file) = &mut self.objects[object] else {
            return None;
        };
        let (before, len) = (file.bytes.clone(), file.bytes.len() as u64);
        let has_shrunk = match action {
            Action::Append(n) => {
                let bytes: Vec<u8> = (len..len + n as u64).map(pattern).collect();
                file.put(len, &bytes);
                false
            }
            Action::WriteAt(place, _) => {
                file.put(place, &letters);
                self.refresh_pages(object);
                let n_calls = self.log.len();
                self.effects.push(EffectRecord {
                    object,
                    n_calls,
                    effect: Effect::Changed(before),
                });
                return Some(Effect::Wrote(place, letters));
            }
            Action::Truncate(to) if to < len => {
                file.resize(to as usize);
                file.cut.push(to..len);
                true
            }
            Action::Extend(to) if to > len => {
                file.resize(to as usize);
                file.extended = file.extended.max(to as usize);
                false
            }
            Action::Punch(place, n) if place < len => {
                file.punch(place as usize, n as usize);
                file.cut.push(place..(place + n).min(len));
                true
            }
            _ => return None,
        };
        if has_shrunk {
            // Pages that pipes and sockets refer to are no longer those of the file.
            for other in &mut self.objects {
                if let Object::Channel(channel) = other {
                    channel.queue.detach(object);
                }
            }
        } else {
            self.refresh_pages(object);
        }
        Some(Effect::Changed(before))
    }

    /// Updates the pages of a file in all pipes and sockets after a write to the file.
    pub(crate) fn refresh_pages(&mut self, object: usize) {
        let (before, rest) = self.objects.split_at_mut(object);
        let Some((Object::File(file), after)) = rest.split_first_mut() else {
            return;
        };
        for other in before.iter_mut().chain(after) {
            if let Object::Channel(channel) = other {
                channel.queue.refresh(object, &file.bytes);
            }
        }
    }
}
