//! Completions for zsh, made from those of `clap_complete`, which lack values that have to be
//! attached.

use clap::Command;

/// Corrects the script of `clap_complete`.
pub(super) fn correct(command: &Command, script: &str) -> String {
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
    // A colon ends the name of a value.
    let options = command.get_opts();
    for name in options
        .filter_map(|option| option.get_value_names())
        .flatten()
    {
        if name.contains(':') {
            let escaped = name.replace(':', "\\:");
            script = script.replace(&format!("]:{name}:"), &format!("]:{escaped}:"));
        }
    }
    script
}
