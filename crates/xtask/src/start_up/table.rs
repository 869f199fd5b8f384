//! Makes a table of times.

use std::fmt::Write as _;
use std::time::Duration;

use super::Series;

/// The part of a series below which this many per cent of its times are.
fn quantile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() - 1) * percent / 100]
}

/// The table, with one line for each series. Originals come before the builds that are compared
/// with them.
pub(super) fn render(series: &[Series]) -> String {
    let runs = series.first().map_or(0, |series| series.times.len());
    let mut text = format!(
        "Times in microseconds of {runs} runs each, in random order, of copies of the programs. One byte goes to a pipe, by `pv` to a file; of `yes`, one line is read.\n\n\
         | command | build | minimum | 10 % | median | 90 % | median ÷ original's | minimum ÷ original's |\n\
         |---|---|---:|---:|---:|---:|---:|---:|"
    );
    let mut original = (0.0, 0.0);
    for (
        index,
        Series {
            case, build, times, ..
        },
    ) in series.iter().enumerate()
    {
        let mut sorted = times.clone();
        sorted.sort_unstable();
        let [least, low, median, high] =
            [0, 10, 50, 90].map(|percent| quantile(&sorted, percent).as_secs_f64() * 1e6);
        let name = case.name();
        let is_original = index == 0 || series[index - 1].case.name() != name;
        if is_original {
            original = (least, median);
        }
        let ratio = median / original.1;
        let of_least = least / original.0;
        // A `String` takes everything.
        let _ = write!(
            text,
            "\n| `{name}` | {build} | {least:.0} | {low:.0} | {median:.0} | {high:.0} | {ratio:.2} | {of_least:.2} |"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_times_of_the_series() {
        let sorted: Vec<_> = (1..=11).map(Duration::from_micros).collect();
        let found = [0, 10, 50, 90, 100].map(|percent| quantile(&sorted, percent));
        assert_eq!(found, [1, 2, 6, 10, 11].map(Duration::from_micros));
    }
}
