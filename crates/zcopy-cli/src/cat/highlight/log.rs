//! The rules of `--highlight=log`: times, levels and priorities of common log formats.

use std::ops::Range;

use regex::bytes::Regex;

use super::{StyleId, StyleMap};

/// How many bytes of a line are searched for its time and level. The message follows these.
const HEADER_LEN: usize = 256;

/// The words for levels.
const LEVELS: [(&str, Level); 32] = [
    ("EMERG", Level::Error),
    ("EMERGENCY", Level::Error),
    ("ALERT", Level::Error),
    ("CRIT", Level::Error),
    ("CRITICAL", Level::Error),
    ("FATAL", Level::Error),
    ("PANIC", Level::Error),
    ("PNC", Level::Error),
    ("FTL", Level::Error),
    ("SEVERE", Level::Error),
    ("FAIL", Level::Error),
    ("FAILED", Level::Error),
    ("FAILURE", Level::Error),
    ("ERR", Level::Error),
    ("ERROR", Level::Error),
    ("WARN", Level::Warning),
    ("WARNING", Level::Warning),
    ("WRN", Level::Warning),
    ("NOTICE", Level::Plain),
    ("INFO", Level::Plain),
    ("INF", Level::Plain),
    ("NOTE", Level::Plain),
    ("CONFIG", Level::Plain),
    ("DEBUG", Level::Debug),
    ("DBG", Level::Debug),
    ("TRACE", Level::Debug),
    ("TRC", Level::Debug),
    ("VERBOSE", Level::Debug),
    ("VRB", Level::Debug),
    ("FINE", Level::Debug),
    ("FINER", Level::Debug),
    ("FINEST", Level::Debug),
];

/// Further words for errors, which [`LEVEL`] matches only in forms of their own.
const FAILURES: [&str; 5] = ["BUG", "Oops", "panic", "panicked", "Traceback"];

/// An unambiguous time anywhere in the line.
const TIME: &str = r"(?x-u)
    # ISO 8601, with slashes too as nginx and Go write it.
    \b \d{4}[-/]\d{2}[-/]\d{2} [T\ ] \d{2}:\d{2} (?: :\d{2} (?:[.,]\d+)? )? (?: Z\b | \ ?[+-]\d{2}:?\d{2}\b )?
    # asctime(3), with a fraction as Apache's error log has it.
    | \b [MTWFS][a-z]{2}\ [A-Z][a-z]{2}\ [\ \d]\d\ \d{2}:\d{2}:\d{2} (?:\.\d+)? (?:\ \d{4}\b)?
    # Apache's access log.
    | \[ \d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2}\ [+-]\d{4} \]";

/// A time at the beginning of a line. `{}` stands for [`TIME`]. An anchored expression needs no
/// second pass to find the start of the match.
const TIME_FIRST: &str = r"(?x-u) ^ (?: {}
    # syslog.
    | [A-Z][a-z]{2}\ [\ \d]\d\ \d{2}:\d{2}:\d{2} (?:\.\d+)?
    # klog, with the letter of its level.
    | [EFIWDV]\d{4}\ \d{2}:\d{2}:\d{2}\.\d+
    # The time of day alone.
    | \d{2}:\d{2}:\d{2} (?:[.,]\d+)? \b | \[\d{2}:\d{2}:\d{2} (?:[.,]\d+)? \]
    # The kernel's seconds since it began.
    | \[\ *\d+\.\d{6}\] )";

/// A priority at the beginning of a line: of syslog and of services of systemd, of `dmesg
/// --decode`, and of `/dev/kmsg`.
const PRIORITY: &str = r"(?x-u) ^ (?:
    <\d{1,3}>
    | (?:kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local\d) \ *:
        (?:emerg|alert|crit|err|warn|notice|info|debug) \ *:\ ?
    | \d{1,4},\d+,\d+,[^;]*; )";

/// A level in any form. `{}` stands for the words of [`LEVELS`].
const LEVEL: &str = r#"(?x-u)
    # In capitals, as a word.
    \b(?: {} )\b
    # As the value of a field.
    | \b (?:level|lvl|severity) "? \ ?[=:]\ ? "? (?i: {} )\b
    # In brackets, perhaps with the module in front.
    | \[ (?:\w+:)? (?i: {} ) \ * \]
    # The kernel's bugs, and panics and exceptions of Go, Rust and Python.
    | \b(?: BUG: | BUG\ at\b | Oops: | panic: | [Kk]ernel\ panic\b | panicked\ at\b | Traceback\b )
    | (?: ^ | :\  ) panic\b
    # As compilers write it, and daemons: at the beginning, or behind the name of the program.
    | (?: ^ | :\  ) (?:[Ff]atal\ )? (?:[Ee]rror|[Ww]arning|[Nn]ote|info|debug) (?:\[\w+\])? :"#;

/// The priority at the beginning of a line.
#[derive(Debug)]
struct Priority {
    level: Level,
    /// The range to colour.
    coloured: Range<usize>,
    /// Where the rest of the line begins.
    end: usize,
}

/// The level of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Error,
    Warning,
    /// Not coloured. It is the level of its line all the same, so that no other is searched for.
    Plain,
    Debug,
}

/// The rules for logs. They search the first 256 bytes of a line. They dim the first time, and make
/// the first level bold and red (error), yellow (warning) or blue (debugging).
///
/// A word in capitals is a level anywhere (`ERROR`, `WRN`, `FAIL`). Another one is a level only in
/// certain forms: `level=error`, `"level":"error"`, `[error]`, `[core:error]`, `main.c:3:5:
/// error:`, and klog's letter before the time. A panic, a `BUG:` of the kernel and a `Traceback`
/// are errors. A priority at the beginning of the line is its level: `<3>` (syslog, systemd, `dmesg
/// --raw`), `kern  :err   :` (`dmesg --decode`), `3,1204,5140900,-;` (`/dev/kmsg`).
#[derive(Clone, Debug)]
pub(super) struct Log {
    priority: Regex,
    time_first: Regex,
    time: Regex,
    level: Regex,
    dim: StyleId,
    error: StyleId,
    warning: StyleId,
    debug: StyleId,
}

