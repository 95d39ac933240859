//! Commands in small numbers that change an existing reservation, beside those of [`Op`](super::Op): amend, transfer, split, merge,
//! payment windows, confirm with a payment, fulfil, and returns of what had left the shelf.

use super::random_op::{TTLS, lines};
use super::{OpContext, chosen, some_ids};
use crate::checkout_maker;
use crate::maker::{label, seconds};
use crate::random::Random;
use stockhold_domain::{
    Amend, Basket, ClosePayment, Command, Confirm, Disposition, Fulfil, Fulfilment, IfExpired, Merge,
    OpenPayment, Patch, Precondition, Refund, RefundSelection, RequestedLine, Return, ReturnFrom,
    SaleSelection, Split, StartCheckout, Transfer, UnitSelection,
};

/// A change of an existing reservation in small numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeOp {
    /// Which command.
    pub kind: ChangeKind,
    /// The reservation: how many before the newest.
    pub hold: u8,
    /// (item, quantity) of commands that have lines.
    pub lines: Vec<(u8, u8)>,
    /// Selects other parts of the command.
    pub which: u8,
    /// The key, one of a few.
    pub key: Option<u8>,
}

/// The command of a [`ChangeOp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// Amend with counted lines, or without lines.
    Amend,
    /// Amend with units with ids.
    AmendUnits,
    /// Transfer.
    Transfer,
    /// Split.
    Split,
    /// Merge.
    Merge,
    /// Open a payment window.
    OpenPayment,
    /// Close it.
    ClosePayment,
    /// Confirm with a payment, and again after it expired.
    ConfirmPayment,
    /// Start a checkout.
    Checkout,
    /// Report what a provider said, give a payment up, or the like.
    Advance,
    /// Give money back.
    Refund,
    /// Fulfil.
    Fulfil,
    /// Return from the shelf or from buyers, or write off.
    Return,
}

impl ChangeKind {
    /// Every kind.
    pub const ALL: [Self; 15] = [
        Self::Amend,
        Self::AmendUnits,
        Self::Transfer,
        Self::Split,
        Self::Merge,
        Self::OpenPayment,
        Self::ClosePayment,
        Self::ConfirmPayment,
        Self::Checkout,
        // A payment takes several steps.
        Self::Advance,
        Self::Advance,
        Self::Advance,
        Self::Refund,
        Self::Fulfil,
        Self::Return,
    ];
}

/// Payments. There are few, so that windows of two payments meet.
const PAYMENTS: [&str; 2] = ["payment-0", "payment-1"];

impl ChangeOp {
    /// A random change.
    pub fn random(random: &mut Random) -> Self {
        Self {
            kind: random.pick(&ChangeKind::ALL),
            hold: random.byte(),
            lines: lines(random),
            which: random.byte(),
            key: random.one_in(4).then(|| random.byte()),
        }
    }

