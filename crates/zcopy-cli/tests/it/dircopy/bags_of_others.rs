//! Bags with digests that this program cannot make. Other programs make more kinds than it does.

use super::reference::reference;
use super::*;

const BAG: &str = "--manifest=bagit";

/// How a manifest is refused.
const REFUSED: &str = "the manifest cannot be verified";

/// A manifest of files of the bag, by a program of the coreutils.
fn list(trees: &Trees, program: &str, manifest: &str, files: &[&str]) {
    let output = Command::new(program)
        .args(files)
        .current_dir(trees.copy())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    trees.put_copy(manifest, output.stdout);
}

/// A bag with two files, and without manifests.
fn bag() -> Trees {
    let trees = Trees::new();
    for name in ["one", "two"] {
        trees
            .put(name, name)
            .put_copy(Path::new("data").join(name), name);
        for path in [trees.original(name), trees.copied(format!("data/{name}"))] {
            dated(&path, 10);
        }
    }
    let declaration = "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n";
    trees.put_copy("bagit.txt", declaration);
    trees
}

const FILES: [&str; 2] = ["data/one", "data/two"];

#[test]
fn a_bag_whose_digests_cannot_be_made_is_not_updated_and_fails_checks() {
    let trees = bag();
    list(&trees, "b2sum", "manifest-blake2b.txt", &FILES);
    list(&trees, "b2sum", "tagmanifest-blake2b.txt", &["bagit.txt"]);
    // The damage has the size and the time of the original.
    trees.put_copy("data/one", "0ne");
    dated(&trees.copied("data/one"), 10);
    let names_of = |tree: &Path| {
        let entries = fs::read_dir(tree).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names_of(&trees.copy());
    for options in [&[BAG][..], &[BAG, "--hash=sha512"]] {
        trees.run(options).failed_naming(&[
            &[": manifest-blake2b.txt", REFUSED, "nothing is copied"],
            &["tagmanifest-blake2b.txt", REFUSED, "nothing is copied"],
        ]);
        assert_eq!(names_of(&trees.copy()), before);
    }
    let damages: [&[&str]; 2] = [
        &["dst/manifest-blake2b.txt", REFUSED],
        &["dst/tagmanifest-blake2b.txt", REFUSED],
    ];
    trees.check(&["--quiet"]).failed_naming(&damages);
    let run = trees.check(&["--quiet", "--accept=data/one"]);
    let refusal: &[&str] = &["the manifest tagmanifest-blake2b.txt cannot be verified"];
    run.failed_naming(&[refusal, damages[0], damages[1]]);
    assert_eq!(names_of(&trees.copy()), before);
}

#[test]
fn digests_that_cannot_be_made_stay_unread_if_others_list_the_same_files() {
    let trees = bag();
    list(&trees, "b2sum", "manifest-blake2b.txt", &FILES);
    list(&trees, "sha512sum", "manifest-sha512.txt", &FILES);
    let tag_files = ["bagit.txt", "manifest-sha512.txt", "manifest-blake2b.txt"];
    list(&trees, "b2sum", "tagmanifest-blake2b.txt", &tag_files);
    list(&trees, "sha512sum", "tagmanifest-sha512.txt", &tag_files);
    trees.check(&["--quiet"]).is_quiet();

    // Files that the other manifests lack have no digest that can be made.
    list(&trees, "sha512sum", "manifest-sha512.txt", &FILES[..1]);
    list(&trees, "sha512sum", "tagmanifest-sha512.txt", &tag_files);
    fs::remove_file(trees.copied("data/two")).unwrap();
    let damage: &[&str] = &["dst/manifest-blake2b.txt", REFUSED];
    trees.check(&["--quiet"]).failed_naming(&[damage]);
    trees.put_copy("data/two", "two");
    list(&trees, "sha512sum", "manifest-sha512.txt", &FILES);
    list(
        &trees,
        "sha512sum",
        "tagmanifest-sha512.txt",
        &tag_files[1..],
    );
    let damage: &[&str] = &["dst/tagmanifest-blake2b.txt", REFUSED];
    trees.check(&["--quiet"]).failed_naming(&[damage]);
    trees
        .run(&[BAG])
        .failed_naming(&[&["tagmanifest-blake2b.txt", REFUSED, "nothing is copied"]]);

    // A file may have the name of a manifest alone.
    fs::remove_file(trees.copied("tagmanifest-blake2b.txt")).unwrap();
    trees.put_copy("manifest-notes.txt", "nothing of the sort\n");
    list(&trees, "sha512sum", "tagmanifest-sha512.txt", &tag_files);
    trees.check(&["--quiet"]).is_quiet();
    trees.succeeds(&[BAG]);
    assert!(trees.copied("manifest-sha512.txt").exists());
}

#[test]
fn a_bag_of_bagit_with_one_unknown_function_is_left_as_it_is() {
    let Some(bagit) = reference("bagit.py") else {
        return;
    };
    for function in ["blake2s", "sha3_256"] {
        let trees = Trees::new();
        trees.put("one", "one").put_copy("one", "one");
        let options = [format!("--{function}"), "--quiet".to_owned()];
        let options = options.each_ref().map(String::as_str);
        assert_eq!(bagit.run(&options, &trees.copy()).status, 0);
        let manifest = format!("manifest-{function}.txt");
        trees.run(&[BAG]).failed_naming(&[
            &[": manifest-", function, REFUSED, "nothing is copied"],
            &["tagmanifest-", function, REFUSED, "nothing is copied"],
        ]);
        assert!(trees.copied(manifest).exists());
        let validate = ["--validate", "--quiet"];
        assert_eq!(bagit.run(&validate, &trees.copy()).status, 0, "{function}");
    }
}
