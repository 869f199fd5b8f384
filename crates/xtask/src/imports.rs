//! Checks that the modules of the library import only from modules further down a list.
//!
//! ARCHITECTURE.md has the list. The chore follows the declarations of modules from lib.rs, and so
//! reads every file that is compiled without `cfg(test)`.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

mod source;

use source::Source;

/// The line of ARCHITECTURE.md that introduces the list.
const HEADING: &str = "Imports point down this list:";

/// The library's sources, in the workspace.
const SOURCES: &str = "crates/zcopy/src";

/// Runs the chore.
///
/// # Errors
///
/// If an import does not point down the list, or the list does not name exactly the modules that
/// lib.rs declares.
pub(crate) fn run() -> anyhow::Result<()> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let map = fs::read_to_string(workspace.join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    let violations = check(&workspace, &Order::parse(&map)?)?;
    for violation in &violations {
        println!("{violation}");
    }
    match violations.len() {
        0 => Ok(()),
        n => bail!("violations: {n}"),
    }
}

/// The line of the list that each module stands on.
struct Order(HashMap<String, usize>);

impl Order {
    fn parse(map: &str) -> anyhow::Result<Self> {
        let mut lines = map.lines().skip_while(|line| *line != HEADING).skip(1);
        let fence = lines.find(|line| !line.is_empty());
        ensure!(
            fence == Some("```text"),
            "ARCHITECTURE.md has no list under the line {HEADING:?}"
        );
        let mut order = HashMap::new();
        for (index, line) in lines.take_while(|line| *line != "```").enumerate() {
            for module in line.split_whitespace() {
                let earlier = order.insert(module.to_owned(), index);
                ensure!(earlier.is_none(), "ARCHITECTURE.md lists `{module}` twice");
            }
        }
        Ok(Self(order))
    }

    /// In what the list differs from the modules that lib.rs declares.
    fn differences(&self, declared: &[Vec<String>]) -> Vec<String> {
        let declared: BTreeSet<_> = declared.iter().map(|module| &module[0]).collect();
        let listed: BTreeSet<_> = self.0.keys().collect();
        let unlisted = declared.difference(&listed);
        let unlisted =
            unlisted.map(|module| format!("ARCHITECTURE.md: `{module}` is not in the list"));
        let undeclared = listed.difference(&declared);
        let undeclared =
            undeclared.map(|module| format!("ARCHITECTURE.md: lib.rs does not declare `{module}`"));
        unlisted.chain(undeclared).collect()
    }

    /// Why a module may not import from another one, or from lib.rs itself. None if it may.
    fn objection(&self, from: &str, to: Option<&str>) -> Option<String> {
        let Some(to) = to else {
            return Some(format!(
                "`{from}` imports from lib.rs, which stands above all modules"
            ));
        };
        let place = match (self.0.get(from)?, self.0.get(to)) {
            _ if from == to => return None,
            (from, Some(to)) => match to.cmp(from) {
                Ordering::Greater => return None,
                Ordering::Equal => "stands beside it in ARCHITECTURE.md",
                Ordering::Less => "stands above it in ARCHITECTURE.md",
            },
            (_, None) => "is no module in ARCHITECTURE.md",
        };
        Some(format!("`{from}` imports `{to}`, which {place}"))
    }
}

/// Every violation, as a line.
fn check(workspace: &Path, order: &Order) -> anyhow::Result<Vec<String>> {
    let (_, root) = read(workspace, &[])?;
    let mut unread = root.modules;
    let mut violations = order.differences(&unread);
    let mut imports = BTreeSet::new();
    while let Some(module) = unread.pop() {
        let (file, source) = read(workspace, &module)?;
        for import in source.imports {
            if let Some(objection) =
                order.objection(&module[0], import.path.first().map(String::as_str))
            {
                imports.insert((file.clone(), import.line, objection));
            }
        }
        unread.extend(source.modules);
    }
    let imports = imports.into_iter();
    violations.extend(
        imports.map(|(file, line, objection)| format!("{}:{line}: {objection}", file.display())),
    );
    Ok(violations)
}

