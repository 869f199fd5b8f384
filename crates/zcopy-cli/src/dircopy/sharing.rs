//! Which file systems share blocks.

use std::sync::{PoisonError, RwLock};

use rustix::io::Errno;

/// The pairs of file systems, by their devices, of which it is known that they do not.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    unable: RwLock<Vec<(u64, u64)>>,
}

impl Sharing {
    /// Whether it is worth trying, from one device to another.
    pub(super) fn may_share(&self, pair: (u64, u64)) -> bool {
        let unable = self.unable.read().unwrap_or_else(PoisonError::into_inner);
        !unable.contains(&pair)
    }

    /// Remembers what a file could not be shared for, if it holds for all others.
    pub(super) fn learn(&self, pair: (u64, u64), error: &zcopy::Error) {
        let was_tried = !error.report().attempts().is_empty();
        let errno = error.raw_os_error().map(Errno::from_raw_os_error);
        let is_of_the_pair = matches!(
            errno,
            Some(Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS | Errno::XDEV)
        );
        if !was_tried || is_of_the_pair {
            let mut unable = self.unable.write().unwrap_or_else(PoisonError::into_inner);
            unable.push(pair);
        }
    }
}
