//! Completions for fish, made from those of `clap_complete`, which handle neither operands nor
//! values that have to be attached.

use clap::{Command, ValueHint};

/// Adds operands to the script of `clap_complete`, and corrects options with attached values.
pub(super) fn correct(command: &Command, script: &str) -> String {
    let attached: Vec<String> = command
        .get_opts()
        .filter(|arg| arg.is_require_equals_set())
        .filter_map(|arg| arg.get_long().map(|name| format!(" -l {name} ")))
        .collect();
    let mut corrected = String::new();
    for line in script.lines() {
        let is_attached = attached.iter().any(|name| line.contains(name));
        // "-r", behind the description, has the next argument taken for the value.
        match line.rsplit_once(" -r") {
            Some((before, after)) if is_attached => {
                corrected.push_str(before);
                corrected.push_str(after);
            }
            _ => corrected.push_str(line),
        }
        corrected.push('\n');
    }
    let operand = command.get_positionals().next();
    let operands = match operand.map(clap::Arg::get_value_hint) {
        Some(ValueHint::FilePath | ValueHint::AnyPath) => return corrected,
        Some(ValueHint::DirPath) => " -a \"(__fish_complete_directories)\"",
        _ => "",
    };
    format!(
        "{corrected}complete -c {} -f{operands}\n",
        command.get_name()
    )
}
