//! Which manifest a tree is verified against, and by which algorithm.

use super::*;
use zcopy_cli::dircopy::manifest::checksum::ChecksumAlgorithm;

const OLD: &str = "shasum.2026-11-21.18.14.38.txt";
const NEW: &str = "shasum.2026-11-21.18.14.38b.txt";

/// A tree with a file, to which manifests are to be added.
fn tree() -> Tree {
    let tree = Tree::new();
    tree.put("file", "x");
    tree
}

fn line(algorithm: Algorithm, bytes: &[u8]) -> Vec<u8> {
    let mut stream = Stream::new(algorithm);
    stream.update(bytes);
    let mut line = Vec::new();
    line::write(&stream.finish(), b"file", &mut line);
    line
}

/// Verifies it against what it holds itself.
fn verify_by_itself(tree: &Tree) -> Said {
    tree.verify_with(&Options::new().directory(tree.path()))
}

#[test]
fn the_newest_sum_file_in_the_tree_counts() {
    let tree = tree();
    tree.put(OLD, line(Algorithm::Sha256, b"older contents"));
    tree.put(NEW, line(Algorithm::Sha256, b"x"));
    verify_by_itself(&tree).is_verified(1);
}

#[test]
fn one_that_was_cut_off_fails_and_the_older_is_verified() {
    let tree = tree();
    let whole = line(Algorithm::Sha256, b"x");
    tree.put(OLD, &whole).put(NEW, &whole[..whole.len() - 1]);
    let said = verify_by_itself(&tree);
    let complaint = format!("{NEW}: the manifest is damaged: its end is missing\n");
    said.failed_saying("file: OK\n", &complaint);
}

#[test]
fn a_directory_is_none_whatever_its_name() {
    let tree = tree();
    tree.put(OLD, line(Algorithm::Sha256, b"x"));
    fs::create_dir(tree.path().join(NEW)).unwrap();
    verify_by_itself(&tree).is_verified(1);
}

#[test]
fn a_symbolic_link_is_refused() {
    let tree = tree();
    tree.put(OLD, line(Algorithm::Sha256, b"x"));
    std::os::unix::fs::symlink("/proc/version", tree.path().join(NEW)).unwrap();
    let complaint = format!("{NEW}: the manifest is damaged: it is a symbolic link\n");
    verify_by_itself(&tree).failed_saying("file: OK\n", &complaint);
}

#[test]
fn an_empty_one_fails_however_good_the_older() {
    let tree = tree();
    tree.put(OLD, line(Algorithm::Sha256, b"x")).put(NEW, "");
    let complaint = format!("{NEW}: the manifest is damaged: it is empty\n");
    verify_by_itself(&tree).failed_saying("file: OK\n", &complaint);
}

#[test]
fn a_tree_without_one_is_not_verified() {
    let tree = tree();
    let said = verify_by_itself(&tree);
    let complaint = format!("{}: no manifest found\n", tree.path().display());
    said.failed_saying("", &complaint);
}

#[test]
fn the_name_tells_the_algorithm() {
    let tree = tree();
    tree.put(OLD, line(Algorithm::Sha256, b"older contents"));
    tree.put(
        "b3sum.2026-11-21.18.14.39.txt",
        line(Algorithm::Blake3, b"x"),
    );
    verify_by_itself(&tree).is_verified(1);
    let sha256 = Options::new()
        .directory(tree.path())
        .hash(ChecksumAlgorithm::Sha256);
    // The newest line of the file has another digest.
    let complaint = format!(
        "{}: no file is recorded with sha256\n",
        tree.path().display()
    );
    verify(&sha256).failed_saying("", &complaint);
}

#[test]
fn a_line_that_tells_its_algorithm_knows_better() {
    let mut tree = tree();
    for (tag, algorithm) in [("SHA256", Algorithm::Sha256), ("BLAKE3", Algorithm::Blake3)] {
        let line = line(algorithm, b"x");
        let digest = str::from_utf8(&line[..64]).unwrap();
        tree.line(format!("{tag} (file) = {digest}\n"));
    }
    for algorithm in [ChecksumAlgorithm::Sha256, ChecksumAlgorithm::Blake3] {
        verify(&tree.options().hash(algorithm)).is_verified(2);
    }
}

#[test]
fn a_sum_file_that_cannot_be_read_is_told() {
    let tree = tree();
    let missing = tree.dir.path().join("no-such-file");
    let options = Options::new().directory(tree.path());
    let complaint = format!("{}: No such file or directory\n", missing.display());
    verify(&options.clone().hash_file(&missing)).failed_saying("", &complaint);
    let complaint = format!("{}: Is a directory\n", tree.dir.path().display());
    verify(&options.hash_file(tree.dir.path())).failed_saying("", &complaint);
}

#[test]
fn of_several_trees_the_lines_name_the_tree() {
    let (mut one, mut other) = (tree(), tree());
    one.list("file", "x");
    other.put("file", "y");
    other.list("file", "x");
    let missing = one.dir.path().join("no-such-tree");
    let options = Options::new()
        .directory(one.path())
        .directory(&missing)
        .directory(other.path());
    let _ = one.options();
    let said = verify(&options.hash_file(one.sum_file()));
    let [one, missing, other] =
        [one.path(), missing, other.path()].map(|path| path.display().to_string());
    said.failed_saying(
        &format!("{one}/file: OK\n{other}/file: FAILED\n"),
        &format!(
            "{missing}: No such file or directory\n\
             WARNING: 1 computed checksum did NOT match\n"
        ),
    );
}
