//! Records: each change expects the version that it read, and no version of an id comes twice.

use super::case_context::{CaseContext, Checked, SECOND};
use super::{Case, World, case};
use std::collections::BTreeSet;
use stockhold_domain::{
    Command, Outcome, Record, RecordChange, RecordKey, RecordKind, RecordValue, Rejection, Reply, SetRecord,
    Transition, limits,
};
use stockhold_model::maker::{delete_record, put_record};
use stockhold_store::{Query, QueryResult};

pub(super) const CASES: &[Case] = &[
    case("of two commands that create a record together, one succeeds", created_once),
    case("a record changes only from the version that is expected", conflicts),
    case("a deleted record that is created again has a version of its own, over restarts", no_version_twice),
    case("records of a kind are listed in pages, in order of their ids", pages),
    case("the longest and the shortest value of a record are kept, over restarts", lengths),
    case("many records and their changes are kept, over restarts", many),
    case("a replay shows the record as it is now, also when it is deleted", replays),
    case("the same id of two kinds is two records", kinds),
    case("each change of a record is one event with the record after it", events),
];

fn changed(case: &mut CaseContext<'_>, command: Command) -> Checked<Record> {
    match case.expect_done(command)? {
        Reply::Record(record) => Ok(record),
        other => Err(format!("no record but {other:?}")),
    }
}

fn expect_changed(case: &mut CaseContext<'_>, command: Command, version: u64) -> Checked {
    let refused = case.expect_refused(command)?;
    ensure_eq!(refused, Rejection::RecordChanged { version }, "a change that expected another version");
    Ok(())
}

/// Checks what is shown of a record; `None` when it is not there.
fn expect_value(case: &mut CaseContext<'_>, key: &RecordKey, value: Option<(u64, &[u8])>) -> Checked {
    let expected = value.map(|(version, bytes)| Record {
        key: key.clone(),
        version,
        value: RecordValue::new(bytes).ok(),
    });
    ensure_eq!(case.world.record(key), expected, "{key:?}");
    Ok(())
}

fn created_once(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let key = case.maker.record(RecordKind::ApiKey, "a");
    let values: Vec<Vec<u8>> = (0..20).map(|n| vec![n]).collect();
    let outcomes = case.submit_all(values.iter().map(|value| put_record(&key, 0, value)).collect())?;
    let won: Vec<_> =
        outcomes.iter().zip(&values).filter(|(one, _)| matches!(one, Outcome::Done(_))).collect();
    let [(Outcome::Done(Reply::Record(record)), value)] = &won[..] else {
        return Err(format!("one of {} is to succeed: {outcomes:?}", values.len()));
    };
    for outcome in &outcomes {
        ensure_matches!(
            outcome,
            Outcome::Done(_) | Outcome::Refused(Rejection::RecordChanged { version: 1 }),
            "the others see the record"
        );
    }
    ensure_eq!(record.version, 1, "the first version");
    expect_value(&mut case, &key, Some((1, value)))?;
    case.world.restart();
    expect_value(&mut case, &key, Some((1, value)))
}

fn conflicts(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let key = case.maker.record(RecordKind::ApiKey, "a");
    expect_changed(&mut case, put_record(&key, 1, b"x"), 0)?;
    expect_changed(&mut case, delete_record(&key, 1), 0)?;
    ensure_matches!(
        case.expect_refused(delete_record(&key, 0))?,
        Rejection::InvalidRequest(error) if &*error.pointer == "/expected_version",
        "a deletion of what is not there"
    );
    expect_value(&mut case, &key, None)?;
    let made = changed(&mut case, put_record(&key, 0, b"one"))?;
    expect_changed(&mut case, put_record(&key, 0, b"x"), made.version)?;
    expect_changed(&mut case, put_record(&key, made.version + 1, b"x"), made.version)?;
    expect_changed(&mut case, delete_record(&key, made.version + 1), made.version)?;
    expect_value(&mut case, &key, Some((made.version, b"one")))?;
    let next = changed(&mut case, put_record(&key, made.version, b"two"))?;
    ensure_eq!(next.version, made.version + 1, "the next version");
    expect_changed(&mut case, put_record(&key, made.version, b"x"), next.version)?;
    case.world.restart();
    expect_changed(&mut case, put_record(&key, made.version, b"x"), next.version)?;
    expect_value(&mut case, &key, Some((next.version, b"two")))?;
    // In one batch each sees what the one before it left.
    let outcomes = case.submit_all(vec![
        put_record(&key, next.version, b"three"),
        put_record(&key, next.version, b"x"),
        put_record(&key, next.version + 1, b"four"),
        delete_record(&key, next.version + 2),
        put_record(&key, next.version + 2, b"x"),
        put_record(&key, 0, b"five"),
    ])?;
    let done: Vec<bool> = outcomes.iter().map(|outcome| matches!(outcome, Outcome::Done(_))).collect();
    ensure_eq!(done, [true, false, true, true, false, true], "{outcomes:?}");
    expect_value(&mut case, &key, Some((next.version + 4, b"five")))
}

