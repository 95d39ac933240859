//! Where an export goes: standard output, a device or a pipe as it stands, or a file that is replaced when the export is
//! whole. It must never put a file in the place of what is none, and never show a file to more people than before.

use crate::out;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// Most links that are followed one behind the other, as systems have it.
const MOST_LINKS: u32 = 40;
/// What a new file may be: its owner's alone, since exports say who bought what.
const OWN: u32 = 0o600;
/// The rights of others than the file's owner and the system.
const RIGHTS: u32 = 0o777;
/// The rights of everybody but the file's group.
const RIGHTS_WITHOUT_GROUP: u32 = 0o707;

/// See the module.
pub(super) enum ExportTarget {
    Standard(out::Stdout),
    /// A device, a pipe: there is nothing to replace.
    Straight(PathBuf, File),
    File(Box<PartialFile>),
}

/// A file under its name of the meantime. It is removed when it is dropped, unless it is kept or has its own name.
pub(super) struct PartialFile {
    path: PathBuf,
    file: File,
    /// The name that it gets.
    target: PathBuf,
    /// What stands there.
    replaced: Option<Metadata>,
    temporary: bool,
}

impl ExportTarget {
    /// Opens it; an error names what is in the way.
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

    /// What it is called in messages.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Standard(_) => "standard output".to_owned(),
            Self::Straight(path, _) => path.display().to_string(),
            Self::File(part) => part.path.display().to_string(),
        }
    }

    /// Everything is written: a file gets its name.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Standard(_) | Self::Straight(..) => Ok(()),
            Self::File(part) => part.finish(),
        }
    }

    /// What is written so far stays, though it is not all.
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
    /// Begins a file that nobody else can read, whatever an earlier export has left under its name.
    fn create(target: PathBuf, replaced: Option<Metadata>) -> io::Result<Self> {
        let mut path = target.as_os_str().to_owned();
        path.push(".part");
        let path = PathBuf::from(path);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(io::Error::new(
                    error.kind(),
                    format!("{} is in the way: {error}", path.display()),
                ));
            }
            _ => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(OWN).open(&path)?;
        Ok(Self { path, file, target, replaced, temporary: true })
    }

    fn finish(&mut self) -> io::Result<()> {
        if let Some(replaced) = &self.replaced {
            take_over(&self.file, replaced)?;
        }
        self.file.sync_all()?;
        if !self.is_there() {
            self.temporary = false;
            return Err(io::Error::other(
                "another export writes here at the same time, and took the file's place",
            ));
        }
        fs::rename(&self.path, &self.target)?;
        self.temporary = false;
        Ok(())
    }

    /// Whether the file still has its name: another export to the same place takes it away.
    fn is_there(&self) -> bool {
        let (named, own) = (fs::symlink_metadata(&self.path), self.file.metadata());
        matches!((named, own), (Ok(named), Ok(own)) if (named.dev(), named.ino()) == (own.dev(), own.ino()))
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if self.temporary && self.is_there() {
            // One that stays is replaced by the next export.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Gives a file the owner and the rights of the one that it replaces. Where it can't have that one's group, its own group
/// gets no rights.
fn take_over(file: &File, replaced: &Metadata) -> io::Result<()> {
    let (owner, group) = (replaced.uid(), replaced.gid());
    let same_group =
        fchown(file, Some(owner), Some(group)).or_else(|_| fchown(file, None, Some(group))).is_ok();
    let rights = if same_group { RIGHTS } else { RIGHTS_WITHOUT_GROUP };
    file.set_permissions(Permissions::from_mode(replaced.mode() & rights))
}

/// Whether it is what standard output goes to, as /dev/stdout is.
fn is_standard_output(there: &Metadata) -> bool {
    let own = io::stdout().as_fd().try_clone_to_owned().and_then(|own| File::from(own).metadata());
    own.is_ok_and(|own| (own.dev(), own.ino()) == (there.dev(), there.ino()))
}

/// Where a name leads in the end, whether anything stands there or not.
fn followed(out: &Path) -> io::Result<PathBuf> {
    let mut path = out.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            Ok(to) => path = path.parent().unwrap_or(Path::new("")).join(to),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("is a link that leads from link to link"))
}
