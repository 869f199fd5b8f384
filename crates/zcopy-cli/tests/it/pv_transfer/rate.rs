//! `-L`: how fast it goes at most, and that it does go as fast.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::as_pv;
use crate::child::{end_of, zc_pv};
use crate::script::big;

/// How long it takes with these arguments.
fn time_of(arguments: &[&str], input: impl Into<Stdio>) -> Duration {
    let mut command = zc_pv();
    command.args(arguments).stdin(input).stdout(Stdio::null());
    let begin = Instant::now();
    assert!(end_of(command.spawn().unwrap()).success(), "{arguments:?}");
    begin.elapsed()
}

/// It takes a second, as [`takes`] says.
#[track_caller]
fn takes_a_second(arguments: &[&str]) {
    takes(1.0, arguments, zeros);
}

fn zeros() -> Stdio {
    std::fs::File::open("/dev/zero").unwrap().into()
}

/// The same, of what another program writes for ever.
#[track_caller]
pub(super) fn takes_a_second_from(arguments: &[&str], program: &str) {
    takes(1.0, arguments, || {
        let (reader, writer) = std::io::pipe().unwrap();
        let writer = Command::new(program).stdout(writer).spawn().unwrap();
        // It ends with its reader.
        thread::spawn(move || end_of(writer));
        reader.into()
    });
}

/// It takes these seconds. It is never faster by more than 5 %; on a busy machine it may be slower
/// by more than a moment, but not always.
#[track_caller]
fn takes(seconds: f64, arguments: &[&str], input: impl Fn() -> Stdio) {
    for attempt in 1.. {
        let took = time_of(arguments, input()).as_secs_f64();
        assert!(took > seconds * 0.95, "{arguments:?}: {took} s");
        if took < seconds + 0.15 {
            return;
        }
        assert!(attempt < 10, "{arguments:?}: {took} s");
    }
}

#[test]
fn the_rate_is_kept_within_five_per_cent() {
    takes(3.0, &["-qL", "1M", "-Ss", "3M"], zeros);
    takes_a_second(&["-qL", "1.5K", "-Ss", "1536"]);
    takes_a_second(&["-qL2", "-Ss2"]);
}

#[test]
fn the_rate_is_kept_by_every_way_of_moving() {
    takes_a_second(&["-qL", "100M", "-Ss", "100M"]);
    takes_a_second(&["-qCL", "1M", "-Ss", "1M"]);
    takes_a_second(&["-qL", "500K", "-B", "100K", "-Ss", "500K"]);
    takes_a_second(&["-fD9", "-L", "1M", "-Ss", "1M"]);
}

/// A burst for each would move all of them at once.
#[test]
fn many_small_files_share_one_rate() {
    let dir = tempfile::tempdir().unwrap();
    let names: Vec<_> = (0..100).map(|n| dir.path().join(n.to_string())).collect();
    for name in &names {
        std::fs::write(name, [7; 10_240]).unwrap();
    }
    let mut arguments = vec!["-qL", "1M"];
    arguments.extend(names.iter().map(|name| name.to_str().unwrap()));
    takes_a_second(&arguments);
}

#[test]
fn a_rate_of_nothing_is_no_limit() {
    as_pv("pv -q -L 0 big").succeeds_with(big());
    as_pv("pv -q -L 0K big").succeeds_with(big());
    as_pv("pv -q --rate-limit=1G big").succeeds_with(big());
}
