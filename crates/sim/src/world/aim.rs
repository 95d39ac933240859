//! Aims commands at what exists. A random command rarely names a reservation that it can change, or lines that the
//! reservation has. Most commands are therefore completed from the durable state when they are sent.

use super::World;
use super::aim_limits::{aim_customer, aim_override, aim_reserve};
use stockhold_domain::{
    Amend, Basket, ChargeState, ClosePayment, Command, Confirm, Hold, IfExpired, Label, Line, Merge,
    OpenPayment, Patch, PaymentStep, Precondition, ProviderRef, ProviderReport, RefundSelection,
    RequestedLine, ReservationId, ReturnFrom, SaleSelection, SetStock, ShelfCount, Split, Status,
    UnitSelection,
};
use stockhold_model::Random;
use stockhold_model::maker::{label, seconds};

/// Reservations that commands are aimed at: this many newest ones that fit.
const RECENT: usize = 12;
/// Settings of how long payment windows may keep a reservation, in seconds.
const MAX_PAYMENTS: [u64; 4] = [60, 300, 900, 3_600];

/// Lengths of payment windows, in seconds. Some pass the longest hold, and a second one of the longest passes the limit of windows.
const WINDOWS: [u64; 6] = [1, 60, 900, 1_860, 2_400, 3_600];

/// A line of a basket and its unit selection.
type Wish = (RequestedLine, Option<UnitSelection>);

impl World {
    /// Aims a command, unless `aim` says that it stays as it is.
    pub(super) fn aim(&self, command: &mut Command, aim: u16) {
        let mut random = Random::new(u64::from(aim));
        if random.one_in(4) {
            return;
        }
        let random = &mut random;
        aim_override(command, random);
        match command {
            Command::Confirm(confirm) => self.aim_confirm(confirm, random),
            Command::Release(release) => self.aim_at_active(&mut release.id, None, random),
            Command::Extend(extend) => self.aim_at_active(&mut extend.id, None, random),
            Command::Transfer(transfer) => {
                self.aim_at_active(&mut transfer.id, transfer.expected.as_mut(), random);
                aim_customer(transfer, random);
            }
            Command::Amend(amend) => self.aim_amend(amend, random),
            Command::Split(split) => self.aim_split(split, random),
            Command::Merge(merge) => self.aim_merge(merge, random),
            Command::OpenPayment(open) => self.aim_window(open, random),
            Command::ClosePayment(close) => self.aim_close(close, random),
            Command::StartCheckout(start) => {
                self.aim_at_active(&mut start.id, start.expected.as_mut(), random);
                start.request.window = start.request.window.map(|_| seconds(random.pick(&WINDOWS)));
            }
            Command::AdvancePayment(advance) => {
                if let Some(hold) =
                    self.newest(random, |hold| hold.charge().is_some_and(|one| one.due_at.is_some()))
                {
                    advance.id = hold.id;
                    if let PaymentStep::Reported { version, report, .. } = &mut advance.step {
                        *version = hold.version;
                        aim_report(report, hold, random);
                    }
                }
            }
            Command::Refund(refund) => {
                let fits = |hold: &Hold| {
                    hold.status == Status::Confirmed && hold.charge().is_some_and(|one| one.captured > 0)
                };
                if let Some(hold) = self.newest(random, fits) {
                    refund.id = hold.id;
                    if let RefundSelection::Lines { selection, .. } = &mut refund.selection {
                        select(selection, hold, random);
                    }
                }
            }
            Command::Fulfil(fulfil) => {
                let is_left = |line: &Line| line.quantity > line.returned + line.fulfilled;
                if let Some(hold) = self.sold(random, is_left) {
                    fulfil.id = hold.id;
                    select(&mut fulfil.selection, hold, random);
                }
            }
            Command::Return(returned) => {
                let from = returned.from;
                let is_left = |line: &Line| match from {
                    Some(ReturnFrom::Fulfilled) => line.fulfilled > 0,
                    Some(ReturnFrom::Unfulfilled) => line.quantity > line.returned + line.fulfilled,
                    None => line.quantity > line.returned,
                };
                if let Some(hold) = self.sold(random, is_left) {
                    returned.id = hold.id;
                    select(&mut returned.selection, hold, random);
                }
            }
            Command::SetStock(set) => self.count_shelf(set, random),
            Command::Reserve(reserve) => aim_reserve(reserve, random),
            Command::SetLimit(set) => self.aim_limit(set, random),
            Command::DeleteLimit(delete) => self.aim_delete_limit(delete, random),
            Command::AdjustStock(_)
            | Command::DeleteItem(_)
            | Command::AddUnits(_)
            | Command::RetireUnit(_)
            | Command::SetSale(_)
            | Command::SetPool(_)
            | Command::DeletePool(_)
            | Command::SetUnitPool(_)
            | Command::Sweep
            | Command::SetRecord(_) => {}
        }
    }

