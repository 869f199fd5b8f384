//! Stands in for what the library is about to have.
pub(crate) trait T: Sized {
    fn records(self, _: u8) -> Self {
        self
    }
    fn record_limit(self, _: u64) -> Self {
        self
    }
    fn record_rate_limit(self, _: u64) -> Self {
        self
    }
}
impl T for zcopy::Transfer<'_> {}
pub(crate) trait R {
    fn records(&self) -> u64 {
        0
    }
}
impl R for zcopy::Report {}
impl R for zcopy::Progress {}
