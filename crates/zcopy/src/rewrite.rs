//! Bytes that become others on their way.

mod rewriter;

pub use rewriter::{Input, Rest, Rewriter, Rewritten};
