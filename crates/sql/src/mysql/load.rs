//! Reading state, with locks and without.

use super::connect::{Answered, Connection};
use super::rows;
use super::script::Script;
use super::statements::{self, Lock, Part};
use crate::engine::{Locked, Rows, Trouble, Wants, hold_from, key_from};
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{Instant, ItemKey};

/// What was read by a script, and the clock if it was asked for.
#[derive(Default)]
struct Loaded {
    now: Option<Instant>,
    rows: Rows,
}

impl Connection {
    /// Without locks, in one packet.
    pub(super) async fn load(&mut self, wants: &Wants) -> Result<Rows, Trouble> {
        let mut script = Script::new();
        statements::items(&mut script, &wants.items, Lock::None);
        statements::holds(&mut script, &wants.holds, Lock::None);
        rest(&mut script, wants);
        let answered = self.begin(&script).await?;
        Ok(loaded(answered, wants)?.rows)
    }

    /// Begins, locks, reads the clock, reads the state: separate statements in this order, in one packet. A statement sees what
    /// was committed before it began, so only one that comes after the locks sees what they waited for, and the clock shows a
    /// time at which the locks were held.
    pub(super) async fn lock_and_load(&mut self, wants: &Wants) -> Result<Locked, Trouble> {
        let mut script = Script::new();
        if !self.begun {
            statements::begin(&mut script, !wants.pauses.is_empty(), wants.sets_pauses);
        }
        statements::items(&mut script, &wants.items, Lock::Wait);
        statements::holds(&mut script, &wants.holds, Lock::Wait);
        statements::clock(&mut script, &self.target.clock);
        rest(&mut script, wants);
        let answered = self.begin(&script).await?;
        self.begun = false;
        let Loaded { now, rows } = loaded(answered, wants)?;
        let now = now.ok_or_else(|| Trouble::Alarm("the clock shows nothing".to_owned()))?;
        // The serial is drawn by the row of events itself, when it is inserted: these locks are still held then.
        Ok(Locked { now, serial: 0, rows })
    }

    /// Locks those of the items that nobody else has locked.
    pub(super) async fn lock_free_items(
        &mut self,
        items: &BTreeSet<ItemKey>,
    ) -> Result<BTreeSet<ItemKey>, Trouble> {
        let mut script = Script::new();
        statements::begin(&mut script, false, false);
        statements::items(&mut script, items, Lock::Skip);
        let answered = self.begin(&script).await?;
        self.begun = true;
        let found = loaded(answered, &Wants::default())?.rows.items;
        Ok(found.into_iter().map(|item| item.key).collect())
    }

    /// The clock, and the earliest deadlines of all.
    pub(super) async fn clock_and_due(&mut self, limit: usize) -> Result<(Instant, Rows), Trouble> {
        let mut script = Script::new();
        statements::clock(&mut script, &self.target.clock);
        statements::any_due(&mut script, limit);
        let Loaded { now, rows } = loaded(self.begin(&script).await?, &Wants::default())?;
        Ok((now.ok_or_else(|| Trouble::Alarm("the clock shows nothing".to_owned()))?, rows))
    }
}

/// What needs no lock of its own: items' locks, or the lock of the pauses, keep it as it is.
fn rest(script: &mut Script<Part>, wants: &Wants) {
    statements::paused(script, &wants.pauses);
    statements::keys(script, &wants.keys);
    statements::due(script, &wants.due);
    if let Some(depth) = wants.any_due {
        statements::any_due(script, depth);
    }
}

fn loaded(answered: Vec<Answered<Part>>, wants: &Wants) -> Result<Loaded, Trouble> {
    let mut loaded = Loaded::default();
    let queues: Vec<&ItemKey> = wants.due.keys().collect();
    let empty = queues.iter().map(|key| ((*key).clone(), BTreeSet::new()));
    let mut due: BTreeMap<_, _> = empty.collect();
    let found = &mut loaded.rows;
    for (part, answers) in answered {
        for row in &answers {
            match part {
                Part::Begin => {}
                Part::Items => found.items.push(rows::item(row)?),
                Part::Holds => found.holds.push(hold_from(rows::bytes(row, 0)?)?),
                Part::Clock => loaded.now = Some(rows::instant(row, 0)?),
                Part::Paused => {
                    found.paused.insert(rows::text(row, 0)?.to_owned());
                }
                Part::Keys => found.keys.push(key_from(rows::bytes(row, 0)?)?),
                Part::Due => {
                    let number = usize::try_from(rows::figure(row, 0)?).ok();
                    let queue = number.and_then(|number| due.get_mut(*queues.get(number)?));
                    let queue = queue.ok_or_else(|| Trouble::Alarm("a deadline of no item".to_owned()))?;
                    queue.insert(rows::deadline(row, 1)?);
                }
                Part::AnyDue => {
                    found.any_due.insert(rows::deadline(row, 0)?);
                }
            }
        }
    }
    found.due = due;
    Ok(loaded)
}
