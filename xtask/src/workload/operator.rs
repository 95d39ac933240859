//! An operator who sets and pauses the sale of an item of his own. What he was told is there; what he was not told of may
//! be there or not, until he asks.

use super::client::Tolerance;
use crate::http::{Answer, Connection, Request};
use crate::{Outcome, fail};
use std::net::SocketAddr;

const SKU: &str = "operated";

/// An operator who changes one item.
#[derive(Clone, Debug)]
pub(super) struct Operator {
    /// What the total may be: what was acknowledged last, and what was asked for since.
    totals: Vec<u64>,
    /// The same for whether its sale is paused.
    paused: Vec<bool>,
    /// Whether the item was ever acknowledged to be there.
    there: bool,
    rounds: u64,
}

impl Default for Operator {
    fn default() -> Self {
        Self { totals: Vec::new(), paused: vec![false], there: false, rounds: 0 }
    }
}

impl Operator {
    /// Sets the total, and pauses the sale or resumes it. Stops at the first request whose outcome stays open. Nothing
    /// of it can rightly be refused.
    pub(super) fn operate(&mut self, address: SocketAddr, tolerance: Tolerance) -> Outcome<()> {
        self.rounds += 1;
        let (total, paused) = (1_000 + self.rounds, self.rounds.is_multiple_of(2));
        let Ok(mut connection) = Connection::open(address) else { return Ok(()) };
        let verb = if paused { "pause" } else { "resume" };
        let asked = [
            ("PUT", format!("/v1/inventory/{SKU}"), Some(format!(r#"{{"total_units":{total}}}"#))),
            ("POST", format!("/v1/inventory/{SKU}/{verb}"), None),
        ];
        for (method, path, body) in asked {
            let put = method == "PUT";
            if put {
                self.totals.push(total);
            } else {
                self.paused.push(paused);
            }
            let request = Request { method, path, key: None, if_match: None, body };
            match connection.call(&request) {
                Ok(Answer { status: 200 | 201, .. }) if put => {
                    (self.totals, self.there) = (vec![total], true);
                }
                Ok(Answer { status: 200, .. }) => self.paused = vec![paused],
                Ok(Answer { status: 503, .. }) if tolerance != Tolerance::None => return Ok(()),
                // An invariant alarm: nothing was done.
                Ok(Answer { status: 500, .. }) if tolerance == Tolerance::Failure => return Ok(()),
                Ok(answer) => return fail(format!("{method} {}: {}", request.path, answer.brief())),
                Err(error) if tolerance.tolerates(&error) => return Ok(()),
                Err(error) => return fail(format!("{method} {}: {error}", request.path)),
            }
        }
        Ok(())
    }

    /// Holds the item to what was acknowledged.
    pub(super) fn audit(&mut self, address: SocketAddr) -> Outcome<()> {
        if self.totals.is_empty() {
            return Ok(());
        }
        let answer = Connection::open(address)?.call(&Request::get(format!("/v1/inventory/{SKU}")))?;
        let item = answer.json();
        match (item["total_units"].as_u64(), item["paused"].as_bool()) {
            (Some(total), Some(paused)) => {
                if !self.totals.contains(&total) || !self.paused.contains(&paused) {
                    return fail(format!("{self:?} found {}", answer.brief()));
                }
                (self.totals, self.paused, self.there) = (vec![total], vec![paused], true);
                Ok(())
            }
            _ if answer.status == 404 && !self.there => Ok(()),
            _ => fail(format!("the operator's item: {}", answer.brief())),
        }
    }
}
