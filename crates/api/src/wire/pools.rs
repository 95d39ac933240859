//! Pools as their readers see them.

use super::form;
use serde::{Deserialize, Serialize};
use stockhold_domain::Instant;

/// A part of an item's stock that is set aside.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Pool {
    /// Its name.
    pub pool: String,
    /// Units that are set aside, those that were drawn included.
    pub allocated: u64,
    /// Units of it in active reservations.
    pub held: u64,
    /// Units of it that were sold, less returns.
    pub sold: u64,
    /// Units that can be drawn.
    pub free: u64,
    /// Whether a reserve that names it gets general stock when it has too few units.
    pub fallback: bool,
    /// When its free units go to general sale.
    #[serde(default, deserialize_with = "form::optional_time")]
    pub releases_at: Option<Instant>,
    /// How long nothing is drawn before its free units go to general sale.
    pub idle_release_seconds: Option<u32>,
    /// When it was released or deleted.
    #[serde(default, deserialize_with = "form::optional_time")]
    pub released_at: Option<Instant>,
}

/// What a pool is to be. It replaces the whole pool.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PoolSettings {
    /// Units that are set aside, those that were drawn included. `None` for an item whose units have ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated: Option<u64>,
    /// Whether a reserve that names it gets general stock when it has too few units. `None`: it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<bool>,
    /// When its free units go to general sale.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "form::optional_put_time")]
    pub releases_at: Option<Instant>,
    /// How long nothing is drawn before its free units go to general sale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_release_seconds: Option<u32>,
}

/// Units with ids that are put into a pool or taken out of it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PoolUnits {
    /// These units.
    Units(Vec<String>),
    /// All units of these sections.
    Sections(Vec<String>),
}

/// Units of a line that were drawn from a pool.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LinePool {
    /// Which pool.
    pub pool: String,
    /// How many.
    pub quantity: u64,
}
