//! [`FollowLink`]: symbolic links that stand for their targets.

/// Whether a name is a symbolic link that stands for its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FollowLink {
    No,
    Yes,
}
