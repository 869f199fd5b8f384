//! A file that is sent to every client, again and again until the client leaves, by one driver.

use std::fs::File;
use std::io::{Seek, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fs::{MemfdFlags, memfd_create};
use zcopy::{Progressed, Session, Transfer};

use crate::runtime::runtime;

/// The ways to send the file.
pub(crate) const DRIVERS: &[&str] = &[
    "zcopy::Session::step",
    #[cfg(feature = "tokio")]
    "zcopy::Transfer::run_async",
    "zcopy::Transfer::run",
    "tokio_splice2::sendfile",
    "tokio::io::copy",
    "std::io::copy",
];

const FILE_BYTES: u64 = 64 << 20;

/// Sends the file to every client until all have left.
pub(super) fn run(driver: &str, file: &OwnedFd, clients: &[TcpStream]) {
    match driver {
        "zcopy::Session::step" => step(file, clients),
        "zcopy::Transfer::run" => threads(file, clients, |file, client| {
            let transfer = Transfer::new(&*file, client).source_offset(0);
            transfer.run().is_ok()
        }),
        "std::io::copy" => threads(file, clients, |file, mut client| {
            let rewound = file.rewind().is_ok();
            rewound && std::io::copy(file, &mut client).is_ok()
        }),
        _ => run_async(driver, file, clients),
    }
}

/// A file in memory.
pub(super) fn file() -> OwnedFd {
    let file = memfd_create("file", MemfdFlags::CLOEXEC).expect("there is memory");
    let mut file = File::from(file);
    let block = vec![7; 1 << 20];
    for _ in 0..FILE_BYTES >> 20 {
        file.write_all(&block).expect("there is memory");
    }
    file.into()
}

/// Opens the file again, with a cursor of its own.
fn reopen(file: &OwnedFd) -> File {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    File::open(path).expect("procfs is mounted")
}

/// One thread for each client, whose sockets block.
fn threads(
    file: &OwnedFd,
    clients: &[TcpStream],
    send: impl Fn(&mut File, &TcpStream) -> bool + Sync,
) {
    thread::scope(|scope| {
        for client in clients {
            let (mut file, send) = (reopen(file), &send);
            client.set_nonblocking(false).expect("it is a socket");
            scope.spawn(move || while send(&mut file, client) {});
        }
    });
}

/// One thread that waits for all clients by epoll(7).
fn step(file: &OwnedFd, clients: &[TcpStream]) {
    let start = |client| -> Session<'_, &OwnedFd, &TcpStream> {
        let transfer = Transfer::new(file, client).source_offset(0);
        transfer.start().expect("a file and a socket")
    };
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("there is a descriptor");
    let mut sessions: Vec<Option<_>> = Vec::with_capacity(clients.len());
    for (index, client) in clients.iter().enumerate() {
        let data = epoll::EventData::new_u64(index as u64);
        epoll::add(&epoll, client, data, epoll::EventFlags::OUT).expect("a socket can be polled");
        sessions.push(Some(start(client)));
    }
    let mut n_left = sessions.len();
    let mut events = Vec::with_capacity(1024);
    while n_left > 0 {
        events.clear();
        epoll::wait(&epoll, spare_capacity(&mut events), None).expect("no signal has a handler");
        for event in &events {
            let index = event.data.u64() as usize;
            let Some(session) = &mut sessions[index] else {
                continue;
            };
            // The next client is served after one step. A socket that takes more stays ready.
            match session.step(1 << 20) {
                Ok(Progressed::Moved(_) | Progressed::Blocked(_)) => {}
                Ok(Progressed::Ended(_)) => sessions[index] = Some(start(&clients[index])),
                _ => {
                    sessions[index] = None;
                    n_left -= 1;
                    epoll::delete(&epoll, &clients[index]).expect("it was added");
                }
            }
        }
    }
}

/// One thread with a task of tokio for each client.
fn run_async(driver: &str, file: &OwnedFd, clients: &[TcpStream]) {
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime(), async {
        let mut tasks = Vec::with_capacity(clients.len());
        for client in clients {
            let file = reopen(file);
            let client = client.as_fd().try_clone_to_owned().map(TcpStream::from);
            let client = client.expect("there is a descriptor");
            let client = tokio::net::TcpStream::from_std(client).expect("the runtime is entered");
            tasks.push(match driver {
                "tokio::io::copy" => tokio::task::spawn_local(copy(file, client)),
                "tokio_splice2::sendfile" => tokio::task::spawn_local(sendfile(file, client)),
                #[cfg(feature = "tokio")]
                "zcopy::Transfer::run_async" => tokio::task::spawn_local(async move {
                    while Transfer::new(&file, &client)
                        .source_offset(0)
                        .run_async()
                        .await
                        .is_ok()
                    {}
                }),
                other => panic!("{other} is no driver"),
            });
        }
        for task in tasks {
            task.await.expect("no task panics");
        }
    });
}

async fn copy(file: File, mut client: tokio::net::TcpStream) {
    use tokio::io::AsyncSeekExt;

    let mut file = tokio::fs::File::from_std(file);
    while file.rewind().await.is_ok() && tokio::io::copy(&mut file, &mut client).await.is_ok() {}
}

async fn sendfile(file: File, mut client: tokio::net::TcpStream) {
    use tokio::io::AsyncSeekExt;

    let mut file = tokio::fs::File::from_std(file);
    // 0.3.2 counts each byte twice, and would end after half of the file.
    let len = 2 * FILE_BYTES;
    while file.rewind().await.is_ok() {
        let sent = tokio_splice2::sendfile(&mut file, &mut client, len, None, None).await;
        if sent.is_err() {
            break;
        }
    }
}
