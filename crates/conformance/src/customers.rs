//! Rows of customers: each write expects the version that it read, and nothing of a row is in any event.

use super::case_context::{CaseContext, Checked};
use super::{Case, World, case};
use stockhold_domain::Label;
use stockhold_model::maker::label;
use stockhold_store::{
    CUSTOMER_VALUE_BYTES, CustomerRequest, CustomerResult, CustomerRow, EventRow, Query, QueryResult, codec,
};

pub(super) const CASES: &[Case] = &[
    case("a row of a customer is written only from the version that is expected, over restarts", versions),
    case("a row of a customer that was deleted is gone, over restarts, and can be made again", deleted),
    case("rows of customers are listed in pages, in order of their ids", pages),
    case("the longest and the shortest value of a row of a customer are kept, over restarts", lengths),
    case("nothing of a row of a customer is in any event", no_events),
];

fn ask(case: &mut CaseContext<'_>, request: CustomerRequest) -> Checked<CustomerResult> {
    match case.world.find(Query::Customer(request)) {
        Ok(QueryResult::Customer(result)) => Ok(result),
        other => Err(format!("no result about customers but {other:?}")),
    }
}

/// The id of a customer that no other case has.
fn customer(case: &CaseContext<'_>, name: &str) -> Label {
    label(&format!("{} {name}", case.maker.location("customers").as_str()))
}

fn row(id: &Label, version: u64, value: &[u8]) -> CustomerRow {
    CustomerRow { id: id.clone(), version, value: value.into() }
}

fn expect_row(case: &mut CaseContext<'_>, id: &Label, expected: Option<(u64, &[u8])>) -> Checked {
    let expected = expected.map(|(version, value)| row(id, version, value));
    ensure_eq!(
        ask(case, CustomerRequest::Get(id.clone()))?,
        CustomerResult::Row(expected),
        "the row of {id:?}"
    );
    Ok(())
}

fn put(case: &mut CaseContext<'_>, row: CustomerRow, expected: Option<u64>) -> Checked<CustomerResult> {
    ask(case, CustomerRequest::Put { row, expected })
}

fn delete(case: &mut CaseContext<'_>, id: &Label, expected: Option<u64>) -> Checked<CustomerResult> {
    ask(case, CustomerRequest::Delete { id: id.clone(), expected })
}

fn versions(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let id = customer(&case, "a");
    // Versions are the caller's: large ones, and not one after the other.
    let (first, second) = (7, (1 << 53) - 1);
    expect_row(&mut case, &id, None)?;
    ensure_eq!(
        put(&mut case, row(&id, first, b"x"), Some(1))?,
        CustomerResult::Changed(None),
        "a change of a row that is not there"
    );
    ensure_eq!(put(&mut case, row(&id, first, b"one"), None)?, CustomerResult::Done, "a new row");
    ensure_eq!(
        put(&mut case, row(&id, second, b"x"), None)?,
        CustomerResult::Changed(Some(first)),
        "a second row with the same id"
    );
    ensure_eq!(
        put(&mut case, row(&id, second, b"x"), Some(first + 1))?,
        CustomerResult::Changed(Some(first)),
        "a change from another version"
    );
    expect_row(&mut case, &id, Some((first, b"one")))?;
    ensure_eq!(put(&mut case, row(&id, second, b"two"), Some(first))?, CustomerResult::Done, "a change");
    ensure_eq!(
        put(&mut case, row(&id, 8, b"x"), Some(first))?,
        CustomerResult::Changed(Some(second)),
        "a change from the version before"
    );
    ensure_eq!(
        delete(&mut case, &id, Some(first))?,
        CustomerResult::Changed(Some(second)),
        "a deletion from the version before"
    );
    case.world.restart();
    expect_row(&mut case, &id, Some((second, b"two")))?;
    ensure_eq!(put(&mut case, row(&id, 3, b"three"), Some(second))?, CustomerResult::Done, "a change");
    expect_row(&mut case, &id, Some((3, b"three")))
}

