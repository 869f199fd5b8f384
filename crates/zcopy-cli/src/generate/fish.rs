//! Completions for fish: those of `clap_complete`, which knows neither operands nor values that
//! have to be attached.

use clap::{Command, ValueHint};

/// Mends the script of `clap_complete`.
pub(super) fn mend(command: &Command, script: &str) -> String {
    let attached: Vec<String> = command
        .get_opts()
        .filter(|arg| arg.is_require_equals_set())
        .filter_map(|arg| arg.get_long().map(|name| format!(" -l {name} ")))
        .collect();
    let mut mended = String::new();
    for line in script.lines() {
        let is_attached = attached.iter().any(|name| line.contains(name));
        // "-r", behind the description, has the next argument taken for the value.
        match line.rsplit_once(" -r") {
            Some((before, after)) if is_attached => {
                mended.push_str(before);
                mended.push_str(after);
            }
            _ => mended.push_str(line),
        }
        mended.push('\n');
    }
    let operand = command.get_positionals().next();
    let operands = match operand.map(clap::Arg::get_value_hint) {
        Some(ValueHint::FilePath | ValueHint::AnyPath) => return mended,
        Some(ValueHint::DirPath) => " -a \"(__fish_complete_directories)\"",
        _ => "",
    };
    format!("{mended}complete -c {} -f{operands}\n", command.get_name())
}
