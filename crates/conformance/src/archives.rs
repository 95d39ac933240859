//! What holds for the archive of every store that has one. Each case needs a new world.

use super::case_context::Checked;
use super::memory_archive::{MemoryArchive, hash_of};
use super::{World, random_history, units_history};
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use stockhold_domain::{Event, Hold, Instant, Record, ReservationId, Status, Transition};
use stockhold_store::{
    ARCHIVE_FILE_EVENTS, ArchiveFile, ArchiveRequest, ArchiveSummary, EventArchive, EventRow, Query,
    QueryResult, Sha256, archived_form,
};

/// A world whose store can be archived.
pub trait ArchiveWorld: World {
    /// Archives. A store that has no clock of its own goes by the request.
    fn archive(
        &mut self,
        request: &ArchiveRequest<'_>,
        archive: &mut (dyn EventArchive + Send),
    ) -> Result<ArchiveSummary, String>;

    /// Recounts the store, from the first event ever on if there is an archive. Returns what was found.
    fn verify(&mut self, archive: Option<&mut (dyn EventArchive + Send)>) -> Result<Vec<String>, String>;
}

/// A case for a new world.
#[derive(Clone, Copy)]
pub struct ArchiveCase {
    /// Its name: what holds for a store that passes.
    pub name: &'static str,
    /// Runs it.
    pub run: fn(&mut dyn ArchiveWorld) -> Result<(), String>,
}

/// All cases.
pub fn archive_cases() -> Vec<ArchiveCase> {
    let case = |name, run| ArchiveCase { name, run };
    vec![
        case("what leaves and what stays add up", |world| leaves_and_adds_up(world, 31, false)),
        case("what leaves and what stays add up, with units", |world| leaves_and_adds_up(world, 32, true)),
        case("what was written leaves later, and only if it is the same", written_first),
        case("an archive that does not go on where the store begins is refused", wrong_directories),
        case("what a consumer goes back to stays", goes_back),
        case("an archive that fails anywhere loses and duplicates nothing", fails_anywhere),
        case("an archive that does not join the store is found", does_not_join),
        case("what is too young is refused", too_young),
    ]
}

/// The age of what is archived: more than the retention of keys.
const AGE: Duration = Duration::from_hours(25);
const STEPS: u32 = 120;
/// The events after which a file ends.
const FILE_EVENTS: u64 = 20;

fn later(at: Instant, by: Duration) -> Instant {
    Instant::from_micros(at.micros() + i64::try_from(by.as_micros()).unwrap_or(i64::MAX))
}

/// A world with a history, and its events.
struct Archived<'w> {
    world: &'w mut dyn ArchiveWorld,
    events: Vec<Event>,
}

impl<'w> Archived<'w> {
    fn new(world: &'w mut dyn ArchiveWorld, seed: u64, of_units: bool) -> Checked<Self> {
        let run = if of_units { units_history } else { random_history };
        run(world, seed, STEPS)?;
        let events = world.events().into_iter().map(|row| row.event).collect();
        Ok(Self { world, events })
    }

    /// Moves the clock, so that what is before the event at this position is old, or everything. The request is for that.
    fn request(&mut self, position: usize) -> ArchiveRequest<'static> {
        let newest = self.events.iter().map(|event| event.at).max().unwrap_or(super::START);
        let event = self.events.get(position.saturating_sub(1));
        let now = later(event.map_or(later(newest, Duration::from_secs(1)), |event| event.at), AGE);
        self.world.set_clock(now);
        ArchiveRequest {
            older_than: AGE,
            key_retention: Duration::from_hours(24),
            now,
            drop: true,
            consumers: &|_| Vec::new(),
            file_events: FILE_EVENTS,
            files: usize::MAX,
            new_directory: false,
            is_cancelled: &|| false,
        }
    }

    fn everything(&mut self) -> ArchiveRequest<'static> {
        self.request(usize::MAX)
    }

    fn half(&mut self) -> ArchiveRequest<'static> {
        self.request(self.events.len() / 2)
    }

    /// Nothing does not add up, with the archive and without it, and the two have every event.
    fn check(&mut self, archive: &mut MemoryArchive) -> Checked {
        let found = self.world.verify(None)?;
        ensure!(found.is_empty(), "without the archive: {found:?}");
        let found = self.world.verify(Some(archive))?;
        ensure!(found.is_empty(), "from the first event on: {found:?}");
        let archived = archive.events();
        let through = self.left()?;
        ensure!(
            through <= archived.len() as u64,
            "events up to {through} left, {} are archived",
            archived.len()
        );
        let rest = match self.page(through)? {
            QueryResult::Events(rows) => rows,
            other => return Err(format!("asked for the events after {through}: {other:?}")),
        };
        let kept = usize::try_from(through).unwrap_or(usize::MAX);
        let all =
            archived.into_iter().take(kept).chain(rest.into_iter().map(|row| archived_form(&row.event)));
        ensure!(all.eq(self.events.iter().map(archived_form)), "the archive and the store have other events");
        Ok(())
    }

    fn page(&mut self, after: u64) -> Checked<QueryResult> {
        let limit = self.events.len() + 1;
        self.world.find(Query::Events { after, limit }).map_err(|error| format!("{error:?}"))
    }

    /// The position up to which events have left, by what a reader gets.
    fn left(&mut self) -> Checked<u64> {
        Ok(match self.page(0)? {
            QueryResult::Archived { through } => through,
            _ => 0,
        })
    }

    /// Active reservations are there, and those that had ended by the archived events are not.
    fn check_reservations(&mut self, through: u64) -> Checked {
        let mut last: BTreeMap<ReservationId, (u64, Hold)> = BTreeMap::new();
        for (event, position) in self.events.iter().zip(1..) {
            if let Transition::Hold { hold, .. } = &event.transition {
                last.insert(hold.id, (position, hold.without_removed_lines()));
            }
        }
        for (id, (position, hold)) in last {
            let goes_on = hold.status == Status::Active || hold.has_unsettled_payment();
            let expected = Some(hold).filter(|_| goes_on || position > through);
            ensure_eq!(self.world.hold(id), expected, "reservation {id}, whose last event is {position}");
        }
        Ok(())
    }
}