    /// The command, about the items and reservations of a history.
    pub(super) fn command(&self, context: &mut OpContext) -> Command {
        let (id, which) = (context.hold(self.hold), self.which);
        let expected = (which % 16 == 7).then(|| Precondition::version(1 + u64::from(which % 3)));
        let payment = |n: u8| label(PAYMENTS[usize::from(n % 2)]);
        match self.kind {
            ChangeKind::Amend | ChangeKind::AmendUnits => Command::Amend(Amend {
                override_limits: false,
                id,
                basket: (which % 8 != 0).then(|| self.basket(context)),
                fulfilment: if which % 5 == 0 { Fulfilment::Partial } else { Fulfilment::All },
                ttl: (which % 7 < 2).then(|| seconds(TTLS[usize::from(which) % TTLS.len()].into())),
                metadata: match which % 11 {
                    0 => Patch::Set("{}".into()),
                    1 => Patch::Clear,
                    _ => Patch::Keep,
                },
                expected,
            }),
            ChangeKind::Transfer => Command::Transfer(Transfer {
                override_limits: false,
                id,
                owner_id: (which % 3 == 0).then(|| label("another")),
                customer_id: [Patch::Keep, Patch::Clear, Patch::Set(label("ann"))]
                    [usize::from(which % 4 % 3)]
                .clone(),
                session_id: Patch::Keep,
                expected,
            }),
            ChangeKind::Split => Command::Split(Split { id, lines: self.basket(context), expected }),
            ChangeKind::Merge => {
                let others = (0..=which % 3).map(|n| context.hold(self.hold.wrapping_add(n + which % 5)));
                Command::Merge(Merge { override_limits: false, id, from: others.collect(), expected })
            }
            ChangeKind::OpenPayment => Command::OpenPayment(OpenPayment {
                id,
                payment_id: payment(which),
                window: (which % 3 != 0).then(|| seconds(u64::from(which))).filter(|_| which > 0),
                expected,
            }),
            ChangeKind::ClosePayment => Command::ClosePayment(ClosePayment {
                id,
                payment_id: (which % 3 == 0).then(|| payment(which / 3)),
                reason: (which % 2 == 0).then(|| label("declined")),
            }),
            ChangeKind::ConfirmPayment => Command::Confirm(Confirm {
                override_limits: false,
                id,
                order_id: (which % 3 == 0).then(|| label("order-0")),
                payment_id: (which % 4 != 0).then(|| payment(which)),
                if_expired: if which % 5 == 0 { IfExpired::Refuse } else { IfExpired::Reacquire },
            }),
            ChangeKind::Checkout => Command::StartCheckout(StartCheckout {
                id,
                request: checkout_maker::random_checkout(which),
                expected: None,
            }),
            ChangeKind::Advance => checkout_maker::random_step(id, which),
            ChangeKind::Refund => Command::Refund(Refund {
                id,
                selection: match which % 3 {
                    0 => RefundSelection::Rest,
                    1 => RefundSelection::Amount(1 + u64::from(which)),
                    _ => RefundSelection::Lines {
                        selection: self.selection(context),
                        disposition: if which % 5 == 0 {
                            Disposition::WriteOff
                        } else {
                            Disposition::Restock
                        },
                    },
                },
                reason: label("unhappy"),
            }),
            ChangeKind::Fulfil => Command::Fulfil(Fulfil { id, selection: self.selection(context) }),
            ChangeKind::Return => Command::Return(Return {
                id,
                selection: self.selection(context),
                from: [None, Some(ReturnFrom::Fulfilled), Some(ReturnFrom::Unfulfilled)]
                    [usize::from(which / 4 % 3)],
                disposition: if which % 3 == 0 { Disposition::WriteOff } else { Disposition::Restock },
                reason: label("came back"),
            }),
        }
    }

    fn selection(&self, context: &OpContext) -> SaleSelection {
        match self.which % 4 {
            0 => SaleSelection::All,
            1 => SaleSelection::Units(some_ids(self.which, 1 + self.which % 2)),
            _ => SaleSelection::Lines(self.basket(context)),
        }
    }

    /// Counted lines, and for some choices a line of units with ids.
    fn basket(&self, context: &OpContext) -> Basket {
        let counted: Vec<RequestedLine> = context
            .lines(&self.lines)
            .into_iter()
            .map(|(item, quantity)| RequestedLine { item: item.clone(), quantity })
            .collect();
        let counted = Basket::new(counted).expect("lines that are a basket");
        let mut all: Vec<(RequestedLine, Option<UnitSelection>)> =
            counted.lines().iter().map(|line| (line.clone(), None)).collect();
        let named = self.kind == ChangeKind::AmendUnits || self.which % 6 == 1;
        if let Some(hall) = context.unit_item().filter(|_| named) {
            let (choice, count) = match self.kind {
                ChangeKind::Amend | ChangeKind::AmendUnits => {
                    chosen(self.which, self.which / 6, self.which / 3)
                }
                _ if self.which.is_multiple_of(2) => (None, 1),
                _ => (Some(UnitSelection::Named(some_ids(self.which, 1))), 1),
            };
            all.retain(|(line, _)| line.item != *hall);
            all.insert(0, (RequestedLine { item: hall.clone(), quantity: count }, choice));
            if self.which.is_multiple_of(3) {
                all.truncate(1);
            }
        }
        Basket::with_selections(all).expect("lines that are a basket")
    }
}
