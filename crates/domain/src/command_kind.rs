//! The kinds of commands and their properties: one table for stores, metrics and tests.

use crate::basket::Basket;
use crate::command::Command;
use crate::id::ReservationId;
use crate::item::ItemKey;
use crate::scope::Scope;

/// The kind of a [`Command`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommandKind {
    /// See [`Command::Reserve`].
    Reserve,
    /// See [`Command::Confirm`].
    Confirm,
    /// See [`Command::Release`].
    Release,
    /// See [`Command::Extend`].
    Extend,
    /// See [`Command::Amend`].
    Amend,
    /// See [`Command::Transfer`].
    Transfer,
    /// See [`Command::Split`].
    Split,
    /// See [`Command::Merge`].
    Merge,
    /// See [`Command::OpenPayment`].
    OpenPayment,
    /// See [`Command::ClosePayment`].
    ClosePayment,
    /// See [`Command::StartCheckout`].
    StartCheckout,
    /// See [`Command::AdvancePayment`].
    AdvancePayment,
    /// See [`Command::Refund`].
    Refund,
    /// See [`Command::Fulfil`].
    Fulfil,
    /// See [`Command::Return`].
    Return,
    /// See [`Command::SetStock`].
    SetStock,
    /// See [`Command::AdjustStock`].
    AdjustStock,
    /// See [`Command::DeleteItem`].
    DeleteItem,
    /// See [`Command::AddUnits`].
    AddUnits,
    /// See [`Command::RetireUnit`].
    RetireUnit,
    /// See [`Command::SetSale`].
    SetSale,
    /// See [`Command::Sweep`].
    Sweep,
    /// See [`Command::SetRecord`].
    SetRecord,
    /// See [`Command::SetLimit`].
    SetLimit,
    /// See [`Command::DeleteLimit`].
    DeleteLimit,
    /// See [`Command::SetPool`].
    SetPool,
    /// See [`Command::DeletePool`].
    DeletePool,
    /// See [`Command::SetUnitPool`].
    SetUnitPool,
}

impl CommandKind {
    /// Every kind, in the order of the variants.
    pub const ALL: [Self; 28] = [
        Self::Reserve,
        Self::Confirm,
        Self::Release,
        Self::Extend,
        Self::Amend,
        Self::Transfer,
        Self::Split,
        Self::Merge,
        Self::OpenPayment,
        Self::ClosePayment,
        Self::StartCheckout,
        Self::AdvancePayment,
        Self::Refund,
        Self::Fulfil,
        Self::Return,
        Self::SetStock,
        Self::AdjustStock,
        Self::DeleteItem,
        Self::AddUnits,
        Self::RetireUnit,
        Self::SetSale,
        Self::Sweep,
        Self::SetRecord,
        Self::SetLimit,
        Self::DeleteLimit,
        Self::SetPool,
        Self::DeletePool,
        Self::SetUnitPool,
    ];

    /// The name in metrics and in the scope of idempotency keys.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reserve => "reserve",
            Self::Confirm => "confirm",
            Self::Release => "release",
            Self::Extend => "extend",
            Self::Amend => "amend",
            Self::Transfer => "transfer",
            Self::Split => "split",
            Self::Merge => "merge",
            Self::OpenPayment => "open_payment",
            Self::ClosePayment => "close_payment",
            Self::StartCheckout => "start_checkout",
            Self::AdvancePayment => "advance_payment",
            Self::Refund => "refund",
            Self::Fulfil => "fulfil",
            Self::Return => "return",
            Self::SetStock => "set_stock",
            Self::AdjustStock => "adjust_stock",
            Self::DeleteItem => "delete_item",
            Self::AddUnits => "add_units",
            Self::RetireUnit => "retire_unit",
            Self::SetSale => "set_sale",
            Self::Sweep => "sweep",
            Self::SetRecord => "set_record",
            Self::SetLimit => "set_limit",
            Self::DeleteLimit => "delete_limit",
            Self::SetPool => "set_pool",
            Self::DeletePool => "delete_pool",
            Self::SetUnitPool => "set_unit_pool",
        }
    }

    /// Whether an idempotency key is stored for it. The other kinds have the same effect when they are repeated.
    pub const fn takes_key(self) -> bool {
        match self {
            Self::Reserve
            | Self::Confirm
            | Self::Release
            | Self::Extend
            | Self::Amend
            | Self::Transfer
            | Self::Split
            | Self::Merge
            | Self::OpenPayment
            | Self::ClosePayment
            | Self::StartCheckout
            | Self::Refund
            | Self::Fulfil
            | Self::Return
            | Self::AdjustStock
            | Self::DeleteItem
            | Self::SetRecord => true,
            Self::SetStock
            | Self::AddUnits
            | Self::RetireUnit
            | Self::SetSale
            | Self::Sweep
            | Self::AdvancePayment
            | Self::SetLimit
            | Self::DeleteLimit
            | Self::SetPool
            | Self::DeletePool
            | Self::SetUnitPool => false,
        }
    }
}

