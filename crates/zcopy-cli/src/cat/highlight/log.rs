//! What most logs have in common, and how it is coloured.

use std::ops::Range;

use regex::bytes::Regex;

use super::{Canvas, Colour};

/// How far into a line its time and its level are looked for: behind that it is the message that speaks.
const FRONT: usize = 256;

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

/// What is an error in the forms of [`LEVEL`], and no word for a level.
const FAILURES: [&str; 5] = ["BUG", "Oops", "panic", "panicked", "Traceback"];

/// A time that nobody takes for anything else, wherever it stands.
const TIME: &str = r"(?x-u)
    # ISO 8601, with slashes too as nginx and Go write it.
    \b \d{4}[-/]\d{2}[-/]\d{2} [T\ ] \d{2}:\d{2} (?: :\d{2} (?:[.,]\d+)? )? (?: Z\b | \ ?[+-]\d{2}:?\d{2}\b )?
    # asctime(3), with a fraction as Apache's error log has it.
    | \b [MTWFS][a-z]{2}\ [A-Z][a-z]{2}\ [\ \d]\d\ \d{2}:\d{2}:\d{2} (?:\.\d+)? (?:\ \d{4}\b)?
    # Apache's access log.
    | \[ \d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2}\ [+-]\d{4} \]";

/// A time at the beginning of a line; `{}` stands for those of everywhere. As it is anchored, nothing has to be read twice to
/// learn where it begins.
const TIME_FIRST: &str = r"(?x-u) ^ (?: {}
    # syslog.
    | [A-Z][a-z]{2}\ [\ \d]\d\ \d{2}:\d{2}:\d{2} (?:\.\d+)?
    # klog, with the letter of its level.
    | [EFIWDV]\d{4}\ \d{2}:\d{2}:\d{2}\.\d+
    # The time of day alone.
    | \d{2}:\d{2}:\d{2} (?:[.,]\d+)? \b | \[\d{2}:\d{2}:\d{2} (?:[.,]\d+)? \]
    # The kernel's seconds since it began.
    | \[\ *\d+\.\d{6}\] )";

/// A priority in front of everything else: of syslog and of services of systemd, as `dmesg --decode` writes it, and of
/// `/dev/kmsg`.
const PRIORITY: &str = r"(?x-u) ^ (?:
    <\d{1,3}>
    | (?:kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local\d) \ *:
        (?:emerg|alert|crit|err|warn|notice|info|debug) \ *:\ ?
    | \d{1,4},\d+,\d+,[^;]*; )";

/// A level, however logs write it; `{}` stands for all words.
const LEVEL: &str = r#"(?x-u)
    # In capitals, as a word.
    \b(?: {} )\b
    # As the value of a field.
    | \b (?:level|lvl|severity) "? \ ?[=:]\ ? "? (?i: {} )\b
    # In brackets, perhaps with the module in front.
    | \[ (?:\w+:)? (?i: {} ) \ * \]
    # What ended a program: as the kernel, Go, Rust and Python write it.
    | \b(?: BUG: | BUG\ at\b | Oops: | panic: | [Kk]ernel\ panic\b | panicked\ at\b | Traceback\b )
    | (?: ^ | :\  ) panic\b
    # As compilers write it, and daemons: at the beginning, or behind the name of the program.
    | (?: ^ | :\  ) (?:[Ff]atal\ )? (?:[Ee]rror|[Ww]arning|[Nn]ote|info|debug) (?:\[\w+\])? :"#;

/// A priority in front of a line.
#[derive(Debug)]
struct Priority {
    level: Level,
    /// The part that is coloured.
    shown: Range<usize>,
    /// Where the rest of the line begins.
    end: usize,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Error,
    Warning,
    /// Nothing to point out, and still the level of its line: no other is looked for.
    Plain,
    Debug,
}

/// The rules for logs: the first time in a line is dimmed, and the first word for a level, if it is in the first 256
/// bytes, is bold and red for an error, yellow for a warning, blue for what only debuggers read. The message stays as it is.
///
/// A word is a level in capitals anywhere (`ERROR`, `WRN`, `FAIL`), otherwise only where it is marked as one: `level=error`,
/// `"level":"error"`, `[error]`, `[core:error]`, `main.c:3:5: error:`, and klog's letter in front of the time. A panic, a
/// `BUG:` of the kernel and a `Traceback` are errors. A priority in front of the line is its level: `<3>` (syslog, systemd,
/// `dmesg --raw`), `kern  :err   :` (`dmesg --decode`), `3,1204,5140900,-;` (`/dev/kmsg`).
#[derive(Clone, Debug)]
pub(super) struct Log {
    priority: Regex,
    time_first: Regex,
    time: Regex,
    level: Regex,
    dim: Colour,
    error: Colour,
    warning: Colour,
    debug: Colour,
}

