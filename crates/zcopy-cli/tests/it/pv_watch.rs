//! `zc-pv -d`: other processes, and what they do with their files.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::child::{end_of, with_default_signals, with_stderr_as_3, zc_pv};
use crate::screen::Terminal;

/// A shell that does as it is told, and says when it has.
struct Puppet {
    child: Option<Child>,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    directory: TempDir,
}

impl Puppet {
    /// A shell in a directory with a file `data` of 1000 bytes, with nothing open that counts.
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("data"), [b'x'; 1000]).unwrap();
        let mut child = Command::new("bash")
            .args([
                "-c",
                "while read -r order; do eval \"$order\"; echo done; done",
            ])
            .current_dir(&directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            orders: child.stdin.take(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child: Some(child),
            directory,
        }
    }

    /// Has something done, and waits until it is.
    fn does(&mut self, order: &str) {
        writeln!(self.orders.as_ref().unwrap(), "{order}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        assert_eq!(answer, "done\n", "{order}");
    }

    fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Has it end.
    fn ends(&mut self) {
        drop(self.orders.take());
        end_of(self.child.take().unwrap());
    }

    /// As a display shows the file.
    fn path(&self) -> PathBuf {
        self.directory.path().join("data")
    }
}

impl Drop for Puppet {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.ends();
        }
    }
}

/// Watches on a terminal, from the directory of a puppet.
fn watch(puppet: &Puppet, arguments: &[String]) -> Terminal {
    let mut command = zc_pv();
    command
        .args(["-i", "0.1"])
        .args(arguments)
        .env("TERM", "xterm")
        .current_dir(&puppet.directory);
    Terminal::spawn(&command, 8, 80)
}

fn of(pid: u32) -> [String; 2] {
    ["-d".to_owned(), pid.to_string()]
}

fn fd_of(pid: u32, fd: i32) -> [String; 2] {
    ["-d".to_owned(), format!("{pid}:{fd}")]
}