fn no_version_twice(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let key = case.maker.record(RecordKind::SigningKey, "a");
    let mut seen = BTreeSet::new();
    for round in 0..6_i64 {
        // The clock stands still, or runs back.
        if round % 2 == 1 {
            case.set_clock(super::case_context::after(case.now(), -SECOND));
        }
        let made = changed(&mut case, put_record(&key, 0, b"one"))?;
        let next = changed(&mut case, put_record(&key, made.version, b"two"))?;
        if round % 3 == 2 {
            case.world.restart();
        }
        let gone = changed(&mut case, delete_record(&key, next.version))?;
        ensure_eq!(gone.value, None, "a deleted record has no value");
        expect_value(&mut case, &key, None)?;
        for version in [made.version, next.version, gone.version] {
            ensure!(seen.last().is_none_or(|last| *last < version), "{version} comes after {seen:?}");
            seen.insert(version);
        }
        if round % 3 == 1 {
            case.world.restart();
            expect_value(&mut case, &key, None)?;
        }
        expect_changed(&mut case, put_record(&key, gone.version, b"x"), 0)?;
    }
    Ok(())
}

fn pages(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    // Byte order: capitals come before small letters, and a prefix before what it begins.
    let names = ["B", "Z", "a", "a ", "a-1", "a1", "b", "z", "\u{e9}", "\u{1f980}"];
    let keys = names.map(|name| case.maker.record(RecordKind::ApiKey, name));
    for key in keys.iter().rev() {
        changed(&mut case, put_record(key, 0, key.id.as_str().as_bytes()))?;
    }
    let other = case.maker.record(RecordKind::SigningKey, "a");
    changed(&mut case, put_record(&other, 0, b"another kind"))?;
    changed(&mut case, delete_record(&keys[3], 1))?;
    let expected: Vec<RecordKey> = keys.iter().filter(|key| **key != keys[3]).cloned().collect();
    for limit in [1, 3, 100] {
        for restarted in [false, true] {
            let mut found = Vec::new();
            // A world that cases share has records of other cases, whose ids begin otherwise.
            let mut after = None;
            loop {
                let query = Query::Records { kind: RecordKind::ApiKey, after: after.clone(), limit };
                let page = match case.world.find(query) {
                    Ok(QueryResult::Records(page)) => page,
                    other => return Err(format!("no records but {other:?}")),
                };
                ensure!(page.len() <= limit, "{} on a page of {limit}", page.len());
                let last = page.len() < limit;
                for record in page {
                    let value = record.value.as_ref().map(RecordValue::as_bytes);
                    let ours = keys.contains(&record.key);
                    ensure!(!ours || value == Some(record.key.id.as_str().as_bytes()), "{record:?}");
                    ensure!(
                        after.as_ref().is_none_or(|after| *after < record.key.id),
                        "in order: {record:?}"
                    );
                    after = Some(record.key.id.clone());
                    found.push(record.key);
                }
                if last {
                    break;
                }
            }
            found.retain(|key| keys.contains(key) || *key == other);
            ensure_eq!(found, expected, "pages of {limit}, restarted: {restarted}");
            if limit == 3 {
                case.world.restart();
            }
        }
    }
    Ok(())
}

fn lengths(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let longest: Vec<u8> = (0..=u8::MAX).cycle().take(limits::RECORD_BYTES).collect();
    let [long, short] = ["long", "short"].map(|name| case.maker.record(RecordKind::SigningKey, name));
    changed(&mut case, put_record(&long, 0, &longest))?;
    changed(&mut case, put_record(&short, 0, b""))?;
    for _ in 0..2 {
        expect_value(&mut case, &long, Some((1, &longest)))?;
        expect_value(&mut case, &short, Some((1, b"")))?;
        case.world.restart();
    }
    // Several of them in one batch.
    let keys: Vec<RecordKey> =
        (0..8).map(|n| case.maker.record(RecordKind::SigningKey, &format!("long-{n}"))).collect();
    let outcomes = case.submit_all(keys.iter().map(|key| put_record(key, 0, &longest)).collect())?;
    ensure!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Done(_))), "{outcomes:?}");
    case.world.restart();
    for key in &keys {
        expect_value(&mut case, key, Some((1, &longest)))?;
    }
    Ok(())
}

