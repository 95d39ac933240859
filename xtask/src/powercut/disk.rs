//! A disk as its recording describes it: what is durable, and what was asked for since and may be there in any part. An
//! image of it keeps all that was synced (a name only once its folder was) and what a policy chooses of the rest, sector
//! by sector.

use super::record::Step;
use crate::Outcome;
use crate::rng::Rng;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// What a disk writes whole.
const SECTOR: usize = 512;
/// What is looked at at once when an image is written: holes are left where nothing is.
const BLOCK: usize = 4_096;
const SHM: &str = "-shm";
const DATABASES: [&str; 2] = ["log.db", "index.db"];

/// What a power cut keeps of what was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeepPolicy {
    Nothing,
    Everything,
    /// All up to some moment, in the order of asking, and a torn piece of what came then.
    Beginning,
    /// Each sector of each write with this chance in a hundred.
    Sectors(u64),
    /// Everything of some files and nothing of others.
    Files,
}

/// Every policy, in turn.
pub(super) const POLICIES: [KeepPolicy; 7] = [
    KeepPolicy::Nothing,
    KeepPolicy::Sectors(50),
    KeepPolicy::Beginning,
    KeepPolicy::Files,
    KeepPolicy::Sectors(10),
    KeepPolicy::Sectors(90),
    KeepPolicy::Everything,
];

/// The content of a disk, synced and not synced.
#[derive(Debug, Default)]
pub(super) struct Disk {
    files: HashMap<u64, Content>,
    /// Durable names.
    names: BTreeMap<String, u64>,
    /// Names as the process saw them.
    seen: BTreeMap<String, u64>,
    /// Changes of names that no sync of the folder has followed.
    renamings: Vec<(usize, NameChange)>,
    folder: Option<u64>,
}

#[derive(Debug, Default)]
struct Content {
    durable: Vec<u8>,
    asked: Vec<(usize, Change)>,
}

#[derive(Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Zeros(usize, usize),
    Cut(usize),
}

#[derive(Clone, Debug)]
enum NameChange {
    Is(String, u64),
    Gone(String),
}