fn leaves_and_adds_up(world: &mut dyn ArchiveWorld, seed: u64, of_units: bool) -> Checked {
    let mut archived = Archived::new(world, seed, of_units)?;
    let mut archive = MemoryArchive::default();
    let count = archived.events.len();
    for cut in [count / 4, count / 2, count, count + 1] {
        let request = archived.request(cut);
        let done = archived.world.archive(&request, &mut archive)?;
        ensure!(done.is_complete && done.through == done.dropped_through, "cut {cut}: {done:?}");
        ensure_eq!(archived.left()?, done.dropped_through, "cut {cut}: where readers begin");
        archived.check(&mut archive)?;
        archived.check_reservations(done.dropped_through)?;
        if done.dropped_through > 1 {
            let before = archived.page(done.dropped_through - 1)?;
            ensure_matches!(before, QueryResult::Archived { .. }, "cut {cut}: the last archived event");
        }
        if cut == count / 2 {
            archived.world.restart();
            archived.check(&mut archive)?;
        }
    }
    ensure_eq!(archive.events().len(), count, "everything is old at last");
    ensure!(archive.files.len() > 4, "{} files", archive.files.len());
    Ok(())
}

fn refused(outcome: Result<ArchiveSummary, String>, text: &str) -> Checked {
    match outcome {
        Err(why) if why.contains(text) => Ok(()),
        other => Err(format!("expected a refusal that says {text:?}, got {other:?}")),
    }
}

fn written_first(world: &mut dyn ArchiveWorld) -> Checked {
    let mut archived = Archived::new(world, 33, false)?;
    let mut archive = MemoryArchive::default();
    let half = ArchiveRequest { file_events: 10, ..archived.half() };
    let written = ArchiveRequest { drop: false, ..half.clone() };
    let done = archived.world.archive(&written, &mut archive)?;
    ensure!(done.through > 20 && done.dropped_through == 0 && done.dropped == 0, "{done:?}");
    archived.check(&mut archive)?;
    let before = archive.files.len();
    let again = archived.world.archive(&written, &mut archive)?;
    ensure_eq!((again.after, archive.files.len()), (done.through, before), "it is not written again");

    let mut other = archive.clone();
    other.change(3, |event| event.at = Instant::from_micros(1));
    let mut foreign = archive.clone();
    foreign.change(archive.events().len() - 1, |event| event.at = Instant::from_micros(1));
    let differs = "is not that of the log";
    refused(archived.world.archive(&written, &mut foreign), differs)?;
    refused(archived.world.archive(&half, &mut other), &format!("position 4 of the archive {differs}"))?;
    let found = archived.world.verify(Some(&mut other))?.join("\n");
    ensure!(found.contains(differs), "{found}");
    ensure_eq!(archived.left()?, 0, "nothing has left");

    // A consumer has not read the second file.
    let consumers = |_: &[Record]| vec![("slow".to_owned(), 15), ("fast".to_owned(), 1_000_000)];
    let slowly = ArchiveRequest { consumers: &consumers, ..half.clone() };
    let done = archived.world.archive(&slowly, &mut archive)?;
    ensure!(done.dropped_through <= 15, "{done:?}");
    ensure_eq!(done.held_back, Some(("slow".to_owned(), 15)), "who holds back");
    archived.check(&mut archive)?;
    let done = archived.world.archive(&half, &mut archive)?;
    ensure_eq!((done.dropped_through, done.held_back), (done.through, None), "all that was written");
    archived.check(&mut archive)
}

