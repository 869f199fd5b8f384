//! Numbered records of several writers in one file or stream, and a comparison that finds records
//! that are lost, doubled or torn.
//!
//! Each writer has an alphabet of its own, so that the writer of every byte is known in any
//! mixture. No writer uses the byte 0.

use std::collections::HashMap;
use std::fmt;

/// Bytes in a record.
pub(crate) const RECORD: usize = 64;
/// Letters in the alphabet of a writer.
const LETTERS: u8 = 32;
/// The last byte of a record: this letter of the writer's alphabet.
const END: u8 = LETTERS - 1;
/// Writers are numbered from 1 to this number. The alphabet of 0 would hold the byte 0.
const WRITERS: u8 = 7;

/// One of several writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Writer(pub(crate) u8);

impl Writer {
    /// The record with this number.
    pub(crate) fn record(self, number: u32) -> [u8; RECORD] {
        assert!((1..=WRITERS).contains(&self.0), "no such writer");
        let alphabet = self.0 * LETTERS;
        // The number in hexadecimal, repeated. Tests are not optimized, so that copies of eight
        // bytes are faster than a step for each byte.
        let digit = |i| alphabet + ((number >> (28 - 4 * i)) as u8 & 0xf);
        let digits: [u8; 8] = std::array::from_fn(digit);
        let mut record = [0; RECORD];
        for eight in record.as_chunks_mut::<8>().0 {
            *eight = digits;
        }
        record[RECORD - 1] = alphabet + END;
        record
    }

    /// The first records in order.
    pub(crate) fn records(self, n_records: u32) -> Vec<u8> {
        let mut records = Vec::with_capacity(n_records as usize * RECORD);
        for n in 0..n_records {
            records.extend_from_slice(&self.record(n));
        }
        records
    }
}

/// The differences between the bytes of one writer and the bytes that it wrote.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    /// Whole records that were written and are missing.
    lost: Vec<u32>,
    /// Whole records that were found more than once.
    doubled: Vec<u32>,
    /// Bytes that belong to no whole record.
    torn_bytes: usize,
    /// Whole records that were never written.
    invented: Vec<u32>,
    /// Records of a single write(2) that were found in several parts.
    split: usize,
    /// Whether all records are there in a different order.
    is_out_of_order: bool,
}

/// The records that a writer wrote, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wrote {
    /// By write(2), each record in one call.
    Records(u32),
    /// By a transfer, which may write any number of bytes in a call.
    Stream(u32),
    /// By a transfer, this many copies of the record 0.
    Copies(u32),
}

impl Wrote {
    fn damage_of(self, writer: Writer, stream: &[u8]) -> Damage {
        match self {
            Self::Records(n_records) | Self::Stream(n_records) => {
                damage_of(writer, stream, n_records)
            }
            Self::Copies(n_copies) => {
                let expected = writer.record(0).repeat(n_copies as usize);
                let mut damage = Damage::default();
                if stream != expected {
                    let whole = stream.split_inclusive(|byte| byte % LETTERS == END);
                    let n_whole = whole.filter(|piece| number_of(writer, piece) == Some(0));
                    let n_whole = n_whole.count();
                    damage.torn_bytes = stream.len() - n_whole * RECORD;
                    damage.lost = vec![0; (n_copies as usize).saturating_sub(n_whole)];
                    damage.doubled = vec![0; n_whole.saturating_sub(n_copies as usize)];
                }
                damage
            }
        }
    }
}

/// Compares the bytes found with those that each writer wrote. The error says what was lost,
/// doubled, torn or invented.
pub(crate) fn compare(found: &[u8], wrote: &[(Writer, Wrote)]) -> Result<(), String> {
    let mut streams: [Vec<u8>; WRITERS as usize + 1] = Default::default();
    let mut split = [0; WRITERS as usize + 1];
    let mut rest = found;
    while let Some(first) = rest.first() {
        let writer = usize::from(first / LETTERS);
        let (run, behind) = rest.split_at(run_len(rest));
        rest = behind;
        if !streams[writer].len().is_multiple_of(RECORD) {
            split[writer] += 1;
        }
        streams[writer].extend_from_slice(run);
    }
    let mut damages = Vec::new();
    let zeros = std::mem::take(&mut streams[0]).len();
    if zeros > 0 {
        damages.push(format!("{zeros} bytes that nobody wrote, such as zeros"));
    }
    for &(writer, wrote) in wrote {
        let stream = std::mem::take(&mut streams[usize::from(writer.0)]);
        let mut damage = wrote.damage_of(writer, &stream);
        if matches!(wrote, Wrote::Records(_)) {
            damage.split = split[usize::from(writer.0)];
        }
        if damage.exists() {
            damages.push(format!("writer {}: {damage}", writer.0));
        }
    }
    for (writer, stream) in streams.iter().enumerate() {
        if !stream.is_empty() {
            damages.push(format!("{} bytes of writer {writer}", stream.len()));
        }
    }
    if damages.is_empty() {
        return Ok(());
    }
    Err(damages.join("; "))
}

