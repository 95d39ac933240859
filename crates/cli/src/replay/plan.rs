//! Makes steps of lines: what each order does, in which sequence, and which steps wait for others.
//!
//! A plan depends on the files alone, never on what a server answered: a replay that was cut and runs again has the
//! same plan.

use super::input::{OrderInput, OrderLine, is_cancellation};
use super::unusable_lines::LineError;
use std::collections::{BTreeMap, HashMap};
use stockhold_domain::limits::{BASKET_LINES, TOTAL_UNITS};

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepKind {
    /// A basket is held and confirmed.
    Sale,
    /// Units come back from a customer.
    Cancellation,
    /// Units are gone.
    WriteOff,
}

/// One order's doing.
#[derive(Clone, Debug)]
pub(super) struct ReplayStep {
    /// What.
    pub(super) what: StepKind,
    /// The order's name.
    pub(super) order: String,
    /// When, in seconds.
    pub(super) at: i64,
    /// Who.
    pub(super) customer: Option<String>,
    /// What of, and how many units: always positive.
    pub(super) lines: Vec<(String, u64)>,
}

/// All steps.
#[derive(Debug, Default)]
pub(super) struct ReplayPlan {
    /// In the order of time; orders of the same time by name.
    pub(super) steps: Vec<ReplayStep>,
    /// Steps of one customer. Each waits for the one before. Orders without a customer wait for nothing.
    pub(super) chains: Vec<Vec<usize>>,
    /// Every SKU with the units that baskets ask for.
    pub(super) demand: BTreeMap<String, u64>,
}

/// How much there is of each SKU before the first order.
#[derive(Clone, Copy, Debug)]
pub(super) enum InitialStock {
    /// So many units.
    Units(u64),
    /// So much of the demand, in percent.
    Percent(u64),
}

impl InitialStock {
    /// Units of a SKU with so much demand.
    pub(super) fn units(self, demand: u64) -> u64 {
        let units = match self {
            Self::Units(units) => units,
            Self::Percent(percent) => {
                u64::try_from((u128::from(demand) * u128::from(percent)).div_ceil(100)).unwrap_or(u64::MAX)
            }
        };
        units.min(TOTAL_UNITS)
    }
}

/// Makes the plan. Orders that no basket can hold go to the input's junk.
pub(super) fn plan(input: &mut OrderInput) -> ReplayPlan {
    let mut plan = ReplayPlan { steps: collect(input), ..ReplayPlan::default() };
    plan.steps.sort_by(|a, b| (a.at, &a.order).cmp(&(b.at, &b.order)));
    let mut of_customer: HashMap<&str, usize> = HashMap::new();
    for (number, step) in plan.steps.iter().enumerate() {
        let chain = match step.customer.as_deref() {
            None => plan.chains.len(),
            Some(customer) => *of_customer.entry(customer).or_insert(plan.chains.len()),
        };
        match plan.chains.get_mut(chain) {
            Some(chain) => chain.push(number),
            None => plan.chains.push(vec![number]),
        }
        for (sku, units) in &step.lines {
            let demand = plan.demand.entry(sku.clone()).or_default();
            if step.what == StepKind::Sale {
                *demand = demand.saturating_add(*units);
            }
        }
    }
    plan
}

/// An order's lines, by what they do.
#[derive(Default)]
struct OrderLines {
    first: usize,
    by_what: [Vec<usize>; 3],
}

fn collect(input: &mut OrderInput) -> Vec<ReplayStep> {
    let mut names: HashMap<&str, usize> = HashMap::new();
    let mut orders: Vec<OrderLines> = Vec::new();
    for (number, line) in input.lines.iter().enumerate() {
        let order = *names.entry(&line.order).or_insert(orders.len());
        if order == orders.len() {
            orders.push(OrderLines { first: number, ..OrderLines::default() });
        }
        if let Some(order) = orders.get_mut(order) {
            order.by_what[what(line) as usize].push(number);
        }
    }
    let mut steps = Vec::with_capacity(orders.len());
    let mut too_large = Vec::new();
    for order in &orders {
        let Some(first) = input.lines.get(order.first) else { continue };
        for (what, numbers) in
            [StepKind::Sale, StepKind::Cancellation, StepKind::WriteOff].into_iter().zip(&order.by_what)
        {
            let wanted = || numbers.iter().filter_map(|number| input.lines.get(*number));
            let mut lines: Vec<(String, u64)> =
                wanted().map(|line| (line.sku.clone(), line.quantity.unsigned_abs())).collect();
            if what == StepKind::Sale && lines.len() > BASKET_LINES {
                lines = summed(lines);
            }
            if what == StepKind::Sale && lines.len() > BASKET_LINES {
                too_large.extend_from_slice(numbers);
                continue;
            }
            if lines.is_empty() {
                continue;
            }
            let customer = first.customer.clone();
            steps.push(ReplayStep { what, order: first.order.clone(), at: first.at, customer, lines });
        }
    }
    for number in too_large {
        if let Some(line) = input.lines.get(number) {
            input.junk.add(LineError::BasketTooLarge, line.place, &line.order);
        }
    }
    steps
}

