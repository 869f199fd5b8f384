//! What one file says of modules: which it declares, and which it imports from.
//!
//! A file is read as tokens, so that the arguments of macros are read, too. No token comes from a
//! comment, and a string is one.

use std::str::FromStr;

use anyhow::{anyhow, ensure};
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// What a file says of modules.
#[derive(Debug, Default)]
pub(super) struct Source {
    pub(super) imports: Vec<Import>,
    /// The modules that are declared here and written elsewhere, by their paths.
    pub(super) modules: Vec<Vec<String>>,
}

/// A path that begins with `crate` or `super`, in a `use` or elsewhere.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) line: usize,
    /// The path from the crate's root.
    pub(super) path: Vec<String>,
}

impl Source {
    /// Reads the text of a module.
    pub(super) fn parse(text: &str, module: &[String]) -> anyhow::Result<Self> {
        let tokens = TokenStream::from_str(text).map_err(|error| anyhow!("{error}"))?;
        let mut source = Self::default();
        source.read(tokens, module)?;
        Ok(source)
    }

    /// Reads what stands in a module or within braces of it.
    fn read(&mut self, tokens: TokenStream, module: &[String]) -> anyhow::Result<()> {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut rest = &tokens[..];
        while let Some((first, behind)) = rest.split_first() {
            rest = match (first, behind) {
                (TokenTree::Punct(hash), [TokenTree::Group(attribute), item @ ..])
                    if hash.as_char() == '#' && is_left_out(attribute) =>
                {
                    &item[item_len(item)..]
                }
                (TokenTree::Ident(ident), _) if ident == "use" => {
                    let (tree, behind) = behind.split_at(position_of(behind, ';'));
                    self.read_use(tree, &[], module)?;
                    behind
                }
                (TokenTree::Ident(ident), [TokenTree::Ident(name), TokenTree::Punct(end), ..])
                    if ident == "mod" && end.as_char() == ';' =>
                {
                    self.modules.push(joined(module, name));
                    behind
                }
                (
                    TokenTree::Ident(ident),
                    [TokenTree::Ident(name), TokenTree::Group(body), behind @ ..],
                ) if ident == "mod" => {
                    self.read(body.stream(), &joined(module, name))?;
                    behind
                }
                (TokenTree::Ident(ident), _) if ident == "crate" || ident == "super" => {
                    let (path, len) = path(rest);
                    if path.len() > 1 {
                        self.import(first, &path, module)?;
                    }
                    &rest[len..]
                }
                (TokenTree::Group(group), _) => {
                    self.read(group.stream(), module)?;
                    behind
                }
                _ => behind,
            };
        }
        Ok(())
    }

    /// Reads what stands between `use` and the semicolon, or in its braces.
    fn read_use(
        &mut self,
        tree: &[TokenTree],
        prefix: &[String],
        module: &[String],
    ) -> anyhow::Result<()> {
        for branch in tree.split(|token| is_punct(token, ',')) {
            let (path, len) = path(branch);
            let path = [prefix, &path].concat();
            match &branch[len..] {
                [TokenTree::Group(group)] => {
                    let branches: Vec<_> = group.stream().into_iter().collect();
                    self.read_use(&branches, &path, module)?;
                }
                _ if branch.is_empty() => {}
                _ => self.import(&branch[0], &path, module)?,
            }
        }
        Ok(())
    }

    /// Notes a path, unless it begins with another crate or with what is in scope.
    fn import(&mut self, at: &TokenTree, path: &[String], module: &[String]) -> anyhow::Result<()> {
        let mut absolute = match path.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("super" | "self") => module.to_vec(),
            _ => return Ok(()),
        };
        for segment in path {
            match segment.as_str() {
                "crate" | "self" => {}
                "super" => ensure!(
                    absolute.pop().is_some(),
                    "there is nothing above the crate's root"
                ),
                _ => absolute.push(segment.clone()),
            }
        }
        let line = at.span().start().line;
        self.imports.push(Import {
            line,
            path: absolute,
        });
        Ok(())
    }
}

/// The path at the front, and the number of tokens that it takes. The first segment of a path that
/// begins with `::` is empty.
fn path(tokens: &[TokenTree]) -> (Vec<String>, usize) {
    let mut path = Vec::new();
    let mut len = 0;
    loop {
        match &tokens[len..] {
            [TokenTree::Ident(segment), ..] => {
                path.push(segment.to_string());
                len += 1;
            }
            _ if len == 0 => {}
            _ => break,
        }
        match &tokens[len..] {
            [a, b, ..] if is_punct(a, ':') && is_punct(b, ':') => {
                if path.is_empty() {
                    path.push(String::new());
                }
                len += 2;
            }
            _ => break,
        }
    }
    (path, len)
}

