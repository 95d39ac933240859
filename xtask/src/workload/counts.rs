//! What clients count: acknowledged commands by kind, and what was refused, unanswered or unavailable.

use std::collections::BTreeMap;

/// Commands of one kind whose outcome was unknown: the answer was lost, or said so.
#[derive(Clone, Copy, Debug, Default)]
struct Lost {
    unanswered: u64,
    /// Found done when they were repeated with their key.
    found: u64,
    /// Done, or refused, only when they were repeated.
    redone: u64,
}

macro_rules! counts {
    ($($name:ident: $words:literal),* $(,)?) => {
        /// What was acknowledged, by kind, and what was not.
        #[derive(Clone, Debug, Default)]
        pub(crate) struct Counts {
            $(pub(crate) $name: u64,)*
            /// By kind of command.
            lost: BTreeMap<&'static str, Lost>,
        }

        impl Counts {
            /// The sum of both.
            pub(super) fn plus(self, other: &Self) -> Self {
                let mut lost = self.lost;
                for (kind, more) in &other.lost {
                    let sum = lost.entry(kind).or_default();
                    sum.unanswered += more.unanswered;
                    sum.found += more.found;
                    sum.redone += more.redone;
                }
                Self { $($name: self.$name + other.$name,)* lost }
            }
        }

        impl std::fmt::Display for Counts {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let parts = [$((self.$name, $words)),*];
                let text: Vec<String> =
                    parts.iter().filter(|part| part.0 > 0).map(|(count, words)| format!("{count} {words}")).collect();
                out.write_str(&text.join(", "))?;
                if !self.lost.is_empty() {
                    out.write_str("; outcomes unknown, then found done and done on retry:")?;
                }
                for (kind, Lost { unanswered, found, redone }) in &self.lost {
                    write!(out, " {kind} {unanswered} {found} {redone};")?;
                }
                Ok(())
            }
        }
    };
}

counts! {
    reserved: "reserved",
    baskets: "baskets",
    confirmed: "confirmed",
    reacquired: "reacquired",
    released: "released",
    extended: "extended",
    amended: "amended",
    transferred: "transferred",
    split: "split",
    merged: "merged",
    payments_opened: "payment windows opened",
    payments_closed: "payment windows closed",
    fulfilled: "fulfilled",
    returned: "returned",
    written_off: "returned and written off",
    adjusted: "adjusted",
    made: "items made",
    deleted: "items deleted",
    replayed: "replays",
    refused: "refused",
    precondition_failed: "of them precondition_failed",
    payment_in_progress: "of them payment_in_progress",
    limit_exceeded: "of them limit_exceeded",
    customer_required: "of them customer_required",
    unanswered: "unanswered",
    outcome_unknown: "outcome_unknown",
    unavailable: "unavailable",
    alarms: "alarms",
    found: "unknowns found done",
    redone: "unknowns done on retry",
}

impl Counts {
    /// A command of this kind was not answered.
    pub(super) fn unanswered(&mut self, kind: &'static str) {
        self.unanswered += 1;
        self.lost.entry(kind).or_default().unanswered += 1;
    }

    /// The outcome of a command of this kind is unknown to the server too.
    pub(super) fn outcome_unknown(&mut self, kind: &'static str) {
        self.outcome_unknown += 1;
        self.lost.entry(kind).or_default().unanswered += 1;
    }

    /// A request whose outcome was unknown was answered: with its first outcome, or only now.
    pub(super) fn resolved(&mut self, found: bool, kind: &'static str) {
        let lost = self.lost.entry(kind).or_default();
        let (all, of_kind) =
            if found { (&mut self.found, &mut lost.found) } else { (&mut self.redone, &mut lost.redone) };
        *all += 1;
        *of_kind += 1;
    }

    /// Answers of what changed something.
    pub(super) fn effects(&self) -> u64 {
        let kept = self.reserved + self.baskets + self.confirmed + self.reacquired + self.extended;
        let changed = self.amended + self.transferred + self.split + self.merged;
        let payments = self.payments_opened + self.payments_closed;
        let sold = self.fulfilled + self.returned + self.written_off;
        kept + self.released + changed + payments + sold + self.adjusted + self.made + self.deleted
    }
}
