//! What the commands of a batch changed, written at once: arrays, one statement per table, and COMMIT behind them.

use super::citus::{self, Layout};
use super::connect::PostgresConnection;
use super::errors::db_error_at_commit;
use super::params::{Param, Params};
use super::rows::{self, HoldArrays, ItemKeys, RecordArrays, column, stored, uuid};
use crate::engine::{
    Changes, CommitOutcome, CommitSent, DbError, LineRow, empty_counters, event_bucket, first_sku,
    further_skus, hold_body, key_body, key_bucket, next_release, packed_events_body, pools_body,
    pools_of_row, settings_body,
};
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;
use stockhold_domain::{Hold, Instant, Item, KeyRecord, Label, Mode, Record, RecordValue, ReservationId};
use uuid::Uuid;

impl PostgresConnection {
    /// Sends every write of the batch and COMMIT in one go.
    pub(super) async fn write_and_commit(
        &mut self,
        changes: &Changes<'_>,
        sent: &CommitSent,
    ) -> Result<CommitOutcome, DbError> {
        let this = &*self;
        this.clear_warnings();
        let mut writes = pin!(this.write(changes));
        // Looked at once, all of it is sent. What the driver itself refuses to send is known by then, and must not be
        // committed without.
        let done = poll_fn(|context| Poll::Ready(writes.as_mut().poll(context))).await;
        if let Poll::Ready(Err(error)) = done {
            return Err(error);
        }
        sent.mark();
        let commit = async { this.client.batch_execute("COMMIT").await.map_err(db_error_at_commit) };
        match done {
            Poll::Ready(_) => commit.await?,
            Poll::Pending => {
                let (writes, commit) = tokio::join!(biased; writes, commit);
                if writes.is_err() && commit.is_ok() {
                    // After a failed write the server's answer to COMMIT is a rollback.
                    sent.recall();
                }
                writes?;
                commit?;
            }
        }
        if this.was_warned() {
            return Ok(CommitOutcome::InDoubt("the server warned at COMMIT".to_owned()));
        }
        Ok(CommitOutcome::Durable)
    }

