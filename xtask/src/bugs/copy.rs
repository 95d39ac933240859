//! The copy of the tree under `target/bugs`. It is kept between runs with its build folder, and a file is only written when
//! its text differs, so that the second run builds little.

use crate::database::done;
use crate::spawn::workspace;
use crate::{Outcome, fail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A copy of everything that git knows of, or would take, in the state of the working tree.
#[derive(Debug)]
pub(super) struct TreeCopy {
    folder: PathBuf,
}

impl TreeCopy {
    pub(super) fn make() -> Outcome<Self> {
        let copy = Self { folder: workspace().join("target/bugs") };
        std::fs::create_dir_all(copy.tree())?;
        let listed = done(
            Command::new("git")
                .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
                .current_dir(workspace()),
        )?;
        let names: BTreeSet<&str> = listed.split('\0').filter(|name| !name.is_empty()).collect();
        // A file that was deleted and is not committed yet is listed as well.
        let present: BTreeSet<PathBuf> =
            names.into_iter().map(PathBuf::from).filter(|name| workspace().join(name).is_file()).collect();
        if present.is_empty() {
            return fail("git lists no files to copy");
        }
        for name in &present {
            copy_file(&workspace().join(name), &copy.tree().join(name))?;
        }
        remove_others(&copy.tree(), &copy.tree(), &present)?;
        Ok(copy)
    }

    /// Where the copy and its build folder are.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The root of the copy.
    pub(super) fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    pub(super) fn apply(&self, patch: &Path) -> Outcome<()> {
        self.git_apply(patch, &[])
    }

    pub(super) fn revert(&self, patch: &Path) -> Outcome<()> {
        self.git_apply(patch, &["--reverse"])
    }

    fn git_apply(&self, patch: &Path, more: &[&str]) -> Outcome<()> {
        let mut command = Command::new("git");
        command.arg("apply").args(more).arg(patch).current_dir(self.tree());
        // Inside a repository git would silently skip files that are outside of the current folder's path.
        command.env("GIT_CEILING_DIRECTORIES", &self.folder);
        done(&mut command).map(drop)
    }
}

fn copy_file(from: &Path, to: &Path) -> Outcome<()> {
    let bytes = std::fs::read(from)?;
    if std::fs::read(to).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // Not `fs::copy`: the time of the change has to be now for cargo to see it.
    std::fs::write(to, bytes)?;
    Ok(std::fs::set_permissions(to, std::fs::metadata(from)?.permissions())?)
}

fn remove_others(folder: &Path, root: &Path, keep: &BTreeSet<PathBuf>) -> Outcome<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, root, keep)?;
        } else if !keep.contains(path.strip_prefix(root)?) {
            std::fs::remove_file(&path)?;
        }
    }
    Ok(())
}
