//! An output that is the very file that standard input comes from.

use crate::script::TEE;

#[test]
fn a_file_that_is_written_anew_has_nothing_to_give() {
    let outcome = TEE.as_peers("tee f < f");
    outcome.succeeds_with("");
    assert_eq!(outcome.files["f"], b"");
}
