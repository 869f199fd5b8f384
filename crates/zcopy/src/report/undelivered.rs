//! The bytes of a report that the sink has not accepted.

use std::fmt;
use std::sync::Arc;

use super::Bytes;

/// Undelivered bytes. The clones of a report share them: an error and the session that it ended both
/// have the report, and there may be no memory for a copy. They may be many or secret, so that
/// `Debug` prints only their number.
#[derive(Clone, Default)]
pub(crate) struct Undelivered(Option<Arc<Vec<u8>>>);

impl Undelivered {
    pub(crate) fn as_slice(&self) -> &[u8] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }

    /// Returns the bytes, or a copy of them if another report has them too.
    pub(crate) fn into_vec(self) -> Vec<u8> {
        self.0.map(Arc::unwrap_or_clone).unwrap_or_default()
    }

    /// Appends the bytes of `later`.
    pub(crate) fn append(&mut self, later: &Self) {
        match (&mut self.0, &later.0) {
            (Some(earlier), Some(later)) => Arc::make_mut(earlier).extend_from_slice(later),
            (earlier, later) => *earlier = earlier.take().or_else(|| later.clone()),
        }
    }
}

impl From<Vec<u8>> for Undelivered {
    fn from(bytes: Vec<u8>) -> Self {
        Self((!bytes.is_empty()).then(|| Arc::new(bytes)))
    }
}

impl fmt::Debug for Undelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Bytes(self.as_slice().len() as u64), f)
    }
}
