//! One destination fails, and the others become whole.

use super::*;

#[test]
fn a_full_disk_leaves_the_other_destination_whole() {
    for disk in disks() {
        for jobs in ["--jobs=1", "--jobs=8"] {
            let full = disk.path.join(jobs);
            let scene = Scene::new(2).with_second(full.clone());
            scene.trees.put("too long", vec![7; 6 << 20]);
            let run = scene.run(&[jobs, "--no-space-check"]);
            run.ended_with(1);
            let is_named = |line: &str| line.contains(full.to_str().unwrap());
            assert!(run.stderr.lines().count() > 0);
            assert!(run.stderr.lines().all(is_named), "{run:?}");
            assert!(run.stderr.contains("No space left on device"), "{run:?}");
            scene.is_whole(0);
            assert!(!full.join("too long").exists());
            let _ = fs::remove_dir_all(&full);
        }
    }
}

#[test]
fn too_little_space_leaves_the_other_destination_whole() {
    for disk in disks() {
        let scene = Scene::new(2).with_second(disk.path.join("copy"));
        let run = scene.run(&[]);
        run.failed_naming(&[&["/copy: not enough space"]]);
        assert!(!disk.path.join("copy").exists());
        scene.is_whole(0);
    }
}

#[test]
fn a_write_that_fails_leaves_the_other_destination_whole() {
    if !has_program("strace") {
        return;
    }
    // No other thread makes as many calls as one that writes a long copy.
    let options = ["--trace=write", "--inject=write:error=EIO:when=60"].map(str::to_owned);
    let write_fails_once = || {
        let scene = Scene::of(Trees::new(), 2);
        scene.trees.put("a", "before").put("z", "behind");
        scene.trees.put("long", crate::files::pattern(16 << 20));
        let traced = traced(&scene.command(&["--jobs=1"]), &options);
        let n_failed = traced.injected().len();
        (n_failed == 1).then_some((scene, traced))
    };
    // On a busy machine the file may be read twice, and then a write to each of its copies fails.
    let failed_once = (0..50).find_map(|_| write_fails_once());
    let (scene, traced) = failed_once.expect("the file is read once for both copies");
    let names = [0, 1].map(|index| scene.destinations[index].to_str().unwrap());
    let failed = usize::from(!traced.run.stderr.contains(names[0]));
    let words = "long: cannot write its copy: Input/output error";
    traced.run.failed_naming(&[&[names[failed], words]]);
    scene.is_whole(1 - failed);
    let copy = &scene.destinations[failed];
    Sums::newest_in(copy).lists(&["a", "z"]).holds_in(copy);
    scene.succeeds(&[]).are_whole();
}

#[test]
fn a_disk_that_fails_late_leaves_the_other_destination_whole() {
    let Some((_root, failing)) = failing_disk(false) else {
        return;
    };
    let trees = Trees::on_disk();
    for n in 10..30 {
        trees.put(format!("{n}"), vec![n; 1 << 20]);
    }
    let scene = Scene::of(trees, 2).with_second(failing.clone());
    let run = scene.run(&[]);
    run.ended_with(1);
    let is_named = |line: &str| line.contains(failing.to_str().unwrap());
    assert!(run.stderr.lines().all(is_named), "{run:?}");
    scene.is_whole(0);
}

#[test]
fn a_destination_that_cannot_be_used_leaves_the_other_whole() {
    // A file is in the way.
    let scene = Scene::new(2);
    fs::write(&scene.destinations[1], "").unwrap();
    let second = scene.destinations[1].to_str().unwrap();
    scene
        .run(&[])
        .failed_naming(&[&[second, "Not a directory"]]);
    scene.is_whole(0);

    // Its manifest is damaged.
    let scene = Scene::new(2);
    scene.succeeds(&[]);
    let sums = Sums::newest_in(&scene.destinations[0]).path;
    let text = fs::read_to_string(&sums).unwrap();
    fs::write(&sums, text.replace("short", "shirt")).unwrap();
    scene.trees.put("later", crate::files::pattern(1 << 20));
    let first = scene.destinations[0].to_str().unwrap();
    scene
        .run(&[])
        .failed_naming(&[&[first, "the manifest is damaged"]]);
    assert!(!scene.destinations[0].join("later").exists());
    scene.is_whole(1);

    // All of them.
    let scene = Scene::new(2);
    for copy in &scene.destinations {
        fs::write(copy, "").unwrap();
    }
    let words = |index: usize| {
        [
            scene.destinations[index].to_str().unwrap(),
            "Not a directory",
        ]
    };
    scene.run(&[]).failed_naming(&[&words(0), &words(1)]);
    let aloud = run(&mut scene.loud_command(&[]));
    let second = scene.destinations[1].to_str().unwrap();
    assert!(
        aloud
            .stdout
            .ends_with(&format!("{second}:\nnothing was copied\n")),
        "{aloud:?}"
    );
}

