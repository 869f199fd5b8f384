//! Scripted faults.