/// Returns how many bytes at the beginning are of one writer.
fn run_len(bytes: &[u8]) -> usize {
    let writer = bytes[0] / LETTERS;
    let mut len = 0;
    loop {
        // A whole record costs one comparison. No writer has the alphabet 0.
        let piece = bytes.get(len..len + RECORD);
        if piece.is_some_and(|piece| writer > 0 && number_of(Writer(writer), piece).is_some()) {
            len += RECORD;
        } else if bytes.get(len).is_some_and(|byte| byte / LETTERS == writer) {
            len += 1;
        } else {
            return len;
        }
    }
}

fn damage_of(writer: Writer, stream: &[u8], n_records: u32) -> Damage {
    if stream == writer.records(n_records) {
        return Damage::default();
    }
    let mut damage = Damage::default();
    let mut seen: HashMap<u32, u32> = HashMap::new();
    for piece in stream.split_inclusive(|byte| byte % LETTERS == END) {
        match number_of(writer, piece) {
            Some(number) if number < n_records => *seen.entry(number).or_default() += 1,
            Some(number) => damage.invented.push(number),
            None => damage.torn_bytes += piece.len(),
        }
    }
    for number in 0..n_records {
        match seen.get(&number) {
            None => damage.lost.push(number),
            Some(1) => {}
            Some(_) => damage.doubled.push(number),
        }
    }
    damage.is_out_of_order = !damage.exists();
    damage
}

/// The number of a record, if these bytes are a whole one.
fn number_of(writer: Writer, piece: &[u8]) -> Option<u32> {
    let digits = piece.get(..8)?.iter();
    let number = digits.fold(0_u32, |number, byte| (number << 4) | u32::from(byte & 0xf));
    (piece == writer.record(number)).then_some(number)
}

impl Damage {
    fn exists(&self) -> bool {
        let Self {
            lost,
            doubled,
            torn_bytes,
            invented,
            split,
            is_out_of_order,
        } = self;
        !(lost.is_empty() && doubled.is_empty() && invented.is_empty())
            || *torn_bytes > 0
            || *split > 0
            || *is_out_of_order
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists = [
            ("lost", &self.lost),
            ("doubled", &self.doubled),
            ("invented", &self.invented),
        ];
        for (what, numbers) in lists {
            if let Some(first) = numbers.first() {
                write!(f, "{} records {what} from {first} on, ", numbers.len())?;
            }
        }
        if self.is_out_of_order {
            write!(f, "out of order, ")?;
        }
        write!(f, "{} bytes torn, ", self.torn_bytes)?;
        write!(f, "{} records in several pieces", self.split)
    }
}

#[test]
fn records_in_any_mixture_are_recognized() {
    let (one, two) = (Writer(1), Writer(2));
    let wrote = [(one, Wrote::Stream(3)), (two, Wrote::Records(2))];
    let (a, b) = (one.records(3), two.records(2));
    let mixed = [&a[..70], &b[..RECORD], &a[70..71], &b[RECORD..], &a[71..]].concat();
    assert_eq!(compare(&mixed, &wrote), Ok(()));
    // A record of a single write(2) must not be split.
    let split = [&b[..10], &a[..], &b[10..]].concat();
    assert!(
        compare(&split, &wrote)
            .unwrap_err()
            .contains("1 records in")
    );
}

#[test]
fn lost_doubled_torn_and_invented_records_are_named() {
    let one = Writer(1);
    let wrote = [(one, Wrote::Stream(4))];
    let whole = one.records(4);
    let assert_damage = |found: &[u8], what: &str| {
        let damage = compare(found, &wrote).unwrap_err();
        assert!(damage.contains(what), "{damage}");
    };
    assert_damage(&whole[RECORD..], "1 records lost from 0 on");
    assert_damage(&[&whole[..RECORD], &whole].concat(), "1 records doubled");
    assert_damage(&whole[10..], "54 bytes torn");
    assert_damage(&[&whole[..], &one.record(9)].concat(), "1 records invented");
    assert_damage(&[&whole[..], &[0; 5]].concat(), "5 bytes that nobody wrote");
    assert_damage(
        &[&whole[RECORD..], &whole[..RECORD]].concat(),
        "out of order",
    );
}
