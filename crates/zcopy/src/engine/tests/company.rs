//! Transfers whose ends others use in the meantime.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};

use super::properties::check;
use crate::scripted::draw::{DRAWN, Drawn, worlds_with};
use crate::scripted::world::World;

/// Enough to meet every pair in company; the environment can ask for more.
const CASES: u32 = 1000;

const ALONE: Drawn = Drawn {
    sharing: false,
    sizes: false,
    packets: false,
    urgent: false,
    pages: false,
};

/// Runs random transfers that meet nothing else that is rare.
fn run(drawn: Drawn, adapt: fn(World) -> World) {
    let mut config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = CASES;
    }
    let worlds = worlds_with(drawn).prop_map(adapt);
    match TestRunner::new(config).run(&worlds, |world| check(&world)) {
        Ok(()) => {}
        Err(TestError::Fail(why, world)) => panic!("{why}\n{world:#?}"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn what_others_write_and_read_at_a_shared_position_is_neither_lost_nor_doubled() {
    let sharing = DRAWN.sharing;
    let drawn = Drawn { sharing, ..ALONE };
    run(drawn, |world| world);
}

#[test]
fn a_file_that_others_change_gives_bytes_that_it_had() {
    let sizes = DRAWN.sizes;
    run(Drawn { sizes, ..ALONE }, |world| world);
}

#[test]
fn no_packet_loses_its_rest() {
    let packets = DRAWN.packets;
    run(Drawn { packets, ..ALONE }, |world| world);
}

#[test]
fn an_urgent_byte_does_not_end_a_transfer() {
    let urgent = DRAWN.urgent;
    run(Drawn { urgent, ..ALONE }, |world| world);
}

#[test]
fn a_stable_transfer_shares_no_pages_that_came_through_a_pipe_or_socket() {
    let pages = DRAWN.pages;
    run(Drawn { pages, ..ALONE }, |mut world| {
        world.wishes.stable = true;
        world
    });
}
