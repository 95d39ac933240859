//! What is read and not decided: queries and events. Nothing here locks what commands lock.
//!
//! Positions are given by a sequencer, after the commit: whoever reads events first numbers the committed rows that have
//! no position, while holding the sequencer's one row. So positions are dense (they are counted, not drawn), a reader
//! that resumes after one misses nothing (what becomes visible later is numbered later), and no commit waits for
//! another's position. Rows that are numbered together follow their serials, which were drawn under the batches' locks:
//! of two that touched the same item, the one decided first comes first.

use super::connect::Connection;
use super::load::{read_holds, read_items};
use super::queue::Link;
use super::rows::{self, HoldArrays, ItemArrays};
use super::stop::{Cure, Stop, cure};
use std::collections::BTreeMap;
use stockhold_domain::ItemKey;
use stockhold_store::codec::{self, Reader};
use stockhold_store::{Answer, EventRow, Failure, Query};

/// Most rows of events that are numbered at once. A row has at least one event, so a reader that asks for no more events
/// than this gets all it asked for, if there are so many.
const NUMBERED_AT_ONCE: i64 = 8_192;

/// Answers a query from what is committed.
pub(super) async fn query(link: &mut Link, query: &Query) -> Result<Answer, Failure> {
    let deadline = link.config.batch_deadline;
    let connection = link.get().await?;
    let answer = async {
        match query {
            Query::Reservation(id) => {
                let rows = read_holds(connection, &HoldArrays::new([*id].into_iter())).await?;
                Ok(Answer::Reservation(rows.first().map(rows::hold).transpose()?))
            }
            Query::Items(keys) => Ok(Answer::Items(items(connection, keys).await?)),
        }
    };
    let answer = tokio::time::timeout(deadline, answer).await;
    answered(link, answer)
}

async fn items(
    connection: &Connection,
    keys: &[ItemKey],
) -> Result<Vec<Option<stockhold_domain::Item>>, Stop> {
    let distinct: std::collections::BTreeSet<&ItemKey> = keys.iter().collect();
    let rows = read_items(connection, &ItemArrays::new(distinct.into_iter())).await?;
    let mut found = BTreeMap::new();
    for row in &rows {
        let item = rows::item(row)?;
        found.insert(item.key.clone(), item);
    }
    Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
}

/// Events after a position.
pub(super) async fn events(link: &mut Link, after: u64, limit: usize) -> Result<Vec<EventRow>, Failure> {
    let deadline = link.config.batch_deadline;
    let connection = link.get().await?;
    let answer = async {
        number(connection).await?;
        read(connection, after, limit).await
    };
    let answer = tokio::time::timeout(deadline, answer).await;
    answered(link, answer)
}

/// The position is read by a statement of its own, after the row is locked, and the rows to number by the next: each
/// sees what the sequencer before had committed.
async fn number(connection: &Connection) -> Result<(), Stop> {
    let Connection { client, statements, .. } = connection;
    client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
    let row = client.query_one(&statements.lock_sequencer, &[]).await?;
    let position: i64 = row.try_get(0)?;
    client.execute(&statements.number_events, &[&position, &NUMBERED_AT_ONCE]).await?;
    client.batch_execute("COMMIT").await?;
    Ok(())
}

async fn read(connection: &Connection, after: u64, limit: usize) -> Result<Vec<EventRow>, Stop> {
    let Ok(from) = i64::try_from(after) else { return Ok(Vec::new()) };
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = connection.client.query(&connection.statements.read_events, &[&from, &most]).await?;
    let mut events = Vec::new();
    for row in &rows {
        let (last, count): (i64, i64) = (row.try_get("last_position")?, row.try_get("count")?);
        let mut reader = Reader::new(row.try_get("body")?);
        for position in last - count + 1..=last {
            let event = codec::event(&mut reader)?;
            let position = u64::try_from(position)
                .map_err(|_| Stop::Damaged(format!("an event has position {position}")))?;
            if position > after && events.len() < limit {
                events.push(EventRow { position, event });
            }
        }
        reader.finish()?;
    }
    Ok(events)
}

/// A read changes nothing, so whatever went wrong, nothing was done; but a transaction may be open, so the connection
/// is not used again.
fn answered<T>(
    link: &mut Link,
    answer: Result<Result<T, Stop>, tokio::time::error::Elapsed>,
) -> Result<T, Failure> {
    let stop = match answer {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(stop)) => stop,
        Err(_) => return Err(link.cut("the database did not answer in time".to_owned())),
    };
    tracing::warn!(?stop, "a read failed");
    match stop {
        Stop::Database(error) => {
            let failure = link.cut(error.to_string());
            Err(if cure(&error) == Cure::Wait { Failure::Overloaded } else { failure })
        }
        Stop::Damaged(what) => Err(Failure::Internal(what)),
        Stop::Failed(failure) => Err(failure),
        Stop::Missing | Stop::Broken(..) => Err(Failure::Internal("a read was judged".to_owned())),
    }
}
