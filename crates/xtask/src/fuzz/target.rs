//! The tests that libFuzzer runs.

/// A property test.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) name: &'static str,
    pub(super) package: &'static str,
    /// The path of the unit test, which calls a function of `zcopy-fuzz` once.
    pub(super) test: &'static str,
}

const fn zcopy(name: &'static str, test: &'static str) -> Target {
    Target {
        name,
        package: "zcopy",
        test,
    }
}

const fn tools(name: &'static str, test: &'static str) -> Target {
    Target {
        name,
        package: "zcopy-cli",
        test,
    }
}

/// All targets, those of one package together.
pub(super) const TARGETS: &[Target] = &[
    zcopy(
        "plans",
        "plan::tests::a_plan_has_one_first_strategy_and_goes_on_until_buffered_or_refuses_what_was_requested",
    ),
    zcopy(
        "transfers",
        "engine::pair::tests::properties::bytes_consumed_are_bytes_delivered_and_bytes_handed_back_in_order_and_never_twice",
    ),
    zcopy(
        "records",
        "engine::pair::tests::records::the_count_is_that_of_the_sink_and_nothing_goes_beyond_the_nth_record",
    ),
    zcopy(
        "bad-blocks",
        "engine::pair::tests::bad_blocks::random::readable_bytes_are_delivered_and_the_rest_are_zeros",
    ),
    zcopy(
        "fan-outs",
        "engine::fan_out::tests::properties::every_sink_holds_a_prefix_and_what_some_lack_is_handed_back_once_and_in_order",
    ),
    zcopy(
        "filters",
        "engine::filter::tests::properties::the_sink_holds_what_was_made_of_what_was_taken_and_the_rest_is_where_it_was",
    ),
    zcopy(
        "repetitions",
        "engine::repeat::tests::the_sink_holds_the_beginning_of_the_endless_repetition_and_the_count_is_its_length",
    ),
    zcopy(
        "readers",
        "engine::io::tests::a_sink_has_the_bytes_of_a_reader_that_are_counted_and_no_others_are_lost",
    ),
    zcopy(
        "writers",
        "engine::io::tests::a_writer_has_the_bytes_of_a_source_that_are_counted_and_no_others_are_lost",
    ),
    zcopy(
        "series",
        "fast_path::tests::a_series_delivers_what_its_transfers_report_and_nothing_of_one_in_another",
    ),
    tools(
        "sizes",
        "common::progress::units::tests::any_text_is_a_size_and_the_same_rate_or_neither",
    ),
    tools(
        "formats",
        "pv::display::render::tests::a_line_of_any_format_is_no_wider_than_the_terminal_and_obeys_no_data",
    ),
    tools(
        "watch-targets",
        "pv::watch::target::tests::any_specification_is_a_path_or_numbers_that_are_written_the_same",
    ),
    tools(
        "sum-lines",
        "dircopy::manifest::line::tests::any_line_that_is_understood_is_understood_alike_when_it_is_written_again",
    ),
    tools(
        "manifest-names",
        "dircopy::manifest::name::tests::any_text_that_is_a_name_is_written_the_same_and_has_a_later_one",
    ),
    tools(
        "manifest-headers",
        "dircopy::manifest::header::tests::any_header_that_is_understood_is_understood_alike_when_it_is_written_again",
    ),
    tools(
        "bag-paths",
        "dircopy::manifest::bag::path::tests::any_path_is_one_line_and_is_read_as_it_was_written",
    ),
    tools(
        "bag-info",
        "dircopy::manifest::bag::info::tests::the_total_that_is_set_is_the_one_that_is_told_whatever_stood_there_before",
    ),
    tools(
        "mhl-chains",
        "dircopy::manifest::mhl::chain::tests::any_list_that_is_read_is_read_alike_when_it_is_written_again",
    ),
    tools(
        "damage-maps",
        "dircopy::damage_map::map_text::tests::any_map_that_is_whole_names_bytes_of_its_file_and_reads_the_same_when_it_is_written_again",
    ),
];