    /// One of the newest durable reservations that fit.
    fn newest(&self, random: &mut Random, fits: impl Fn(&Hold) -> bool) -> Option<&Hold> {
        let holds = self.checker.durable().holds.values().rev();
        let found: Vec<&Hold> = holds.filter(|hold| fits(hold)).take(RECENT).collect();
        if found.is_empty() { None } else { Some(random.pick(&found)) }
    }

    /// An active reservation. Few are due, or have a payment that is under way.
    fn active(&self, random: &mut Random) -> Option<&Hold> {
        let (any, now) = (random.one_in(6), self.now());
        let fits = |hold: &Hold| {
            hold.status == Status::Active && (any || (!hold.is_due(now) && hold.open_payment().is_none()))
        };
        self.newest(random, fits)
    }

    fn aim_at_active(
        &self,
        id: &mut ReservationId,
        expected: Option<&mut Precondition>,
        random: &mut Random,
    ) {
        if let Some(hold) = self.active(random) {
            *id = hold.id;
            expect(expected, hold, random);
        }
    }

    fn aim_confirm(&self, confirm: &mut Confirm, random: &mut Random) {
        if confirm.if_expired == IfExpired::Reacquire && random.one_in(2) {
            let again = random.one_in(4);
            let fits =
                |hold: &Hold| hold.status == Status::Expired && again == hold.details().replaced_by.is_some();
            if let Some(hold) = self.newest(random, fits) {
                confirm.id = hold.id;
            }
            return;
        }
        let paying = random.one_in(2);
        let fits = |hold: &Hold| hold.status == Status::Active && (!paying || hold.open_payment().is_some());
        if let Some(hold) = self.newest(random, fits) {
            confirm.id = hold.id;
            if let Some(payment) = hold.open_payment().filter(|_| !random.one_in(4)) {
                confirm.payment_id = Some(payment.id.clone());
            }
        }
    }

    /// Half of the baskets are close to the lines that the reservation has.
    fn aim_amend(&self, amend: &mut Amend, random: &mut Random) {
        let Some(hold) = self.active(random) else { return };
        amend.id = hold.id;
        expect(amend.expected.as_mut(), hold, random);
        let Some(basket) = amend.basket.as_ref().filter(|_| random.one_in(2)) else { return };
        let mut wishes: Vec<Wish> = Vec::new();
        for line in &*hold.lines {
            if random.one_in(5) {
                continue;
            }
            let quantity = u64::from(line.quantity).saturating_add(random.below(4)).saturating_sub(2).max(1);
            let named = (line.units.is_some() && random.one_in(2)).then(|| some_of(line, random));
            wishes.push(wish(line, quantity, named));
        }
        let is_new = |line: &RequestedLine| !hold.lines.iter().any(|known| known.item == line.item);
        for (number, line) in basket.lines().iter().enumerate() {
            if is_new(line) && (wishes.is_empty() || random.one_in(3)) {
                wishes.push((line.clone(), basket.selection(number).cloned()));
            }
        }
        if let Ok(basket) = Basket::with_selections(wishes) {
            amend.basket = Some(basket);
        }
    }

    fn aim_split(&self, split: &mut Split, random: &mut Random) {
        let several = |hold: &Hold| hold.quantity() > 1;
        let (any, now) = (random.one_in(6), self.now());
        let fits =
            |hold: &Hold| hold.status == Status::Active && (any || (several(hold) && !hold.is_due(now)));
        let Some(hold) = self.newest(random, fits) else { return };
        split.id = hold.id;
        expect(split.expected.as_mut(), hold, random);
        if let Some(basket) = some_lines(hold, random).filter(|_| !random.one_in(6)) {
            split.lines = basket;
        }
    }

    fn aim_merge(&self, merge: &mut Merge, random: &mut Random) {
        let Some(hold) = self.active(random) else { return };
        merge.id = hold.id;
        expect(merge.expected.as_mut(), hold, random);
        let mut from: Vec<ReservationId> = Vec::new();
        for _ in 0..merge.from.len() {
            if let Some(source) = self.active(random)
                && (random.one_in(20) || (source.id != hold.id && !from.contains(&source.id)))
            {
                from.push(source.id);
            }
        }
        if !from.is_empty() {
            merge.from = from.into();
        }
    }

    fn aim_window(&self, open: &mut OpenPayment, random: &mut Random) {
        let paying = random.one_in(2);
        let fits = |hold: &Hold| hold.status == Status::Active && (!paying || hold.open_payment().is_some());
        let Some(hold) = self.newest(random, fits) else { return };
        open.id = hold.id;
        if random.one_in(2) {
            open.window = Some(seconds(random.pick(&WINDOWS)));
        }
        expect(open.expected.as_mut(), hold, random);
        if let Some(payment) = hold.open_payment().filter(|_| !random.one_in(4)) {
            open.payment_id = payment.id.clone();
        }
    }