fn what(line: &OrderLine) -> StepKind {
    match (line.quantity > 0, is_cancellation(&line.order)) {
        (true, _) => StepKind::Sale,
        (false, true) => StepKind::Cancellation,
        (false, false) => StepKind::WriteOff,
    }
}

/// One line for each SKU, which is how the server sees it too.
fn summed(lines: Vec<(String, u64)>) -> Vec<(String, u64)> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (sku, units) in lines {
        let sum = sums.entry(sku).or_default();
        *sum = sum.saturating_add(units);
    }
    sums.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::super::unusable_lines::{LinePosition, UnusableLines};
    use super::*;

    fn input(lines: &[(&str, &str, i64, i64, Option<&str>)]) -> OrderInput {
        let line = |(order, sku, quantity, at, customer): &(&str, &str, i64, i64, Option<&str>)| OrderLine {
            order: (*order).to_owned(),
            sku: (*sku).to_owned(),
            quantity: *quantity,
            at: *at,
            customer: customer.map(str::to_owned),
            place: LinePosition { file: 0, line: 2 },
        };
        let lines: Vec<OrderLine> = lines.iter().map(line).collect();
        OrderInput {
            read: lines.len() as u64,
            lines,
            junk: UnusableLines::new(&["a.csv".into()]),
            digest: String::new(),
        }
    }

    #[test]
    fn steps_stand_in_time_and_customers_wait_for_themselves_only() {
        let mut input = input(&[
            ("C9", "x", -1, 30, Some("ann")),
            ("7", "x", 2, 10, Some("ann")),
            ("7", "x", 3, 10, Some("ann")),
            ("8", "y", 1, 10, None),
            ("6", "y", -4, 5, None),
        ]);
        let plan = plan(&mut input);
        let seen: Vec<_> = plan.steps.iter().map(|step| (step.what, step.order.as_str())).collect();
        assert_eq!(
            seen,
            [
                (StepKind::WriteOff, "6"),
                (StepKind::Sale, "7"),
                (StepKind::Sale, "8"),
                (StepKind::Cancellation, "C9")
            ]
        );
        assert_eq!(plan.chains, [vec![0], vec![1, 3], vec![2]]);
        assert_eq!(plan.demand, [("x".to_owned(), 5), ("y".to_owned(), 1)].into());
        assert_eq!(plan.steps[1].lines, [("x".to_owned(), 2), ("x".to_owned(), 3)]);
        assert_eq!(input.junk.lines(), 0);
    }

    #[test]
    fn what_fits_no_basket_is_summed_or_junk() {
        let skus: Vec<String> = (0..=BASKET_LINES).map(|n| format!("s{n}")).collect();
        let mut lines: Vec<_> = (0..=BASKET_LINES).map(|_| ("same", "s", 1, 0, None)).collect();
        lines.extend(skus.iter().map(|sku| ("wide", sku.as_str(), 1, 0, None)));
        let mut input = input(&lines);
        let plan = plan(&mut input);
        assert_eq!(plan.steps.len(), 1);
        assert_eq!(plan.steps[0].lines, [("s".to_owned(), BASKET_LINES as u64 + 1)]);
        assert_eq!(input.junk.kinds()[&LineError::BasketTooLarge].lines, BASKET_LINES as u64 + 1);
    }

    #[test]
    fn a_share_of_the_demand_is_rounded_up() {
        for (rule, demand, units) in [
            (InitialStock::Units(7), 1_000, 7),
            (InitialStock::Percent(80), 10, 8),
            (InitialStock::Percent(80), 11, 9),
            (InitialStock::Percent(0), 11, 0),
            (InitialStock::Percent(150), 11, 17),
            (InitialStock::Percent(100), u64::MAX, TOTAL_UNITS),
        ] {
            assert_eq!(rule.units(demand), units, "{rule:?} of {demand}");
        }
    }
}
