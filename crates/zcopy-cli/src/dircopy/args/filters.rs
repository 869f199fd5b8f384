//! The values of `--include`, `--exclude` and `--exclude-from`, in their order.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use clap::ArgMatches;

use super::Args;
use crate::common::cli::message;
use crate::common::cli::quote::argument;
use crate::dircopy::walk::{Effect, Rule};

/// The rules of a command line, in the order in which it gives them.
///
/// # Errors
///
/// A message, if a file of `--exclude-from` cannot be read.
pub(crate) fn filters(args: &Args, matches: &ArgMatches) -> Result<Vec<Rule>, String> {
    let places = |option| matches.indices_of(option).into_iter().flatten();
    let mut filters = Vec::new();
    for (option, patterns, effect) in [
        ("include", &args.include, Effect::Include),
        ("exclude", &args.exclude, Effect::Exclude),
    ] {
        for (place, pattern) in places(option).zip(patterns) {
            let pattern = pattern.clone();
            filters.push((place, vec![Rule { pattern, effect }]));
        }
    }
    for (place, file) in places("exclude_from").zip(&args.exclude_from) {
        let text = read(file).map_err(|error| {
            let (file, cause) = (argument(file.as_os_str()), message::worded(&error));
            format!("cannot read the globs of {file}: {cause}")
        })?;
        filters.push((place, rules(&text)));
    }
    filters.sort_by_key(|(place, _)| *place);
    Ok(filters.into_iter().flat_map(|(_, rules)| rules).collect())
}

/// Reads a file; `-` is standard input.
fn read(file: &Path) -> io::Result<Vec<u8>> {
    if file != Path::new("-") {
        return std::fs::read(file);
    }
    // `std::io::stdin` takes a closed descriptor for an empty file.
    let mut stdin = File::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?);
    let mut text = Vec::new();
    stdin.read_to_end(&mut text)?;
    Ok(text)
}

/// The rules of a file, one a line. A line excludes what its pattern matches, or includes it if it
/// begins with `+` and a space. Empty lines and those that begin with `#` or `;` are left out.
fn rules(text: &[u8]) -> Vec<Rule> {
    // Editors of Windows mark UTF-8 by this.
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    let lines = text.split(|byte| *byte == b'\n');
    let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let lines = lines.filter(|line| !matches!(line.first(), None | Some(b'#' | b';')));
    let rule = |line: &[u8]| {
        let (pattern, effect) = match line.strip_prefix(b"+ ") {
            Some(pattern) => (pattern, Effect::Include),
            None => (line.strip_prefix(b"- ").unwrap_or(line), Effect::Exclude),
        };
        Rule {
            pattern: OsStr::from_bytes(pattern).to_owned(),
            effect,
        }
    };
    lines.map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_glob_and_comments_are_none() {
        let rule = |pattern: &str, effect| Rule {
            pattern: pattern.into(),
            effect,
        };
        let text = b"\xef\xbb\xbf# a\n;b\n\n*.tmp\r\n+ keep\n- a b\n\\#c\n +d";
        let expected = [
            rule("*.tmp", Effect::Exclude),
            rule("keep", Effect::Include),
            rule("a b", Effect::Exclude),
            rule("\\#c", Effect::Exclude),
            rule(" +d", Effect::Exclude),
        ];
        assert_eq!(rules(text), expected);
    }
}
