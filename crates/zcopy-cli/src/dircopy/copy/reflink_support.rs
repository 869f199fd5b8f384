//! Remembers which file systems cannot clone files.

use std::sync::{PoisonError, RwLock};

use rustix::io::Errno;

/// The pairs of devices, source and destination, between which files cannot be cloned.
#[derive(Debug, Default)]
pub(crate) struct ReflinkSupport {
    unable: RwLock<Vec<(u64, u64)>>,
}

impl ReflinkSupport {
    /// Whether cloning from one device to the other may work.
    pub(crate) fn may_share(&self, pair: (u64, u64)) -> bool {
        let unable = self.unable.read().unwrap_or_else(PoisonError::into_inner);
        !unable.contains(&pair)
    }

    /// Remembers the devices of a clone that failed, if every other clone would fail too.
    pub(crate) fn learn(&self, pair: (u64, u64), error: &zcopy::Error) {
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
