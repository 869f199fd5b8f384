//! Transfers on the real kernel.
