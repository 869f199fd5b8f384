//! What is shown beside the screen: the window's title, progress in its tab, the name of the process.

use std::fs;
use std::io;

/// How the sequences of `%{progress-conemu}` begin.
pub(super) const TAB: &str = "\x1b]9;4;";

/// Takes progress out of the tab.
pub(super) const NO_TAB: &str = "\x1b]9;4;0;0\x1b\\";

/// Has xterm, and what follows it, keep the window's title.
pub(super) const KEEP_WINDOW: &str = "\x1b[22;2t";

/// Brings the kept title back. A terminal that keeps none does nothing, and has ours until the shell sets one.
pub(super) const OLD_WINDOW: &str = "\x1b[23;2t";

/// How long the name of a process may be.
const LONGEST_NAME: usize = 15;

/// Gives the window a title. Control characters would end the sequence, and are left out.
pub(super) fn window(title: &str) -> String {
    format!("\x1b]2;{}\x1b\\", printable(title))
}

/// Gives the process the name that `ps -o comm` shows, and `top`, of which Linux keeps 15 bytes.
///
/// # Errors
///
/// That there is no `/proc`.
pub fn name_process(title: &str) -> io::Result<()> {
    let mut name = printable(title);
    while name.len() > LONGEST_NAME {
        name.pop();
    }
    // Not by prctl(2), which names the thread that calls, and this one is not the main thread.
    fs::write("/proc/self/comm", name)
}

fn printable(text: &str) -> String {
    text.chars()
        .filter(|character| !character.is_control())
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use super::{name_process, window};

    #[test]
    fn a_title_cannot_end_its_own_sequence() {
        assert_eq!(window("a\x1b\\\x07\nb"), "\x1b]2;a\\b\x1b\\");
    }

    #[test]
    fn the_process_gets_as_much_of_a_name_as_linux_keeps() {
        name_process("1.5GiB 0:00:07 [██]").unwrap();
        let comm = std::fs::read_to_string("/proc/self/comm").unwrap();
        assert_eq!(comm, "1.5GiB 0:00:07 \n");
    }
}