    async fn write(&self, changes: &Changes<'_>) -> Result<(), DbError> {
        let s = &self.statements;
        let (new_items, changed_items) =
            (ItemRows::new(&changes.new_items)?, ItemRows::new(&changes.changed_items)?);
        let deleted = ItemKeys::of(changes.deleted_items.iter().copied());
        let without_figures = ItemKeys::of(changes.deleted_figures.iter().copied());
        let (new_holds, changed_holds) =
            (HoldRows::new(&changes.new_holds), HoldRows::new(&changes.changed_holds));
        let relisted = HoldRows::new(&changes.relisted_holds);
        let listed: Vec<&Hold> = changes.new_holds.iter().chain(&changes.relisted_holds).copied().collect();
        let further = SkuRows::new(&listed);
        let orders = OrderRows::new(&changes.new_orders);
        let full = HoldArrays::new(&changes.full_histories.iter().copied().collect());
        let (gone, come) = (LineRows::new(&changes.gone), LineRows::new(&changes.come));
        let resized = LineRows::new(&changes.resized);
        let keys = KeyRows::new(&changes.keys, self.layout);
        let (new_records, changed_records) =
            (RecordRows::new(&changes.new_records)?, RecordRows::new(&changes.changed_records)?);
        let settled = changes.due_payments.iter().filter(|(_, due)| due.is_none());
        let settled: Vec<Uuid> = settled.map(|(id, _)| Uuid::from_u128(id.as_u128())).collect();
        let due = changes.due_payments.iter().filter_map(|(id, due)| Some((id, (*due)?)));
        let due = due.map(|(id, due)| (Uuid::from_u128(id.as_u128()), due.micros()));
        let (due_ids, due_times): (Vec<Uuid>, Vec<i64>) = due.unzip();
        let (locations, paused): (Vec<&str>, Vec<bool>) = changes.pauses.iter().copied().unzip();
        let serial = stored(changes.serial)?;
        let entry = changes.serial.to_be_bytes().to_vec();
        let (bucket, count) = (column(event_bucket(changes.serial)), rows::rows(changes.events.len()));
        let events = packed_events_body(changes.events);
        // On Citus such a statement would be many, one after the other.
        let at_once = self.layout == Layout::OneServer && reserves_alone(changes) && further.ids.is_empty();
        if at_once {
            let mut params = changed_items.params();
            params.extend(new_holds.params(true, &entry));
            params.extend(come.params(LineColumns::All));
            params.extend([&bucket as &dyn Param, &serial, &count, &events]);
            params.extend(keys.params());
            tokio::try_join!(
                biased;
                self.put(&s.reserved, changed_items.keys.len(), params),
                self.write_limits(changes),
            )?;
            return Ok(());
        }
        tokio::try_join!(
            biased;
            self.write_locally(changes),
            self.put(&s.delete_items, changes.deleted_items.len(), deleted.params()),
            self.put(&s.delete_figures, changes.deleted_figures.len(), without_figures.params()),
            self.put(&s.insert_items, new_items.keys.len(), new_items.params()),
            self.put(&s.update_items, changed_items.keys.len(), changed_items.params()),
            self.put(&s.insert_holds, new_holds.ids.len(), new_holds.params(true, &entry)),
            self.put(&s.relist_holds, relisted.ids.len(), relisted.listed_by()),
            self.put(&s.delete_hold_skus, relisted.ids.len(), vec![&relisted.buckets, &relisted.ids]),
            self.put(&s.insert_hold_skus, further.ids.len(), further.params()),
            self.put_singly(&s.insert_hold_orders, orders.ids.len(), orders.params()),
            self.put(&s.move_histories, full.ids.len(), vec![&full.buckets, &full.ids, &serial]),
            self.put(&s.update_holds, changed_holds.ids.len(), changed_holds.params(false, &entry)),
            self.write_units(changes, &entry),
            self.put(&s.delete_lines, gone.ids.len(), gone.params(LineColumns::Key)),
            self.put(&s.update_lines, resized.ids.len(), resized.params(LineColumns::Quantity)),
            self.put(&s.insert_lines, come.ids.len(), come.params(LineColumns::All)),
            self.put(&s.delete_due_payments, settled.len(), vec![&settled]),
            self.put(&s.set_due_payments, due_ids.len(), vec![&due_ids, &due_times]),
            self.put(&s.set_pauses, locations.len(), vec![&locations, &paused]),
            self.write_limits(changes),
            self.put(&s.insert_records, new_records.versions.len(), new_records.params()),
            self.put(&s.update_records, changed_records.versions.len(), changed_records.params()),
            self.put(&s.insert_events, changes.events.len(), vec![&bucket, &serial, &count, &events]),
            self.put(&s.insert_keys, keys.hashes.len(), keys.params()),
        )?;
        Ok(())
    }

    /// Lets Citus know that a batch writes tables of the coordinator.
    async fn write_locally(&self, changes: &Changes<'_>) -> Result<(), DbError> {
        if self.layout == Layout::Citus && citus::writes_on_coordinator(changes) {
            self.client.batch_execute(citus::WRITE_LOCALLY).await?;
        }
        Ok(())
    }
}

/// Whether a batch has done what most do in a rush and nothing else: made reservations of counted stock.
fn reserves_alone(changes: &Changes<'_>) -> bool {
    let Changes {
        new_items,
        changed_items,
        deleted_figures,
        changed_holds,
        new_orders,
        due_payments,
        gone,
        resized,
        pauses,
        events,
        ..
    } = changes;
    let made = !changed_items.is_empty() && !events.is_empty();
    made && new_items.is_empty()
        && deleted_figures.is_empty()
        && changed_holds.is_empty()
        && new_orders.is_empty()
        && due_payments.is_empty()
        && gone.is_empty()
        && resized.is_empty()
        && pauses.is_empty()
        && changes.limits.set.is_empty()
        && changes.new_records.is_empty()
        && changes.changed_records.is_empty()
        && !changes.touches_units()
}

