//! Compares the orders of a stock master with the sales and the reservations here.

use super::lease::report_name;
use super::source::SourceError;
use super::worker::{Service, ServiceEnd, proceed, wrong_answer};
use crate::feed::{BATCH, FeedRead};
use std::collections::BTreeMap;
use stockhold_api::stock_master_record::{Finding, FindingKind, ReconciliationOrder, ReportRecord};
use stockhold_domain::{
    Command, Hold, HoldChange, Instant, Label, Outcome, RecordChange, Release, Status, Transition,
};
use stockhold_store::{Query, QueryResult, ReservationFilter};

/// The clocks of two systems may differ by so much, in microseconds.
const CLOCK_SKEW: i64 = 300 * 1_000_000;
/// Orders that were placed earlier than this before now are not read again, in microseconds.
const LONGEST_LOOK_BACK: i64 = 86_400 * 1_000_000;
/// Most orders that are read at a time.
const ORDERS: usize = 200_000;
/// Most sales that are compared at a time.
const SALES: usize = 20_000;
/// Reservations that are read at a time.
const PAGE: usize = 500;

/// Sales that are old enough to be compared.
#[derive(Default)]
struct Sales {
    /// The order, the reservation and the time of each.
    all: Vec<(Option<Label>, String, Instant)>,
    /// The last event that was read.
    through: u64,
}