impl Disk {
    /// A folder all of which is durable; it need not be there.
    pub(super) fn at_rest(folder: &Path) -> Outcome<Self> {
        let mut disk = Self::default();
        if !folder.exists() {
            return Ok(disk);
        }
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(SHM) {
                continue;
            }
            let inode = entry.metadata()?.ino();
            let durable = std::fs::read(entry.path())?;
            disk.files.insert(inode, Content { durable, asked: Vec::new() });
            disk.names.insert(name, inode);
        }
        disk.seen = disk.names.clone();
        Ok(disk)
    }

    /// Plays the recording. Answers with the number of syncs that were whole.
    pub(super) fn play(&mut self, steps: Vec<Step>) -> usize {
        let mut begun: HashMap<u64, usize> = HashMap::new();
        let mut syncs = 0;
        for (now, step) in steps.into_iter().enumerate() {
            match step {
                Step::Opened { is_folder: true, inode, .. } => self.folder = Some(inode),
                Step::Opened { name, inode, .. } => {
                    if self.seen.get(&name) != Some(&inode) {
                        self.files.insert(inode, Content::default());
                        self.seen.insert(name.clone(), inode);
                        self.renamings.push((now, NameChange::Is(name, inode)));
                    }
                }
                Step::Written { inode, at, data } => self.ask(inode, now, Change::Write(index(at), data)),
                Step::Zeroed { inode, at, bytes } => {
                    self.ask(inode, now, Change::Zeros(index(at), index(bytes)));
                }
                Step::Cut { inode, bytes } => self.ask(inode, now, Change::Cut(index(bytes))),
                Step::Syncing { number } => {
                    begun.insert(number, now);
                }
                Step::Synced { inode, number } => {
                    syncs += 1;
                    self.synced(inode, begun.get(&number).copied().unwrap_or(0));
                }
                Step::Removed { name } => {
                    self.seen.remove(&name);
                    self.renamings.push((now, NameChange::Gone(name)));
                }
                Step::Renamed { from, to } => {
                    if let Some(inode) = self.seen.remove(&from) {
                        self.seen.insert(to.clone(), inode);
                        self.renamings.push((now, NameChange::Gone(from)));
                        self.renamings.push((now, NameChange::Is(to, inode)));
                    }
                }
            }
        }
        syncs
    }

    /// Changes that nothing has synced.
    pub(super) fn unsynced(&self) -> usize {
        self.files.values().map(|content| content.asked.len()).sum::<usize>() + self.renamings.len()
    }

    fn ask(&mut self, inode: u64, now: usize, change: Change) {
        self.files.entry(inode).or_default().asked.push((now, change));
    }

    /// What was asked before `begun` is durable.
    fn synced(&mut self, inode: u64, begun: usize) {
        if self.folder == Some(inode) {
            let kept = self.renamings.iter().take_while(|(asked, _)| *asked < begun).count();
            for (_, naming) in self.renamings.drain(..kept) {
                rename(&mut self.names, naming);
            }
        }
        if let Some(content) = self.files.get_mut(&inode) {
            let kept = content.asked.iter().take_while(|(asked, _)| *asked < begun).count();
            let Content { durable, asked } = content;
            for (_, change) in asked.drain(..kept) {
                apply(durable, &change);
            }
        }
    }

    /// Writes an image into a folder that is not there.
    pub(super) fn image(&self, folder: &Path, keep: KeepPolicy, rng: &mut Rng) -> Outcome<()> {
        std::fs::create_dir_all(folder)?;
        let moments = self.files.values().flat_map(|content| content.asked.iter().map(|(asked, _)| *asked));
        let (first, last) = moments.fold((usize::MAX, 0), |(a, b), asked| (a.min(asked), b.max(asked)));
        let until = if first > last { 0 } else { first + rng.index(last - first + 1) };
        let mut names = self.names.clone();
        let kept_names = match keep {
            KeepPolicy::Nothing => 0,
            KeepPolicy::Everything => self.renamings.len(),
            // A journal keeps them in their order.
            _ => rng.index(self.renamings.len() + 1),
        };
        for (_, naming) in self.renamings.iter().take(kept_names) {
            rename(&mut names, naming.clone());
        }
        for (name, inode) in names {
            let Some(content) = self.files.get(&inode) else { continue };
            let bytes = content.kept(keep, until, rng);
            write_sparse(&folder.join(&name), &bytes)?;
            // The contents of shared memory after a power cut are arbitrary.
            if DATABASES.contains(&name.as_str()) && rng.percent(25) {
                let rubbish: Vec<u8> = (0..8).flat_map(|_| rng.next().to_le_bytes()).collect();
                std::fs::write(folder.join(format!("{name}{SHM}")), rubbish)?;
            }
        }
        Ok(())
    }
}

impl Content {
    fn kept(&self, keep: KeepPolicy, until: usize, rng: &mut Rng) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        let whole_file = rng.percent(50);
        for (asked, change) in &self.asked {
            let percent = match keep {
                KeepPolicy::Nothing => 0,
                KeepPolicy::Everything => 100,
                KeepPolicy::Files => 100 * u64::from(whole_file),
                KeepPolicy::Beginning => match asked.cmp(&until) {
                    Ordering::Less => 100,
                    Ordering::Equal => 50,
                    Ordering::Greater => 0,
                },
                KeepPolicy::Sectors(percent) => percent,
            };
            match percent {
                100 => apply(&mut bytes, change),
                _ => tear(&mut bytes, change, percent, rng),
            }
        }
        bytes
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn rename(names: &mut BTreeMap<String, u64>, naming: NameChange) {
    match naming {
        NameChange::Is(name, inode) => {
            names.insert(name, inode);
        }
        NameChange::Gone(name) => {
            names.remove(&name);
        }
    }
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write(at, data) => put(bytes, *at, data),
        Change::Zeros(at, count) => {
            let end = at + count;
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[*at..end].fill(0);
        }
        Change::Cut(length) => bytes.resize(*length, 0),
    }
}

