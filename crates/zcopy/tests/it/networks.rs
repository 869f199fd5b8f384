//! Bad networks: packets are lost, late, doubled or overtaken, links go down, peers reset, end one
//! direction or stop reading. Nothing hangs, no byte is lost or miscounted, and waiting costs no
//! processor time.
//!
//! Each test runs in a network namespace of its own, and only if it is asked for (`--ignored`).

mod down;
mod driver;
mod half_close;
mod link;
mod little_room;
mod lossy;
mod mptcp;
mod peers;
mod processor_time;
mod resets;
mod stalled_reader;
mod tiny_buffers;
