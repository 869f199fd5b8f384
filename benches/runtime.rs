//! The runtime of the drivers that are futures.

use tokio::runtime::{Builder, Runtime};

/// A runtime of tokio with one thread.
pub(crate) fn runtime() -> Runtime {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be built")
}