impl Command {
    /// The kind of this command.
    pub const fn kind(&self) -> CommandKind {
        match self {
            Self::Reserve(_) => CommandKind::Reserve,
            Self::Confirm(_) => CommandKind::Confirm,
            Self::Release(_) => CommandKind::Release,
            Self::Extend(_) => CommandKind::Extend,
            Self::Amend(_) => CommandKind::Amend,
            Self::Transfer(_) => CommandKind::Transfer,
            Self::Split(_) => CommandKind::Split,
            Self::Merge(_) => CommandKind::Merge,
            Self::OpenPayment(_) => CommandKind::OpenPayment,
            Self::ClosePayment(_) => CommandKind::ClosePayment,
            Self::StartCheckout(_) => CommandKind::StartCheckout,
            Self::AdvancePayment(_) => CommandKind::AdvancePayment,
            Self::Refund(_) => CommandKind::Refund,
            Self::Fulfil(_) => CommandKind::Fulfil,
            Self::Return(_) => CommandKind::Return,
            Self::SetStock(_) => CommandKind::SetStock,
            Self::AdjustStock(_) => CommandKind::AdjustStock,
            Self::DeleteItem(_) => CommandKind::DeleteItem,
            Self::AddUnits(_) => CommandKind::AddUnits,
            Self::RetireUnit(_) => CommandKind::RetireUnit,
            Self::SetSale(_) => CommandKind::SetSale,
            Self::Sweep => CommandKind::Sweep,
            Self::SetRecord(_) => CommandKind::SetRecord,
            Self::SetLimit(_) => CommandKind::SetLimit,
            Self::DeleteLimit(_) => CommandKind::DeleteLimit,
            Self::SetPool(_) => CommandKind::SetPool,
            Self::DeletePool(_) => CommandKind::DeletePool,
            Self::SetUnitPool(_) => CommandKind::SetUnitPool,
        }
    }

    /// The existing reservation that the command names. A merge names more, as its sources.
    pub const fn reservation(&self) -> Option<ReservationId> {
        match self {
            Self::Confirm(confirm) => Some(confirm.id),
            Self::Release(release) => Some(release.id),
            Self::Extend(extend) => Some(extend.id),
            Self::Amend(command) => Some(command.id),
            Self::Transfer(command) => Some(command.id),
            Self::Split(command) => Some(command.id),
            Self::Merge(command) => Some(command.id),
            Self::OpenPayment(command) => Some(command.id),
            Self::ClosePayment(command) => Some(command.id),
            Self::StartCheckout(command) => Some(command.id),
            Self::AdvancePayment(command) => Some(command.id),
            Self::Refund(command) => Some(command.id),
            Self::Fulfil(command) => Some(command.id),
            Self::Return(command) => Some(command.id),
            Self::Reserve(_)
            | Self::SetStock(_)
            | Self::AdjustStock(_)
            | Self::DeleteItem(_)
            | Self::AddUnits(_)
            | Self::RetireUnit(_)
            | Self::SetSale(_)
            | Self::Sweep
            | Self::SetRecord(_)
            | Self::SetLimit(_)
            | Self::DeleteLimit(_)
            | Self::SetPool(_)
            | Self::DeletePool(_)
            | Self::SetUnitPool(_) => None,
        }
    }

