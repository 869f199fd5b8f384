//! Options, in every form that `getopt_long(3)` takes.

use crate::script::{as_gnu, run};

#[test]
fn u_is_accepted_and_ignored() {
    as_gnu("cat -u f").succeeds_with("hi\n");
    as_gnu("cat -uu -u f").succeeds_with("hi\n");
}

#[test]
fn options_may_follow_operands() {
    as_gnu("cat f -u g").succeeds_with("hi\nthere\n");
}

#[test]
fn long_options_may_be_shortened() {
    run("cat --sta f").succeeds_with("hi\n");
    let help = run("cat --h");
    assert_eq!(help, run("cat --help"));
    assert_eq!(help.status, 0, "{}", help.stderr);
}

#[test]
fn an_ambiguous_option_lists_candidates_in_the_order_of_gnu() {
    let outcome = run("cat --show f");
    assert_eq!(outcome.status, 1);
    let said = "cat: option '--show' is ambiguous; possibilities: \
                '--show-nonprinting' '--show-ends' '--show-tabs' '--show-all'\n";
    assert!(outcome.stderr.starts_with(said), "{}", outcome.stderr);
}
