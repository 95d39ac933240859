//! The target of an export: standard output, a device or a pipe, or a file that is replaced when the export is complete. It must never
//! replace something that is not a file, and never give more people access to a file than before.

use crate::out;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use stockhold_store::own_files;

/// Most symbolic links in a chain, as operating systems allow.
const MOST_LINKS: u32 = 40;
/// Permission bits of owner, group and others.
const RIGHTS: u32 = 0o777;
/// Permission bits of owner and others.
const RIGHTS_WITHOUT_GROUP: u32 = 0o707;

/// Where rows are written.
pub(super) enum ExportTarget {
    Standard(out::Stdout),
    /// A device or a pipe, which is not replaced.
    Straight(PathBuf, File),
    File(Box<PartialFile>),
}

/// A file under its temporary name. It is removed when it is dropped, unless it is kept or renamed.
pub(super) struct PartialFile {
    path: PathBuf,
    file: File,
    /// Its final name.
    target: PathBuf,
    /// The file that it replaces.
    replaced: Option<Metadata>,
    temporary: bool,
}

impl ExportTarget {
    /// Opens the target. An error names the path.
    pub(super) fn open(out: Option<&Path>) -> Result<Self, String> {
        let Some(out) = out else { return Ok(Self::Standard(out::Stdout)) };
        Self::at(out).map_err(|error| format!("{}: {error}", out.display()))
    }

    fn at(out: &Path) -> io::Result<Self> {
        let there = match fs::metadata(out) {
            Ok(there) => Some(there),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        match there {
            Some(there) if there.is_dir() => {
                Err(io::Error::other("is a directory: name a file to write to, as in --out DIRECTORY/FILE"))
            }
            Some(there) if is_standard_output(&there) => Ok(Self::Standard(out::Stdout)),
            Some(there) if !there.is_file() => {
                Ok(Self::Straight(out.to_owned(), OpenOptions::new().write(true).open(out)?))
            }
            there => Ok(Self::File(Box::new(PartialFile::create(followed(out)?, there)?))),
        }
    }

    /// Its name in messages.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Standard(_) => "standard output".to_owned(),
            Self::Straight(path, _) => path.display().to_string(),
            Self::File(part) => part.path.display().to_string(),
        }
    }

    /// Ends the export: a file gets its final name.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Standard(_) | Self::Straight(..) => Ok(()),
            Self::File(part) => part.finish(),
        }
    }

    /// Keeps what is written so far.
    pub(super) fn keep(&mut self) {
        if let Self::File(part) = self {
            part.temporary = false;
        }
    }
}

impl Write for ExportTarget {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Standard(out) => out.write(bytes),
            Self::Straight(_, file) => file.write(bytes),
            Self::File(part) => part.file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl PartialFile {
    /// Creates a file that only its owner can read. It replaces the unfinished file of an earlier export.
    fn create(target: PathBuf, replaced: Option<Metadata>) -> io::Result<Self> {
        let mut path = target.as_os_str().to_owned();
        path.push(".part");
        let path = PathBuf::from(path);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(io::Error::new(error.kind(), format!("removing {}: {error}", path.display())));
            }
            _ => {}
        }
        let file = own_files::options().write(true).create_new(true).open(&path)?;
        Ok(Self { path, file, target, replaced, temporary: true })
    }

    fn finish(&mut self) -> io::Result<()> {
        if let Some(replaced) = &self.replaced {
            replace_file(&self.file, replaced)?;
        }
        self.file.sync_all()?;
        if !self.is_there() {
            self.temporary = false;
            return Err(io::Error::other("another export writes to the same file at the same time"));
        }
        fs::rename(&self.path, &self.target)?;
        self.temporary = false;
        Ok(())
    }

    /// Whether the file still has its temporary name: another export to the same target removes it.
    fn is_there(&self) -> bool {
        let (named, own) = (fs::symlink_metadata(&self.path), self.file.metadata());
        matches!((named, own), (Ok(named), Ok(own)) if (named.dev(), named.ino()) == (own.dev(), own.ino()))
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if self.temporary && self.is_there() {
            // A file that stays is replaced by the next export.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Gives a file the owner and the permissions of the file that it replaces. If it can't get the same group, its group gets no
/// permissions.
fn replace_file(file: &File, replaced: &Metadata) -> io::Result<()> {
    let (owner, group) = (replaced.uid(), replaced.gid());
    let same_group =
        fchown(file, Some(owner), Some(group)).or_else(|_| fchown(file, None, Some(group))).is_ok();
    let rights = if same_group { RIGHTS } else { RIGHTS_WITHOUT_GROUP };
    file.set_permissions(Permissions::from_mode(replaced.mode() & rights))
}

/// Whether it is the file of standard output, as /dev/stdout is.
fn is_standard_output(there: &Metadata) -> bool {
    let own = io::stdout().as_fd().try_clone_to_owned().and_then(|own| File::from(own).metadata());
    own.is_ok_and(|own| (own.dev(), own.ino()) == (there.dev(), there.ino()))
}

/// Follows symbolic links. The last name need not exist.
fn followed(out: &Path) -> io::Result<PathBuf> {
    let mut path = out.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            Ok(to) => path = path.parent().unwrap_or(Path::new("")).join(to),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("is a chain of too many symbolic links"))
}
