//! The verdict: what the server's ledger says, against what the replay was told, SKU by SKU.

use super::drive::for_each;
use super::ledger::SkuTotals;
use super::steps::ReplayRun;
use crate::client::CallError;
use serde::Serialize;
use std::rc::Rc;
use stockhold_api::client::At;
use stockhold_api::wire::Item;

/// One figure that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Difference {
    /// The SKU, or the order if the figure belongs to its reservation.
    pub(super) sku: String,
    /// The figure's name in the API.
    pub(super) figure: &'static str,
    /// As the replay was told.
    pub(super) told: i128,
    /// As the server has it.
    pub(super) server: i128,
}

/// The differences between the server's ledger and the answers of the replay.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct ReplayAudit {
    /// Whether nothing differs.
    pub(super) balanced: bool,
    /// SKUs that were compared.
    pub(super) skus: u64,
    /// Units sold and not returned, as the server has them.
    pub(super) confirmed_sold: u64,
    /// Units held, as the server has them.
    pub(super) held_units: u64,
    /// Units that exist, as the server has them.
    pub(super) total_units: u64,
    /// Sold units that have left the shelf, as the server has them; with `--carts` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shelf: Option<ShelfTotals>,
    /// What differs.
    pub(super) differences: Vec<Difference>,
}

/// The figures of the warehouse, as the server has them.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct ShelfTotals {
    /// Sold units that have left the shelf.
    pub(super) fulfilled_units: u64,
    /// Sold units that have not.
    pub(super) unfulfilled_units: u64,
    /// Units on the shelf.
    pub(super) on_hand: u64,
}

/// Reads every item and compares.
pub(super) async fn audit(run: &Rc<ReplayRun>, at_once: usize) -> Result<ReplayAudit, CallError> {
    let skus: Vec<(String, SkuTotals)> =
        run.ledger.borrow().skus.iter().map(|(sku, figures)| (sku.clone(), *figures)).collect();
    let mut verdict = ReplayAudit {
        shelf: run.carts.then(ShelfTotals::default),
        differences: run.ledger.borrow().differences.clone(),
        ..ReplayAudit::default()
    };
    let ask = |(sku, figures): (String, SkuTotals)| {
        let run = Rc::clone(run);
        async move {
            let at = At { sku: &sku, location: Some(&run.location) };
            let item = run.caller.ask(async |client| client.item(at).await).await?;
            Ok((sku, figures, item))
        }
    };
    for_each(skus.into_iter(), at_once, ask, |(sku, told, item)| verdict.compare(&sku, &told, &item)).await?;
    verdict.differences.sort_by(|a, b| (&a.sku, a.figure).cmp(&(&b.sku, b.figure)));
    verdict.balanced = verdict.differences.is_empty();
    Ok(verdict)
}

impl ReplayAudit {
    fn compare(&mut self, sku: &str, told: &SkuTotals, item: &Item) {
        self.skus += 1;
        self.confirmed_sold += item.confirmed_sold;
        self.held_units += item.held_units;
        self.total_units += item.total_units;
        let sold = i128::from(told.confirmed) - i128::from(told.returned);
        let total = i128::from(told.stock) + i128::from(told.adjusted) - i128::from(told.written_off);
        let mut figures = vec![
            ("confirmed_sold", sold, item.confirmed_sold),
            ("held_units", i128::from(told.held), item.held_units),
            ("total_units", total, item.total_units),
        ];
        if let Some(shelf) = &mut self.shelf {
            shelf.fulfilled_units += item.fulfilled_units;
            shelf.unfulfilled_units += item.unfulfilled_units;
            shelf.on_hand += item.on_hand;
            let fulfilled = i128::from(told.fulfilled);
            figures.extend([
                ("fulfilled_units", fulfilled, item.fulfilled_units),
                ("unfulfilled_units", sold - fulfilled, item.unfulfilled_units),
                ("on_hand", total - fulfilled, item.on_hand),
            ]);
        }
        for (figure, told, server) in figures {
            if told != i128::from(server) {
                self.differences.push(Difference {
                    sku: sku.to_owned(),
                    figure,
                    told,
                    server: server.into(),
                });
            }
        }
        let promised = item.confirmed_sold + item.held_units;
        if promised > item.total_units {
            self.differences.push(Difference {
                sku: sku.to_owned(),
                figure: "oversold: sold and held, against total_units",
                told: promised.into(),
                server: item.total_units.into(),
            });
        }
    }
}