fn deleted(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (id, other) = (customer(&case, "a"), customer(&case, "b"));
    ensure_eq!(delete(&mut case, &id, None)?, CustomerResult::Changed(None), "a deletion of nothing");
    ensure_eq!(delete(&mut case, &id, Some(1))?, CustomerResult::Changed(None), "a deletion of nothing");
    for expected in [None, Some(5)] {
        ensure_eq!(put(&mut case, row(&id, 5, b"one"), None)?, CustomerResult::Done, "a new row");
        ensure_eq!(delete(&mut case, &id, expected)?, CustomerResult::Done, "a deletion");
        expect_row(&mut case, &id, None)?;
        ensure_eq!(
            put(&mut case, row(&id, 6, b"x"), Some(5))?,
            CustomerResult::Changed(None),
            "a change of a row that was deleted"
        );
    }
    ensure_eq!(put(&mut case, row(&other, 1, b"other"), None)?, CustomerResult::Done, "another row");
    case.world.restart();
    expect_row(&mut case, &id, None)?;
    expect_row(&mut case, &other, Some((1, b"other")))
}

fn pages(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    // Byte order: capitals come before small letters, and a prefix before what it begins.
    let names = ["B", "Z", "a", "a ", "a-1", "a1", "b", "z", "\u{e9}", "\u{1f980}"];
    let ids = names.map(|name| customer(&case, name));
    for id in ids.iter().rev() {
        let made = put(&mut case, row(id, 1, id.as_str().as_bytes()), None)?;
        ensure_eq!(made, CustomerResult::Done, "a new row");
    }
    for limit in [1, 3, 100] {
        let mut found = Vec::new();
        // A world that cases share has rows of other cases, whose ids begin otherwise.
        let mut after = None;
        loop {
            let CustomerResult::Page(page) =
                ask(&mut case, CustomerRequest::Page { after: after.clone(), limit })?
            else {
                return Err("no page".to_owned());
            };
            ensure!(page.len() <= limit, "{} rows on a page of {limit}", page.len());
            let is_last = page.len() < limit;
            for row in page {
                ensure!(after.as_ref().is_none_or(|after| *after < row.id), "{:?} is not in order", row.id);
                after = Some(row.id.clone());
                if ids.contains(&row.id) {
                    ensure_eq!(&row.value[..], row.id.as_str().as_bytes(), "the value of {:?}", row.id);
                    found.push(row.id);
                }
            }
            if is_last {
                break;
            }
        }
        ensure_eq!(found, ids, "pages of {limit}");
    }
    Ok(())
}

fn lengths(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let long: Vec<u8> = (0..=u8::MAX).cycle().take(CUSTOMER_VALUE_BYTES).collect();
    let (short_id, long_id) = (customer(&case, "short"), customer(&case, "long"));
    ensure_eq!(put(&mut case, row(&short_id, 1, b""), None)?, CustomerResult::Done, "the shortest");
    ensure_eq!(put(&mut case, row(&long_id, 1, &long), None)?, CustomerResult::Done, "the longest");
    for _ in 0..2 {
        expect_row(&mut case, &short_id, Some((1, b"")))?;
        expect_row(&mut case, &long_id, Some((1, &long)))?;
        case.world.restart();
    }
    Ok(())
}

fn no_events(world: &mut dyn World) -> Checked {
    const SECRET: &[u8] = b"a value that is in no event";
    let mut case = CaseContext::new(world);
    let id = customer(&case, "nowhere-else");
    let before = case.world.events().len();
    ensure_eq!(put(&mut case, row(&id, 1, SECRET), None)?, CustomerResult::Done, "a new row");
    ensure_eq!(put(&mut case, row(&id, 2, SECRET), Some(1))?, CustomerResult::Done, "a change");
    ensure_eq!(delete(&mut case, &id, None)?, CustomerResult::Done, "a deletion");
    // Something that is an event.
    case.create_item("beside", 1)?;
    let rows = case.world.events();
    ensure!(rows.len() > before, "the item is an event");
    let bytes = |row: &EventRow| {
        let mut bytes = Vec::new();
        codec::put_event(&mut bytes, &row.event);
        bytes
    };
    for row in &rows[before..] {
        let bytes = bytes(row);
        let has = |what: &[u8]| bytes.windows(what.len()).any(|part| part == what);
        ensure!(!has(SECRET) && !has(id.as_str().as_bytes()), "event {} has it", row.position);
    }
    Ok(())
}
