//! The report of an archive, for every kind of store.

use super::ArchiveArgs;
use crate::event_files::EventFiles;
use crate::plural::counted;
use std::path::Path;
use stockhold_store::{ArchiveSummary, EventArchive};

/// Prints what was done.
pub(super) fn tell(args: &ArchiveArgs, to: &Path, done: &ArchiveSummary) {
    let ArchiveSummary { after, through, dropped, dropped_through, reservations, held_back, .. } = done;
    if args.json {
        println!(
            "{:#}",
            serde_json::json!({
                "after": after, "through": through, "events": through - after, "files": count_files(to),
                "dropped_events": dropped, "dropped_through": dropped_through, "reservations": reservations,
                "held_back_by": held_back.as_ref().map(|(name, _)| name), "to": to,
            })
        );
        return;
    }
    if through > after {
        println!(
            "{} (positions {} to {through}) {} written to {}",
            counted(through - after, "event", "events"),
            after + 1,
            if through - after == 1 { "was" } else { "were" },
            to.display()
        );
    } else if held_back.is_none() {
        println!("no other event is that old; {} has the events up to position {through}", to.display());
    }
    if *dropped > 0 {
        println!(
            "{} and {} left the store, which begins after position {dropped_through}",
            counted(*dropped, "event", "events"),
            counted(*reservations, "reservation", "reservations")
        );
    } else if dropped_through < through && !args.drop {
        println!("the events after position {dropped_through} are still in the store; --drop removes them");
    }
    if let Some((name, position)) = held_back {
        println!(
            "older events stay, because {name} has got the events up to position {position} only; --ignore-sink lets them leave"
        );
    }
}

/// The number of files of an archive.
fn count_files(dir: &Path) -> usize {
    EventFiles::read_only(dir).files().map_or(0, |files| files.len())
}
