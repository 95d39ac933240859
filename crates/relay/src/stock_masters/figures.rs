//! Compares the figures of a stock master with the totals here, and corrects the totals.

use super::options::DecrementAt;
use super::owned_items::OwnedItem;
use super::source::{Figure, SourceError};
use super::worker::{Service, ServiceEnd, proceed, wrong_answer};
use crate::records::label;
use std::collections::{BTreeMap, BTreeSet};
use stockhold_api::problem::Problem;
use stockhold_api::stock_master_record::{DecrementBatch, Finding, FindingKind};
use stockhold_domain::limits::TOTAL_UNITS;
use stockhold_domain::{AdjustStock, Command, ItemKey, Outcome, Precondition, Rejection};
use stockhold_store::Failure;

/// Most pages of one pull. More are a cursor that never ends.
const PAGES: usize = 100_000;
/// Corrections that are submitted together.
const CORRECTIONS: usize = 100;

/// What the stock master says about an item within one pull.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FigureState {
    Known(u64),
    Invalid(String),
    Contradictory,
}

/// A difference between a total and a figure.
struct Correction {
    item: ItemKey,
    figure: u64,
    delta: i64,
    before: OwnedItem,
}

impl Service<'_> {
    /// Reads all figures and corrects the totals. With `dry_run`, it only reports.
    pub(super) async fn pull(&mut self, dry_run: bool) -> Result<(), ServiceEnd> {
        let is_unknown = |batch: &DecrementBatch| batch.refused.is_none();
        if self.lease.record.batch.as_ref().is_some_and(is_unknown) {
            self.state
                .report
                .note_incomplete("a batch of decrements has no answer yet, so no figure can be compared");
            return Ok(());
        }
        self.follow().await?;
        if !self.source.takes_decrements() {
            // From here on, what the figures may lack is counted.
            self.pending.clear();
        }
        let figures = match self.read_figures().await? {
            Ok(figures) => figures,
            Err(error) => {
                let what = format!("figures: {}", error.message());
                let failure = self.failure(&what, error.action(), self.worker.options.pull);
                self.lease.record.failures.figures = Some(failure);
                self.state.report.note_incomplete(&what);
                return Ok(());
            }
        };
        self.lease.record.failures.figures = None;
        self.follow().await?;
        // An instance that has lost the stock master must not correct by figures that the new holder has changed.
        proceed(self.lease.check().await?)?;
        let corrections = self.compare(&figures);
        self.state.report.figures_compared += figures.len() as u64;
        if dry_run {
            for correction in &corrections {
                self.report_correction(correction, FindingKind::TotalCorrected, correction.delta);
            }
            return Ok(());
        }
        for chunk in corrections.chunks(CORRECTIONS) {
            self.correct(chunk).await?;
            self.renew().await?;
        }
        Ok(())
    }

    /// The figures of the items that the stock master owns.
    async fn read_figures(
        &mut self,
    ) -> Result<Result<BTreeMap<ItemKey, FigureState>, SourceError>, ServiceEnd> {
        let mut figures: BTreeMap<ItemKey, FigureState> = BTreeMap::new();
        let mut cursors = BTreeSet::new();
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES {
            let source = self.source;
            let page = match self.wait_for(source.figures(cursor.as_deref())).await? {
                Ok(page) => page,
                Err(error) => return Ok(Err(error)),
            };
            if page.booked.lacks(self.lease.record.booked.as_ref()) {
                let what = "its figures do not contain the last batch of decrements yet".to_owned();
                return Ok(Err(SourceError::Failed(what)));
            }
            for figure in page.figures {
                self.take_figure(&mut figures, figure);
            }
            match page.next {
                None => return Ok(Ok(figures)),
                Some(next) if !cursors.insert(next.clone()) => {
                    return Ok(Err(SourceError::Failed(format!("the cursor {next:?} came twice"))));
                }
                next => cursor = next,
            }
        }
        Ok(Err(SourceError::Failed(format!("more than {PAGES} pages"))))
    }

    fn take_figure(&mut self, figures: &mut BTreeMap<ItemKey, FigureState>, figure: Figure) {
        if self.items.get(&figure.item).is_none() {
            self.state.report.add(about(&figure.item, FindingKind::ItemUnknown));
            return;
        }
        let new = match figure.quantity {
            Ok(units) => FigureState::Known(units),
            Err(what) => FigureState::Invalid(what),
        };
        figures
            .entry(figure.item)
            .and_modify(|known| {
                if *known != new {
                    *known = FigureState::Contradictory;
                }
            })
            .or_insert(new);
    }

    /// The corrections that the figures ask for. Reports what can't be compared.
    fn compare(&mut self, figures: &BTreeMap<ItemKey, FigureState>) -> Vec<Correction> {
        let mut corrections = Vec::new();
        for (item, state) in figures {
            let Some(known) = self.items.get(item) else { continue };
            match state {
                FigureState::Contradictory => {
                    self.state.report.add(about(item, FindingKind::FigureContradictory));
                }
                FigureState::Invalid(what) => {
                    let message = Some(what.clone());
                    self.state.report.add(Finding { message, ..about(item, FindingKind::FigureInvalid) });
                }
                FigureState::Known(figure) => {
                    let delta = self.delta(item, known, *figure);
                    if delta != 0 {
                        let (item, before) = (item.clone(), known.clone());
                        corrections.push(Correction { item, figure: *figure, delta, before });
                    }
                }
            }
        }
        let missing: Vec<_> = self.items.keys().filter(|item| !figures.contains_key(item)).cloned().collect();
        for item in missing {
            self.state.report.add(about(&item, FindingKind::ItemMissing));
        }
        corrections
    }

    /// By how much the total has to change: then `total − counted = figure − units that it was not told of`.
    fn delta(&self, item: &ItemKey, known: &OwnedItem, figure: u64) -> i64 {
        let signed = |units: u64| i64::try_from(units).unwrap_or(i64::MAX);
        let counted = match self.worker.options.decrement_at {
            DecrementAt::Sale => known.figures.confirmed_sold,
            DecrementAt::Shipment => known.figures.fulfilled,
        };
        signed(figure) - self.pending.of(item) - (signed(known.figures.total_units) - signed(counted))
    }

    async fn correct(&mut self, corrections: &[Correction]) -> Result<(), ServiceEnd> {
        let commands = corrections.iter().map(|correction| self.adjustment(correction, correction.delta));
        let commands = commands.collect::<Result<Vec<_>, _>>()?;
        let outcomes = self.worker.records.submit_all(commands).await?;
        if outcomes.len() != corrections.len() {
            return Err(wrong_answer().into());
        }
        for (correction, outcome) in corrections.iter().zip(outcomes) {
            match outcome? {
                Outcome::Done(_) => {
                    self.count_correction();
                    self.report_correction(correction, FindingKind::TotalCorrected, correction.delta);
                }
                Outcome::Refused(Rejection::BelowCommitted {
                    confirmed_sold,
                    held,
                    total_units,
                    set_aside,
                }) => {
                    let promised = confirmed_sold + held + set_aside;
                    let lowest = promised.saturating_sub(correction.before.oversell_allowance);
                    self.lower_to(correction, total_units, lowest).await?;
                }
                // An operator has changed the item meanwhile, or deleted it. The next pull sees it as it is then.
                Outcome::Refused(Rejection::PreconditionFailed { .. } | Rejection::UnknownItem(_)) => {}
                Outcome::Refused(refusal) => {
                    let message = Some(Problem::from(refusal).detail().to_owned());
                    self.state
                        .report
                        .add(Finding { message, ..about(&correction.item, FindingKind::FigureInvalid) });
                }
                Outcome::Later | Outcome::Replayed(_) => return Err(wrong_answer().into()),
            }
        }
        Ok(())
    }

    /// Lowers a total as far as what is promised allows, so that nothing more is sold.
    async fn lower_to(&mut self, correction: &Correction, total: u64, lowest: u64) -> Result<(), ServiceEnd> {
        let lowest = lowest.max(correction.before.figures.fulfilled).min(TOTAL_UNITS);
        let signed = |units: u64| i64::try_from(units).unwrap_or(i64::MAX);
        let delta = signed(lowest) - signed(total);
        let mut lowered_by = 0;
        if delta < 0 {
            let command = self.adjustment(correction, delta)?;
            // If it is refused, something has changed again, and the next pull goes on.
            if matches!(self.worker.records.submit(command).await?, Outcome::Done(_)) {
                lowered_by = delta;
                self.count_correction();
            }
        }
        self.report_correction(correction, FindingKind::CommittedAboveFigure, lowered_by);
        Ok(())
    }

    fn adjustment(&self, correction: &Correction, delta: i64) -> Result<Command, Failure> {
        Ok(Command::AdjustStock(AdjustStock {
            item: correction.item.clone(),
            delta,
            reason: label(&format!("stock master {}", self.worker.options.name))?,
            supply_id: None,
            override_owner: true,
            expected: Some(Precondition::version(correction.before.version)),
        }))
    }

    fn count_correction(&self) {
        let name = self.worker.options.name.clone();
        metrics::counter!("stockhold_stock_master_corrections_total", "stock_master" => name).increment(1);
    }

    fn report_correction(&mut self, correction: &Correction, kind: FindingKind, delta: i64) {
        let before = correction.before.figures.total_units;
        self.state.report.add(Finding {
            figure: i64::try_from(correction.figure).ok(),
            total_units_before: Some(before),
            total_units: before.checked_add_signed(delta),
            ..about(&correction.item, kind)
        });
    }
}

/// A finding about an item.
fn about(item: &ItemKey, kind: FindingKind) -> Finding {
    Finding {
        sku: Some(item.sku().to_owned()),
        location: Some(item.location().to_owned()),
        ..Finding::new(kind)
    }
}