/// More changes than a store keeps in memory, so that what it writes down behind the log is read again.
fn many(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let keys: Vec<RecordKey> =
        (0..40).map(|n| case.maker.record(RecordKind::ApiKey, &format!("many-{n}"))).collect();
    let mut versions = vec![0; keys.len()];
    for round in 0..8_u8 {
        let mut commands = Vec::new();
        for (n, key) in keys.iter().enumerate() {
            if (n + usize::from(round)).is_multiple_of(5) && round > 0 {
                continue;
            }
            versions[n] += 1;
            commands.push(put_record(key, versions[n] - 1, &[round, u8::try_from(n).unwrap_or(0)]));
        }
        let outcomes = case.submit_all(commands)?;
        ensure!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Done(_))), "{outcomes:?}");
        if round % 3 == 2 {
            case.world.restart();
        }
        for (n, key) in keys.iter().enumerate() {
            let shown = case.world.record(key).map(|record| record.version);
            ensure_eq!(shown, Some(versions[n]), "version of {key:?}");
        }
    }
    Ok(())
}

fn replays(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let key = case.maker.record(RecordKind::ApiKey, "a");
    let envelope = case.maker.keyed("k", put_record(&key, 0, b"one"));
    let made = case.submit_one(envelope.clone())?;
    ensure_matches!(made, Outcome::Done(Reply::Record(_)), "the first time");
    let again = |case: &mut CaseContext<'_>| {
        let envelope = case.maker.again(&envelope);
        case.submit_one(envelope)
    };
    let shows = |version, value: Option<&[u8]>| {
        let value = value.and_then(|bytes| RecordValue::new(bytes).ok());
        Outcome::Replayed(Reply::Record(Record { key: key.clone(), version, value }))
    };
    ensure_eq!(again(&mut case)?, shows(1, Some(b"one")), "a replay");
    changed(&mut case, put_record(&key, 1, b"two"))?;
    case.world.restart();
    ensure_eq!(again(&mut case)?, shows(2, Some(b"two")), "a replay after a change");
    changed(&mut case, delete_record(&key, 2))?;
    ensure_eq!(again(&mut case)?, shows(3, None), "a replay after the deletion");
    case.world.restart();
    ensure_eq!(again(&mut case)?, shows(3, None), "a replay after the deletion and a restart");
    let other = case.maker.keyed("k", put_record(&key, 0, b"two"));
    let other = case.submit_one(other)?;
    ensure_eq!(other, Outcome::Refused(Rejection::IdempotencyMismatch), "another request under the key");
    expect_value(&mut case, &key, None)
}

fn kinds(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let keys = RecordKind::ALL.map(|kind| case.maker.record(kind, "a"));
    for key in &keys {
        changed(&mut case, put_record(key, 0, key.kind.name().as_bytes()))?;
    }
    changed(&mut case, delete_record(&keys[0], 1))?;
    for _ in 0..2 {
        expect_value(&mut case, &keys[0], None)?;
        for key in keys.iter().skip(1) {
            expect_value(&mut case, key, Some((1, key.kind.name().as_bytes())))?;
        }
        case.world.restart();
    }
    Ok(())
}

fn events(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let key = case.maker.record(RecordKind::ApiKey, "a");
    let value = |bytes: &[u8]| RecordValue::new(bytes).ok();
    let changes = [
        (0, value(b"one"), RecordChange::KeyCreated),
        (1, value(b"two"), RecordChange::KeyRolled),
        (2, value(b"two"), RecordChange::Silent),
        (3, None, RecordChange::KeyRevoked),
    ];
    for (expected_version, value, change) in changes.clone() {
        let set = SetRecord { key: key.clone(), expected_version, value, change };
        changed(&mut case, Command::SetRecord(set))?;
    }
    expect_changed(&mut case, put_record(&key, 9, b"x"), 0)?;
    let shown: Vec<_> = case
        .world
        .events()
        .into_iter()
        .filter_map(|row| match row.event.transition {
            Transition::Record { change, record } if record.key == key => Some((change, record)),
            _ => None,
        })
        .collect();
    let expected: Vec<_> = changes
        .into_iter()
        .map(|(version, value, change)| (change, Record { key: key.clone(), version: version + 1, value }))
        .collect();
    ensure_eq!(shown, expected, "events of the record");
    Ok(())
}