/// Runs it to its end, without a terminal.
fn run(arguments: &[&str]) -> Output {
    let mut command = zc_pv();
    command.args(arguments).stdin(Stdio::null());
    command.output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_process_that_reads_is_followed_to_its_end() {
    let mut puppet = Puppet::new();
    puppet.does("exec 3<data; head -c 100 <&3 >/dev/null");
    let mut terminal = watch(&puppet, &of(puppet.pid()));
    terminal.wait_for(|seen| {
        let row = seen.row(0);
        row.starts_with("   3:data:") && row.contains(" 10% ")
    });
    puppet.does("head -c 900 <&3 >/dev/null");
    terminal.wait_for(|seen| seen.row(0).contains("100%"));
    puppet.ends();
    assert_eq!(terminal.end().code(), Some(0));
    let seen = terminal.seen();
    assert!(seen.row(0).contains("100%"), "{:?}", seen.rows());
    assert_eq!((seen.cursor(), seen.cursor_is_hidden()), ((1, 0), false));
}

#[test]
fn a_file_that_is_written_is_followed_without_an_end() {
    let mut puppet = Puppet::new();
    puppet.does("exec 4>out; printf 12345 >&4");
    let mut terminal = watch(&puppet, &of(puppet.pid()));
    terminal.wait_for(|seen| seen.row(0).contains("   4:out: 5.00  B"));
    puppet.does("printf 67890 >&4");
    terminal.wait_for(|seen| seen.row(0).contains("   4:out: 10.0  B"));
    assert!(!terminal.seen().row(0).contains('%'));
    puppet.ends();
    assert_eq!(terminal.end().code(), Some(0));
}

#[test]
fn rows_come_with_files_that_are_opened_and_go_with_those_that_are_closed() {
    let mut puppet = Puppet::new();
    let mut terminal = watch(&puppet, &of(puppet.pid()));
    puppet.does("exec 3<data");
    terminal.wait_for(|seen| seen.row(0).contains("3:data:"));
    puppet.does("exec 4>out");
    terminal.wait_for(|seen| seen.row(0).contains("3:data:") && seen.row(1).contains("4:out:"));
    puppet.does("exec 3<&-");
    terminal.wait_for(|seen| seen.row(0).contains("4:out:") && seen.row(1).is_empty());
    puppet.ends();
    assert_eq!(terminal.end().code(), Some(0));
}

#[test]
fn of_two_processes_each_row_says_whose_it_is_and_both_are_waited_for() {
    let (mut one, mut other) = (Puppet::new(), Puppet::new());
    one.does("exec 3<data");
    other.does("exec 3<data");
    let pids = [one.pid(), other.pid()];
    let operands = [&of(pids[0])[..], &[pids[1].to_string()]].concat();
    let mut terminal = watch(&one, &operands);
    let is_of = |row: String, pid: u32| row.starts_with(&format!("{pid:>8}:   3:"));
    terminal.wait_for(|seen| is_of(seen.row(0), pids[0]) && is_of(seen.row(1), pids[1]));
    one.ends();
    terminal.wait_for(|seen| is_of(seen.row(0), pids[1]) && seen.row(1).is_empty());
    other.ends();
    assert_eq!(terminal.end().code(), Some(0));
}

#[test]
fn one_descriptor_has_a_line_like_any_transfer_and_is_over_when_it_leads_elsewhere() {
    let mut puppet = Puppet::new();
    puppet.does("exec 3<data; head -c 500 <&3 >/dev/null; echo other > other");
    let mut terminal = watch(&puppet, &fd_of(puppet.pid(), 3));
    terminal
        .wait_for(|seen| seen.row(0).starts_with(" 500  B 0:00:") && seen.row(0).contains(" 50% "));
    puppet.does("exec 3<other");
    assert_eq!(terminal.end().code(), Some(0));
    assert!(terminal.seen().row(0).contains(" 50%"));
}

#[test]
fn one_descriptor_is_over_when_it_is_closed_and_has_the_size_and_name_it_is_given() {
    let mut puppet = Puppet::new();
    puppet.does("exec 4>out; printf 12345 >&4");
    let options = ["-s", "20", "-N", "ours"].map(str::to_owned);
    let mut terminal = watch(&puppet, &[&options[..], &fd_of(puppet.pid(), 4)].concat());
    terminal.wait_for(|seen| {
        seen.row(0).starts_with("     ours: 5.00  B") && seen.row(0).contains(" 25% ")
    });
    puppet.does("exec 4>&-");
    assert_eq!(terminal.end().code(), Some(0));
}

#[test]
fn numbers_have_names_in_front_unless_there_is_one_descriptor() {
    for (is_lone, expected) in [(true, "30"), (false, "   3:data: 30")] {
        let mut puppet = Puppet::new();
        puppet.does("exec 3<data; head -c 300 <&3 >/dev/null");
        let target = if is_lone {
            fd_of(puppet.pid(), 3)
        } else {
            of(puppet.pid())
        };
        let mut command = zc_pv();
        command
            .args(["-n", "-i", "0.1"])
            .args(target)
            .current_dir(&puppet.directory)
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines.next().unwrap().unwrap();
        assert_eq!(line, expected);
        puppet.ends();
        for rest in lines {
            assert_eq!(rest.unwrap(), line);
        }
        assert_eq!(end_of(child).code(), Some(0));
    }
}

#[test]
fn without_a_terminal_nothing_is_shown_unless_by_force() {
    for (options, shows) in [(&[][..], false), (&["-f"][..], true)] {
        let mut puppet = Puppet::new();
        puppet.does("exec 3<data");
        let mut command = zc_pv();
        command
            .args(["-i", "0.1"])
            .args(options)
            .args(of(puppet.pid()))
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut shown = Vec::new();
        if shows {
            stderr.read_until(b'\r', &mut shown).unwrap();
        } else {
            wait_until_held(puppet.pid(), child.id());
        }
        puppet.ends();
        assert_eq!(end_of(child).code(), Some(0));
        stderr.read_to_end(&mut shown).unwrap();
        let shown = String::from_utf8(shown).unwrap();
        assert_eq!(shown.contains("data: 0.00  B"), shows, "{shown:?}");
        assert_eq!(shown.is_empty(), !shows, "{shown:?}");
    }
}

/// Waits until one process holds on to another, which shows in what it has open.
fn wait_until_held(pid: u32, by: u32) {
    let directory = format!("/proc/{pid}");
    let holds = || {
        let fds = fs::read_dir(format!("/proc/{by}/fd")).unwrap();
        fds.flatten().any(|fd| {
            fs::read_link(fd.path()).is_ok_and(|path| path.as_os_str() == directory.as_str())
        })
    };
    while !holds() {
        std::thread::yield_now();
    }
}

#[test]
fn who_is_not_there_is_told_and_the_others_are_watched() {
    let mut puppet = Puppet::new();
    puppet.does("exec 3</dev/null");
    let pid = puppet.pid();
    let nobody = run(&["-d", "2147483647", "2147483646:3"]);
    assert_eq!(nobody.status.code(), Some(2));
    assert_eq!(
        stderr(&nobody),
        "zc-pv: pid 2147483647: No such process\nzc-pv: pid 2147483646: No such process\n"
    );
    for (fd, why) in [
        (77, "No such file or directory"),
        (3, "/dev/null: not a regular file or block device"),
    ] {
        let output = run(&["-d", &format!("{pid}:{fd}")]);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(
            stderr(&output),
            format!("zc-pv: pid {pid}: fd {fd}: {why}\n")
        );
    }
    let list = puppet.path().with_file_name("list");
    fs::write(&list, format!("# those\n{pid}\n2147483647\n")).unwrap();
    let mut terminal = watch(&puppet, &["-d".to_owned(), "@list".to_owned()]);
    puppet.does("exec 4>out");
    terminal
        .wait_for(|seen| seen.row(0).contains("No such process") && seen.row(1).contains("4:out:"));
    puppet.ends();
    assert_eq!(terminal.end().code(), Some(2));
}

#[test]
fn what_makes_no_sense_is_refused_before_anybody_is_looked_for() {
    let together =
        "cannot use line mode or transfer modifier options when watching file descriptors";
    for (arguments, complaint) in [
        (&["-d", "abc"][..], "-d: process ID or pid:fd pair expected"),
        (&["-d", "0"], "-d: invalid process ID"),
        (
            &["-d", "2147483647", "abc"],
            "abc: process ID or pid:fd pair expected",
        ),
        (
            &["-d", "@/nonexistent"],
            "-d @: /nonexistent: No such file or directory",
        ),
        (&["-d", "2147483647", "-l"], together),
        (&["-d", "2147483647", "--per-file"], together),
        (&["-d", "2147483647", "--explain"], together),
        (&["-d", "2147483647", "--stable"], together),
        (&["-d", "2147483647", "--on-progress", "true"], together),
        (&["-d", "2147483647", "-L", "5"], together),
        (&["-d", "2147483647", "-B", "5"], together),
        (
            &["-d", "2147483647", "-s", "@/nonexistent"],
            "/nonexistent: No such file or directory",
        ),
        (&["-d", "2147483647", "-S", "-s", "5"], together),
        (&["-d", "2147483647", "-E"], together),
        (
            &["-d", "2147483647", "-o", "out"],
            "-o: cannot transfer files when watching file descriptors",
        ),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
        let told = stderr(&output);
        assert_eq!(told, format!("zc-pv: {complaint}\n"), "{arguments:?}");
    }
}

#[test]
fn a_name_that_nobody_has_is_no_error_and_one_that_somebody_has_is_found() {
    let output = run(&["-d", "=nobody-has-it"]);
    assert_eq!(
        (output.status.code(), stderr(&output)),
        (Some(0), String::new())
    );

    let mut puppet = Puppet::new();
    puppet.does("echo zc-puppet-$$ > /proc/$$/comm; exec 4>out");
    let name = format!("=zc-puppet-{}", puppet.pid());
    // The kernel keeps 15 bytes of a name.
    let name: String = name.chars().take(16).collect();
    let mut terminal = watch(&puppet, &["-d".to_owned(), name]);
    terminal.wait_for(|seen| seen.rows().iter().any(|row| row.contains("4:out:")));
    puppet.ends();
    assert_eq!(terminal.end().code(), Some(0));
}

#[test]
fn a_signal_leaves_the_terminal_tidy() {
    let mut puppet = Puppet::new();
    puppet.does("exec 3<data 4>out");
    let mut terminal = watch(&puppet, &of(puppet.pid()));
    terminal.wait_for(|seen| seen.row(1).contains("4:out:"));
    terminal.signal(rustix::process::Signal::TERM);
    assert_eq!(terminal.end().code(), Some(32));
    let seen = terminal.seen();
    assert!(
        seen.row(2).contains("interrupted by a signal: Terminated"),
        "{:?}",
        seen.rows()
    );
    assert!(!seen.cursor_is_hidden());
}

/// Writes to a file of a puppet, and shows objects of it until it is over.
fn objects_of_growing(puppet: &mut Puppet, options: &[&str], end: &str) -> Vec<serde_json::Value> {
    puppet.does("exec 5>growing; printf 12345 >&5");
    let path = puppet.directory.path().join("growing");
    let mut command = zc_pv();
    command
        .args(["--json", "-i", "0.1"])
        .args(options)
        .arg("-d")
        .arg(&path)
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains("\"bytes\":5"), "{first}");
    puppet.does(end);
    let objects = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap());
    let objects = objects.collect();
    assert_eq!(end_of(child).code(), Some(0));
    objects
}