fn wrong_directories(world: &mut dyn ArchiveWorld) -> Checked {
    let mut archived = Archived::new(world, 34, false)?;
    let (mut archive, mut empty) = (MemoryArchive::default(), MemoryArchive::default());
    let half = archived.half();
    let done = archived.world.archive(&half, &mut archive)?;
    let left = done.dropped_through;
    ensure!(archive.files.len() > 1 && left > 0, "{done:?}");
    let rest = archived.everything();
    refused(archived.world.archive(&rest, &mut empty), "the archive has no files")?;
    let mut older = archive.clone();
    older.files.pop();
    refused(archived.world.archive(&rest, &mut older), "name the directory")?;
    let mut other = archive.clone();
    other.set_hash(other.files.len() - 1, [1; 32]);
    refused(archived.world.archive(&rest, &mut other), "is not the one that was written")?;
    ensure_eq!(archived.left()?, left, "nothing has left");

    // The files before the newest one need not be there.
    let mut newest =
        MemoryArchive { files: archive.files.split_off(archive.files.len() - 1), ..empty.clone() };
    let few = ArchiveRequest { drop: false, files: 1, ..rest.clone() };
    archived.world.archive(&few, &mut newest)?;
    archive.files.append(&mut newest.files);
    archived.check(&mut archive)?;

    // On request, an archive is begun in another directory. The chain goes on.
    let request = ArchiveRequest { new_directory: true, ..few };
    archived.world.archive(&request, &mut empty)?;
    let begun = empty.files.first().map(|(file, _)| (file.first, file.previous));
    ensure_eq!(begun, Some((left + 1, Some(hash_of(left)))), "the first file of the new directory");
    let done = archived.world.archive(&rest, &mut archive)?;
    ensure_eq!(done.dropped_through, archived.events.len() as u64, "everything has left");
    archived.check(&mut archive)
}

fn goes_back(world: &mut dyn ArchiveWorld) -> Checked {
    let mut archived = Archived::new(world, 35, false)?;
    let mut archive = MemoryArchive::default();
    let half = archived.half();
    // It goes back once the file is written.
    let asked = AtomicU64::new(0);
    let consumers = |_: &[Record]| {
        let first = asked.fetch_add(1, Ordering::SeqCst) == 0;
        vec![("slow".to_owned(), if first { 1_000_000 } else { 15 })]
    };
    let request = ArchiveRequest { consumers: &consumers, ..half.clone() };
    let done = archived.world.archive(&request, &mut archive)?;
    ensure!(done.through >= FILE_EVENTS && done.dropped == 0, "{done:?}");
    ensure!(asked.load(Ordering::SeqCst) > 1, "asked once");
    archived.check(&mut archive)?;
    ensure_eq!(archived.left()?, 0, "nothing has left");
    let done = archived.world.archive(&half, &mut archive)?;
    ensure_eq!(done.dropped_through, done.through, "once it has read all");
    archived.check(&mut archive)
}

fn does_not_join(world: &mut dyn ArchiveWorld) -> Checked {
    let mut archived = Archived::new(world, 36, false)?;
    let mut archive = MemoryArchive::default();
    let half = archived.half();
    let done = archived.world.archive(&half, &mut archive)?;
    ensure!(done.reservations > 0 && archive.files.len() > 1, "{done:?}");
    archived.check(&mut archive)?;
    let last = archive.files.len() - 1;
    let mut found = |archive: &MemoryArchive, text: &str| {
        let found = archived.world.verify(Some(&mut archive.clone()))?.join("\n");
        ensure!(found.contains(text), "expected {text:?}, found {found:?}");
        Ok::<_, String>(())
    };
    let mut wrong = archive.clone();
    wrong.files.remove(0);
    found(&wrong, "not with the first event")?;
    let mut wrong = archive.clone();
    wrong.files.pop();
    found(&wrong, "no file of it ends at position")?;
    let mut wrong = archive.clone();
    wrong.set_previous(1, None);
    found(&wrong, "does not name the file before it")?;
    let mut wrong = archive.clone();
    wrong.set_hash(last, [0; 32]);
    found(&wrong, "is not the one whose events left")?;
    found(&MemoryArchive::default(), "no file of it ends at position")?;
    // The events are other ones, with right hashes.
    let mut wrong = archive.clone();
    let stock =
        archive.events().iter().position(|event| matches!(event.transition, Transition::Stock { .. }));
    wrong.change(stock.ok_or("no item was made")?, |event| {
        if let Transition::Stock { item, .. } = &mut event.transition {
            item.figures.total_units += 1;
        }
    });
    let found = archived.world.verify(Some(&mut wrong))?;
    ensure!(!found.is_empty(), "an event that was changed is not found");
    Ok(())
}

