//! Answers HTTP requests with one file, whose pages go to the socket without passing through here.
//!
//! `cargo run --release --example serve_file -- FILE [ADDRESS [REQUESTS]]`
//!
//! Listens on `127.0.0.1:8080` unless told otherwise; port 0 takes any. Says where on the first line
//! it prints, and ends after so many requests, or never.

#![allow(clippy::print_stdout, reason = "it says where it listens")]

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use zcopy::Transfer;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let path = arguments
        .next()
        .ok_or("usage: serve_file FILE [ADDRESS [REQUESTS]]")?;
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let requests = arguments
        .next()
        .map_or(Ok(usize::MAX), |n| n.to_string_lossy().parse())?;

    let listener = TcpListener::bind(&*address.to_string_lossy())?;
    println!("http://{}/", listener.local_addr()?);
    for client in listener.incoming().take(requests) {
        // One client's trouble is not the next one's.
        if let Err(error) = client
            .map_err(Into::into)
            .and_then(|c| answer(&c, Path::new(&path)))
        {
            eprintln!("serve_file: {error:#}");
        }
    }
    Ok(())
}

/// Reads one request, whatever it asks for, and answers with the file.
fn answer(client: &TcpStream, path: &Path) -> Result<(), Box<dyn Error>> {
    let request = BufReader::new(client).lines();
    for line in request {
        // An empty line ends the request's header.
        if line?.is_empty() {
            break;
        }
    }
    let body = File::open(path)?;
    let length = body.metadata()?.len();
    let header = format!(
        "HTTP/1.1 200 OK\r\n\
         Content-Type: application/octet-stream\r\n\
         Content-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    (&mut &*client).write_all(header.as_bytes())?;
    // No more than was announced, even if the file grows meanwhile.
    let report = Transfer::new(&body, client).limit(length).run()?;
    eprintln!("{report}");
    Ok(())
}
