//! The books: which SKUs there are, and whether their figures have moved by what was acknowledged. A run whose books
//! don't balance is an error, never a figure.

use crate::load::credentials::WithCredentials;
use crate::load::reads::{CountersSum, ItemCounters};
use crate::load::{Plan, closed};
use crate::{Outcome, fail};
use std::net::SocketAddr;

const CONNECTIONS: usize = 64;

/// The family of the SKU that everybody wants.
pub(crate) const HOT: &str = "hot";
/// The family of SKUs with stock that the load reserves evenly.
pub(crate) const COLD: &str = "hue";
/// The one whose holds all fall due at once.
pub(crate) const DUE: &str = "due";
/// The one of the past: what was made of it is closed.
pub(crate) const PAST: &str = "old";
/// The one that has sold out.
pub(crate) const GONE: &str = "out";
/// Families of one SKU.
pub(crate) const SINGLE: [&str; 4] = [HOT, DUE, PAST, GONE];

/// Figures of the first SKUs of a family, summed.
pub(crate) fn figures(address: SocketAddr, family: &str, skus: usize) -> Outcome<ItemCounters> {
    figures_as(address, family, skus, &[])
}

/// The same with a credential, if the server asks for one.
fn figures_as(
    address: SocketAddr,
    family: &str,
    skus: usize,
    credential: &[String],
) -> Outcome<ItemCounters> {
    let mut sum = CountersSum::new(family, skus);
    let connections = CONNECTIONS.min(skus);
    if credential.is_empty() {
        closed(address, connections, Plan::ALL, None, &mut sum)?;
        return Ok(sum.figures);
    }
    let mut sum = WithCredentials::new(sum, credential);
    closed(address, connections, Plan::ALL, None, &mut sum)?;
    Ok(sum.traffic.figures)
}

/// Figures before a run, to be compared with those after it.
pub(crate) struct CounterAudit {
    address: SocketAddr,
    family: &'static str,
    skus: usize,
    credential: Vec<String>,
    before: ItemCounters,
}

impl CounterAudit {
    pub(crate) fn open(address: SocketAddr, family: &'static str, skus: usize) -> Outcome<Self> {
        Self::open_as(address, family, skus, &[])
    }

    /// The same with a credential, if the server asks for one.
    pub(crate) fn open_as(
        address: SocketAddr,
        family: &'static str,
        skus: usize,
        credential: &[String],
    ) -> Outcome<Self> {
        let before = figures_as(address, family, skus, credential)?;
        Ok(Self { address, family, skus, credential: credential.to_vec(), before })
    }

    /// Whether they moved by so many holds of one unit each that were made, and so many of these that were confirmed.
    pub(crate) fn audit(&self, reserved: u64, confirmed: u64) -> Outcome<()> {
        let after = figures_as(self.address, self.family, self.skus, &self.credential)?;
        let still = reserved - confirmed;
        let expected = ItemCounters {
            held: self.before.held + still,
            sold: self.before.sold + confirmed,
            active: self.before.active + still,
        };
        if after == expected {
            return Ok(());
        }
        fail(format!(
            "void: {reserved} reserves and {confirmed} confirms were acknowledged on {:?}, which has {after:?} now",
            self.before
        ))
    }
}
