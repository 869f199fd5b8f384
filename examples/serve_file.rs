//! Serves the files of a directory by HTTP/1.1, with ranges, so that downloads can be resumed.
//!
//! `cargo run --release --example serve_file -- DIRECTORY [ADDRESS [BYTES-PER-SECOND
//! [CONNECTIONS]]]`
//!
//! Listens on `127.0.0.1:8080` unless told otherwise; port 0 takes any. Prints its URL on the first
//! line. BYTES-PER-SECOND limits all connections together; 0 means no limit. The server ends after
//! CONNECTIONS connections [default: never].

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write, stderr, stdout};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use zcopy::{Ended, RateLimiter, Transfer};

/// A client that is silent for so long has gone.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest head of a request.
const MAX_HEAD: u64 = 16 << 10;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // `eprintln!` panics where standard error cannot be written.
            let _ = writeln!(stderr(), "serve_file: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let root = arguments
        .next()
        .map(PathBuf::from)
        .context("usage: serve_file DIRECTORY [ADDRESS [BYTES-PER-SECOND [CONNECTIONS]]]")?;
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let address = address.to_string_lossy();
    let mut number = |name| {
        let number = arguments.next().map(|n| n.to_string_lossy().parse::<u64>());
        number.transpose().context(name)
    };
    let rate = number("BYTES-PER-SECOND")?.filter(|rate| *rate > 0);
    let connections = number("CONNECTIONS")?.map_or(usize::MAX, |n| n as usize);

    let entry = fs::metadata(&root).with_context(|| root.display().to_string())?;
    ensure!(entry.is_dir(), "{}: not a directory", root.display());
    let listener = TcpListener::bind(&*address).with_context(|| address.to_string())?;
    writeln!(stdout(), "http://{}/", listener.local_addr()?).context("standard output")?;
    // One limiter for all connections: together they keep to the rate.
    let server = &Server {
        root,
        limiter: rate.map(RateLimiter::new),
    };
    thread::scope(|threads| {
        for client in listener.incoming().take(connections) {
            // An error of one client does not concern the next one.
            let report = |error| {
                let _ = writeln!(stderr(), "serve_file: {error:#}");
            };
            let serve = move || {
                let client = client.context("accept");
                let result = client.and_then(|client| server.serve(&client));
                result.unwrap_or_else(report);
            };
            let thread = thread::Builder::new().spawn_scoped(threads, serve);
            if let Err(error) = thread.context("a thread for a client") {
                report(error);
            }
        }
    });
    Ok(())
}

struct Server {
    root: PathBuf,
    limiter: Option<RateLimiter>,
}

impl Server {
    /// Answers the requests of one connection, until the client leaves or asks to close it.
    fn serve(&self, client: &TcpStream) -> anyhow::Result<()> {
        client.set_read_timeout(Some(IDLE_TIMEOUT))?;
        client.set_write_timeout(Some(IDLE_TIMEOUT))?;
        // The last bytes of an answer do not wait for an acknowledgement of those before them.
        client.set_nodelay(true)?;
        // It may hold the beginning of the next request, and has to outlive this one.
        let mut reader = BufReader::new(client);
        let mut has_served = false;
        loop {
            let request = match read_request(&mut reader) {
                Ok(Some(request)) => request,
                Ok(None) => break,
                // The client has no further request.
                Err(error) if error.kind() == ErrorKind::WouldBlock && has_served => break,
                Err(error) => return Err(error).context("request"),
            };
            let keeps_alive = self.answer(client, &request)?;
            if !keeps_alive {
                break;
            }
            has_served = true;
        }
        // A socket that is closed with bytes still to be read is reset, and may lose the answer.
        // Nothing depends on what a client says now, or on whether it is still there.
        if client.shutdown(Shutdown::Write).is_ok() {
            let rest = Transfer::new(client, File::create("/dev/null")?).limit(1 << 20);
            let _ = rest.idle_timeout(IDLE_TIMEOUT).run();
        }
        Ok(())
    }

