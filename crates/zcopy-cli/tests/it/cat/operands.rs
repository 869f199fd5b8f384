//! Files and standard input, one after the other, and what becomes of those that cannot be read.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::script::{as_gnu, as_gnu_with, big};

#[test]
fn files_follow_each_other_in_order() {
    as_gnu("cat f g f").succeeds_with("hi\nthere\nhi\n");
}

#[test]
fn without_operands_standard_input_is_copied() {
    as_gnu("cat < f").succeeds_with("hi\n");
    as_gnu("printf there | cat").succeeds_with("there");
}

#[test]
fn a_dash_is_standard_input_where_it_stands() {
    as_gnu("cat f - g < big").succeeds_with([b"hi\n", &big()[..], b"there\n"].concat());
}

#[test]
fn standard_input_ends_once() {
    as_gnu("cat - f - < g").succeeds_with("there\nhi\n");
}

#[test]
fn standard_input_goes_on_from_its_cursor() {
    as_gnu("{ read line; cat; } < big").succeeds_with(&big()[2..]);
}

#[test]
fn large_files_arrive_whole_in_a_file_a_pipe_and_a_device() {
    let outcome = as_gnu("cat big big > out; cat big big | wc -c; cat big > /dev/null");
    assert_eq!(outcome.files["out"], [big(), big()].concat());
    outcome.succeeds_with(format!("{}\n", 2 * big().len()));
}

#[test]
fn output_is_appended_where_it_is_opened_so() {
    let outcome = as_gnu("cat f big >> g");
    outcome.succeeds_with("");
    assert_eq!(outcome.files["g"], [b"there\nhi\n", &big()[..]].concat());
}

#[test]
fn a_proc_file_of_no_size_is_copied() {
    let version = std::fs::read("/proc/version").unwrap();
    as_gnu("cat /proc/version f").succeeds_with([&version[..], b"hi\n"].concat());
}

#[test]
fn a_fifo_is_copied_to_its_end() {
    as_gnu("mkfifo p; { cat big > p & }; cat p f; wait")
        .succeeds_with([&big()[..], b"hi\n"].concat());
}

#[test]
fn ten_thousand_operands_need_one_descriptor_at_a_time() {
    let files = ["f", "g"].map(OsStr::new).repeat(5_000);
    as_gnu_with("ulimit -n 8; cat \"$@\"", &files).succeeds_with("hi\nthere\n".repeat(5_000));
}

#[test]
fn a_missing_file_is_reported_and_the_rest_copied() {
    as_gnu("cat f missing g")
        .fails_after("hi\nthere\n", "cat: missing: No such file or directory\n");
}

#[test]
fn a_directory_is_reported_and_the_rest_copied() {
    as_gnu("cat dir f").fails_after("hi\n", "cat: dir: Is a directory\n");
    as_gnu("cat < dir").fails_with("cat: -: Is a directory\n");
}

#[test]
fn whatever_forbids_opening_is_named() {
    as_gnu("cat f/x").fails_with("cat: f/x: Not a directory\n");
    as_gnu("ln -s a b; ln -s b a; cat a").fails_with("cat: a: Too many levels of symbolic links\n");
    let long = OsStr::new("x").as_bytes().repeat(300);
    as_gnu_with("cat \"$1\"", &[OsStr::from_bytes(&long)]);
}

#[test]
fn a_read_error_names_the_file_and_the_rest_is_copied() {
    // Nothing is mapped at address 0.
    as_gnu("cat /proc/self/mem f").fails_after("hi\n", "cat: /proc/self/mem: Input/output error\n");
}
