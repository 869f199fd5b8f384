//! Completions for zsh: those of `clap_complete`, which does not know that a value has to be
//! attached.

use clap::Command;

/// Mends the script of `clap_complete`.
pub(super) fn mend(command: &Command, script: &str) -> String {
    // With one more colon, `_arguments` hides the options from the completer of operands.
    let mut script = script.replace("'*::", "'*:");
    // "=-" takes a value behind "=" alone; "=" and "+" also take the next argument.
    for option in command.get_opts().filter(|arg| arg.is_require_equals_set()) {
        if let Some(name) = option.get_long() {
            script = script.replace(&format!("--{name}=["), &format!("--{name}=-["));
        }
        if let Some(letter) = option.get_short() {
            script = script.replace(&format!("-{letter}+["), &format!("-{letter}=-["));
        }
    }
    script
}
