//! One word for one thing: names and phrases that were given up for those of the field (`docs/glossary.md`) do not come back.

use crate::tree::{Source, check, files, root, sources};
use std::collections::BTreeSet;

/// Names that are not given to a type, function, constant or module: folders of the crates where (all, if empty), the name, and what to
/// say for it.
const NAMES: &[(&[&str], &str, &str)] = &[
    // The engine over SQL.
    (&[], "Floor", "Dispatcher"),
    (&[], "Flight", "RunningTask"),
    (&[], "Landed", "TaskResult"),
    (&[], "Boarded", "LockedBatch"),
    (&[], "board", "lock_and_load"),
    (&[], "depart", "decide_and_commit"),
    (&[], "Room", "JoinPolicy, MemoryBudget"),
    (&[], "top_up", "admit_late_arrivals"),
    (&["sql"], "Unit", "Submission"),
    (&[], "Teller", "ReplyTarget"),
    (&[], "Owed", "PendingReply"),
    (&["sql"], "Post", "ReplyBatch"),
    (&[], "Hall", "UnitItemState"),
    (&[], "Lanes", "SharedSlots"),
    (&[], "Asked", "PlannedCommand, RequestHead"),
    (&[], "Known", "LockHints"),
    (&[], "Held", "ReservationRefs"),
    (&[], "Wants", "LockSet"),
    (&[], "Needs", "BatchLockPlan"),
    (&["sql"], "Plan", "RetryPlan"),
    (&[], "Told", "QueuedCommand"),
    (&["sql"], "Stop", "AttemptError"),
    (&[], "Trouble", "DbError"),
    (&[], "Settled", "BatchResult"),
    (&[], "Shown", "StoreStatus, ReplicaRows"),
    (&[], "Chores", "PeriodicJobs"),
    (&["sql"], "Slice", "LoadedState"),
    (&["sql"], "Line", "ReadQueue"),
    (&[], "Short", "Shortfall"),
    (&[], "Elsewhere", "LockedByOthers"),
    (&[], "take_in", "accept"),
    (&[], "line_up", "enqueue"),
    (&[], "hand_out", "dispatch"),
    (&[], "land", "on_task_done"),
    (&["sql"], "give", "return_connection"),
    (&[], "books", "audit"),
    (&[], "Carried", "ExportChunk"),
    (&[], "take_over", "import_from"),
    (&[], "hand_over", "export_to"),
    (&["sql"], "PARTS", "COUNTER_SHARDS"),
    // The embedded store.
    (&[], "Behind", "IndexBacklog"),
    (&[], "Mention", "Posting"),
    (&[], "mentions", "postings"),
    (&[], "Fresh", "UnflushedPostings, GeneratedIds"),
    (&[], "Quiet", "IdlePriorityRunner"),
    (&[], "step_back", "lower_priority"),
    (&[], "Pace", "WriteThrottle"),
    (&[], "Copier", "LogCheckpointer"),
    (&[], "COPIED_AT", "CHECKPOINT_AFTER_BYTES"),
    (&[], "Handing", "BatchHandover"),
    (&[], "Taken", "SealedBatch, UnavailableUnits"),
    (&[], "Brought", "FetchedRecords"),
    (&[], "Sought", "KeyProbe"),
    (&[], "Standing", "SegmentTotals, UnitState"),
    (&[], "Newest", "LatestByReservation"),
    (&[], "tend", "compact"),
    (&[], "Acked", "SyncMarker"),
    (&["embedded"], "unfinished", "incomplete_copy"),
    (&[], "look_through", "check_wal"),
    (&["domain", "embedded"], "make_room", "preallocate, expire_until_it_fits"),
    // The rules and the store's trait.
    (&["domain"], "Name", "Resource"),
    (&[], "Halt", "DecideError"),
    (&["domain"], "Want", "RequestedLine"),
    (&["domain"], "Choice", "UnitSelection"),
    (&[], "Setting", "Patch"),
    (&["domain"], "Expected", "Precondition"),
    (&[], "Figures", "StockCounters"),
    (&[], "Rules", "HoldLimits"),
    (&[], "floored", "clamp_to_item_clock"),
    (&[], "take_back", "return_units"),
    (&[], "Back", "ReturnedLine"),
    (&[], "judge", "validate"),
    (&[], "Shelf", "ItemPageRequest"),
    (&["store"], "Work", "Job"),
    (&["store"], "Ask", "Request"),
    (&[], "kick", "flush"),
    (&[], "trouble", "fatal_error"),
    (&["store", "embedded", "sql"], "limited", "degraded_reason"),
    (&[], "HandClock", "ManualClock"),
    (&[], "odd", "violations"),
    // The server.
    (&[], "Desk", "PendingReplies"),
    (&["server"], "Given", "SingleHeader"),
    (&["server"], "Load", "BudgetGuard"),
    (&["server"], "Tail", "EventTailer"),
    (&["server"], "keep", "supervise"),
    (&[], "converse", "serve_connection"),
    (&["server"], "Shape", "ResponseKind"),
    (&["server"], "Miss", "RouteError"),
    (&[], "LOOK_EVERY", "a name that says what is polled"),
    (&[], "PASSED_BY", "a name that says what is waited for"),
    (&[], "REST", "a name that says what is waited for"),
];

