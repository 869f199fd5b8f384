//! Checks that links within the project lead to a file, and to a heading in it.

use std::path::Path;

use super::read;

#[cfg(test)]
mod tests;

/// The links of a page that lead nowhere, as lines. Links to other places are not followed.
///
/// # Errors
///
/// If a page cannot be read.
pub(super) fn check(workspace: &Path, file: &Path) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    for link in read(workspace, file)?.links {
        if link.target.contains("://") || link.target.starts_with("mailto:") {
            continue;
        }
        if let Some(problem) = problem(workspace, file, &link.target)? {
            let file = file.display();
            problems.push(format!("{file}:{}: {}: {problem}", link.line, link.target));
        }
    }
    Ok(problems)
}

fn problem(workspace: &Path, file: &Path, target: &str) -> anyhow::Result<Option<&'static str>> {
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (target, None),
    };
    let linked = match path {
        "" => file.to_owned(),
        _ => file.with_file_name(path),
    };
    if !workspace.join(&linked).exists() {
        return Ok(Some("no such file"));
    }
    let Some(anchor) = anchor else {
        return Ok(None);
    };
    let anchors = read(workspace, &linked)?.anchors;
    let is_there = anchors.iter().any(|heading| heading == anchor);
    Ok((!is_there).then_some("no such heading"))
}
