//! Runs a program under strace, and reads strace's log.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The calls that take names of files, and how many. strace prints names in full.
const NAMING: &[(&str, usize)] = &[
    ("chdir", 1),
    ("faccessat", 1),
    ("faccessat2", 1),
    ("fchmodat", 1),
    ("fchmodat2", 1),
    ("fchownat", 1),
    ("linkat", 2),
    ("lstat", 1),
    ("mkdir", 1),
    ("mkdirat", 1),
    ("mknodat", 1),
    ("newfstatat", 1),
    ("open", 1),
    ("openat", 1),
    ("openat2", 1),
    ("readlink", 1),
    ("readlinkat", 1),
    ("rename", 2),
    ("renameat", 2),
    ("renameat2", 2),
    ("rmdir", 1),
    ("setxattr", 1),
    ("stat", 1),
    ("statx", 1),
    ("unlink", 1),
    ("unlinkat", 1),
    ("utimensat", 1),
];

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

    /// Whether the call failed as if nothing had this path, or as if a parent of it were no
    /// directory. A program has to believe that.
    pub(crate) fn denies(&self, path: &Path, cwd: &Path) -> bool {
        self.denies_any_path()
            && self
                .paths(cwd)
                .iter()
                .any(|denied| path.starts_with(denied))
    }

    /// Whether the call failed as if a file or directory did not exist.
    pub(crate) fn denies_any_path(&self) -> bool {
        let errnos = ["= -1 ENOENT ", "= -1 ENOTDIR ", "= -1 ELOOP "];
        errnos.iter().any(|errno| self.text.contains(errno))
    }

    /// The files that the call was made on: those of its descriptors, and for a call that takes
    /// names, those of its names in the directory `cwd` or in that of a descriptor.
    pub(crate) fn paths(&self, cwd: &Path) -> Vec<PathBuf> {
        let naming = NAMING.iter().find(|(call, _)| *call == self.name);
        let n_names = naming.map_or(0, |(_, n_names)| *n_names);
        let mut paths = Vec::new();
        let mut rest = self.text.as_str();
        let mut base = cwd;
        while let Some(at) = rest.find(['<', '"'])
            && paths.len() < n_names
        {
            let is_name = rest[at..].starts_with('"');
            let text = &rest[at + 1..];
            let Some(end) = text.find(if is_name { '"' } else { '>' }) else {
                break;
            };
            let path = Path::new(&text[..end]);
            rest = &text[end + 1..];
            if !is_name {
                base = path;
            } else if end == 0 {
                // The call is made on the descriptor.
                paths.push(base.to_owned());
            } else {
                paths.push(base.join(path));
            }
        }
        if paths.is_empty() {
            let descriptors = self.descriptors().into_iter();
            paths.extend(descriptors.map(|(_, path)| PathBuf::from(path)));
        }
        paths
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
    fn names_stand_in_the_directory_before_them() {
        let cwd = Path::new("/w");
        for (line, expected) in [
            (
                r#"openat(AT_FDCWD</w>, "a", O_RDONLY|O_CLOEXEC) = -1 EIO (Input/output error) (INJECTED)"#,
                &["/w/a"][..],
            ),
            (
                r#"renameat2(4</w/copy>, ".x", 4</w/copy>, "x", RENAME_NOREPLACE) = 0"#,
                &["/w/copy/.x", "/w/copy/x"],
            ),
            (r#"unlink("pid") = 0"#, &["/w/pid"]),
            (
                r#"statx(3</w/a>, "", AT_EMPTY_PATH, STATX_ALL, {stx_mask=STATX_ALL}) = 0"#,
                &["/w/a"],
            ),
            (
                r#"openat2(7</w/copy>, "sub", {flags=O_RDONLY, resolve=RESOLVE_BENEATH}, 24) = 8</w/copy/sub>"#,
                &["/w/copy/sub"],
            ),
            (r#"read(3</w/a>, ""..., 4096) = 5"#, &["/w/a"]),
        ] {
            let call = &parse(&format!("1 {line}"))[0];
            let expected: Vec<_> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(call.paths(cwd), expected, "{line}");
        }
    }

    #[test]
    fn a_path_is_denied_by_a_call_on_it_or_above() {
        let cwd = Path::new("/w");
        for (errno, path, is_denied) in [
            ("ENOENT", "/w/copy/sub", true),
            ("ENOTDIR", "/w/copy/sub/file", true),
            ("ELOOP", "/w/copy/other", false),
            ("ENOENT", "/w/copy", false),
            ("EIO", "/w/copy/sub", false),
        ] {
            let line =
                format!(r#"1 openat(7</w/copy>, "sub", O_PATH) = -1 {errno} (Why) (INJECTED)"#);
            let call = &parse(&line)[0];
            assert_eq!(
                call.denies(Path::new(path), cwd),
                is_denied,
                "{errno} {path}"
            );
        }
    }

    #[test]
    fn a_log_is_cut_where_a_process_is_killed() {
        assert_eq!(parse("5 read(3</a>,  <unfinished ...>"), []);
        assert_eq!(parse(""), []);
    }
}