/// Phrases that are not written in comments and documents, since they do not name what they mean.
const PHRASES: &[&str] = &[
    "whoever",
    "what is there",
    "goes along",
    "go along",
    "likewise",
    "see above",
    "stands in",
    "passed over",
    "gone on with",
    "is told",
    "are told",
    "let leave",
    "to be had",
];

const DEFINITIONS: [&str; 9] =
    ["struct ", "enum ", "trait ", "type ", "union ", "fn ", "const ", "static ", "mod "];

/// The name that a line defines.
fn defined(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    if let Some(public) = rest.strip_prefix("pub") {
        rest = public
            .strip_prefix('(')
            .map_or(Some(public), |scope| Some(scope.split_once(')')?.1))?
            .trim_start();
    }
    for word in ["async ", "const "] {
        rest = rest.strip_prefix(word).filter(|behind| behind.starts_with("fn ")).unwrap_or(rest);
    }
    let name = DEFINITIONS.iter().find_map(|kind| rest.strip_prefix(kind))?;
    name.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|name| !name.is_empty())
}

#[test]
fn names_are_those_of_the_field() {
    let mut found = BTreeSet::new();
    for source in sources().iter().filter(|source| source.is_product() && source.krate() != "xtask") {
        for name in source.code().filter_map(defined) {
            for (crates, _, instead) in NAMES.iter().filter(|(_, banned, _)| *banned == name) {
                if crates.is_empty() || crates.contains(&source.krate().as_str()) {
                    found.insert(format!("{} {name}, say {instead}", source.krate()));
                }
            }
        }
    }
    check("name", &found);
}

/// Comments of a source, one text each, without the marks; what stands on several lines is joined.
fn comments(source: &Source) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut open = false;
    for line in source.text.lines() {
        let comment =
            line.trim_start().strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']).trim());
        match comment {
            Some(text) if open => {
                let last = found.last_mut().unwrap();
                last.push(' ');
                last.push_str(text);
            }
            Some(text) => found.push(text.to_owned()),
            None => {}
        }
        open = comment.is_some();
    }
    found
}

/// Whether a text has a phrase in it, as whole words.
fn says(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase).any(|(at, _)| {
        let letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        !letter(text[..at].chars().next_back()) && !letter(text[at + phrase.len()..].chars().next())
    })
}

#[test]
fn comments_and_documents_name_what_they_mean() {
    let mut found = BTreeSet::new();
    let mut look = |place: String, text: &str| {
        let text = text.to_lowercase();
        for phrase in PHRASES.iter().filter(|phrase| says(&text, phrase)) {
            found.insert(format!("{place}: {phrase}"));
        }
    };
    for source in sources().iter().filter(|source| !source.place().ends_with("it/words.rs")) {
        for comment in comments(source) {
            look(source.krate(), &comment);
        }
    }
    let mut documents = files(&root().join("docs"), ".md");
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"] {
        documents.push(root().join(name));
    }
    for path in documents {
        let text = std::fs::read_to_string(&path).unwrap();
        let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
        look(path.strip_prefix(root()).unwrap().display().to_string(), &joined);
    }
    check("phrase", &found);
}

#[test]
fn a_definition_gives_its_name() {
    assert_eq!(defined("    pub(super) fn keep(&self) {"), Some("keep"));
    assert_eq!(defined("pub const fn odd() {"), Some("odd"));
    assert_eq!(defined("const REST: Duration = X;"), Some("REST"));
    assert_eq!(defined("mod books;"), Some("books"));
    assert_eq!(defined("    Stop,"), None);
}

#[test]
fn a_phrase_is_whole_words() {
    assert!(says("it goes along with it", "goes along"));
    assert!(!says("histories told", "is told") && !says("this toldx", "is told"));
}