impl Log {
    pub(super) fn new(canvas: &mut Canvas) -> Self {
        let words = LEVELS.map(|(word, _)| word).join("|");
        let mut mix = |style: &str| canvas.mix(constant(style.parse()));
        Self {
            priority: constant(Regex::new(PRIORITY)),
            time_first: constant(Regex::new(&TIME_FIRST.replace("{}", TIME))),
            time: constant(Regex::new(TIME)),
            level: constant(Regex::new(&LEVEL.replace("{}", &words))),
            dim: mix("dim"),
            error: mix("bold,red"),
            warning: mix("bold,yellow"),
            debug: mix("bold,blue"),
        }
    }

    pub(super) fn lay(&self, content: &[u8], canvas: &mut Canvas) {
        let front = front(content);
        let mut from = 0;
        let priority = self.priority(front);
        let start = priority.as_ref().map_or(0, |priority| priority.end);
        if let Some(time) = self.time_first.find(&front[start..]) {
            from = start + time.end();
            canvas.lay(start..from, self.dim);
            if let [letter @ b'A'..=b'Z', b'0'..=b'9', ..] = time.as_bytes() {
                if let Some(colour) = self.colour(klog(*letter)) {
                    canvas.lay(start..start + 1, colour);
                }
                return;
            }
        } else if let Some(time) = self.time.find(front) {
            canvas.lay(time.range(), self.dim);
        }
        if let Some(priority) = priority {
            let colour = self.colour(priority.level).unwrap_or(self.dim);
            canvas.lay(priority.shown, colour);
            return;
        }
        let Some(found) = self.level.find_at(front, from) else {
            return;
        };
        let Some((word, level)) = word(found.as_bytes()) else {
            return;
        };
        if let Some(colour) = self.colour(level) {
            let start = found.start() + word.start;
            canvas.lay(start..start + word.len(), colour);
        }
    }

    /// The priority in front of a line, and its level.
    fn priority(&self, front: &[u8]) -> Option<Priority> {
        let found = self.priority.find(front)?;
        let mut shown = found.range();
        let level = if found.as_bytes().starts_with(b"<") {
            severity(&found.as_bytes()[1..])
        } else if found.as_bytes()[0].is_ascii_digit() {
            shown.end = found.as_bytes().iter().position(|byte| *byte == b',')?;
            severity(found.as_bytes())
        } else {
            let (word, level) = word(found.as_bytes())?;
            shown = word;
            level
        };
        Some(Priority {
            level,
            shown,
            end: found.end(),
        })
    }

    fn colour(&self, level: Level) -> Option<Colour> {
        match level {
            Level::Error => Some(self.error),
            Level::Warning => Some(self.warning),
            Level::Plain => None,
            Level::Debug => Some(self.debug),
        }
    }
}

/// The beginning of a line, up to the end of a word.
fn front(content: &[u8]) -> &[u8] {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let Some((front, rest)) = content.split_at_checked(FRONT) else {
        return content;
    };
    if !rest.first().is_some_and(is_word) {
        return front;
    }
    let end = front.iter().rposition(|byte| !is_word(byte));
    &front[..end.map_or(0, |at| at + 1)]
}

/// Where in a match the word is, and what it means: the last one that is a level, behind `level` and a module's name and in
/// front of a code.
fn word(found: &[u8]) -> Option<(Range<usize>, Level)> {
    let mut end = found.len();
    loop {
        end = found[..end].iter().rposition(u8::is_ascii_alphabetic)? + 1;
        let start = found[..end]
            .iter()
            .rposition(|byte| !byte.is_ascii_alphabetic())
            .map_or(0, |at| at + 1);
        let word = &found[start..end];
        if let Some(level) = word_of(word) {
            return Some((start..end, level));
        }
        end = start;
    }
}

/// What a word means.
fn word_of(word: &[u8]) -> Option<Level> {
    let is_it = |known: &str| known.as_bytes().eq_ignore_ascii_case(word);
    if let Some((_, level)) = LEVELS.iter().find(|(known, _)| is_it(known)) {
        return Some(*level);
    }
    FAILURES
        .iter()
        .any(|known| is_it(known))
        .then_some(Level::Error)
}

/// What the priority of syslog that these bytes begin with means. The last three bits are the level, the others the facility
/// (RFC 5424, 6.2.1).
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

/// What klog's letters mean.
fn klog(letter: u8) -> Level {
    match letter {
        b'E' | b'F' => Level::Error,
        b'W' => Level::Warning,
        b'I' => Level::Plain,
        _ => Level::Debug,
    }
}

/// What is made of a constant of this file.
#[allow(
    clippy::expect_used,
    reason = "the constants are right or wrong at every run, and the tests run"
)]
fn constant<T, E: std::fmt::Debug>(made: Result<T, E>) -> T {
    made.expect("the constants of this file are well-formed")
}

#[cfg(test)]
mod tests;