#[test]
fn a_growing_file_is_over_at_its_size_or_when_its_writer_closes_it() {
    for (options, end, percent) in [
        (&["-s", "10"][..], "printf 67890 >&5", Some(100.0)),
        (&["-s", "20"], "printf 67890 >&5; exec 5>&-", Some(50.0)),
        (&[], "printf 67890 >&5; exec 5>&-", None),
    ] {
        let mut puppet = Puppet::new();
        let objects = objects_of_growing(&mut puppet, options, end);
        let last = objects.last().unwrap();
        assert_eq!(last["bytes"], 10, "{last}");
        assert_eq!(last["percent"].as_f64(), percent, "{last}");
        assert_eq!(last["state"], "done", "{last}");
        let n_states = objects
            .iter()
            .filter(|object| object.get("state").is_some());
        assert_eq!(n_states.count(), 1);
    }
}

#[test]
fn a_file_that_is_complete_at_the_start_has_its_last_object() {
    let mut puppet = Puppet::new();
    puppet.does("exec 5>growing; printf 12345 >&5");
    let growing = puppet.directory.path().join("growing");
    let mut command = zc_pv();
    command.args(["--json", "-i", "0.1", "-s", "1000"]);
    command.arg("-d").arg(puppet.path()).arg("-d").arg(growing);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains("\"bytes\":1000"), "{first}");
    assert!(first.contains("\"state\":\"done\""), "{first}");
    puppet.does("head -c 995 data >&5");
    let ends = lines
        .map(Result::unwrap)
        .filter(|line| line.contains("state"));
    assert_eq!(ends.count(), 1);
    assert_eq!(end_of(child).code(), Some(0));
}

