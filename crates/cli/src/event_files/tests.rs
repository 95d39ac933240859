//! Files are read as they were written, and whatever is changed in one is noticed.

use super::*;
use stockhold_conformance::Maker;
use stockhold_domain::{Event, EventId, Instant, Origin, Scope, Transition};

fn rows(first: u64, count: u64) -> Vec<EventRow> {
    let maker = Maker::new(1, "");
    let origin: Origin = maker.clone().wrap(stockhold_domain::Command::Sweep).origin;
    let event = |position: u64| Event {
        id: EventId::from_u128(position.into()),
        at: Instant::from_micros(i64::try_from(position).unwrap()),
        origin: origin.clone(),
        previous: None,
        transition: Transition::Sale { scope: Scope::Everything, paused: true, reason: None },
    };
    (first..first + count).map(|position| EventRow { position, event: event(position) }).collect()
}

fn write(files: &mut EventFiles, rows: &[EventRow], previous: Option<Sha256>) -> ArchiveFile {
    files.begin(rows[0].position, previous).unwrap();
    for row in rows {
        files.add(row).unwrap();
    }
    files.finish().unwrap()
}

fn read(files: &mut EventFiles, file: (u64, u64)) -> Result<(ArchiveFile, Vec<EventRow>), String> {
    let mut found = Vec::new();
    let read = files.read(file, &mut |row| {
        found.push(row);
        Ok(())
    })?;
    Ok((read, found))
}

#[test]
fn files_are_read_as_they_were_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut files = EventFiles::open(dir.path()).unwrap();
    let first = write(&mut files, &rows(1, 9), None);
    let second = write(&mut files, &rows(10, 3), Some(first.sha256));
    assert_eq!(files.files().unwrap(), [(1, 9), (10, 12)]);
    assert_eq!(read(&mut files, (1, 9)).unwrap(), (first, rows(1, 9)));
    assert_eq!(read(&mut files, (10, 12)).unwrap(), (second, rows(10, 3)));
    assert_eq!(second.previous, Some(first.sha256));
    assert!(EventFiles::open(dir.path()).is_err(), "one process writes");

    // A file that was not finished has no name, and the next one takes its place.
    files.begin(13, Some(second.sha256)).unwrap();
    files.add(&rows(13, 1)[0]).unwrap();
    drop(files);
    let mut files = EventFiles::open(dir.path()).unwrap();
    assert_eq!(files.files().unwrap(), [(1, 9), (10, 12)]);
    fs::write(dir.path().join(UNFINISHED), b"cut").unwrap();
    write(&mut files, &rows(13, 2), Some(second.sha256));
    assert_eq!(files.files().unwrap(), [(1, 9), (10, 12), (13, 14)]);
    fs::remove_file(dir.path().join(name_of(10, 12))).unwrap();
    assert!(files.files().unwrap_err().contains("no file has the positions 10 to 12"));
    fs::write(dir.path().join(name_of(9, 12)), b"").unwrap();
    assert!(files.files().unwrap_err().contains("two files have the positions 9 to 9"));
}

#[test]
fn nothing_is_made_before_the_first_file() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("a/archive");
    let mut files = EventFiles::open(&dir).unwrap();
    assert_eq!(files.files().unwrap(), []);
    assert!(!root.path().join("a").exists());
    let mut other = EventFiles::open(&dir).unwrap();
    write(&mut files, &rows(1, 9), None);
    // The other one has looked when there was nothing.
    assert!(other.begin(1, None).unwrap_err().contains("another process"));
    drop((files, other));
    fs::remove_file(dir.join("archive.lock")).unwrap();
    let first = EventFiles::open(&dir).unwrap();
    assert!(EventFiles::open(&dir).is_err(), "files without a lock are locked");
    drop(first);
    assert!(EventFiles::read_only(&root.path().join("none")).files().is_err());
}

#[test]
fn a_file_that_was_changed_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut files = EventFiles::open(dir.path()).unwrap();
    let first = write(&mut files, &rows(1, 9), None);
    let path = dir.path().join(name_of(first.first, first.last));
    let text = String::from_utf8(zstd::decode_all(File::open(&path).unwrap()).unwrap()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let mut refused = |changed: String, why: &str| {
        fs::write(&path, zstd::encode_all(changed.as_bytes(), 1).unwrap()).unwrap();
        let found = read(&mut files, (1, 9)).unwrap_err();
        assert!(found.contains(why) && found.contains("events-"), "{found}");
    };
    let without = |n: usize| {
        let rest = lines.iter().enumerate().filter(|(at, _)| *at != n).map(|(_, line)| *line);
        format!("{}\n", rest.collect::<Vec<_>>().join("\n"))
    };
    refused(without(3), "position 5 where 4 is expected");
    refused(without(9), "its last line is not");
    refused(without(8), "the hash");
    refused(text.replace("\"count\":9", "\"count\":8"), "says 8");
    refused(text.replace("\"previous\":null", &format!("\"previous\":\"{}\"", "0".repeat(64))), "the hash");
    refused(text.replacen("everything", "location", 1), "the hash");
    let half = fs::read(&path).unwrap();
    fs::write(&path, &half[..half.len() / 2]).unwrap();
    assert!(read(&mut files, (1, 9)).is_err());
}