    /// Returns whether the connection can serve another request.
    fn answer(&self, client: &TcpStream, request: &Request) -> anyhow::Result<bool> {
        let refuse = |status| {
            let close = "Content-Length: 0\r\nConnection: close\r\n\r\n";
            write!(&mut &*client, "HTTP/1.1 {status}\r\n{close}").context("answer")?;
            Ok(false)
        };
        let (method, path) = match &*request.words() {
            [method @ ("GET" | "HEAD"), path, version] if version.starts_with("HTTP/1.") => {
                (*method, *path)
            }
            [_, _, version] if version.starts_with("HTTP/1.") => {
                return refuse("405 Method Not Allowed\r\nAllow: GET, HEAD");
            }
            _ => return refuse("400 Bad Request"),
        };
        // The body of a request would have to be skipped, and no client needs to send one.
        if request.field("transfer-encoding").is_some()
            || request.field("content-length").is_some_and(|n| n != "0")
        {
            return refuse("400 Bad Request");
        }
        let Some(file) = find(&self.root, path) else {
            return refuse("404 Not Found");
        };
        let len = file.metadata().with_context(|| path.to_owned())?.len();
        let (status, range) = match request.field("range").map(|range| parse_range(range, len)) {
            // A range that is not understood is ignored: RFC 9110, section 14.2.
            None | Some(Range::Ignored) => ("200 OK".to_owned(), (0, len)),
            Some(Range::Part(start, end)) => {
                let range = format!("bytes {start}-{}/{len}", end - 1);
                (
                    format!("206 Partial Content\r\nContent-Range: {range}"),
                    (start, end),
                )
            }
            Some(Range::Outside) => {
                let status = "416 Range Not Satisfiable\r\nContent-Range: bytes */";
                return refuse(&format!("{status}{len}"));
            }
        };
        let (start, len) = (range.0, range.1 - range.0);
        let closes = request.words()[2] == "HTTP/1.0"
            || request
                .field("connection")
                .is_some_and(|value| value.eq_ignore_ascii_case("close"));
        let connection = if closes { "close" } else { "keep-alive" };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {len}\r\nAccept-Ranges: bytes\r\n\
             Connection: {connection}\r\n\r\n"
        );
        let body_len = if method == "HEAD" { 0 } else { len };
        let expected = head.len() as u64 + body_len;

        let mut transfer = Transfer::new(file, client)
            // Head and body share the first segment.
            .prefix(head)
            .source_offset(start)
            // No more than was announced, even if the file grows meanwhile.
            .limit(body_len)
            .idle_timeout(IDLE_TIMEOUT);
        if let Some(limiter) = &self.limiter {
            transfer = transfer.rate_limit(limiter);
        }
        // Clients leave as they like, in the middle of a download, too: a line says so, and others
        // are served.
        let report = transfer.run().with_context(|| path.to_owned())?;
        let _ = writeln!(stderr(), "{method} {path}: {report}");
        // A client can tell an answer that is too short only by a connection that ends.
        Ok(!closes && report.bytes() == expected && report.ended() != Ended::TimedOut)
    }
}

/// A request: its first line, and its fields.
struct Request {
    line: String,
    fields: Vec<(String, String)>,
}

impl Request {
    /// Method, path and version.
    fn words(&self) -> Vec<&str> {
        self.line.split(' ').collect()
    }

    fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        let (_, value) = fields.find(|field| field.0.eq_ignore_ascii_case(name))?;
        Some(value)
    }
}

/// Reads the head of a request. Returns `None` when the client has left.
fn read_request(reader: &mut BufReader<&TcpStream>) -> io::Result<Option<Request>> {
    let mut lines = reader.take(MAX_HEAD).lines();
    let Some(line) = lines.next().transpose()? else {
        return Ok(None);
    };
    let mut fields = Vec::new();
    for field in lines {
        let field = field?;
        if field.is_empty() {
            return Ok(Some(Request { line, fields }));
        }
        let (name, value) = field.split_once(':').unwrap_or((&field, ""));
        fields.push((name.to_owned(), value.trim().to_owned()));
    }
    // A head that is too long, or of which the client has sent a part, makes a bad request.
    let line = String::new();
    Ok(Some(Request { line, fields }))
}

/// The range that the field `Range` of a request names in a file of a certain length.
enum Range {
    /// From the first offset up to the second, which is excluded.
    Part(u64, u64),
    /// Nothing of the file.
    Outside,
    /// More than one range, another unit than bytes, or nonsense.
    Ignored,
}

/// Parses `bytes=FIRST-LAST`, `bytes=FIRST-` and `bytes=-NUMBER-FROM-THE-END`.
fn parse_range(range: &str, len: u64) -> Range {
    let Some((first, last)) = range
        .strip_prefix("bytes=")
        .and_then(|it| it.split_once('-'))
    else {
        return Range::Ignored;
    };
    let (start, end) = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => (first, last.saturating_add(1)),
        (Ok(first), Err(_)) if last.is_empty() => (first, len),
        (Err(_), Ok(n)) if first.is_empty() => (len.saturating_sub(n), len),
        _ => return Range::Ignored,
    };
    let end = end.min(len);
    if start < end {
        Range::Part(start, end)
    } else {
        Range::Outside
    }
}

/// Opens the file that a path of a URL names, if it is a regular one below `root`.
fn find(root: &Path, path: &str) -> Option<File> {
    let path = path.split(['?', '#']).next()?.strip_prefix('/')?;
    let path = PathBuf::from(decode(path)?);
    // No `..`, and no second `/` at the beginning. Whoever puts a symbolic link into the directory
    // means it to be followed.
    let mut parts = path.components();
    if !parts.all(|part| matches!(part, Component::Normal(_))) {
        return None;
    }
    let path = root.join(path);
    // Opening a FIFO would wait for its writer.
    let is_file = fs::metadata(&path).is_ok_and(|entry| entry.is_file());
    if is_file { File::open(path).ok() } else { None }
}

/// Decodes `%20` and its like.
fn decode(path: &str) -> Option<String> {
    let mut pieces = path.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (byte, rest) = piece.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(byte, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}