#[test]
fn each_of_several_growing_files_has_a_row() {
    let mut puppet = Puppet::new();
    puppet.does("exec 5>one 6>two; printf 12345 >&5; printf 1 >&6");
    let arguments = ["-s", "10", "-d", "./one", "./two"].map(str::to_owned);
    let mut terminal = watch(&puppet, &arguments);
    terminal.wait_for(|seen| {
        let has = |row: usize, name: &str, percent: &str| {
            seen.row(row).contains(name) && seen.row(row).contains(percent)
        };
        has(0, "one: 5.00  B", " 50%") && has(1, "two: 1.00  B", " 10%")
    });
    puppet.does("exec 5>&- 6>&-");
    assert_eq!(terminal.end().code(), Some(0));
}

#[test]
fn what_is_no_regular_file_is_not_watched_by_its_path() {
    for (path, message) in [
        (
            "/nonexistent/file",
            "/nonexistent/file: No such file or directory",
        ),
        ("/dev/null", "/dev/null: not a regular file"),
    ] {
        let output = run(&["-d", path]);
        assert_eq!(output.status.code(), Some(2), "{path}");
        assert_eq!(stderr(&output), format!("zc-pv: {message}\n"));
    }
}

#[test]
fn cursor_positioning_is_refused_as_by_pv() {
    let refusal = "cannot use cursor positioning when watching file descriptors";
    let output = run(&["-c", "-d", "1"]);
    assert_eq!(output.status.code(), Some(64));
    assert_eq!(stderr(&output), format!("zc-pv: {refusal}\n"));
    if let Some(pv) = crate::peer::pv() {
        let theirs = Command::new(pv).args(["-c", "-d", "1"]).output().unwrap();
        assert_eq!(theirs.status.code(), Some(64));
        assert_eq!(stderr(&theirs), format!("pv: {refusal}\n"));
    }
}

