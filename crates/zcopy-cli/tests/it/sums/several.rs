//! Many files, and several threads.

use std::fmt::Write as _;
use std::num::NonZeroUsize;

use super::*;

fn with_threads(tree: &Tree, n_threads: usize) -> Said {
    let n_threads = NonZeroUsize::new(n_threads).unwrap();
    tree.verify_with(&tree.options().threads(n_threads))
}

#[test]
fn ten_thousand_files_are_told_in_order_by_however_many_threads() {
    let mut tree = Tree::new();
    let mut expected = String::new();
    for n in 0..10_000 {
        let name = format!("{}/{n}", n % 100);
        tree.add(&name, n.to_string());
        let verdict = match n % 1000 {
            997 => "FAILED",
            998 => "FAILED open or read",
            _ => "OK",
        };
        match verdict {
            "FAILED" => drop(tree.put(&name, "changed")),
            "OK" => {}
            _ => fs::remove_file(tree.path().join(&name)).unwrap(),
        }
        writeln!(expected, "{name}: {verdict}").unwrap();
    }
    for n_threads in [1, 2, 9] {
        let said = with_threads(&tree, n_threads);
        assert!(said.stdout == expected, "with {n_threads} threads");
        assert!(said.stderr.ends_with(
            "WARNING: 10 listed files could not be read\n\
             WARNING: 10 computed checksums did NOT match\n"
        ));
        assert_eq!(said.stderr.lines().count(), 12);
    }
}

#[test]
fn a_long_file_first_is_told_first() {
    let mut tree = Tree::new();
    tree.add("long", vec![b'x'; 20 << 20]);
    for n in 0..500 {
        tree.add(n.to_string(), "x");
    }
    let said = with_threads(&tree, 4);
    said.is_verified(501);
    assert!(said.stdout.starts_with("long: OK\n0: OK\n1: OK\n"));
}
