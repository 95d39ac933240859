//! The files and directories that the program makes: they have personal data, secrets and business figures, so only the user who runs
//! the program may read them. Whatever makes one uses this module. Files that are there already keep their permissions; a start warns of
//! them with [`find_wider`].

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

/// The permissions of a directory: all for its owner.
pub const DIRECTORY_MODE: u32 = 0o700;
/// The permissions of a file: reading and writing for its owner.
pub const FILE_MODE: u32 = 0o600;
/// The permissions of others than the owner.
const OTHERS: u32 = 0o077;

/// A path that others than its owner may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WiderPath {
    /// The path.
    pub path: PathBuf,
    /// Its permissions.
    pub mode: u32,
}

/// Makes a directory and its parents, as far as they do not exist.
pub fn create_dir_all(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(dir)
}

/// Options that open a file. If they make it, it is its owner's.
pub fn options() -> OpenOptions {
    let mut options = File::options();
    options.mode(FILE_MODE);
    options
}

/// Makes an empty file if none is there, for a library that would make it with wider permissions.
pub fn create_if_missing(file: &Path) -> io::Result<()> {
    options().create(true).append(true).open(file).map(drop)
}

/// Where a path leads after symbolic links. Its last parts need not exist.
pub fn resolved(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    for place in path.ancestors() {
        let Ok(real) = place.canonicalize() else { continue };
        let missing = path.strip_prefix(place).map_err(io::Error::other)?;
        // Below a directory that does not exist, `..` can't be followed.
        if missing.components().any(|part| !matches!(part, Component::Normal(_))) {
            break;
        }
        return Ok(if missing.as_os_str().is_empty() { real } else { real.join(missing) });
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "the path leads through a directory that does not exist"))
}

/// The directory and what is directly in it, as far as others may use it. What can't be looked at is left out.
pub fn find_wider(dir: &Path) -> Vec<WiderPath> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let wider = |path: PathBuf| {
        // A link has no permissions of its own.
        let mode = fs::symlink_metadata(&path).ok().filter(|found| !found.is_symlink())?.permissions().mode();
        (mode & OTHERS != 0).then_some(WiderPath { path, mode: mode & 0o777 })
    };
    let dir = dir.canonicalize().ok();
    dir.into_iter().chain(entries).filter_map(wider).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;

    #[test]
    fn what_is_made_is_its_owners_and_what_is_wider_is_found() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("a/b");
        create_dir_all(&dir).unwrap();
        let file = dir.join("file");
        create_if_missing(&file).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&root.path().join("a")), mode(&dir), mode(&file)), (0o700, 0o700, 0o600));
        assert_eq!(find_wider(&dir), []);
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        fs::set_permissions(&dir, Permissions::from_mode(0o701)).unwrap();
        let found = find_wider(&dir);
        assert_eq!(found.iter().map(|wider| wider.mode).collect::<Vec<_>>(), [0o701, 0o640]);
        let link = root.path().join("link");
        std::os::unix::fs::symlink(&dir, &link).unwrap();
        let real = dir.canonicalize().unwrap();
        assert_eq!(resolved(&link.join("new/deep")).unwrap(), real.join("new/deep"));
        assert_eq!(resolved(&link).unwrap(), real);
        assert_eq!(resolved(&link.join("../x")).unwrap(), root.path().canonicalize().unwrap().join("a/x"));
        assert!(resolved(&link.join("new/../../x")).is_err());
        // Existing files keep their permissions.
        create_if_missing(&file).unwrap();
        create_dir_all(&dir).unwrap();
        assert_eq!((mode(&dir), mode(&file)), (0o701, 0o640));
    }
}
