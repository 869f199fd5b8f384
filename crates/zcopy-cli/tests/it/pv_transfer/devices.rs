//! Disks as inputs and outputs, and a disk that is full.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::process::Command;

use crate::child::{end_of, zc_pv};
use crate::files::{assert_same, pattern};
use crate::mounts::{device_over, image, loop_mount};

const MIB: usize = 1 << 20;

/// Runs the tool, which must end with this code and say this.
#[track_caller]
fn ends_with(command: &mut Command, (code, words): (i32, &str), what: &str) {
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), said.as_str()),
        (Some(code), words),
        "{what}"
    );
}

/// The tool's message for an output that is full.
fn is_full(output: &dyn std::fmt::Display) -> String {
    format!("zc-pv: {output}: write error: No space left on device\n")
}

/// The whole disk of 8 MiB must hold this.
#[track_caller]
fn holds(device: &File, expected: &[u8], what: &str) {
    let mut found = vec![1; 8 * MIB];
    device.read_exact_at(&mut found, 0).unwrap();
    assert_same(&found, expected, what);
}

/// A pipe with these bytes in front of its end.
fn pipe_with(bytes: Vec<u8>) -> std::io::PipeReader {
    let (reader, mut writer) = std::io::pipe().unwrap();
    // Fails when the tool leaves before it has read everything.
    std::thread::spawn(move || writer.write_all(&bytes));
    reader
}

#[test]
fn a_disk_is_moved_whole_and_its_size_is_known() {
    let image = image(8);
    let bytes = pattern(8 * MIB);
    image.as_file().write_all_at(&bytes, 0).unwrap();
    image.as_file().sync_all().unwrap();
    let Some((_device, path)) = device_over(image.path()) else {
        return;
    };
    for options in [&["-n"][..], &["-nC"], &["-nK"], &["-nE"]] {
        let output = zc_pv().args(options).arg(&path).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{options:?}");
        assert_same(&output.stdout, &bytes, &format!("{options:?}"));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.ends_with("100\n"), "{options:?}: {said}");
    }
}

