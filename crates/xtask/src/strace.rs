//! Runs a program under strace, and reads strace's log.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

/// One system call in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    /// The thread that made it.
    pub(crate) thread: u32,
    pub(crate) name: String,
    /// The arguments and the result, with the paths of descriptors.
    pub(crate) text: String,
}

impl Call {
    /// Whether strace made it fail.
    pub(crate) fn is_injected(&self) -> bool {
        self.text.ends_with("(INJECTED)")
    }

    /// The descriptors among the arguments, each with its path: `read(3</etc/fstab>, …)` has one.
    pub(crate) fn descriptors(&self) -> Vec<(i32, &str)> {
        let mut found = Vec::new();
        let mut rest = self.text.as_str();
        // A buffer's contents are in quotation marks, and may look like anything.
        let mut is_quoted = false;
        while let Some(at) = rest.find(['<', '"']) {
            let (before, after) = rest.split_at(at);
            rest = &after[1..];
            if after.starts_with('"') {
                is_quoted = !is_quoted || before.ends_with('\\');
                continue;
            }
            let digits = before.trim_end_matches(|c: char| c.is_ascii_digit()).len();
            if !is_quoted
                && let Ok(number) = before[digits..].parse()
                && let Some(end) = rest.find('>')
            {
                found.push((number, &rest[..end]));
            }
        }
        found
    }
}

/// Options that follow all threads and children, and write to `log` the calls that `trace` names.
pub(crate) fn command(log: &Path, trace: &str) -> Command {
    let mut strace = Command::new("strace");
    // No data of buffers: it would have to be told apart from what strace says itself.
    strace.args(["-f", "-qqq", "-y", "-s", "0", "--seccomp-bpf"]);
    strace.arg("-o").arg(log).arg(format!("--trace={trace}"));
    strace
}

/// The calls of a log in the order of their ends. A call that never returned is not among them.
pub(crate) fn parse(log: &str) -> Vec<Call> {
    let mut begun: HashMap<u32, &str> = HashMap::new();
    let mut calls = Vec::new();
    for line in log.lines() {
        let Some((thread, rest)) = line.split_once(' ') else {
            continue;
        };
        let Ok(thread) = thread.parse() else { continue };
        let rest = rest.trim_start();
        let whole = if let Some(first) = rest.strip_suffix(" <unfinished ...>") {
            begun.insert(thread, first);
            continue;
        } else if let Some((_, last)) = rest.split_once(" resumed>") {
            let Some(first) = begun.remove(&thread) else {
                continue;
            };
            format!("{first}{last}")
        } else {
            rest.to_owned()
        };
        if let Some((name, text)) = whole.split_once('(')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        {
            calls.push(Call {
                thread,
                name: name.to_owned(),
                text: text.trim_end().to_owned(),
            });
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_another_thread_interrupts_is_one_call() {
        let log = "7 fcntl(8</a>, F_GETFD <unfinished ...>\n9 close(3) = 0\n\
                   7 <... fcntl resumed>) = -1 EIO (Input/output error) (INJECTED)";
        let calls = parse(log);
        let names: Vec<_> = calls
            .iter()
            .map(|call| (call.thread, &call.name[..]))
            .collect();
        assert_eq!(names, [(9, "close"), (7, "fcntl")]);
        assert!(calls[1].is_injected() && !calls[0].is_injected());
        assert_eq!(calls[1].descriptors(), [(8, "/a")]);
    }

    #[test]
    fn descriptors_are_found_with_their_paths() {
        let splice = "splice(3</tmp/a b>, [0], 15<pipe:[7]>, NULL, 30, 0) = -1 EIO (Input/output error) (INJECTED)";
        let calls = parse(&format!("12 {splice}\n12 +++ exited with 0 +++"));
        assert_eq!(calls.len(), 1);
        assert_eq!(calls[0].descriptors(), [(3, "/tmp/a b"), (15, "pipe:[7]")]);
        assert_eq!(parse("1 read(0, \"\"..., 5) = 5")[0].descriptors(), []);
    }

    #[test]
    fn a_log_is_cut_where_a_process_is_killed() {
        assert_eq!(parse("5 read(3</a>,  <unfinished ...>"), []);
        assert_eq!(parse(""), []);
    }
}
