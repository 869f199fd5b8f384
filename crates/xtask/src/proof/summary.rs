//! The table at the head of docs/proof.md: one row for each section of the pages of proof.

use std::fmt::Write as _;

use crate::pages::anchor;

/// The heading of the table.
const HEADING: &str = "Summary";

/// Returns the table, as a section. `others` are the other pages, with their names.
pub(super) fn section(page: &str, others: &[(&str, &str)]) -> String {
    let mut text =
        "One row for each section below, and for those of the linked page. *Known ones* are \
         listed in the section, with their reasons.\n\n\
         | section | date | commit | outcome |\n|---|---|---|---|\n"
            .to_owned();
    let pages = std::iter::once(("", page)).chain(others.iter().copied());
    for (name, page) in pages {
        let sections = page.split("\n## ").skip(1);
        for (heading, body) in sections.filter_map(|section| section.split_once('\n')) {
            let Some((date, commit)) = date_and_commit(body) else {
                continue;
            };
            let anchor = anchor(heading);
            let outcome = outcome(body);
            let _ = writeln!(
                text,
                "| [{heading}]({name}#{anchor}) | {date} | {commit} | {outcome} |"
            );
        }
    }
    text
}

/// The page with the table as its first section.
pub(super) fn put(page: &str, section: &str) -> String {
    let title = format!("\n## {HEADING}\n\n");
    let (head, rest) = page.split_at(page.find("\n## ").unwrap_or(page.len()));
    let rest = match rest.strip_prefix(&title) {
        Some(old) => old.find("\n## ").map_or("", |at| &old[at..]),
        None => rest,
    };
    format!("{head}{title}{section}{rest}")
}

/// The date and the commit in the first line of a section, behind its command.
fn date_and_commit(body: &str) -> Option<(&str, &str)> {
    let command = body.lines().find(|line| line.starts_with('`'))?;
    let (before, after) = command.split_once("commit ")?;
    let date = before.trim_end().trim_end_matches(',');
    let date = date.get(date.len().checked_sub("2026-01-01".len())?..)?;
    let is_date = date.chars().all(|c| c.is_ascii_digit() || c == '-');
    let commit = after.split([',', ':', '\n']).next()?;
    is_date.then_some((date, commit))
}

/// Returns the outcome of a section: its line with one of the phrases, or the sums of its table of
/// tests.
fn outcome(body: &str) -> String {
    const OUTCOME_PHRASES: [&str; 4] = [
        "wrong outcomes",
        "wrong states",
        "are caught",
        "found nothing",
    ];
    let found = body
        .lines()
        .find(|line| OUTCOME_PHRASES.iter().any(|words| line.contains(words)));
    if let Some(line) = found {
        let line = line.trim_start_matches("- ");
        return line.replace("those below", "known ones");
    }
    of_tests(body).unwrap_or_else(|| "in the section".to_owned())
}

/// The sums of the columns of a table of tests.
fn of_tests(body: &str) -> Option<String> {
    const COLUMNS: [&str; 4] = ["passed", "with skips", "failed", "not ended"];
    let mut rows = body.lines().filter(|line| line.starts_with('|'));
    let cells =
        |row: &str| -> Vec<String> { row.split('|').map(|cell| cell.trim().to_owned()).collect() };
    let heads = cells(rows.next()?);
    let rows: Vec<_> = rows.skip(1).map(cells).collect();
    let sum = |column: &str| -> Option<String> {
        let place = heads.iter().position(|head| head == column)?;
        let figures = rows
            .iter()
            .filter_map(|row| row.get(place)?.parse::<u64>().ok());
        Some(format!("{} {column}", figures.sum::<u64>()))
    };
    let sums: Option<Vec<_>> = COLUMNS.into_iter().map(sum).collect();
    Some(sums?.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Proof\n\nWords.\n\n## Failing calls\n\n\
        `cargo xtask faults`, 2026-11-23, commit 25959e67e6e9, Linux 6.18:\n\n\
        - 122 scenarios\n- 0 wrong outcomes, but for those below: no other byte was lost\n\n\
        ## Start-up\n\n`cargo xtask start-up`, 2026-11-25, commit 64d2-dirty, Linux 6.18:\n\n\
        | command | median |\n|---|---:|\n| `cat` | 794 |\n\n\
        ## By hand\n\nNo commit.\n";
    const KERNELS: &str = "# Kernels\n\n## bullseye: tests of `zcopy`\n\n\
        `cargo xtask kernels`, 2026-11-28, commit 6cfc, Linux 6.18:\n\n\
        | kernel | passed | with skips | failed | not ended |\n|---|---:|---:|---:|---:|\n\
        | 5.10 | 582 | 3 | 0 | 0 |\n| 6.1 | 581 | 2 | 1 | 0 |\n";

    #[test]
    fn each_section_that_a_command_wrote_has_a_row() {
        let section = section(PAGE, &[("kernels.md", KERNELS)]);
        let rows: Vec<_> = section
            .lines()
            .skip_while(|line| !line.starts_with("| ["))
            .collect();
        assert_eq!(
            rows,
            [
                "| [Failing calls](#failing-calls) | 2026-11-23 | 25959e67e6e9 | 0 wrong outcomes, but for known ones: no other byte was lost |",
                "| [Start-up](#start-up) | 2026-11-25 | 64d2-dirty | in the section |",
                "| [bullseye: tests of `zcopy`](kernels.md#bullseye-tests-of-zcopy) | 2026-11-28 | \
                 6cfc | 1163 passed, 5 with skips, 1 failed, 0 not ended |",
            ]
        );
    }

    #[test]
    fn the_table_comes_first_and_replaces_its_predecessor() {
        let once = put(PAGE, "one\n");
        assert!(once.starts_with("# Proof\n\nWords.\n\n## Summary\n\none\n\n## Failing calls\n\n"));
        let twice = put(&once, "two\n");
        assert_eq!(twice, once.replace("one\n", "two\n"));
    }
}