/// Reads a module, and names its file as seen from the workspace.
fn read(workspace: &Path, module: &[String]) -> anyhow::Result<(PathBuf, Source)> {
    let base = Path::new(SOURCES).join(module.join("/"));
    let candidates = match module {
        [] => [base.join("lib.rs"), base.join("main.rs")],
        _ => [base.with_extension("rs"), base.join("mod.rs")],
    };
    let file = candidates.iter().find(|file| workspace.join(file).exists());
    let file = file.with_context(|| format!("no {}", candidates[0].display()))?;
    let text = fs::read_to_string(workspace.join(file))?;
    let source = Source::parse(&text, module).with_context(|| file.display().to_string())?;
    Ok((file.clone(), source))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str =
        "Before.\n\nImports point down this list:\n\n```text\na\nb  c\nd\n```\n\n```text\ne\n```\n";

    /// A workspace with these files.
    fn workspace(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(SOURCES).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn an_import_points_down_the_list() {
        let order = Order::parse(LIST).unwrap();
        let objection = |from: &str, to: &str| order.objection(from, Some(to));
        for (from, to) in [("a", "b"), ("a", "d"), ("b", "d"), ("c", "c")] {
            assert_eq!(objection(from, to), None);
        }
        assert!(
            objection("d", "c")
                .unwrap()
                .contains("`c`, which stands above it")
        );
        assert!(
            objection("b", "c")
                .unwrap()
                .contains("`c`, which stands beside it")
        );
        assert!(
            objection("a", "e")
                .unwrap()
                .contains("`e`, which is no module")
        );
    }

    #[test]
    fn a_list_is_needed_that_names_each_module_once() {
        assert!(Order::parse("No list.\n").is_err());
        assert!(Order::parse("Imports point down this list:\n\nText.\n```text\na\n```\n").is_err());
        assert!(Order::parse("Imports point down this list:\n```text\na\nb a\n```\n").is_err());
    }

    #[test]
    fn each_violation_is_a_line() {
        let lib = "mod a; cfg! { if x { mod b; mod c; mod d; } }\n#[cfg(test)] mod sim;";
        let files = [
            ("lib.rs", lib),
            ("a.rs", "mod child;\nuse crate::{b, d::D};\nuse child::X;"),
            ("a/child.rs", "use super::Y;\nuse crate::c;"),
            (
                "b.rs",
                "use crate::d;\nuse crate::c;\n#[cfg(test)]\nmod tests;",
            ),
            ("c/mod.rs", "mod deep;"),
            ("c/deep.rs", "fn f() {\n    super::super::a::f()\n}"),
            (
                "d.rs",
                "\nuse super::*;\n\n\n\n\n\n\n\nuse crate::{D, D as E};",
            ),
        ];
        let dir = workspace(&files);
        let violations = check(dir.path(), &Order::parse(LIST).unwrap()).unwrap();
        let expected = [
            "b.rs:2: `b` imports `c`, which stands beside it in ARCHITECTURE.md",
            "c/deep.rs:2: `c` imports `a`, which stands above it in ARCHITECTURE.md",
            "d.rs:2: `d` imports from lib.rs, which stands above all modules",
            "d.rs:10: `d` imports `D`, which is no module in ARCHITECTURE.md",
        ];
        assert_eq!(violations, expected.map(|line| format!("{SOURCES}/{line}")));
    }

    #[test]
    fn the_list_names_the_modules_that_there_are() {
        let files = [
            ("lib.rs", "mod a; mod b; mod new;"),
            ("a.rs", ""),
            ("b.rs", ""),
            ("new.rs", "use crate::a;"),
        ];
        let dir = workspace(&files);
        let violations = check(dir.path(), &Order::parse(LIST).unwrap()).unwrap();
        let expected = [
            "ARCHITECTURE.md: `new` is not in the list",
            "ARCHITECTURE.md: lib.rs does not declare `c`",
            "ARCHITECTURE.md: lib.rs does not declare `d`",
        ];
        assert_eq!(violations, expected);
    }

    #[test]
    fn a_module_without_a_file_is_an_error() {
        let dir = workspace(&[("lib.rs", "mod a;")]);
        let error = check(dir.path(), &Order::parse(LIST).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), format!("no {SOURCES}/a.rs"));
    }
}