/// When a row was over, objects that the reader had not accepted after a second ended the output.
#[test]
fn a_reader_that_pauses_while_one_row_ends_gets_the_objects_of_the_others() {
    for has_own_output in [false, true] {
        let mut puppet = Puppet::new();
        let directory = format!("{0}/{0}/{0}/{0}", "d".repeat(200));
        puppet.does(&format!("mkdir -p {directory}; cp data {directory}"));
        puppet.does(&format!("exec 3<{directory}/data 4<{directory}/data"));
        let (reader, writer) = std::io::pipe().unwrap();
        rustix::pipe::fcntl_setpipe_size(&writer, 4096).unwrap();
        let mut command = zc_pv();
        let option = if has_own_output { "--json=3" } else { "--json" };
        command.args([option, "-i", "0.1"]);
        for fd in [3, 4] {
            command.args(fd_of(puppet.pid(), fd));
        }
        if has_own_output {
            command = with_stderr_as_3(&command);
        }
        let child = command.stderr(writer).spawn().unwrap();
        drop(command);
        // The pipe is full after four objects.
        std::thread::sleep(Duration::from_millis(500));
        puppet.does("exec 3<&-");
        std::thread::sleep(Duration::from_millis(1500));
        let reading = std::thread::spawn(|| std::io::read_to_string(reader).unwrap());
        std::thread::sleep(Duration::from_millis(500));
        puppet.does("exec 4<&-");
        let text = reading.join().unwrap();
        let n_over = text.lines().filter(|line| {
            let object: serde_json::Value = serde_json::from_str(line).unwrap();
            object["state"] == "done"
        });
        assert_eq!(n_over.count(), 2, "{option}");
        assert_eq!(end_of(child).code(), Some(0), "{option}");
    }
}

#[test]
fn the_last_object_of_a_descriptor_tells_how_it_ended() {
    let mut puppet = Puppet::new();
    puppet.does("exec 3<data");
    for (signal, state) in [(true, "interrupted"), (false, "done")] {
        let mut command = zc_pv();
        command
            .args(["--json", "-i", "0.1"])
            .args(fd_of(puppet.pid(), 3));
        let mut command = with_default_signals(&command);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        lines.next().unwrap().unwrap();
        if signal {
            let pid = rustix::process::Pid::from_child(&child);
            rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        } else {
            puppet.does("exec 3<&-");
        }
        let lines = lines
            .map(Result::unwrap)
            .filter(|line| line.starts_with('{'));
        let last = lines.last().unwrap();
        let last: serde_json::Value = serde_json::from_str(&last).unwrap();
        assert_eq!(
            (&last["state"], &last["over"]),
            (&state.into(), &true.into())
        );
        child.wait().unwrap();
    }
}