#[derive(Default)]
struct ItemRows<'a> {
    keys: ItemKeys<'a>,
    modes: Vec<i16>,
    total_units: Vec<i64>,
    confirmed_sold: Vec<i64>,
    fulfilled: Vec<i64>,
    held: Vec<i64>,
    held_under_payment: Vec<i64>,
    active: Vec<i64>,
    sequences: Vec<i64>,
    decided_at: Vec<i64>,
    oversell_allowances: Vec<i64>,
    settings: Vec<Vec<u8>>,
    versions: Vec<i64>,
    paused: Vec<bool>,
    created_at: Vec<i64>,
    pools: Vec<Option<Vec<u8>>>,
    releases: Vec<Option<i64>>,
}

impl<'a> ItemRows<'a> {
    fn new(items: &[&'a Item]) -> Result<Self, DbError> {
        let mut rows = Self::default();
        for item in items {
            let Item { key, mode, figures, settings, version, paused, created_at, pools: _ } = item;
            rows.keys.push(key);
            rows.modes.push(rows::mode(*mode));
            let figures = if *mode == Mode::Units { &empty_counters(figures.at) } else { figures };
            rows.total_units.push(stored(figures.total_units)?);
            rows.confirmed_sold.push(stored(figures.confirmed_sold)?);
            rows.fulfilled.push(stored(figures.fulfilled)?);
            rows.held.push(stored(figures.held)?);
            rows.held_under_payment.push(stored(figures.held_under_payment)?);
            rows.active.push(stored(figures.active)?);
            rows.sequences.push(stored(figures.sequence)?);
            rows.decided_at.push(figures.at.micros());
            rows.oversell_allowances.push(stored(settings.oversell_allowance)?);
            rows.settings.push(settings_body(settings));
            rows.versions.push(stored(*version)?);
            rows.paused.push(*paused);
            rows.created_at.push(created_at.micros());
            rows.pools.push(pools_body(&pools_of_row(item)));
            rows.releases.push(next_release(item).map(Instant::micros));
        }
        Ok(rows)
    }

    fn params(&self) -> Params<'_> {
        let columns: [&dyn Param; 16] = [
            &self.modes,
            &self.total_units,
            &self.confirmed_sold,
            &self.fulfilled,
            &self.held,
            &self.held_under_payment,
            &self.active,
            &self.sequences,
            &self.decided_at,
            &self.oversell_allowances,
            &self.settings,
            &self.versions,
            &self.paused,
            &self.created_at,
            &self.pools,
            &self.releases,
        ];
        let mut params = self.keys.params();
        params.extend(columns);
        params
    }
}

struct HoldRows<'a> {
    buckets: Vec<i16>,
    ids: Vec<Uuid>,
    statuses: Vec<i16>,
    expires_at: Vec<i64>,
    owners: Vec<&'a str>,
    skus: Vec<&'a str>,
    bodies: Vec<Vec<u8>>,
}

impl<'a> HoldRows<'a> {
    fn new(holds: &[&'a Hold]) -> Self {
        Self {
            buckets: holds.iter().map(|hold| column(hold.id.bucket())).collect(),
            ids: holds.iter().map(|hold| uuid(hold.id)).collect(),
            statuses: holds.iter().map(|hold| rows::status(hold.status)).collect(),
            expires_at: holds.iter().map(|hold| hold.expires_at.micros()).collect(),
            owners: holds.iter().map(|hold| hold.terms.reserve.owner_id.as_str()).collect(),
            skus: holds.iter().map(|hold| first_sku(hold)).collect(),
            bodies: holds.iter().map(|hold| hold_body(hold)).collect(),
        }
    }

    /// What never changes only where a row is made. `entry` is what the histories get.
    fn params<'b>(&'b self, whole: bool, entry: &'b Vec<u8>) -> Params<'b> {
        let mut params: Params<'_> = vec![&self.buckets, &self.ids, &self.statuses, &self.expires_at];
        if whole {
            params.push(&self.owners);
            params.push(&self.skus);
        }
        params.push(&self.bodies);
        params.push(entry);
        params
    }
}

impl HoldRows<'_> {
    /// What lists find a reservation by.
    fn listed_by(&self) -> Params<'_> {
        vec![&self.buckets, &self.ids, &self.owners, &self.skus]
    }
}

#[derive(Default)]
struct SkuRows<'a> {
    buckets: Vec<i16>,
    ids: Vec<Uuid>,
    skus: Vec<&'a str>,
}

