//! Commands that are decided strictly in the order given: chunk after chunk, each as large as a batch may be, the next only
//! when the one before has its results.

use super::combine::{Teller, Unit, fitting};
use super::post::{Owed, Post};
use super::wants::Asked;
use std::collections::{BTreeMap, VecDeque};
use stockhold_domain::{Envelope, Outcome};
use stockhold_store::{Answer, Failure};

type Judged = Result<Outcome, Failure>;

/// All that are open.
#[derive(Default)]
pub(super) struct Sequences {
    last: u64,
    open: BTreeMap<u64, Sequence>,
}

struct Sequence {
    owed: Owed,
    /// What has no result and is not under way, with its number.
    rest: VecDeque<(usize, Envelope)>,
    results: Vec<Option<Judged>>,
    /// Commands that still count as waiting.
    counted: usize,
}

/// What of a sequence goes next.
pub(super) struct Chunk {
    pub(super) envelopes: Vec<Envelope>,
    pub(super) numbers: Vec<usize>,
    pub(super) counted: usize,
}

impl Sequences {
    /// Begins one; its number.
    pub(super) fn begin(&mut self, envelopes: Vec<Envelope>, owed: Owed) -> u64 {
        self.last += 1;
        let counted = envelopes.len();
        let results = envelopes.iter().map(|_| None).collect();
        let rest = envelopes.into_iter().enumerate().collect();
        self.open.insert(self.last, Sequence { owed, rest, results, counted });
        self.last
    }

    /// The next commands of one, at most so many, and no more lines than a batch may have as far as `lines` knows them; `None`
    /// when it is over.
    pub(super) fn next(
        &mut self,
        number: u64,
        most: usize,
        lines: impl Fn(&Envelope) -> usize,
    ) -> Option<Chunk> {
        let sequence = self.open.get_mut(&number)?;
        let fitting = fitting(sequence.rest.iter().take(most).map(|(_, envelope)| lines(envelope)));
        let (numbers, envelopes): (Vec<_>, Vec<_>) =
            sequence.rest.drain(..fitting.min(sequence.rest.len())).unzip();
        let counted = numbers.len().min(sequence.counted);
        sequence.counted -= counted;
        Some(Chunk { envelopes, numbers, counted })
    }

    /// What of a unit fits into a batch, now that its lines are known; the rest of a sequence goes with its next.
    pub(super) fn cut(&mut self, mut unit: Unit) -> Unit {
        let Teller::Sequence(number, numbers) = &mut unit.teller else { return unit };
        let fitting = fitting(unit.asked.iter().map(Asked::lines));
        if fitting >= unit.asked.len() {
            return unit;
        }
        let Some(sequence) = self.open.get_mut(number) else { return unit };
        let (asked, numbers) = (unit.asked.split_off(fitting), numbers.split_off(fitting));
        let counted = asked.len().min(unit.counted);
        for (n, asked) in numbers.into_iter().zip(asked).rev() {
            sequence.rest.push_front((n, *asked.envelope));
        }
        sequence.counted += counted;
        Unit::new(unit.asked, unit.teller, unit.counted - counted)
    }

    /// Takes the results of a chunk; answers when they are the last. How many of the sequence no longer wait besides.
    pub(super) fn put(
        &mut self,
        number: u64,
        numbers: &[usize],
        asked: Vec<Asked>,
        results: Vec<Judged>,
        post: &mut Post,
    ) -> usize {
        let Some(sequence) = self.open.get_mut(&number) else { return 0 };
        let mut lost = None;
        for ((n, asked), result) in numbers.iter().zip(asked).zip(results).rev() {
            match result {
                Ok(Outcome::Later) => sequence.rest.push_front((*n, *asked.envelope)),
                result => {
                    if let Err(failure @ Failure::Unavailable(_)) = &result {
                        lost = Some(failure.clone());
                    }
                    sequence.put(*n, result);
                }
            }
        }
        match lost {
            // Nothing was done for these either, and to find that out for each would take long.
            Some(failure) => self.refuse(number, &failure, post),
            None => {
                self.end(number, post);
                0
            }
        }
    }

    /// Takes the results of those that have one; what is left of the unit, which has to go on as it is.
    pub(super) fn put_part(&mut self, unit: Unit, results: Vec<Option<Judged>>) -> Option<Unit> {
        let Teller::Sequence(number, numbers) = &unit.teller else { return Some(unit) };
        let sequence = self.open.get_mut(number)?;
        let (mut left, mut left_numbers) = (Vec::new(), Vec::new());
        for ((n, asked), result) in numbers.iter().zip(unit.asked).zip(results) {
            match result {
                None | Some(Ok(Outcome::Later)) => {
                    left.push(asked);
                    left_numbers.push(*n);
                }
                Some(result) => sequence.put(*n, result),
            }
        }
        Some(Unit::new(left, Teller::Sequence(*number, left_numbers), 0))
    }

    /// Ends one with a failure for all that has no result. How many of it still counted as waiting.
    pub(super) fn refuse(&mut self, number: u64, failure: &Failure, post: &mut Post) -> usize {
        let Some(sequence) = self.open.get_mut(&number) else { return 0 };
        sequence.rest.clear();
        for place in sequence.results.iter_mut().filter(|place| place.is_none()) {
            *place = Some(Err(failure.clone()));
        }
        let counted = core::mem::take(&mut sequence.counted);
        self.end(number, post);
        counted
    }

    fn end(&mut self, number: u64, post: &mut Post) {
        let is_over = |sequence: &Sequence| sequence.results.iter().all(Option::is_some);
        if self.open.get(&number).is_some_and(is_over)
            && let Some(sequence) = self.open.remove(&number)
        {
            let results = sequence.results.into_iter().flatten().collect();
            post.put(sequence.owed, Ok(Answer::Outcomes(results)));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

impl Sequence {
    fn put(&mut self, n: usize, result: Judged) {
        if let Some(place) = self.results.get_mut(n) {
            *place = Some(result);
        }
    }
}