    fn aim_close(&self, close: &mut ClosePayment, random: &mut Random) {
        let Some(hold) = self.newest(random, |hold| hold.open_payment().is_some()) else { return };
        close.id = hold.id;
        if let (Some(id), Some(payment)) = (&mut close.payment_id, hold.open_payment())
            && !random.one_in(4)
        {
            *id = payment.id.clone();
        }
    }

    /// A confirmed reservation with a line that a command can move.
    fn sold(&self, random: &mut Random, is_left: impl Fn(&Line) -> bool) -> Option<&Hold> {
        let any = random.one_in(6);
        let fits = |hold: &Hold| hold.status == Status::Confirmed && (any || hold.lines.iter().any(&is_left));
        self.newest(random, fits)
    }

    /// Some totals are counts of the shelf, and some of those do not know of all shipments, or of too many.
    fn count_shelf(&self, set: &mut SetStock, random: &mut Random) {
        if random.one_in(4) {
            let max_payment = seconds(random.pick(&MAX_PAYMENTS));
            set.max_payment = if random.one_in(3) { Patch::Clear } else { Patch::Set(max_payment) };
        }
        if !random.one_in(3) {
            return;
        }
        let Some(on_hand) = set.total_units.take() else { return };
        let item = self.checker.durable().items.get(&set.item);
        let seen = item.map(|item| item.figures.fulfilled);
        let fulfilled_seen = match random.below(8) {
            0 => None,
            1 => Some(seen.unwrap_or(0) + 1),
            2 => seen.map(|seen| seen.saturating_sub(1)),
            _ => seen,
        };
        set.shelf = Some(ShelfCount { on_hand, fulfilled_seen });
    }
}

/// Most reports about a payment bring it on.
fn aim_report(report: &mut ProviderReport, hold: &Hold, random: &mut Random) {
    let Some(charge) = hold.charge().filter(|_| random.one_in(2)) else { return };
    let Some(provider_ref) = ProviderRef::new("pi_1") else { return };
    let captured = ProviderReport::Captured { provider_ref: provider_ref.clone(), amount: charge.amount };
    *report = match charge.state {
        ChargeState::Voiding if random.one_in(2) => ProviderReport::Cancelled,
        ChargeState::Refunding => ProviderReport::Refunded,
        ChargeState::Pending | ChargeState::Voiding if random.one_in(2) => {
            ProviderReport::Authorized { provider_ref }
        }
        _ => captured,
    };
}

/// Half of the expected versions are the one that the reservation has.
fn expect(expected: Option<&mut Precondition>, hold: &Hold, random: &mut Random) {
    if let Some(expected) = expected.filter(|_| random.one_in(2)) {
        *expected = Precondition::version(hold.version);
    }
}

fn wish(line: &Line, quantity: u64, named: Option<Vec<Label>>) -> Wish {
    (RequestedLine { item: line.item.clone(), quantity }, named.map(UnitSelection::Named))
}

/// At least one of the units of a line. Few selections name a unit that may be in no line.
fn some_of(line: &Line, random: &mut Random) -> Vec<Label> {
    let count = 1 + random.below(line.units().len() as u64);
    let count = usize::try_from(count).unwrap_or(1);
    let mut ids: Vec<Label> = line.units().iter().map(|unit| unit.id.clone()).collect();
    if random.one_in(2) {
        ids.reverse();
    }
    ids.truncate(count);
    if random.one_in(8) {
        ids.push(label("nowhere"));
    }
    ids
}

/// A part of some of the lines of a reservation, which few baskets exceed.
fn some_lines(hold: &Hold, random: &mut Random) -> Option<Basket> {
    let mut wishes: Vec<Wish> = Vec::new();
    for line in &*hold.lines {
        if hold.lines.len() > 1 && random.one_in(2) {
            continue;
        }
        let most = u64::from(line.quantity) + u64::from(random.one_in(8));
        let quantity = 1 + random.below(if hold.lines.len() > 1 { most } else { most.saturating_sub(1) });
        let named = (line.units.is_some() && random.one_in(2)).then(|| some_of(line, random));
        wishes.push(wish(line, quantity, named));
    }
    Basket::with_selections(wishes).ok()
}

/// Replaces a selection that names lines or units by one of the reservation's own, most of the time.
fn select(selection: &mut SaleSelection, hold: &Hold, random: &mut Random) {
    if random.one_in(6) {
        return;
    }
    match selection {
        SaleSelection::All => {}
        SaleSelection::Lines(lines) => {
            if let Some(basket) = some_lines(hold, random) {
                *lines = basket;
            }
        }
        SaleSelection::Units(ids) => match hold.lines.iter().find(|line| line.units.is_some()) {
            Some(line) => *ids = some_of(line, random),
            None => *selection = SaleSelection::All,
        },
    }
}
