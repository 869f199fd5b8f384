//! What is shown beside the screen: the window's title, progress in its tab, the arguments of the process.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;

use crate::exit;

/// How the sequences of `%{progress-conemu}` begin.
pub(super) const TAB: &str = "\x1b]9;4;";

/// Takes progress out of the tab.
pub(super) const NO_TAB: &str = "\x1b]9;4;0;0\x1b\\";

/// Has xterm, and what follows it, keep the window's title.
pub(super) const KEEP_WINDOW: &str = "\x1b[22;2t";

/// Brings the kept title back. A terminal that keeps none does nothing, and has ours until the shell sets one.
pub(super) const OLD_WINDOW: &str = "\x1b[23;2t";

/// Gives the window a title. Control characters would end the sequence, and are left out.
pub(super) fn window(title: &str) -> String {
    format!("\x1b]2;{}\x1b\\", printable(title))
}

/// Shows a title in place of the arguments that `ps` lists, after the program's name: `zc-pv -- TITLE`. What is
/// longer than the arguments were is cut off: the environment is behind them, and others read that.
///
/// To be called when nobody reads the arguments any more. [`exit::program`] may be.
///
/// # Errors
///
/// That `/proc` is not there, or does not let a process write to its own memory.
pub fn title_process(title: &str) -> io::Result<()> {
    let program = exit::program();
    let (begin, end) = arguments()?;
    let room = usize::try_from(end - begin).map_err(io::Error::other)?;
    let mut text = format!("{} -- {}", program.display(), printable(title)).into_bytes();
    // The last byte has to stay NUL, or the kernel takes the environment for more of the title.
    text.truncate(room.saturating_sub(1));
    text.resize(room, 0);
    // The kernel writes to where it has put the arguments itself. Rust's library copies them whenever it is
    // asked for them, and keeps nothing that could change under its hands.
    let memory = OpenOptions::new().write(true).open("/proc/self/mem")?;
    memory.write_all_at(&text, begin)
}

/// Where in memory the arguments begin and end (`proc_pid_stat(5)`).
fn arguments() -> io::Result<(u64, u64)> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The second field is the program's name, which may have parentheses and blanks itself.
    let (_, fields) = stat.rsplit_once(") ").unwrap_or_default();
    let field = |number: usize| fields.split(' ').nth(number - 3)?.parse::<u64>().ok();
    match (field(48), field(49)) {
        (Some(begin), Some(end)) if 0 < begin && begin < end => Ok((begin, end)),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn printable(text: &str) -> String {
    text.chars()
        .filter(|character| !character.is_control())
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use super::window;

    #[test]
    fn a_title_cannot_end_its_own_sequence() {
        assert_eq!(window("a\x1b\\\x07\nb"), "\x1b]2;a\\b\x1b\\");
    }

    #[test]
    fn the_arguments_are_where_the_kernel_says() {
        let (begin, end) = super::arguments().unwrap();
        let shown = std::fs::read("/proc/self/cmdline").unwrap();
        assert_eq!(usize::try_from(end - begin).unwrap(), shown.len());
    }
}
