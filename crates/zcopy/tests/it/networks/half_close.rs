//! One direction of a relay has ended, and the other goes on over a lossy link.

use std::thread;

use zcopy::{Ended, Relay};

use super::driver::Driver;
use super::link::{Impairments, Link, is_in_namespace};
use super::peers::{inverse, receive, send};
use super::processor_time::mostly_asleep;
use crate::concurrency::bounded;
use crate::files::{assert_same, pattern};

const LEN: usize = (1 << 20) + 7;

#[test]
#[ignore = "packets fare differently in each run: CONTRIBUTING.md says when to run it"]
fn a_long_answer_follows_the_end_of_the_question() {
    if !is_in_namespace("networks::half_close::a_long_answer_follows_the_end_of_the_question") {
        return;
    }
    bounded(|| {
        let link = Link::start(2);
        let cases = Driver::ALL.map(|driver| (driver, link.connect(), link.connect()));
        link.impair(Impairments::LOSSY);
        thread::scope(|scope| {
            for (driver, (client, front), (back, server)) in cases {
                scope.spawn(move || {
                    driver.prepare(&front);
                    driver.prepare(&back);
                    let answering = thread::spawn(move || {
                        // The server answers when it has seen the end of the question.
                        let question = receive(&server).join().unwrap();
                        send(&server, inverse(LEN)).join().unwrap();
                        question
                    });
                    let sending = send(&client, pattern(5));
                    let at_client = receive(&client);
                    let what = format!("{driver:?}");
                    let relay = Relay::new(front, back);
                    let report = mostly_asleep(&what, || driver.relay(relay).unwrap());
                    sending.join().unwrap();
                    assert_same(&answering.join().unwrap(), &pattern(5), &what);
                    assert_same(&at_client.join().unwrap(), &inverse(LEN), &what);
                    let counts = (report.a_to_b().bytes(), report.b_to_a().bytes());
                    assert_eq!(counts, (5, LEN as u64), "{what}");
                    assert_eq!(report.ended(), Ended::Eof, "{what}");
                });
            }
        });
        link.assert_was_lossy();
    });
}