#[test]
fn the_size_of_a_disk_is_part_of_the_total() {
    let image = image(8);
    let Some((_device, path)) = device_over(image.path()) else {
        return;
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(8 << 20).unwrap();
    let null = std::path::Path::new("/dev/null");
    for inputs in [[&path, file.path(), null], [null, file.path(), &path]] {
        let mut command = zc_pv();
        command.args(["--json", "-X"]).args(inputs);
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let last = said.lines().last().unwrap();
        for words in [
            "\"bytes\":16777216,\"total\":16777216,",
            "\"percent\":100.0,",
        ] {
            assert!(last.contains(words), "{inputs:?}: {said}");
        }
    }
}

#[test]
fn a_disk_is_filled_to_its_end_and_no_further() {
    let image = image(8);
    let Some((device, path)) = device_over(image.path()) else {
        return;
    };
    for options in [&["-q"][..], &["-qC"], &["-fD9"], &["-qK"], &["-qY"]] {
        device.write_all_at(&vec![7; 8 * MIB], 0).unwrap();
        let mut command = zc_pv();
        command.args(options).arg("-o").arg(&path);
        let zeros = File::open("/dev/zero").unwrap();
        let what = format!("{options:?}");
        ends_with(command.stdin(zeros), (0, ""), &what);
        holds(&device, &vec![0; 8 * MIB], &what);
    }
}

/// Its whole size was taken for the room there is, so that a full disk was an error.
#[test]
fn a_disk_is_filled_from_where_it_stands() {
    let image = image(8);
    let Some((device, _)) = device_over(image.path()) else {
        return;
    };
    device.write_all_at(&vec![7; 8 * MIB], 0).unwrap();
    rustix::fs::seek(&device, rustix::fs::SeekFrom::Start(5 << 20)).unwrap();
    let mut command = zc_pv();
    let zeros = File::open("/dev/zero").unwrap();
    command
        .arg("-q")
        .stdin(zeros)
        .stdout(device.try_clone().unwrap());
    ends_with(&mut command, (0, ""), "");
    let expected = [vec![7; 5 * MIB], vec![0; 3 * MIB]].concat();
    holds(&device, &expected, "");
}

/// A size that is known is not cut down to the disk's.
#[test]
fn more_than_a_disk_holds_is_a_write_error() {
    let image = image(8);
    let Some((_device, path)) = device_over(image.path()) else {
        return;
    };
    let long = tempfile::NamedTempFile::new().unwrap();
    long.as_file().set_len(9 << 20).unwrap();
    for options in [&["-q"][..], &["-qC"], &["-qO"]] {
        let mut command = zc_pv();
        command.args(options).arg("-o").arg(&path).arg(long.path());
        let error = is_full(&path.display());
        ends_with(&mut command, (16, &error), &format!("{options:?}"));
    }
}

/// The size of the disk was the limit, and the rest of the input was left without a word.
#[test]
fn input_longer_than_a_disk_is_a_write_error() {
    let image = image(8);
    let Some((device, path)) = device_over(image.path()) else {
        return;
    };
    let bytes = pattern(9 * MIB);
    let spool = tempfile::NamedTempFile::new().unwrap();
    let spool = format!("-U{}", spool.path().display());
    let all_options = [
        "-q", "-qC", "-qO", "-qK", "-qY", "-qE", "-fD9", "-ql", "-qs9M", "-qs5M", "-qSs9M",
        "-qL1G", "-qB4k", &spool,
    ];
    for (options, is_named) in all_options
        .into_iter()
        .flat_map(|o| [(o, false), (o, true)])
    {
        device.write_all_at(&vec![7; 8 * MIB], 0).unwrap();
        rustix::fs::seek(&device, rustix::fs::SeekFrom::Start(0)).unwrap();
        let mut command = zc_pv();
        command.arg(options).stdin(pipe_with(bytes.clone()));
        let name = if is_named {
            command.arg("-q").arg("-o").arg(&path);
            path.display().to_string()
        } else {
            command.arg("-q").stdout(device.try_clone().unwrap());
            "(stdout)".to_owned()
        };
        let what = format!("{options:?}, {is_named}");
        ends_with(&mut command, (16, &is_full(&name)), &what);
        holds(&device, &bytes[..8 * MIB], &what);
    }
}

#[test]
fn input_as_long_as_a_disk_fits() {
    let image = image(8);
    let Some((device, path)) = device_over(image.path()) else {
        return;
    };
    let bytes = pattern(8 * MIB);
    for options in ["-q", "-qC", "-qK", "-qY", "-ql", "-qs9M", "-qs8M", "-qSs8M"] {
        device.write_all_at(&vec![7; 8 * MIB], 0).unwrap();
        let mut command = zc_pv();
        command.arg(options).arg("-o").arg(&path);
        ends_with(command.stdin(pipe_with(bytes.clone())), (0, ""), options);
        holds(&device, &bytes, options);
    }
}

#[test]
fn stop_at_size_stops_at_the_end_of_a_disk() {
    let image = image(8);
    let Some((device, path)) = device_over(image.path()) else {
        return;
    };
    let bytes = pattern(9 * MIB);
    for options in ["-qS", "-qSC", "-qSs8M"] {
        device.write_all_at(&vec![7; 8 * MIB], 0).unwrap();
        let mut command = zc_pv();
        command.arg(options).arg("-o").arg(&path);
        ends_with(command.stdin(pipe_with(bytes.clone())), (0, ""), options);
        holds(&device, &bytes[..8 * MIB], options);
    }
}

/// What follows an endless input, or does not fit with those before it, must not be lost without a
/// word either.
#[test]
fn inputs_fill_a_disk_one_after_another() {
    let image = image(8);
    let Some((device, path)) = device_over(image.path()) else {
        return;
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    let bytes = pattern(9 * MIB);
    file.as_file().write_all_at(&bytes[4 * MIB..], 0).unwrap();
    let file = file.path().to_str().unwrap();
    let in_front = &bytes[..4 * MIB];
    let zeros = [in_front, &vec![0; 4 * MIB]].concat();
    let error = is_full(&path.display());
    for (inputs, expected, code) in [
        (&["-", file][..], &bytes[..8 * MIB], 16),
        (&["-", "/dev/zero"], &zeros, 0),
        (&["-", "/dev/zero", file], &zeros, 16),
        (&["-", "/dev/zero", "/dev/null"], &zeros, 0),
    ] {
        device.write_all_at(&vec![7; 8 * MIB], 0).unwrap();
        let mut command = zc_pv();
        command.arg("-q").arg("-o").arg(&path).args(inputs);
        let input = pipe_with(in_front.to_vec());
        let told = if code == 0 { "" } else { &error };
        let what = format!("{inputs:?}");
        ends_with(command.stdin(input), (code, told), &what);
        holds(&device, expected, &what);
    }
}

#[test]
fn a_disk_is_not_copied_onto_itself() {
    let image = image(8);
    let Some((device, path)) = device_over(image.path()) else {
        return;
    };
    let mut command = zc_pv();
    command.arg("-q").arg(&path).stdout(device);
    let error = format!("zc-pv: {}: input file is also the output\n", path.display());
    ends_with(&mut command, (4, &error), "");
}

#[test]
fn a_full_file_system_is_a_write_error_and_keeps_what_fits() {
    let input = tempfile::NamedTempFile::new().unwrap();
    let bytes = pattern(24 * MIB);
    input.as_file().write_all_at(&bytes, 0).unwrap();
    for options in ["-q", "-qC", "-qL1G", "-qY", "-qK", "-qO"] {
        // Of its own: the blocks of a file that has gone are given back some time later.
        let Some(root) = loop_mount("ext4", 16) else {
            return;
        };
        let output = tempfile::tempfile_in(root.dir()).unwrap();
        let mut command = zc_pv();
        command.arg(options).arg(input.path());
        command.stdout(output.try_clone().unwrap());
        ends_with(&mut command, (16, &is_full(&"(stdout)")), options);
        let found = crate::files::contents(&output);
        let len = found.len();
        assert!(bytes.starts_with(&found), "{options}: {len}");
        assert!(len > 4 * MIB, "{options}: {len}");
        drop(command);
    }
    let Some(root) = loop_mount("ext4", 16) else {
        return;
    };
    // A spool on it is told by its name, and nothing goes on.
    let dir = format!("/proc/{}/fd", std::process::id());
    let held = File::open(root.dir()).unwrap();
    let spool = format!("{dir}/{}/spool", held.as_raw_fd());
    let mut command = zc_pv();
    command.args(["-q", "-U", &spool]).arg(input.path());
    let (reader, writer) = std::io::pipe().unwrap();
    command.stdout(writer).stderr(std::process::Stdio::null());
    let child = command.spawn().unwrap();
    drop(command);
    assert_eq!(end_of(child).code(), Some(16));
    assert_eq!(std::io::read_to_string(reader).unwrap(), "");
}
