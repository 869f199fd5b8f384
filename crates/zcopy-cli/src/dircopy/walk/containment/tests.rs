use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::dircopy::test_support::{Covered, scratch, stat};

/// Why it is refused, if it is.
fn contained(source: &Path, destination: impl AsRef<Path>) -> Option<Contained> {
    let error = check(&stat(source), destination.as_ref()).err()?;
    let inner = error.into_inner().unwrap();
    Some(*inner.downcast::<Contained>().unwrap())
}

#[test]
fn the_source_and_what_is_beneath_it_are_refused_by_whatever_name() {
    let scratch = scratch();
    let source = scratch.path().join("source");
    fs::create_dir_all(source.join("sub/deep")).unwrap();
    let outside = scratch.path().join("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&source, scratch.path().join("link")).unwrap();
    symlink(source.join("sub"), outside.join("inwards")).unwrap();
    symlink(&outside, source.join("outwards")).unwrap();

    let root = scratch.path();
    for (destination, expected) in [
        ("source", Some(Contained::Same)),
        ("source/.", Some(Contained::Same)),
        ("link", Some(Contained::Same)),
        ("source/sub/..", Some(Contained::Same)),
        ("source/sub/deep", Some(Contained::Beneath)),
        ("source/absent", Some(Contained::Beneath)),
        ("source/sub/absent/more", Some(Contained::Beneath)),
        ("link/sub/absent", Some(Contained::Beneath)),
        ("outside/inwards", Some(Contained::Beneath)),
        ("outside/inwards/absent", Some(Contained::Beneath)),
        ("outside/../source/sub", Some(Contained::Beneath)),
        // Where this leads is up to the link, not to the letters.
        ("source/outwards", None),
        ("source/outwards/absent", None),
        ("outside/inwards/..", Some(Contained::Same)),
        ("outside", None),
        ("source-2", None),
        ("sourc", None),
        (".", None),
        ("absent/more", None),
    ] {
        assert_eq!(
            contained(&source, root.join(destination)),
            expected,
            "{destination}"
        );
    }
}

#[test]
fn a_way_back_out_of_what_does_not_exist_is_not_believed() {
    let scratch = scratch();
    fs::create_dir(scratch.path().join("source")).unwrap();
    let source = stat(&scratch.path().join("source"));
    for destination in ["absent/../source/copy", "absent/..", "absent/../../copy"] {
        let error = check(&source, &scratch.path().join(destination)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT), "{destination}");
    }
}

#[test]
fn a_bind_mount_of_the_source_is_refused() {
    let scratch = scratch();
    let (source, mount) = (scratch.path().join("source"), scratch.path().join("mount"));
    fs::create_dir(&source).unwrap();
    fs::create_dir(&mount).unwrap();
    let Some(_bound) = Covered::bind(&mount, &source) else {
        return;
    };
    assert_eq!(contained(&source, &mount), Some(Contained::Same));
    let beneath = contained(&source, mount.join("absent/more"));
    assert_eq!(beneath, Some(Contained::Beneath));
}
