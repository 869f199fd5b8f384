//! The steps of a transfer with a file are taken by the blocking pool, on descriptors of their own.

use std::fs::File;
use std::future::poll_fn;
use std::io::{Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::pin::pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Poll;
use std::time::Duration;

use zcopy::{Ended, SyncData, Transfer};

use crate::support::{
    block_on, bytes, drain, feed, file, polled_at_most, tcp_pair, threads_named, tokio_tcp,
};

/// One step moves this many bytes between files.
const LEN: usize = 10_000;

/// Stops a step behind its write: the inspector waits there.
struct Gate {
    entered: Receiver<()>,
    /// Lets a step go on. All go on once this is dropped.
    open: Sender<()>,
}

fn gate() -> (Gate, impl FnMut(&[u8]) + Send + 'static) {
    let ((enters, entered), (open, opened)) = (channel(), channel());
    let inspector = move |_: &[u8]| {
        let _ = enters.send(());
        let _ = opened.recv();
    };
    (Gate { entered, open }, inspector)
}

/// Drops a future while the step that it has asked for is at the gate.
async fn drop_in_a_step<F: Future>(future: F, gate: &Gate) {
    let mut future = pin!(future);
    poll_fn(|context| {
        assert!(future.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
    gate.entered.recv().unwrap();
}

#[test]
fn a_step_that_outlives_its_session_touches_no_descriptor_that_took_its_number() {
    const ROOM: usize = 4096;
    let sent = bytes(LEN);
    let mut source_cursor = file(&sent);
    let (mut reader, mut sink) = std::io::pipe().unwrap();
    let capacity = rustix::pipe::fcntl_getpipe_size(&sink).unwrap();
    sink.write_all(&vec![0; capacity - ROOM]).unwrap();
    let (gate, inspector) = gate();
    block_on(async {
        let source = source_cursor.try_clone().unwrap();
        let numbers = [source.as_raw_fd(), sink.as_raw_fd()];
        let transfer = Transfer::new(source, sink).grow_pipes(false);
        let mut session = transfer.inspect(inspector).start().unwrap();
        drop_in_a_step(session.drive_async(), &gate).await;

        // The step has read more than the pipe has taken. Both numbers go to other files.
        drop(session);
        let [mut other_source, mut other_sink] = numbers.map(file_with_number);
        for other in [&mut other_source, &mut other_sink] {
            other.set_len(10 * LEN as u64).unwrap();
            other
                .seek(std::io::SeekFrom::Start(5 * LEN as u64))
                .unwrap();
        }
        drop(gate.open);
        // The transfer moves the cursor of its source back, and drops the inspector.
        while gate.entered.recv().is_ok() {}

        for other in [&mut other_source, &mut other_sink] {
            assert_eq!(other.stream_position().unwrap(), 5 * LEN as u64);
        }
    });
    assert_eq!(source_cursor.stream_position().unwrap(), ROOM as u64);
    let mut found = Vec::new();
    reader.read_to_end(&mut found).unwrap();
    assert_eq!(found.len(), capacity);
    assert!(found[capacity - ROOM..] == sent[..ROOM]);
}

/// Returns an empty file whose descriptor has this number, which must be free.
fn file_with_number(number: i32) -> File {
    let mut others = Vec::new();
    loop {
        let file = tempfile::tempfile().unwrap();
        if file.as_raw_fd() == number {
            return file;
        }
        assert!(
            others.len() < 1000,
            "another thread took descriptor {number}"
        );
        others.push(file);
    }
}

#[test]
fn a_session_waits_for_the_step_of_a_dropped_future() {
    let sent = bytes(LEN);
    let (gate, inspector) = gate();
    let mut sink = file(b"");
    let report = block_on(async {
        let transfer = Transfer::new(file(&sent), sink.try_clone().unwrap());
        let mut session = transfer.inspect(inspector).start().unwrap();
        drop_in_a_step(session.drive_async(), &gate).await;
        let opening = std::thread::spawn(move || drop(gate.open));
        let report = session.finish().unwrap();
        opening.join().unwrap();
        report
    });
    assert_eq!(
        (report.bytes(), report.ended()),
        (LEN as u64, Ended::Stopped)
    );
    sink.rewind().unwrap();
    let mut found = Vec::new();
    sink.read_to_end(&mut found).unwrap();
    assert!(found == sent);
}

#[test]
fn dropped_futures_occupy_one_thread_of_the_pool() {
    let sent = bytes(LEN);
    let (gate, inspector) = gate();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(2)
        .build()
        .unwrap();
    runtime.block_on(async {
        let transfer = Transfer::new(file(&sent), file(b"")).inspect(inspector);
        let mut session = transfer.start().unwrap();
        drop_in_a_step(session.drive_async(), &gate).await;
        for _ in 0..10 {
            assert!(polled_at_most(1, session.drive_async()).await.is_none());
        }
        // The other thread is free.
        tokio::task::spawn_blocking(|| {}).await.unwrap();
        drop(gate.open);
        assert_eq!(session.drive_async().await.unwrap(), Ended::Eof);
        assert_eq!(session.finish_async().await.unwrap().bytes(), LEN as u64);
    });
}

#[test]
fn a_visit_that_begins_after_its_future_was_dropped_takes_no_step() {
    let sent = bytes(LEN);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        let (release, released) = channel::<()>();
        let occupied = tokio::task::spawn_blocking(move || released.recv());
        let (mut source, sink) = (file(&sent), file(b""));
        let transfer = Transfer::new(source.try_clone().unwrap(), sink.try_clone().unwrap());
        let mut session = transfer.start().unwrap();
        // The only thread is occupied, so that the visit waits in the queue.
        assert!(polled_at_most(1, session.drive_async()).await.is_none());
        assert_eq!(session.step(10).unwrap(), zcopy::Progressed::Moved(10));
        drop(release);
        assert!(occupied.await.unwrap().is_err());
        // The queued visit has had its turn before this one.
        tokio::task::spawn_blocking(|| {}).await.unwrap();
        assert_eq!(session.progress().bytes(), 10);
        assert_eq!(source.stream_position().unwrap(), 10);
        assert_eq!(session.drive_async().await.unwrap(), Ended::Eof);
        assert_eq!(session.finish_async().await.unwrap().bytes(), LEN as u64);
        let mut found = vec![0; LEN];
        sink.read_exact_at(&mut found, 0).unwrap();
        assert!(found == sent);
    });
}

#[test]
fn other_tasks_run_while_a_step_waits() {
    let (gate, inspector) = gate();
    block_on(async {
        let transfer = Transfer::new(file(&bytes(LEN)), file(b"")).inspect(inspector);
        let task = tokio::spawn(transfer.run_async());
        let other = tokio::spawn(async move {
            while gate.entered.try_recv().is_err() {
                tokio::task::yield_now().await;
            }
            drop(gate.open);
        });
        other.await.unwrap();
        assert_eq!(task.await.unwrap().unwrap().bytes(), LEN as u64);
    });
}

#[test]
fn a_panic_of_a_callback_goes_on_in_the_task() {
    block_on(async {
        let transfer = Transfer::new(file(&bytes(LEN)), file(b""));
        let transfer = transfer.inspect(|_| panic!("the inspector panics"));
        let error = tokio::spawn(transfer.run_async()).await.unwrap_err();
        let message = error.into_panic();
        assert_eq!(message.downcast_ref(), Some(&"the inspector panics"));
    });
}

#[test]
fn no_thread_is_held_while_a_file_waits_for_a_slow_reader() {
    const THREAD_NAME: &str = "zcopy-files";
    const N_TRANSFERS: usize = 20;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_name(THREAD_NAME)
        .thread_keep_alive(Duration::from_millis(1))
        .build()
        .unwrap();
    let sent = bytes(16 << 20);
    runtime.block_on(async {
        let (mut servers, mut tasks) = (Vec::new(), Vec::new());
        for _ in 0..N_TRANSFERS {
            let (sink, server) = tcp_pair();
            server.set_nonblocking(true).unwrap();
            servers.push(server);
            let transfer = Transfer::new(file(&sent), tokio_tcp(sink));
            tasks.push(tokio::spawn(transfer.run_async()));
        }
        // Nobody reads. The threads end once every socket is full.
        while threads_named(THREAD_NAME) > 0
            || servers
                .iter()
                .any(|server| server.peek(&mut [0]).unwrap_or(0) == 0)
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(tasks.iter().all(|task| !task.is_finished()));
        let draining = servers.into_iter().map(|server| {
            server.set_nonblocking(false).unwrap();
            drain(server)
        });
        let draining: Vec<_> = draining.collect();
        for task in tasks {
            assert_eq!(task.await.unwrap().unwrap().bytes(), sent.len() as u64);
        }
        for found in draining {
            assert!(found.join().unwrap() == sent);
        }
    });
}

#[test]
fn files_of_tokio_and_of_std_move_exactly_and_a_copy_is_synced() {
    let sent = bytes((3 << 20) + 7);
    let ((client, source), mut sink) = (tcp_pair(), file(b""));
    let feeding = feed(client, sent.clone());
    block_on(async {
        let copy = tokio::fs::File::from_std(sink.try_clone().unwrap());
        let transfer = Transfer::new(source, copy).sync_data(SyncData::AtEnd);
        assert_eq!(
            transfer.run_async().await.unwrap().bytes(),
            sent.len() as u64
        );

        sink.rewind().unwrap();
        let mut copy = file(b"");
        let transfer = Transfer::new(tokio::fs::File::from_std(sink), copy.try_clone().unwrap());
        let report = transfer.run_async().await.unwrap();
        assert_eq!(report.bytes(), sent.len() as u64);
        assert_eq!(copy.stream_position().unwrap(), sent.len() as u64);
        copy.rewind().unwrap();
        let mut found = Vec::new();
        copy.read_to_end(&mut found).unwrap();
        assert!(found == sent, "{report}");
    });
    feeding.join().unwrap();
}

#[test]
fn a_file_may_be_a_terminal_or_a_fifo() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let both = File::options().read(true).write(true).open(&path).unwrap();
    let mut writer = both.try_clone().unwrap();
    block_on(async {
        let source = tokio::fs::File::from_std(both);
        let sink = file(b"");
        let mut session = Transfer::new(source, &sink).limit(11).start().unwrap();
        writer.write_all(b"hello").unwrap();
        let driving = tokio::time::timeout(Duration::from_millis(20), session.drive_async());
        assert!(driving.await.is_err());
        assert_eq!(session.progress().bytes(), 5);
        writer.write_all(b" world").unwrap();
        assert_eq!(session.drive_async().await.unwrap(), Ended::Limit);
        session.finish().unwrap();
        let mut found = [0; 11];
        sink.read_exact_at(&mut found, 0).unwrap();
        assert_eq!(&found, b"hello world");
    });
}

#[test]
fn a_session_that_no_task_has_driven_is_finished_by_the_pool() {
    let (source, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"hello").unwrap();
    let name = "finishes-files";
    let runtime = tokio::runtime::Builder::new_current_thread()
        .thread_name(name)
        .build();
    runtime.unwrap().block_on(async {
        let mut session = Transfer::new(source, file(b""))
            .sync_data(SyncData::AtEnd)
            .start()
            .unwrap();
        let _ = session.step(3).unwrap();
        let report = session.finish_async().await.unwrap();
        assert_eq!((report.bytes(), report.ended()), (3, Ended::Stopped));
        assert_eq!(threads_named(name), 1);
    });
}