/// How many tokens the item at the front takes, with its attributes. 0 for a field or an arm:
/// neither is an item.
fn item_len(tokens: &[TokenTree]) -> usize {
    let mut start = 0;
    let keyword = loop {
        match &tokens[start..] {
            [TokenTree::Punct(hash), TokenTree::Group(_), ..] if hash.as_char() == '#' => {
                start += 2;
            }
            [TokenTree::Ident(word), TokenTree::Group(_), ..] if word == "pub" => start += 2,
            [TokenTree::Ident(word), ..] if word == "pub" => start += 1,
            [TokenTree::Ident(word), ..] => break word.to_string(),
            _ => return 0,
        }
    };
    let semicolon = position_of(tokens, ';');
    match keyword.as_str() {
        "use" => semicolon,
        "async" | "const" | "enum" | "fn" | "impl" | "mod" | "static" | "struct" | "trait"
        | "type" => {
            let body = tokens.iter().position(is_braced);
            body.map_or(semicolon, |body| semicolon.min(body + 1))
        }
        _ => 0,
    }
}

/// Where the first such character stands; behind all tokens if there is none.
fn position_of(tokens: &[TokenTree], char: char) -> usize {
    let position = tokens.iter().position(|token| is_punct(token, char));
    position.unwrap_or(tokens.len())
}

fn is_braced(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

fn is_punct(token: &TokenTree, char: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == char)
}

/// Whether an attribute leaves its item out of what is built for use.
fn is_left_out(attribute: &Group) -> bool {
    let text = attribute.stream().to_string().replace(' ', "");
    matches!(text.as_str(), "cfg(test)" | "cfg(doc)" | "cfg(doctest)")
}

fn joined(module: &[String], name: &proc_macro2::Ident) -> Vec<String> {
    [module, &[name.to_string()]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The imports of `a::b`, each as its line and its path.
    fn imports(text: &str) -> Vec<String> {
        let module = ["a", "b"].map(str::to_owned);
        let imports = Source::parse(text, &module).unwrap().imports.into_iter();
        let shown = imports.map(|import| format!("{} {}", import.line, import.path.join("::")));
        shown.collect()
    }

    #[test]
    fn each_name_in_nested_braces_is_an_import() {
        let text =
            "pub(crate) use crate::{\n c::{self, D as E},\n f,\n};\nuse {crate::g::*, std::io};";
        assert_eq!(imports(text), ["2 c", "2 c::D", "3 f", "5 g"]);
    }

    #[test]
    fn super_is_found_from_the_module_in_which_it_stands() {
        let text = "use super::{c, super::d};\nuse self::e;\nmod f { use super::super::g; }";
        assert_eq!(imports(text), ["1 a::c", "1 d", "2 a::b::e", "3 a::g"]);
    }

    #[test]
    fn paths_in_code_and_in_macros_are_imports() {
        let text =
            "fn f(x: &crate::c::D) {\n matches!(x, super::E | crate::g::H::<u8>::I { .. });\n}";
        assert_eq!(imports(text), ["1 c::D", "2 a::E", "2 g::H"]);
    }

    #[test]
    fn other_crates_names_in_scope_and_visibilities_are_no_imports() {
        let text = "use std::io;\nuse ::c::d;\nuse e::{f, g};\n\
                    pub(crate) struct S(pub(super) u8);\nimpl S { fn f() { e::f(); Self::g(); } }";
        assert!(imports(text).is_empty());
    }

    #[test]
    fn comments_and_strings_are_no_imports() {
        let text = "//! [crate::c]\n/// crate::d\n// use crate::e;\n/* use crate::f; */\n\
                    #[doc = \"crate::g\"]\nconst S: &str = \"use crate::h;\";";
        assert!(imports(text).is_empty());
    }

    #[test]
    fn items_for_tests_and_documentation_are_left_out() {
        let text = "#[cfg(test)]\nuse crate::{c, d};\n#[cfg(doc)]\npub(crate) use crate::e;\n\
                    #[cfg(test)]\nmod tests { use crate::f; }\n\
                    #[cfg(test)]\n#[must_use]\npub fn g() { crate::h() }\n\
                    #[cfg(not(test))]\nuse crate::i;\n\
                    struct S { #[cfg(test)] j: u8, k: crate::k::K }";
        assert_eq!(imports(text), ["11 i", "12 k::K"]);
    }

    #[test]
    fn modules_in_other_files_are_told() {
        let text =
            "mod c;\npub(crate) mod d { mod e; }\n#[cfg(test)]\nmod tests;\nif_linux! { mod f; }";
        let source = Source::parse(text, &["a".to_owned()]).unwrap();
        let modules: Vec<_> = source
            .modules
            .iter()
            .map(|module| module.join("::"))
            .collect();
        assert_eq!(modules, ["a::c", "a::d::e", "a::f"]);
    }

    #[test]
    fn what_is_not_rust_is_an_error() {
        assert!(Source::parse("fn f( {", &[]).is_err());
        assert!(Source::parse("use super::super::a;", &["a".to_owned()]).is_err());
    }
}
