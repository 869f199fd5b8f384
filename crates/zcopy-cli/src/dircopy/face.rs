//! stub
use super::counts::Counts;
use super::tree::{Exclude, Trouble};
use std::path::Path;
use std::time::Duration;
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    Quiet,
    Normal,
    Json,
}
pub(super) struct Face<'a> {
    manner: Manner,
    counts: &'a Counts,
}
impl<'a> Face<'a> {
    pub(super) fn new(manner: Manner, counts: &'a Counts) -> Self {
        Self { manner, counts }
    }
    pub(super) fn complain(&self, path: &Path, error: &anyhow::Error) {
        self.counts.failed.add(1);
        eprintln!("zc-dircopy: {}: {error:#}", path.display());
    }
    pub(super) fn complain_of(&self, trouble: &Trouble) {
        self.counts.failed.add(1);
        eprintln!("zc-dircopy: {trouble} {:?}", trouble.cause());
    }
    pub(super) fn remark(&self, path: &Path, text: &str) {
        eprintln!("{}: {text}", path.display());
    }
    pub(super) fn shows_progress(&self) -> bool {
        false
    }
    pub(super) fn draw_until(&self, _: &End, _: &Total) {}
    pub(super) fn summarize(&self, elapsed: Duration, sums: Option<&Path>) -> std::io::Result<()> {
        println!("{:?} {elapsed:?} {:?} {sums:?}", self.manner, self.counts);
        Ok(())
    }
}
#[derive(Default)]
pub(super) struct End;
impl End {
    pub(super) fn ring(&self) {}
}
#[derive(Default)]
pub(super) struct Total;
pub(super) fn prescan(_: &Path, _: bool, _: bool, _: &Exclude, _: &Total, _: &End) {}
