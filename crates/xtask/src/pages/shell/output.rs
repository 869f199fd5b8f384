//! Compares what a command printed with what a page shows.

#[cfg(test)]
mod tests;

/// Stands for any number of lines, or within a line for any characters.
const ELLIPSIS: &str = "…";

/// Whether a command printed what the page shows, except for numbers and the width of white space.
pub(super) fn matches(shown: &[&str], printed: &[&str]) -> bool {
    match (shown, printed) {
        ([], []) => true,
        ([ELLIPSIS, shown @ ..], _) => {
            (0..=printed.len()).any(|skipped| matches(shown, &printed[skipped..]))
        }
        ([first, shown @ ..], [line, printed @ ..]) => {
            line_matches(&shape(first), &shape(line)) && matches(shown, printed)
        }
        _ => false,
    }
}

fn line_matches(shown: &str, printed: &str) -> bool {
    match shown.split_once(ELLIPSIS) {
        None => shown == printed,
        Some((first, last)) => printed
            .strip_prefix(first)
            .is_some_and(|rest| rest.ends_with(last)),
    }
}

/// The line with `#` in place of each number, and one space in place of white space.
fn shape(line: &str) -> String {
    let mut shape = String::new();
    let mut rest = line.trim();
    while let Some(c) = rest.chars().next() {
        if c.is_ascii_digit() {
            shape.push('#');
            rest = without_unit(rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.'));
        } else if c.is_whitespace() {
            shape.push(' ');
            rest = rest.trim_start();
        } else {
            shape.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    shape
}

/// Skips the prefix of a unit of bytes: the machine's speed decides between KiB/s and MiB/s.
fn without_unit(behind: &str) -> &str {
    let rest = behind.trim_start();
    match rest.strip_prefix(['K', 'M', 'G', 'T']) {
        Some(unit) if unit.starts_with("iB") => &unit[1..],
        Some(unit) if unit.starts_with('B') => unit,
        _ if rest.starts_with("B/s") => rest,
        _ => behind,
    }
}