impl<'a> SkuRows<'a> {
    fn new(holds: &[&'a Hold]) -> Self {
        let mut rows = Self::default();
        for hold in holds {
            for sku in further_skus(hold) {
                rows.buckets.push(column(hold.id.bucket()));
                rows.ids.push(uuid(hold.id));
                rows.skus.push(sku);
            }
        }
        rows
    }

    fn params(&self) -> Params<'_> {
        vec![&self.buckets, &self.ids, &self.skus]
    }
}

struct OrderRows<'a> {
    buckets: Vec<i16>,
    ids: Vec<Uuid>,
    orders: Vec<&'a str>,
}

impl<'a> OrderRows<'a> {
    fn new(confirmed: &[(ReservationId, &'a Label)]) -> Self {
        Self {
            buckets: confirmed.iter().map(|(id, _)| column(id.bucket())).collect(),
            ids: confirmed.iter().map(|(id, _)| uuid(*id)).collect(),
            orders: confirmed.iter().map(|(_, order)| order.as_str()).collect(),
        }
    }

    fn params(&self) -> Params<'_> {
        vec![&self.buckets, &self.ids, &self.orders]
    }
}

#[derive(Default)]
struct LineRows<'a> {
    items: ItemKeys<'a>,
    expires_at: Vec<i64>,
    ids: Vec<Uuid>,
    quantities: Vec<i64>,
    leads: Vec<bool>,
}

/// The columns of lines that a statement gets.
#[derive(Clone, Copy)]
enum LineColumns {
    Key,
    /// The key and the quantity.
    Quantity,
    All,
}

impl<'a> LineRows<'a> {
    fn new(lines: &[LineRow<'a>]) -> Self {
        let mut rows = Self::default();
        for line in lines {
            rows.items.push(line.item);
            rows.expires_at.push(line.expires_at.micros());
            rows.ids.push(uuid(line.id));
            rows.quantities.push(i64::from(line.quantity));
            rows.leads.push(line.leads);
        }
        rows
    }

    fn params(&self, columns: LineColumns) -> Params<'_> {
        let mut params = self.items.params();
        params.push(&self.expires_at);
        params.push(&self.ids);
        match columns {
            LineColumns::Key => {}
            LineColumns::Quantity => params.push(&self.quantities),
            LineColumns::All => {
                params.push(&self.quantities);
                params.push(&self.leads);
            }
        }
        params
    }
}

struct RecordRows<'a> {
    keys: RecordArrays<'a>,
    versions: Vec<i64>,
    values: Vec<Option<&'a [u8]>>,
}

impl<'a> RecordRows<'a> {
    fn new(records: &[&'a Record]) -> Result<Self, DbError> {
        let value = |record: &&'a Record| record.value.as_ref().map(RecordValue::as_bytes);
        Ok(Self {
            keys: RecordArrays::new(records.iter().map(|record| &record.key)),
            versions: records.iter().map(|record| stored(record.version)).collect::<Result<_, _>>()?,
            values: records.iter().map(value).collect(),
        })
    }

    fn params(&self) -> Params<'_> {
        vec![&self.keys.kinds, &self.keys.ids, &self.versions, &self.values]
    }
}

struct KeyRows {
    buckets: Vec<i16>,
    hashes: Vec<Vec<u8>>,
    used_at: Vec<i64>,
    bodies: Vec<Vec<u8>>,
}

impl KeyRows {
    fn new(records: &[&KeyRecord], layout: Layout) -> Self {
        let bucket = |record: &KeyRecord| match layout {
            Layout::OneServer => key_bucket(record.hash),
            Layout::Citus => citus::key_bucket(record),
        };
        let mut records: Vec<_> = records.iter().map(|record| (bucket(record), *record)).collect();
        records.sort_by_key(|(bucket, record)| (*bucket, record.hash));
        Self {
            buckets: records.iter().map(|(bucket, _)| column(*bucket)).collect(),
            hashes: records.iter().map(|(_, record)| record.hash.0.to_be_bytes().to_vec()).collect(),
            used_at: records.iter().map(|(_, record)| record.at.micros()).collect(),
            bodies: records.iter().map(|(_, record)| key_body(record)).collect(),
        }
    }

    fn params(&self) -> Params<'_> {
        vec![&self.buckets, &self.hashes, &self.used_at, &self.bodies]
    }
}