impl Log {
    pub(super) fn new(styles: &mut StyleMap) -> Self {
        let words = LEVELS.map(|(word, _)| word).join("|");
        let mut add = |style: &str| styles.add(constant(style.parse()));
        Self {
            priority: constant(Regex::new(PRIORITY)),
            time_first: constant(Regex::new(&TIME_FIRST.replace("{}", TIME))),
            time: constant(Regex::new(TIME)),
            level: constant(Regex::new(&LEVEL.replace("{}", &words))),
            dim: add("dim"),
            error: add("bold,red"),
            warning: add("bold,yellow"),
            debug: add("bold,blue"),
        }
    }

    /// Marks the time and the level of a line.
    pub(super) fn mark(&self, content: &[u8], styles: &mut StyleMap) {
        let header = header(content);
        let mut from = 0;
        let priority = self.priority(header);
        let start = priority.as_ref().map_or(0, |priority| priority.end);
        if let Some(time) = self.time_first.find(&header[start..]) {
            from = start + time.end();
            styles.mark(start..from, self.dim);
            if let [letter @ b'A'..=b'Z', b'0'..=b'9', ..] = time.as_bytes() {
                if let Some(style) = self.style(klog(*letter)) {
                    styles.mark(start..start + 1, style);
                }
                return;
            }
        } else if let Some(time) = self.time.find(header) {
            styles.mark(time.range(), self.dim);
        }
        if let Some(priority) = priority {
            let style = self.style(priority.level).unwrap_or(self.dim);
            styles.mark(priority.coloured, style);
            return;
        }
        let Some(found) = self.level.find_at(header, from) else {
            return;
        };
        let Some((word, level)) = word(found.as_bytes()) else {
            return;
        };
        if let Some(style) = self.style(level) {
            let start = found.start() + word.start;
            styles.mark(start..start + word.len(), style);
        }
    }

    /// Finds the priority at the beginning of a line.
    fn priority(&self, header: &[u8]) -> Option<Priority> {
        let found = self.priority.find(header)?;
        let mut coloured = found.range();
        let level = if found.as_bytes().starts_with(b"<") {
            severity(&found.as_bytes()[1..])
        } else if found.as_bytes()[0].is_ascii_digit() {
            coloured.end = found.as_bytes().iter().position(|byte| *byte == b',')?;
            severity(found.as_bytes())
        } else {
            let (word, level) = word(found.as_bytes())?;
            coloured = word;
            level
        };
        Some(Priority {
            level,
            coloured,
            end: found.end(),
        })
    }

    fn style(&self, level: Level) -> Option<StyleId> {
        match level {
            Level::Error => Some(self.error),
            Level::Warning => Some(self.warning),
            Level::Plain => None,
            Level::Debug => Some(self.debug),
        }
    }
}

/// Returns the beginning of a line, without a word that it would split.
fn header(content: &[u8]) -> &[u8] {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let Some((header, rest)) = content.split_at_checked(HEADER_LEN) else {
        return content;
    };
    if !rest.first().is_some_and(is_word) {
        return header;
    }
    let end = header.iter().rposition(|byte| !is_word(byte));
    &header[..end.map_or(0, |at| at + 1)]
}

/// Returns the last word of a match that is a level, with its range: the match may contain `level`
/// and a module's name in front of it, and a code behind it.
fn word(found: &[u8]) -> Option<(Range<usize>, Level)> {
    let mut end = found.len();
    loop {
        end = found[..end].iter().rposition(u8::is_ascii_alphabetic)? + 1;
        let start = found[..end]
            .iter()
            .rposition(|byte| !byte.is_ascii_alphabetic())
            .map_or(0, |at| at + 1);
        let word = &found[start..end];
        if let Some(level) = level_of(word) {
            return Some((start..end, level));
        }
        end = start;
    }
}

/// Returns the level that a word names.
fn level_of(word: &[u8]) -> Option<Level> {
    let is_same = |known: &str| known.as_bytes().eq_ignore_ascii_case(word);
    if let Some((_, level)) = LEVELS.iter().find(|(known, _)| is_same(known)) {
        return Some(*level);
    }
    FAILURES
        .iter()
        .any(|known| is_same(known))
        .then_some(Level::Error)
}

/// Returns the level of a syslog priority. The last three bits are the severity, the others the
/// facility (RFC 5424, 6.2.1).
fn severity(digits: &[u8]) -> Level {
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let number = digits.fold(0, |number, digit| number * 10 + u32::from(digit - b'0'));
    match number & 7 {
        0..=3 => Level::Error,
        4 => Level::Warning,
        5 | 6 => Level::Plain,
        _ => Level::Debug,
    }
}

/// Returns the level of a letter of klog.
fn klog(letter: u8) -> Level {
    match letter {
        b'E' | b'F' => Level::Error,
        b'W' => Level::Warning,
        b'I' => Level::Plain,
        _ => Level::Debug,
    }
}

/// Unwraps the result of parsing a constant of this file.
#[allow(
    clippy::expect_used,
    reason = "the constants are valid or invalid at every run, and the tests run"
)]
fn constant<T, E: std::fmt::Debug>(parsed: Result<T, E>) -> T {
    parsed.expect("the constants of this file are well-formed")
}

#[cfg(test)]
mod tests;