fn too_young(world: &mut dyn ArchiveWorld) -> Checked {
    let mut archived = Archived::new(world, 37, false)?;
    let mut archive = MemoryArchive::default();
    let everything = ArchiveRequest { file_events: ARCHIVE_FILE_EVENTS, ..archived.everything() };
    let hours = Duration::from_hours;
    let younger = ArchiveRequest { key_retention: hours(26), ..everything.clone() };
    refused(archived.world.archive(&younger, &mut archive), "younger than 26 h")?;
    // The store has promised 24 hours, whatever the command knows.
    let younger =
        ArchiveRequest { older_than: hours(23), key_retention: Duration::ZERO, ..everything.clone() };
    refused(archived.world.archive(&younger, &mut archive), "younger than 24 h")?;
    let ended = ArchiveRequest { is_cancelled: &|| true, ..everything };
    let stopped = archived.world.archive(&ended, &mut archive);
    ensure!(stopped.is_err() || stopped.is_ok_and(|done| !done.is_complete), "it was to end");
    ensure_eq!((archived.left()?, archive.files.len()), (0, 0), "nothing has left");
    archived.check(&mut archive)
}

/// An archive that fails at one of its calls, before it does what it is asked for or afterwards.
struct FailingArchive<'a> {
    archive: &'a mut MemoryArchive,
    calls_left: u32,
    after: bool,
    added: u64,
}

/// Of this many events that are added, one may fail.
const FAILING_ADDS: u64 = 16;

impl FailingArchive<'_> {
    fn call<T>(&mut self, call: impl FnOnce(&mut MemoryArchive) -> Result<T, String>) -> Result<T, String> {
        let is_last = self.calls_left == 0;
        self.calls_left = self.calls_left.saturating_sub(1);
        if is_last && !self.after {
            return Err("no room is left".to_owned());
        }
        let done = call(self.archive)?;
        if is_last { Err("no room is left".to_owned()) } else { Ok(done) }
    }
}

impl EventArchive for FailingArchive<'_> {
    fn files(&mut self) -> Result<Vec<(u64, u64)>, String> {
        self.call(EventArchive::files)
    }

    fn read(
        &mut self,
        file: (u64, u64),
        each: &mut dyn FnMut(EventRow) -> Result<(), String>,
    ) -> Result<ArchiveFile, String> {
        self.call(|archive| archive.read(file, each))
    }

    fn begin(&mut self, first: u64, previous: Option<Sha256>) -> Result<(), String> {
        self.call(|archive| archive.begin(first, previous))
    }

    fn add(&mut self, row: &EventRow) -> Result<(), String> {
        self.added += 1;
        if self.added.is_multiple_of(FAILING_ADDS) {
            self.call(|archive| archive.add(row))
        } else {
            self.archive.add(row)
        }
    }

    fn finish(&mut self) -> Result<ArchiveFile, String> {
        self.call(EventArchive::finish)
    }
}

fn fails_anywhere(world: &mut dyn ArchiveWorld) -> Checked {
    let mut archived = Archived::new(world, 38, true)?;
    let mut archive = MemoryArchive::default();
    // Larger files: an archive is made anew for each of its calls.
    let request = ArchiveRequest { file_events: 2 * FILE_EVENTS, ..archived.everything() };
    let mut failures = 0;
    for calls in 0.. {
        for after in [false, true] {
            let mut failing = FailingArchive { archive: &mut archive, calls_left: calls, after, added: 0 };
            match archived.world.archive(&request, &mut failing) {
                Ok(done) => {
                    ensure!(done.is_complete && failures > 8, "after {failures} failures: {done:?}");
                    ensure_eq!(archived.left()?, archived.events.len() as u64, "everything has left");
                    return archived.check(&mut archive);
                }
                Err(why) => ensure!(why.contains("no room is left"), "call {calls}: {why}"),
            }
            failures += 1;
            let left = archived.left()?;
            let named = archive.events().len() as u64;
            ensure!(left <= named, "events up to {left} have left, and files have those up to {named}");
            let found = archived.world.verify(Some(&mut archive.clone()))?;
            ensure!(found.is_empty(), "call {calls}: {found:?}");
        }
    }
    Ok(())
}