    /// Whether the command passes limits by.
    pub const fn overrides_limits(&self) -> bool {
        match self {
            Self::Reserve(command) => command.override_limits,
            Self::Confirm(command) => command.override_limits,
            Self::Amend(command) => command.override_limits,
            Self::Transfer(command) => command.override_limits,
            Self::Merge(command) => command.override_limits,
            Self::Release(_)
            | Self::Extend(_)
            | Self::Split(_)
            | Self::OpenPayment(_)
            | Self::ClosePayment(_)
            | Self::StartCheckout(_)
            | Self::AdvancePayment(_)
            | Self::Refund(_)
            | Self::Fulfil(_)
            | Self::Return(_)
            | Self::SetStock(_)
            | Self::AdjustStock(_)
            | Self::DeleteItem(_)
            | Self::AddUnits(_)
            | Self::RetireUnit(_)
            | Self::SetSale(_)
            | Self::Sweep
            | Self::SetRecord(_)
            | Self::SetLimit(_)
            | Self::DeleteLimit(_)
            | Self::SetPool(_)
            | Self::DeletePool(_)
            | Self::SetUnitPool(_) => false,
        }
    }

    /// The lines that the command asks for. Its reservation gets them if they are available.
    pub const fn basket(&self) -> Option<&Basket> {
        match self {
            Self::Reserve(reserve) => Some(&reserve.basket),
            Self::Amend(amend) => amend.basket.as_ref(),
            Self::Sweep
            | Self::Confirm(_)
            | Self::Release(_)
            | Self::Extend(_)
            | Self::Transfer(_)
            | Self::Split(_)
            | Self::Merge(_)
            | Self::OpenPayment(_)
            | Self::ClosePayment(_)
            | Self::StartCheckout(_)
            | Self::AdvancePayment(_)
            | Self::Refund(_)
            | Self::Fulfil(_)
            | Self::Return(_)
            | Self::SetStock(_)
            | Self::AdjustStock(_)
            | Self::DeleteItem(_)
            | Self::AddUnits(_)
            | Self::RetireUnit(_)
            | Self::SetSale(_)
            | Self::SetRecord(_)
            | Self::SetLimit(_)
            | Self::DeleteLimit(_)
            | Self::SetPool(_)
            | Self::DeletePool(_)
            | Self::SetUnitPool(_) => None,
        }
    }

    /// The item whose own record the command changes: stock, settings, units or pause. Commands of reservations change
    /// only counters, so they return `None`.
    pub const fn changed_item(&self) -> Option<&ItemKey> {
        match self {
            Self::SetStock(set) => Some(&set.item),
            Self::AdjustStock(adjust) => Some(&adjust.item),
            Self::DeleteItem(delete) => Some(&delete.item),
            Self::AddUnits(add) => Some(&add.item),
            Self::RetireUnit(retire) => Some(&retire.item),
            Self::SetPool(set) => Some(&set.item),
            Self::DeletePool(delete) => Some(&delete.item),
            Self::SetUnitPool(set) => Some(&set.item),
            Self::SetSale(set) => match &set.scope {
                Scope::Item(item) => Some(item),
                Scope::Everything | Scope::Location(_) => None,
            },
            Self::Reserve(_)
            | Self::Confirm(_)
            | Self::Release(_)
            | Self::Extend(_)
            | Self::Amend(_)
            | Self::Transfer(_)
            | Self::Split(_)
            | Self::Merge(_)
            | Self::OpenPayment(_)
            | Self::ClosePayment(_)
            | Self::StartCheckout(_)
            | Self::AdvancePayment(_)
            | Self::Refund(_)
            | Self::Fulfil(_)
            | Self::Return(_)
            | Self::Sweep
            | Self::SetRecord(_)
            | Self::SetLimit(_)
            | Self::DeleteLimit(_) => None,
        }
    }
}
