//! The patches and their headers: `Description:` says what the mistake is, `Caught-by:` which crates' tests have to fail.

use crate::spawn::workspace;
use crate::{Outcome, fail};
use std::path::{Path, PathBuf};

/// One mistake.
#[derive(Clone, Debug)]
pub(super) struct Patch {
    /// The file's name without its ending.
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// Packages whose tests have to fail, each of them.
    pub(super) crates: Vec<String>,
}

/// All patches, sorted by name. An error when there are none.
pub(super) fn read_all() -> Outcome<Vec<Patch>> {
    let folder = workspace().join("xtask/bugs");
    let mut patches = Vec::new();
    for entry in std::fs::read_dir(&folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "patch") {
            let text = std::fs::read_to_string(&path)?;
            patches.push(Patch::parse(&path, &text).map_err(|error| format!("{}: {error}", path.display()))?);
        }
    }
    patches.sort_by(|one, other| one.name.cmp(&other.name));
    if patches.is_empty() { fail(format!("no patches in {}", folder.display())) } else { Ok(patches) }
}

impl Patch {
    pub(super) fn parse(path: &Path, text: &str) -> Outcome<Self> {
        let header: Vec<&str> = text.lines().take_while(|line| !line.starts_with("diff --git ")).collect();
        if header.len() == text.lines().count() {
            return fail("no diff in it");
        }
        let field = |name: &str| {
            let value = header.iter().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
            if value.is_empty() { fail(format!("no line `{name}` before the diff")) } else { Ok(value) }
        };
        field("Description:")?;
        let crates = field("Caught-by:")?.split_whitespace().map(package).collect();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, path: path.to_owned(), crates })
    }
}

/// The package of a crate that is named by its folder or by its package.
fn package(name: &str) -> String {
    if name == "xtask" || name.starts_with("stockhold-") {
        name.to_owned()
    } else {
        format!("stockhold-{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_without_its_fields_or_a_patch_without_a_diff_is_an_error() {
        let parse = |text: &str| Patch::parse("xtask/bugs/a-name.patch".as_ref(), text);
        let diff = "diff --git a/x b/x\n";
        let good = parse(&format!("Description: d\nCaught-by: domain stockhold-store\n\n{diff}")).unwrap();
        assert_eq!((good.name.as_str(), good.crates.len()), ("a-name", 2));
        assert_eq!(good.crates, ["stockhold-domain", "stockhold-store"]);
        for text in [
            format!("Description: d\n{diff}"),
            format!("Description: d\nCaught-by:\n{diff}"),
            format!("Caught-by: domain\n{diff}"),
            format!("{diff}Description: d\nCaught-by: domain\n"),
            "Description: d\nCaught-by: domain\n".to_owned(),
        ] {
            assert!(parse(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_patch_has_a_header() {
        read_all().unwrap();
    }
}
