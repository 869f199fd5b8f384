//! Medians, spreads, and how sure a median of ratios is.

#![allow(
    clippy::cast_precision_loss,
    dead_code,
    reason = "figures are shown with three digits, and no benchmark needs all of them"
)]

/// How often the turns are drawn anew for the interval of a median.
const RESAMPLES: usize = 2000;

/// A median with the 10th and the 90th percentile, or with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Middle {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

/// The median of the figures, and their 10th and 90th percentile.
pub(crate) fn spread(figures: impl IntoIterator<Item = f64>) -> Middle {
    let mut sorted: Vec<f64> = figures.into_iter().collect();
    sorted.sort_unstable_by(f64::total_cmp);
    Middle {
        low: quantile(&sorted, 0.1),
        median: quantile(&sorted, 0.5),
        high: quantile(&sorted, 0.9),
    }
}

/// The figure below which this part of them is.
pub(crate) fn quantile_of(figures: impl IntoIterator<Item = f64>, part: f64) -> f64 {
    let mut sorted: Vec<f64> = figures.into_iter().collect();
    sorted.sort_unstable_by(f64::total_cmp);
    quantile(&sorted, part)
}

/// The throughput of the first as a multiple of that of the second: the median of the turns, and
/// its 95 % interval, by the bootstrap.
pub(crate) fn speed_ratio(ours: &[u64], theirs: &[u64]) -> Middle {
    let ratios = ours.iter().zip(theirs);
    let ratios = ratios.map(|(&ours, &theirs)| theirs as f64 / ours.max(1) as f64);
    let ratios: Vec<f64> = ratios.collect();
    // The same figures have the same interval each time.
    let mut random = fastrand::Rng::with_seed(1);
    let mut drawn = vec![0.0; ratios.len()];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            drawn.fill_with(|| random.choice(&ratios).copied().unwrap_or(f64::NAN));
            median(&mut drawn)
        })
        .collect();
    medians.sort_unstable_by(f64::total_cmp);
    Middle {
        low: quantile(&medians, 0.025),
        median: median(&mut ratios.clone()),
        high: quantile(&medians, 0.975),
    }
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    quantile(figures, 0.5)
}

/// The figure below which this part of them is; figures between two are interpolated.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let place = last as f64 * part;
    // The place is between 0 and the last index.
    #[allow(clippy::cast_sign_loss, reason = "the place is not negative")]
    let below = place as usize;
    let above = last.min(below + 1);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}