/// Keeps some of a change's sectors. Where a file grows, its length may be kept and its content not.
fn tear(bytes: &mut Vec<u8>, change: &Change, percent: u64, rng: &mut Rng) {
    match change {
        Change::Cut(_) | Change::Zeros(..) => {
            if rng.percent(percent) {
                apply(bytes, change);
            }
        }
        Change::Write(at, data) => {
            let mut from = 0;
            while from < data.len() {
                // To the end of the sector that this byte of the file lies in.
                let to = (((at + from) / SECTOR + 1) * SECTOR - at).min(data.len());
                if rng.percent(percent) {
                    put(bytes, at + from, &data[from..to]);
                }
                from = to;
            }
            let end = at + data.len();
            if bytes.len() < end && rng.percent(percent / 2) {
                bytes.resize(end, 0);
            }
        }
    }
}

fn put(bytes: &mut Vec<u8>, at: usize, data: &[u8]) {
    let end = at + data.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[at..end].copy_from_slice(data);
}

fn write_sparse(path: &Path, bytes: &[u8]) -> Outcome<()> {
    let file = File::create(path)?;
    file.set_len(bytes.len() as u64)?;
    for (number, block) in bytes.chunks(BLOCK).enumerate() {
        if block.iter().any(|byte| *byte != 0) {
            file.write_all_at(block, (number * BLOCK) as u64)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(inode: u64, at: u64, data: &str) -> Step {
        Step::Written { inode, at, data: data.as_bytes().to_vec() }
    }

    fn image(disk: &Disk, keep: KeepPolicy) -> BTreeMap<String, Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        disk.image(&path, keep, &mut Rng::new(1)).unwrap();
        let files = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        files
            .map(|path| (path.file_name().unwrap().to_string_lossy().into(), std::fs::read(path).unwrap()))
            .collect()
    }

    /// A file that is written, synced with its folder, and written again.
    fn played() -> Disk {
        let mut disk = Disk::default();
        let syncs = disk.play(vec![
            Step::Opened { name: String::new(), inode: 1, is_folder: true },
            Step::Opened { name: "a".to_owned(), inode: 2, is_folder: false },
            write(2, 0, "old"),
            Step::Syncing { number: 1 },
            write(2, 3, "between"),
            Step::Synced { inode: 2, number: 1 },
            Step::Syncing { number: 2 },
            Step::Synced { inode: 1, number: 2 },
            Step::Opened { name: "b".to_owned(), inode: 3, is_folder: false },
            write(3, 0, "new"),
            Step::Syncing { number: 3 },
        ]);
        assert_eq!(syncs, 2);
        disk
    }

    #[test]
    fn what_was_synced_is_kept_and_what_was_asked_while_it_was_synced_need_not_be() {
        let disk = played();
        assert_eq!(image(&disk, KeepPolicy::Nothing), BTreeMap::from([("a".to_owned(), b"old".to_vec())]));
        let all =
            BTreeMap::from([("a".to_owned(), b"oldbetween".to_vec()), ("b".to_owned(), b"new".to_vec())]);
        assert_eq!(image(&disk, KeepPolicy::Everything), all);
        assert_eq!(disk.unsynced(), 3);
    }

    #[test]
    fn a_write_is_torn_at_sectors() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), vec![1; 4 * SECTOR]).unwrap();
        let mut disk = Disk::at_rest(folder.path()).unwrap();
        let inode = disk.names["a"];
        disk.play(vec![Step::Written { inode, at: 100, data: vec![2; 3 * SECTOR] }]);
        let mut torn = 0;
        for number in 0..20 {
            let path = folder.path().join(number.to_string());
            disk.image(&path, KeepPolicy::Sectors(50), &mut Rng::new(number)).unwrap();
            let bytes = std::fs::read(path.join("a")).unwrap();
            assert!(bytes[..100].iter().all(|byte| *byte == 1) && bytes.len() == 4 * SECTOR);
            let whole = |part: &[u8]| part.iter().all(|byte| *byte == part[0]);
            assert!(whole(&bytes[100..SECTOR]) && bytes[SECTOR..].chunks(SECTOR).take(2).all(whole));
            torn += usize::from(bytes.contains(&2) && bytes[100..100 + 3 * SECTOR].contains(&1));
        }
        assert!(torn > 5, "{torn}");
    }
}
