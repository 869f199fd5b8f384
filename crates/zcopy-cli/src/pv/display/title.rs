//! The display outside the screen: the window's title, the progress in its tab, and the arguments
//! of the process.

use std::io;

use crate::common::cli::message;
use crate::common::sys;

/// The beginning of the sequences of `%{progress-conemu}`.
pub(crate) const TAB_PREFIX: &str = "\x1b]9;4;";

/// The sequence that clears the progress in the tab.
pub(crate) const CLEAR_TAB: &str = "\x1b]9;4;0;0\x1b\\";

/// The sequence that saves the window's title, in xterm and compatible terminals.
pub(crate) const SAVE_TITLE: &str = "\x1b[22;2t";

/// The sequence that restores the saved title. On a terminal that saves none, the title stays until
/// the shell sets one.
pub(crate) const RESTORE_TITLE: &str = "\x1b[23;2t";

/// Returns the sequence that sets the window's title. Control characters would end it, and are left
/// out.
pub(crate) fn window(title: &str) -> String {
    format!("\x1b]2;{}\x1b\\", printable(title))
}

/// Shows a title in place of the arguments that `ps` lists, after the program's name: `zc-pv --
/// TITLE`. The title is cut to the length of the arguments, or after `sys::title::make_room` to
/// that of the arguments and the environment.
///
/// # Errors
///
/// Returns an error if `/proc` does not give the address of the arguments.
pub fn set_process_title(title: &str) -> io::Result<()> {
    let program = message::program();
    let text = format!("{} -- {}", program.display(), printable(title));
    sys::title::replace_arguments(text.as_bytes())
}

fn printable(text: &str) -> String {
    text.chars()
        .filter(|character| !character.is_control())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::window;

    #[test]
    fn a_title_cannot_end_its_own_sequence() {
        assert_eq!(window("a\x1b\\\x07\nb"), "\x1b]2;a\\b\x1b\\");
    }
}
