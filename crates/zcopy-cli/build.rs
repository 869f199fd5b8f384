//! Links the unwinder statically into the programs if the C compiler has `libgcc_eh.a`.
//!
//! `std` asks for `libgcc_s.so.1`, which the loader maps and relocates at every start: an eighth of
//! the time that `zc-tee` takes for one byte. The linker drops it if an archive before it has all
//! that is needed. Static programs link the archive anyway, and musl has no such library.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") && has_archive() {
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
    }
}

/// Whether the compiler that links finds the archive.
fn has_archive() -> bool {
    let is_cross = env::var_os("HOST") != env::var_os("TARGET");
    let compiler = match env::var_os("RUSTC_LINKER") {
        Some(linker) => linker,
        // Another target's archive is looked for by its own linker alone.
        None if is_cross => return false,
        None => "cc".into(),
    };
    let answer = Command::new(compiler)
        .arg("-print-file-name=libgcc_eh.a")
        .output();
    // A compiler without the archive repeats the bare name.
    answer.is_ok_and(|answer| {
        let path = String::from_utf8_lossy(&answer.stdout);
        Path::new(path.trim()).is_absolute()
    })
}
