//! The figures that libFuzzer prints when it ends.

use std::fmt;

/// The figures of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Statistics {
    executions: u64,
    /// The number of basic blocks that any input has reached, with those of the dependencies.
    blocks: u64,
    inputs: u64,
    slowest_seconds: u64,
    megabytes: u64,
}

impl Statistics {
    /// Parses the messages. `None` if libFuzzer has not run to its end.
    pub(super) fn parse(said: &str) -> Option<Self> {
        let statistic = |name: &str| {
            let mut lines = said.lines();
            let value = lines.find_map(|line| line.strip_prefix("stat::")?.strip_prefix(name))?;
            value.trim_start_matches(':').trim().parse().ok()
        };
        // `#8388 DONE cov: 1234 ft: 5678 corp: 90/12Kb …`
        let last = said.lines().rev().find(|line| line.contains(" cov: "));
        let behind = |word: &str| {
            let value = last?.split_once(word)?.1.trim_start();
            let end = value.find(|c: char| !c.is_ascii_digit());
            value[..end.unwrap_or(value.len())].parse().ok()
        };
        Some(Self {
            executions: statistic("number_of_executed_units")?,
            blocks: behind(" cov: ").unwrap_or(0),
            inputs: behind(" corp: ").unwrap_or(0),
            slowest_seconds: statistic("slowest_unit_time_sec")?,
            megabytes: statistic("peak_rss_mb")?,
        })
    }

    /// The cells of a table, in the order of its heading.
    pub(super) fn cells(&self) -> String {
        format!(
            "{} | {} | {} | {} s | {} MB",
            self.executions, self.blocks, self.inputs, self.slowest_seconds, self.megabytes
        )
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            executions,
            blocks,
            inputs,
            ..
        } = self;
        write!(
            f,
            "{executions} executions, {blocks} blocks reached, {inputs} inputs kept"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_those_of_the_last_line_and_of_the_end() {
        let said = "#2\tINITED cov: 10 ft: 11 corp: 1/1b exec/s: 0 rss: 30Mb\n\
                    #99\tDONE   cov: 1234 ft: 5678 corp: 90/12Kb lim: 4096 exec/s: 9 rss: 31Mb\n\
                    Done 99 runs in 11 second(s)\n\
                    stat::number_of_executed_units: 99\n\
                    stat::average_exec_per_sec:     9\n\
                    stat::new_units_added:          89\n\
                    stat::slowest_unit_time_sec:    1\n\
                    stat::peak_rss_mb:              31\n";
        let expected = Statistics {
            executions: 99,
            blocks: 1234,
            inputs: 90,
            slowest_seconds: 1,
            megabytes: 31,
        };
        assert_eq!(Statistics::parse(said), Some(expected));
        assert_eq!(Statistics::parse("running 0 tests\n"), None);
    }
}
