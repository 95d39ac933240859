//! The report for people.

use super::ledger::RefusalsByReason;
use super::report::ReplayReport;
use super::unusable_lines::write_kinds;
use crate::plural::counted;
use std::fmt::{self, Display, Formatter};

/// Differences that are written out; JSON has all.
const DIFFERENCES: usize = 50;

impl Display for ReplayReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.input(f)?;
        self.sales(f)?;
        self.top(f)?;
        self.times(f)?;
        self.verdict(f)
    }
}

impl ReplayReport {
    fn input(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { files, lines, lines_used, lines_junk, .. } = self;
        let (files, lines) = (counted(*files as u64, "file", "files"), counted(*lines, "line", "lines"));
        writeln!(f, "Input      {files}, {lines}: {lines_used} used, {lines_junk} junk")?;
        write_kinds(f, &self.junk)?;
        let stock = &self.stock;
        writeln!(
            f,
            "Stock      {} made, {} there and left as {}",
            counted(stock.created, "item", "items"),
            counted(stock.found, "was", "were"),
            if stock.found == 1 { "it is" } else { "they are" }
        )
    }

    fn sales(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let baskets = &self.baskets;
        writeln!(
            f,
            "Baskets    {} orders: {} held, {} confirmed; {} of {} units sold",
            baskets.orders, baskets.held, baskets.confirmed, baskets.units_confirmed, baskets.units_asked
        )?;
        reasons(f, "refused", &baskets.refused)?;
        reasons(f, "held but not confirmed", &baskets.lost)?;
        let back = &self.cancellations;
        writeln!(
            f,
            "Back       {} cancellations, {} lines: {} returns of {} units, {} adjustments of +{} units",
            back.orders, back.lines, back.returns, back.units_returned, back.adjustments, back.units_adjusted
        )?;
        reasons(f, "refused", &back.refused)?;
        let off = &self.write_offs;
        writeln!(
            f,
            "Write-offs {} lines: {} adjustments of -{} units",
            off.lines, off.adjustments, off.units
        )?;
        reasons(f, "refused", &off.refused)?;
        self.carts(f)?;
        writeln!(
            f,
            "Replays    {} answers repeated an earlier one; {} requests were sent again; key prefix {}",
            self.replayed_answers, self.repeated_requests, self.key_prefix
        )
    }

    fn carts(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(carts) = &self.carts else { return Ok(()) };
        writeln!(
            f,
            "Carts      {} lines added; {} transferred, {} split, {} of these merged again",
            carts.amended, carts.transferred, carts.split, carts.merged
        )?;
        reasons(f, "lines left out", &carts.lines_refused)?;
        writeln!(
            f,
            "Payments   {} windows opened: {} declined, {} confirmed",
            carts.payments_opened, carts.payments_declined, carts.payments_confirmed
        )?;
        writeln!(
            f,
            "Shipments  {} of {} units; {} of the returned units had been shipped, {} were written off",
            carts.fulfilments, carts.units_fulfilled, carts.units_returned_fulfilled, carts.units_written_off
        )?;
        reasons(f, "refused", &carts.refused)
    }

    fn top(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.top.is_empty() {
            return Ok(());
        }
        writeln!(f, "\n{:<20} {:>10} {:>10} {:>10} {:>10}", "SKU", "sold", "returned", "stock", "demand")?;
        for top in &self.top {
            writeln!(
                f,
                "{:<20} {:>10} {:>10} {:>10} {:>10}",
                top.sku, top.sold, top.returned, top.stock, top.demand
            )?;
        }
        Ok(())
    }

    fn times(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nTook       {:.2} s: {:.0} baskets/s, {:.0} commands/s",
            self.seconds, self.baskets_per_second, self.commands_per_second
        )?;
        let width = if self.carts.is_some() { 13 } else { 10 };
        writeln!(
            f,
            "{:<width$} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "ms", "answers", "p50", "p90", "p99", "p99.9", "max"
        )?;
        for step in &self.latency {
            writeln!(
                f,
                "{:<width$} {:>8} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>9.3}",
                step.step, step.count, step.p50_ms, step.p90_ms, step.p99_ms, step.p999_ms, step.max_ms
            )?;
        }
        Ok(())
    }

    fn verdict(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let audit = &self.audit;
        if audit.balanced {
            write!(
                f,
                "\nAudit      balanced: {} to the unit; sold {}, held {}, of {} units",
                counted(audit.skus, "SKU agrees", "SKUs agree"),
                audit.confirmed_sold,
                audit.held_units,
                audit.total_units
            )?;
            return match &audit.shelf {
                Some(figures) => writeln!(
                    f,
                    "; fulfilled {}, unfulfilled {}, on hand {}",
                    figures.fulfilled_units, figures.unfulfilled_units, figures.on_hand
                ),
                None => writeln!(f),
            };
        }
        writeln!(f, "\nAudit      NOT balanced: {} figures differ", audit.differences.len())?;
        writeln!(f, "{:<20} {:<16} {:>12} {:>12}", "SKU", "figure", "told", "server")?;
        for one in audit.differences.iter().take(DIFFERENCES) {
            writeln!(f, "{:<20} {:<16} {:>12} {:>12}", one.sku, one.figure, one.told, one.server)?;
        }
        if audit.differences.len() > DIFFERENCES {
            writeln!(f, "… and {} more (all of them with --json)", audit.differences.len() - DIFFERENCES)?;
        }
        writeln!(
            f,
            "If these items had stock, sales or changes from elsewhere, that is the difference: use a fresh data \
             directory, or another --location."
        )
    }
}

fn reasons(f: &mut Formatter<'_>, title: &str, reasons: &RefusalsByReason) -> fmt::Result {
    for (reason, refusals) in reasons {
        writeln!(f, "           {:>7} {title}: {reason} (first: {})", refusals.count, refusals.first)?;
    }
    Ok(())
}
