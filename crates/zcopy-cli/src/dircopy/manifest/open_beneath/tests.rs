use std::fs;
use std::io::Read as _;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

/// A tree beside a file that must not be read.
fn tree() -> (TempDir, OwnedFd) {
    let dir = TempDir::new().unwrap();
    let root = dir.path().join("root");
    fs::create_dir_all(root.join("sub/deep")).unwrap();
    fs::write(dir.path().join("secret"), "secret").unwrap();
    fs::write(root.join("sub/file"), "file").unwrap();
    symlink("sub/file", root.join("link")).unwrap();
    symlink("sub", root.join("directory-link")).unwrap();
    symlink("../secret", root.join("way-out")).unwrap();
    symlink("..", root.join("directory-out")).unwrap();
    symlink(dir.path().join("secret"), root.join("absolute-out")).unwrap();
    symlink(root.join("sub/file"), root.join("absolute-in")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    let fifo = root.join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        FileType::Fifo,
        Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let root = directory(&root).unwrap();
    (dir, root)
}

fn text(file: io::Result<File>) -> Result<String, String> {
    let mut file = file.map_err(|error| crate::common::cli::message::worded(&error))?;
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    Ok(text)
}

#[test]
fn files_of_the_tree_are_opened_by_every_name_that_stays_in_it() {
    let (_dir, root) = tree();
    for path in [
        "sub/file",
        "./sub/file",
        "sub//./file",
        "sub/deep/../file",
        "link",
        "directory-link/file",
    ] {
        let found = text(open(root.as_fd(), path.as_bytes()));
        assert_eq!(found.as_deref(), Ok("file"), "{path}");
    }
}

#[test]
fn no_name_leads_out_of_the_tree() {
    let (dir, root) = tree();
    let absolute = dir.path().join("root/sub/file");
    for path in [
        "../secret",
        "../root/sub/file",
        "sub/../../secret",
        "way-out",
        "directory-out/secret",
        "absolute-out",
        "absolute-in",
        "/proc/version",
        absolute.to_str().unwrap(),
    ] {
        let found = text(open(root.as_fd(), path.as_bytes()));
        let refused = Err("it leads out of the directory".to_owned());
        assert_eq!(found, refused, "{path}");
    }
}

#[test]
fn what_is_no_regular_file_is_not_opened() {
    let (_dir, root) = tree();
    for (path, error) in [
        // Opening it would wait for a writer.
        ("fifo", "not a regular file"),
        ("sub", "Is a directory"),
        ("directory-link", "Is a directory"),
        (".", "Is a directory"),
        ("loop", "Too many levels of symbolic links"),
        ("missing", "No such file or directory"),
        ("sub/file/file", "Not a directory"),
    ] {
        let found = text(open(root.as_fd(), path.as_bytes()));
        assert_eq!(found, Err(error.to_owned()), "{path}");
    }
    let dev = directory("/dev".as_ref()).unwrap();
    let found = text(open(dev.as_fd(), b"null"));
    assert_eq!(found, Err("not a regular file".to_owned()));
}

#[test]
fn step_by_step_no_link_is_followed() {
    let (_dir, root) = tree();
    for path in ["sub/file", "./sub/file", "sub//./file"] {
        let found = by_steps(root.as_fd(), path.as_bytes());
        assert_eq!(text(found.map(File::from)).as_deref(), Ok("file"), "{path}");
    }
    for (path, error) in [
        ("../secret", "it leads out of the directory"),
        ("sub/..", "Is a directory"),
        ("sub/../sub/file", "it leads out of the directory"),
        ("/proc/version", "it leads out of the directory"),
        ("link", "Too many levels of symbolic links"),
        ("way-out", "Too many levels of symbolic links"),
        ("directory-link/file", "Not a directory"),
        ("directory-out/secret", "Not a directory"),
        ("fifo", "not a regular file"),
        ("sub", "Is a directory"),
        (".", "Is a directory"),
        ("missing", "No such file or directory"),
    ] {
        let found = by_steps(root.as_fd(), path.as_bytes());
        assert_eq!(text(found.map(File::from)), Err(error.to_owned()), "{path}");
    }
}

#[test]
fn a_path_may_be_longer_than_the_kernel_takes_in_one_call() {
    let (_dir, root) = tree();
    let name = "n".repeat(200);
    let mut here = root.try_clone().unwrap();
    for _ in 0..30 {
        rustix::fs::mkdirat(&here, &name, Mode::from_raw_mode(0o700)).unwrap();
        here = step(
            here.as_fd(),
            name.as_bytes(),
            OFlags::PATH | OFlags::DIRECTORY,
        )
        .unwrap();
    }
    let flags = OFlags::WRONLY | OFlags::CREATE;
    let file = rustix::fs::openat(&here, "file", flags, Mode::from_raw_mode(0o600)).unwrap();
    rustix::io::write(&file, b"deep").unwrap();
    let path = format!("{}file", format!("{name}/").repeat(30));
    assert!(path.len() > LONGEST);
    let found = text(open(root.as_fd(), path.as_bytes()));
    assert_eq!(found.as_deref(), Ok("deep"));
}
