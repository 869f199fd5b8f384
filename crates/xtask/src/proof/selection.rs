//! The sections of runs that make a selection: arguments behind `--`, such as names of tests.

/// Returns the heading under which the record of a selection belongs. A section belongs to the
/// selection in its command, so that no selection replaces the record of another one: that gets a
/// section of its own.
pub(super) fn heading(page: &str, heading: &str, selection: &str) -> String {
    let own = match selection {
        "" => format!("{heading}, all"),
        selection => format!("{heading}, `{selection}`"),
    };
    let is_of_another =
        section(page, heading).is_some_and(|section| selection_of(section) != Some(selection));
    if is_of_another || section(page, &own).is_some() {
        own
    } else {
        heading.to_owned()
    }
}

/// Returns the text under a heading.
fn section<'a>(page: &'a str, heading: &str) -> Option<&'a str> {
    let (_, section) = page.split_once(&format!("\n## {heading}\n"))?;
    section.split("\n## ").next()
}

/// Returns the arguments behind `--` of the command that a section begins with.
fn selection_of(section: &str) -> Option<&str> {
    let command = section.trim_start().strip_prefix("`cargo xtask ")?;
    let (command, _) = command.split_once("`, ")?;
    Some(
        command
            .split_once(" -- ")
            .map_or("", |(_, selection)| selection),
    )
}

#[cfg(test)]
mod tests {
    use super::super::replace;
    use super::*;

    /// Records a run, whose text is a word.
    fn record(page: &str, kernel: &str, selection: &str, text: &str) -> String {
        let behind = if selection.is_empty() { "" } else { " -- " };
        let section = format!(
            "`cargo xtask kernels --record{behind}{selection}`, 2026-11-29, commit 1, Linux 6.18:\
             \n\n{text}\n"
        );
        let heading = heading(page, &format!("{kernel}: tests of `zcopy`"), selection);
        replace(page, &heading, &section)
    }

    fn texts(page: &str) -> Vec<&str> {
        let sections = page.split("\n## ").skip(1);
        sections
            .map(|section| section.lines().last().unwrap())
            .collect()
    }

    #[test]
    fn the_record_of_a_selection_leaves_that_of_all_tests_and_of_other_selections() {
        let page = record("# Kernels\n", "5.10", "", "all");
        let page = record(&page, "5.10", "splice", "one");
        let page = record(&page, "5.10", "--skip fuzz", "two");
        assert_eq!(texts(&page), ["all", "one", "two"]);
        // Each replaces its own.
        let page = record(&page, "5.10", "splice", "ONE");
        let page = record(&page, "5.10", "", "ALL");
        assert_eq!(texts(&page), ["ALL", "ONE", "two"]);
    }

    #[test]
    fn a_selection_that_came_first_keeps_its_section() {
        let page = record("# Kernels\n", "5.10", "--skip fuzz", "one");
        let page = record(&page, "5.10", "", "all");
        let page = record(&page, "5.10", "--skip fuzz", "ONE");
        let page = record(&page, "5.10", "", "ALL");
        assert_eq!(texts(&page), ["ONE", "ALL"]);
    }

    #[test]
    fn the_record_of_one_kernel_leaves_those_of_the_others() {
        let page = record("# Kernels\n", "5.10", "", "5.10");
        let page = record(&page, "6.1", "", "6.1");
        let page = record(&page, "5.10", "", "again");
        assert_eq!(texts(&page), ["again", "6.1"]);
    }

    #[test]
    fn a_section_without_a_command_is_left() {
        let page = "# Kernels\n\n## 5.10: tests of `zcopy`\n\nby hand\n";
        assert_eq!(texts(&record(page, "5.10", "", "all")), ["by hand", "all"]);
    }
}