#[test]
fn a_directory_that_cannot_be_made_leaves_the_other_destination_whole() {
    let scene = Scene::new(2);
    put(
        &scene.destinations[0].join("long"),
        "in the way of a directory",
    );
    let run = scene.run(&[]);
    run.ended_with(1);
    let first = scene.destinations[0].to_str().unwrap();
    assert!(
        run.stderr.lines().all(|line| line.contains(first)),
        "{run:?}"
    );
    scene.is_whole(1);
}

#[test]
fn bad_blocks_of_the_source_damage_each_copy_alike() {
    let Some(disk) = BadDisk::new(192) else {
        return;
    };
    let source = disk.dir().join("src");
    let clip = words(200 * BLOCK);
    put(&source.join("clip"), &clip);
    put(&source.join("z"), "behind");
    let file = fs::File::open(source.join("clip")).unwrap();
    disk.flip(&file, &clip, &[70]);
    let scratch = tempfile::tempdir_in(DISK).unwrap();
    let destinations = ["a", "b"].map(|name| scratch.path().join(name));
    let run = |options: &[&str]| {
        let mut command = zc_dircopy();
        command.arg("-q").args(options).arg("-i").arg(&source);
        for destination in &destinations {
            command.arg("-o").arg(destination);
        }
        run(&mut command)
    };
    let names = [0, 1].map(|index| destinations[index].to_str().unwrap());
    run(&[]).failed_naming(&[
        &[names[0], "clip: cannot read"],
        &[names[1], "clip: cannot read"],
    ]);
    for copy in &destinations {
        assert!(!copy.join("clip").exists() && copy.join("z").exists());
    }
    run(&["--skip-errors"]).failed_naming(&[&[names[0], "clip"], &[names[1], "clip"]]);
    for copy in &destinations {
        let found = fs::read(copy.join("clip")).unwrap();
        let expected = crate::bad_disk::zeroed(&clip, &[70]);
        crate::files::assert_same(&found, &expected, "clip");
        assert!(copy.join("clip.damaged").exists());
    }
}

#[test]
fn destinations_that_are_one_directory_or_inside_another_are_refused() {
    let scene = Scene::new(2);
    let path = scene.trees.path();
    fs::create_dir_all(path.join("there/below")).unwrap();
    std::os::unix::fs::symlink("there", path.join("link")).unwrap();
    let cases = [
        ("there", "there", "are one directory"),
        ("there", "there/.", "are one directory"),
        ("there", "link", "are one directory"),
        ("new", "./new/", "are one directory"),
        ("there/new", "link/new", "are one directory"),
        ("there", "link/below", "is inside the destination"),
        ("there/below", "there", "is inside the destination"),
        ("new", "new/below", "is inside the destination"),
        ("new/a/b", "new/a", "is inside the destination"),
        ("there", "src/new", "the destination is inside the source"),
        ("new", "src", "the destination is the source"),
    ];
    for (one, other, words) in cases {
        for options in [&[][..], &["--dry-run"]] {
            let mut command = zc_dircopy();
            command.args(options).arg("-i").arg(scene.trees.source());
            command
                .arg("-o")
                .arg(path.join(one))
                .arg("-o")
                .arg(path.join(other));
            let run = run(&mut command);
            run.ended_with(2);
            assert!(run.stderr.contains(words), "{one}, {other}: {run:?}");
            assert!(!path.join("new").exists() && !path.join("src/new").exists());
            assert!(!path.join("there/new").exists());
        }
    }
    let run = run(scene.command(&[]).arg("more"));
    run.ended_with(2);
    assert!(run.stderr.contains("extra operand"), "{run:?}");
}

#[test]
fn destinations_whose_names_the_file_system_does_not_tell_apart_are_refused() {
    let file_systems = [
        FileSystem::ntfs(NtfsNames::CaseInsensitive),
        FileSystem::vfat(),
        FileSystem::ext4_casefold(),
        FileSystem::tmpfs_casefold(),
    ];
    for file_system in file_systems.into_iter().flatten() {
        let mut scene = Scene::new(2);
        let names = ["copy", "COPY"];
        scene.destinations = names.map(|name| file_system.path().join(name)).into();
        let run = scene.run(&[]);
        run.ended_with(2);
        assert!(run.stderr.contains("are one directory"), "{run:?}");
        for copy in &scene.destinations {
            assert!(!copy.exists(), "it is removed again");
        }
    }
}
