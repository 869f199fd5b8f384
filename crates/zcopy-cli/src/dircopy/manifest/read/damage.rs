//! The damage of a manifest.

use std::io;

use super::contents::NotRegular;
use crate::common::cli::message;
use crate::dircopy::manifest::header::ParseHeaderError;
use crate::dircopy::manifest::line::ParseLineError;

/// The damage of a manifest.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Damage {
    #[error("{}", message::worded(.0))]
    Unreadable(io::Error),
    #[error("{0}")]
    NotRegular(NotRegular),
    #[error(transparent)]
    Header(#[from] ParseHeaderError),
    #[error("it is empty")]
    Empty,
    #[error("its end is missing")]
    Cut,
    #[error("its lines do not have the digest that its end tells")]
    Altered,
    #[error("line {0}: {1}")]
    Malformed(u64, ParseLineError),
    #[error("line {0}: it is no digest and path of a bag")]
    BagLine(u64),
    #[error("this program cannot make its digests, and no other manifest lists all of its files")]
    UnknownFunction,
    #[error("the run that began it is under way, has failed or was ended; the next one continues")]
    Unfinished,
    #[error("{0}")]
    Other(&'static str),
}

impl From<io::Error> for Damage {
    fn from(error: io::Error) -> Self {
        Self::from_error(error)
    }
}

impl Damage {
    pub(crate) fn from_error(error: io::Error) -> Self {
        let what = error.get_ref().and_then(|inner| inner.downcast_ref());
        match what {
            Some(what) => Self::NotRegular(*what),
            None => Self::Unreadable(error),
        }
    }

    /// Whether the file is gone.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Unreadable(error) if error.kind() == io::ErrorKind::NotFound)
    }
}
