//! Limits of time, `Stop` and rates end and delay a transfer that waits in a task.

use std::fs::File;
use std::io::Write;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use zcopy::{Ended, Stop, Transfer};

use crate::support::{block_on, tcp_pair, tokio_tcp};

#[test]
fn an_idle_transfer_times_out_after_its_bytes() {
    let ((mut client, source), (sink, _server)) = (tcp_pair(), tcp_pair());
    client.write_all(b"hello").unwrap();
    let report = block_on(async {
        let transfer = Transfer::new(tokio_tcp(source), tokio_tcp(sink));
        let transfer = transfer.idle_timeout(Duration::from_millis(20));
        transfer.run_async().await.unwrap()
    });
    assert_eq!((report.bytes(), report.ended()), (5, Ended::TimedOut));
}

#[test]
fn a_deadline_ends_a_transfer_that_waits_and_one_that_never_does() {
    let deadline = || Instant::now() + Duration::from_millis(20);
    let (_client, source) = tcp_pair();
    block_on(async {
        let sink = File::create("/dev/null").unwrap();
        let transfer = Transfer::new(tokio_tcp(source), &sink).deadline(deadline());
        assert_eq!(transfer.run_async().await.unwrap().ended(), Ended::TimedOut);

        let zeros = File::open("/dev/zero").unwrap();
        let transfer = Transfer::new(zeros, &sink).deadline(deadline());
        let report = transfer.run_async().await.unwrap();
        assert_eq!(report.ended(), Ended::TimedOut);
        assert!(report.bytes() > 0);
    });
}

#[test]
fn a_stop_from_another_thread_wakes_the_task() {
    let (_client, source) = tcp_pair();
    let stop = Stop::new().unwrap();
    let (begin, started) = std::sync::mpsc::channel();
    let stopping = std::thread::spawn({
        let stop = stop.clone();
        move || {
            started.recv().unwrap();
            stop.stop();
        }
    });
    let report = block_on(async {
        let sink = File::create("/dev/null").unwrap();
        let transfer = Transfer::new(tokio_tcp(source), sink).stop_with(&stop);
        let mut session = transfer.start().unwrap();
        let driven = crate::support::polled_at_most(1, session.drive_async()).await;
        assert!(driven.is_none(), "nobody has written");
        begin.send(()).unwrap();
        assert_eq!(session.drive_async().await.unwrap(), Ended::Stopped);
        session.finish().unwrap()
    });
    stopping.join().unwrap();
    assert_eq!(report.ended(), Ended::Stopped);
}

#[test]
fn a_stop_that_was_used_before_ends_the_transfer_before_its_first_byte() {
    let stop = Stop::new().unwrap();
    stop.stop();
    block_on(async {
        let (zeros, sink) = (File::open("/dev/zero"), File::create("/dev/null"));
        let transfer = Transfer::new(zeros.unwrap(), sink.unwrap()).stop_with(&stop);
        let report = transfer.run_async().await.unwrap();
        assert_eq!((report.bytes(), report.ended()), (0, Ended::Stopped));
    });
}

#[test]
fn a_rate_limit_holds_in_a_task() {
    let start = Instant::now();
    block_on(async {
        let (zeros, sink) = (File::open("/dev/zero"), File::create("/dev/null"));
        let transfer = Transfer::new(zeros.unwrap(), sink.unwrap());
        let report = transfer
            .rate_limit(1_000_000)
            .limit(100_000)
            .run_async()
            .await
            .unwrap();
        assert_eq!(report.bytes(), 100_000);
    });
    assert!(start.elapsed() >= Duration::from_millis(95));
}

#[test]
fn a_tick_calls_the_observer_of_a_task_that_waits() {
    let (_client, source) = tcp_pair();
    let mut calls = 0;
    block_on(async {
        let sink = File::create("/dev/null").unwrap();
        let transfer = Transfer::new(tokio_tcp(source), sink);
        let transfer = transfer
            .tick(Duration::from_millis(1))
            .observe(move |progress| {
                assert_eq!(progress.bytes(), 0);
                calls += 1;
                if calls == 3 {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
        assert_eq!(transfer.run_async().await.unwrap().ended(), Ended::Stopped);
    });
}

#[test]
fn a_transfer_that_never_waits_lets_other_tasks_run() {
    block_on(async {
        let (zeros, sink) = (File::open("/dev/zero"), File::create("/dev/null"));
        let stop = Stop::new().unwrap();
        let transfer = Transfer::new(zeros.unwrap(), sink.unwrap()).stop_with(&stop);
        let busy = tokio::spawn(transfer.run_async());
        // In a runtime of one thread this task runs only when the other one yields.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        stop.stop();
        let report = busy.await.unwrap().unwrap();
        assert_eq!(report.ended(), Ended::Stopped);
        assert!(report.bytes() <= 20 << 20, "{report}");
    });
}

#[test]
fn a_runtime_without_timers_serves_a_transfer_without_time_limits() {
    let ((mut client, source), (sink, _server)) = (tcp_pair(), tcp_pair());
    client.write_all(b"hello").unwrap();
    let closing = std::thread::spawn(move || drop(client));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .unwrap();
    let report = runtime.block_on(async {
        let transfer = Transfer::new(tokio_tcp(source), tokio_tcp(sink));
        transfer.run_async().await.unwrap()
    });
    closing.join().unwrap();
    assert_eq!(report.bytes(), 5);
}
