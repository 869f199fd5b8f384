//! Options that a test may ask for.

use std::time::Duration;

use zcopy::{Strategy, Transfer};

/// Has a transfer go this way and tick so often, if that is asked for.
pub(crate) fn asked(
    transfer: Transfer<'_>,
    way: Option<Strategy>,
    tick: Option<Duration>,
) -> Transfer<'_> {
    let transfer = match way {
        Some(way) => transfer.strategy(way),
        None => transfer,
    };
    match tick {
        Some(tick) => transfer.tick(tick),
        None => transfer,
    }
}