impl Service<'_> {
    /// Compares orders with sales and reservations. With `dry_run`, nothing is released.
    pub(super) async fn compare_orders(&mut self, dry_run: bool) -> Result<(), ServiceEnd> {
        let clocks = &self.worker.records.clocks;
        let (store, wall) = (clocks.store.now().micros(), clocks.wall.now().micros());
        // Orders have the time of others, and events that of the store. What is young by one of them is young.
        let now = store.min(wall);
        let age = i64::try_from(self.worker.options.orphan_after.as_micros()).unwrap_or(i64::MAX);
        // What is younger may still be on its way.
        let horizon = Instant::from_micros(now.saturating_sub(age));
        let judged = Instant::from_micros(self.lease.record.orders_compared_at);
        let sales = self.sales_before(horizon).await?;
        let orphans = self.possible_orphans(horizon, now).await?;
        let oldest =
            sales.all.iter().map(|(.., at)| *at).chain(orphans.iter().map(|hold| hold.terms.created_at));
        let first = oldest.chain([judged, horizon]).min().unwrap_or(horizon);
        // The events may have been made by a store that was ahead of the orders.
        let skew = CLOCK_SKEW.saturating_add(store.saturating_sub(wall).max(0));
        let since = first.micros().saturating_sub(skew).max(now.saturating_sub(LONGEST_LOOK_BACK));
        let orders = match self.read_orders(Instant::from_micros(since)).await? {
            Ok(orders) => orders,
            Err(SourceError::NotOffered) => {
                // Its sales can't be compared, neither now nor later.
                if !dry_run {
                    self.lease.record.compared = sales.through;
                }
                self.state.report.note_incomplete(
                    "the stock master offers no orders, so sales and reservations are not compared",
                );
                return Ok(());
            }
            Err(error) => {
                let what = format!("orders: {}", error.message());
                let failure = self.failure(&what, error.action(), self.worker.options.reconcile);
                self.lease.record.failures.orders = Some(failure);
                self.state.report.note_incomplete(&what);
                return Ok(());
            }
        };
        self.lease.record.failures.orders = None;
        proceed(self.lease.check().await?)?;
        self.state.report.orders_compared += orders.len() as u64;
        self.judge_sales(&sales, &orders);
        self.judge_orders(&orders, judged, horizon).await?;
        self.judge_orphans(&orphans, &orders, dry_run).await?;
        if !dry_run {
            self.lease.record.compared = sales.through;
            self.lease.record.orders_compared_at = horizon.max(judged).micros();
        }
        Ok(())
    }

    /// The sales that were not compared yet, of items that the stock master owns.
    async fn sales_before(&mut self, horizon: Instant) -> Result<Sales, ServiceEnd> {
        let mut sales = Sales { through: self.lease.record.compared, ..Sales::default() };
        loop {
            let rows = match self.worker.feed.after(sales.through, BATCH).await? {
                FeedRead::Events(rows) => rows,
                FeedRead::Archived(through) => {
                    sales.through = through;
                    continue;
                }
            };
            let is_last = rows.len() < BATCH;
            for row in rows.iter().take_while(|row| row.position <= self.scanned) {
                if row.event.at > horizon {
                    return Ok(sales);
                }
                if let Transition::Hold { change: HoldChange::Confirmed, hold, .. } = &row.event.transition
                    && hold.lines.iter().any(|line| self.items.owns(&line.item, row.position))
                {
                    sales.all.push((hold.order_id().cloned(), hold.id.to_string(), row.event.at));
                }
                sales.through = row.position;
            }
            self.renew().await?;
            if is_last || sales.all.len() >= SALES {
                return Ok(sales);
            }
        }
    }

    /// Active reservations that are old enough to be orphans.
    async fn possible_orphans(&mut self, horizon: Instant, now: i64) -> Result<Vec<Hold>, ServiceEnd> {
        let oldest = Instant::from_micros(now.saturating_sub(LONGEST_LOOK_BACK));
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let filter = ReservationFilter {
                owner_id: None,
                sku: None,
                location: None,
                status: Some(Status::Active),
                order_id: None,
                customer_id: None,
                created_by: None,
                created_after: Some(oldest),
                created_before: Some(horizon),
                after,
                limit: PAGE,
            };
            let store = &*self.worker.records.store;
            let QueryResult::Reservations(page) =
                stockhold_store::query(store, Query::Reservations(filter)).await?
            else {
                return Err(wrong_answer().into());
            };
            let owned = |hold: &Hold| hold.lines.iter().any(|line| self.items.get(&line.item).is_some());
            // The payment decides about a reservation that is being paid.
            found.extend(page.holds.into_iter().filter(|hold| owned(hold) && hold.open_payment().is_none()));
            self.renew().await?;
            after = page.next;
            if after.is_none() {
                return Ok(found);
            }
        }
    }

    /// The orders since an instant: their ids, and when they were placed.
    async fn read_orders(
        &mut self,
        since: Instant,
    ) -> Result<Result<BTreeMap<String, Instant>, SourceError>, ServiceEnd> {
        let mut orders = BTreeMap::new();
        let mut cursor: Option<String> = None;
        loop {
            let source = self.source;
            let page = match self.wait_for(source.orders(since, cursor.as_deref())).await? {
                Ok(page) => page,
                Err(error) => return Ok(Err(error)),
            };
            let before = orders.len();
            orders.extend(page.orders.into_iter().map(|order| (order.id, order.placed_at)));
            match page.next {
                None => return Ok(Ok(orders)),
                Some(_) if orders.len() == before => {
                    return Ok(Err(SourceError::Failed("a page of orders has nothing new".to_owned())));
                }
                Some(_) if orders.len() > ORDERS => {
                    return Ok(Err(SourceError::Failed(format!(
                        "more than {ORDERS} orders since {since:?}"
                    ))));
                }
                next => cursor = next,
            }
        }
    }

    fn judge_sales(&mut self, sales: &Sales, orders: &BTreeMap<String, Instant>) {
        self.state.report.sales_compared += sales.all.len() as u64;
        for (order_id, reservation_id, _) in &sales.all {
            let Some(order_id) = order_id else {
                self.state.report.sales_without_order_id += 1;
                continue;
            };
            if !orders.contains_key(order_id.as_str()) {
                self.state.report.add(Finding {
                    order_id: Some(order_id.as_str().to_owned()),
                    reservation_id: Some(reservation_id.clone()),
                    ..Finding::new(FindingKind::SaleMissing)
                });
            }
        }
    }

    /// Looks for the reservations of orders that were not judged before.
    async fn judge_orders(
        &mut self,
        orders: &BTreeMap<String, Instant>,
        judged: Instant,
        horizon: Instant,
    ) -> Result<(), ServiceEnd> {
        for (order_id, placed_at) in orders {
            if *placed_at <= judged || *placed_at > horizon {
                continue;
            }
            let is_known = match Label::new(order_id) {
                Ok(label) => self.is_sold(label).await?,
                Err(_) => false,
            };
            if !is_known {
                let order_id = Some(order_id.clone());
                self.state
                    .report
                    .add(Finding { order_id, ..Finding::new(FindingKind::OrderWithoutReservation) });
            }
            self.renew().await?;
        }
        Ok(())
    }

    /// Whether a reservation was confirmed for an order.
    async fn is_sold(&self, order_id: Label) -> Result<bool, ServiceEnd> {
        let filter = ReservationFilter {
            owner_id: None,
            sku: None,
            location: None,
            status: None,
            order_id: Some(order_id),
            customer_id: None,
            created_by: None,
            created_after: None,
            created_before: None,
            after: None,
            limit: 1,
        };
        let store = &*self.worker.records.store;
        match stockhold_store::query(store, Query::Reservations(filter)).await? {
            QueryResult::Reservations(page) => Ok(!page.holds.is_empty()),
            _ => Err(wrong_answer().into()),
        }
    }

    /// Releases or reports old reservations whose owner has no order.
    async fn judge_orphans(
        &mut self,
        holds: &[Hold],
        orders: &BTreeMap<String, Instant>,
        dry_run: bool,
    ) -> Result<(), ServiceEnd> {
        for hold in holds {
            // A hub names its order as the owner.
            if orders.contains_key(hold.terms.reserve.owner_id.as_str()) {
                continue;
            }
            let mut kind = FindingKind::Orphan;
            if self.worker.options.release_orphans && !dry_run {
                let release = Release { id: hold.id, reason: Label::new("orphan").ok() };
                // A refusal means that it has ended in another way meanwhile.
                match self.worker.records.submit(Command::Release(release)).await? {
                    Outcome::Done(_) => kind = FindingKind::OrphanReleased,
                    _ => continue,
                }
            }
            self.state
                .report
                .add(Finding { reservation_id: Some(hold.id.to_string()), ..Finding::new(kind) });
            self.renew().await?;
        }
        Ok(())
    }

    /// Does what a caller asks for, and reports it.
    pub(super) async fn answer_request(&mut self, request: &ReconciliationOrder) -> Result<(), ServiceEnd> {
        // What was found before belongs to the next report by time.
        let before = std::mem::take(&mut self.state.report);
        self.pull(request.dry_run).await?;
        self.compare_orders(request.dry_run).await?;
        self.finish_report(Some(request)).await?;
        self.state.report = before;
        self.lease.record.request = None;
        proceed(self.lease.write().await?)
    }

    /// Writes the report, and begins the next one. A report with news is an event that all readers see.
    pub(super) async fn finish_report(
        &mut self,
        request: Option<&ReconciliationOrder>,
    ) -> Result<(), ServiceEnd> {
        let mut report = std::mem::take(&mut self.state.report);
        report.at = self.worker.records.clocks.wall.now().micros();
        if let Some(refused) = self.lease.record.batch.as_ref().and_then(|batch| batch.refused.clone()) {
            report.add(Finding { message: Some(refused), ..Finding::new(FindingKind::DecrementRefused) });
        }
        report.pending_units = if self.source.takes_decrements() { self.pending.total() } else { 0 };
        report.dry_run = request.is_some_and(|request| request.dry_run);
        report.request_id = request.map(|request| request.id.clone());
        for (kind, count) in &report.counts {
            let name = self.worker.options.name.clone();
            metrics::counter!("stockhold_stock_master_findings_total", "stock_master" => name, "kind" => kind.name())
                .increment(*count);
        }
        let (records, name) = (&self.worker.records, report_name(&self.worker.options.name, report.dry_run));
        let (last, version) = records.read::<ReportRecord>(&name).await?.unwrap_or_default();
        let is_news = !report.dry_run && report.is_news_after(&last);
        let change = if is_news { RecordChange::StockReconciled } else { RecordChange::Silent };
        // Nobody else writes it, apart from an instance that has just lost the stock master.
        records.write(&name, Some(&report), version, change).await?;
        Ok(())
    }
}
