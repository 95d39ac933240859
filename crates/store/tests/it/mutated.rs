//! Every parser of the crate on bytes that are nearly right. The long form, guided by coverage, is in `fuzz/`.

use stockhold_conformance::mutate::mutate;
use stockhold_conformance::parsers::PARSERS;
use stockhold_conformance::{Op, OpContext, Random, START};
use stockhold_domain::{Effects, HoldLimits, decide};
use stockhold_model::NaiveState;
use stockhold_store::codec::{put_event, put_hold, put_item, put_key_record, put_record};

const ROUNDS: u64 = 20_000;
const STEPS: usize = 300;
/// Examples of each kind.
const EXAMPLES: usize = 60;

fn bytes<T>(all: &[T], put: fn(&mut Vec<u8>, &T)) -> Vec<Vec<u8>> {
    let write = |one: &T| {
        let mut bytes = Vec::new();
        put(&mut bytes, one);
        bytes
    };
    all.iter().rev().take(EXAMPLES).map(write).collect()
}

#[test]
fn records_are_read_or_refused_and_have_one_form() {
    let (mut context, mut random, mut state) = (OpContext::new(4, ""), Random::new(4), NaiveState::default());
    let mut effects = Effects::default();
    let stock = (0..3).map(|item| {
        let (safety_stock, default_ttl, max_hold, expected) = (None, None, None, None);
        Op::SetStock { item, total: Some(60), safety_stock, default_ttl, max_hold, expected }
    });
    let random = std::iter::repeat_with(|| Op::random(&mut random)).take(STEPS);
    for op in stock.chain(random) {
        let envelope = context.envelope(&op);
        decide(&mut state, &HoldLimits::default(), &envelope, START, &mut effects).unwrap();
    }
    let holds: Vec<_> = state.holds.values().cloned().collect();
    let items: Vec<_> = state.items.values().cloned().collect();
    let records: Vec<_> = state.records.values().cloned().collect();
    for parser in PARSERS {
        let examples = match parser.0 {
            "event" => bytes(&effects.events, put_event),
            "hold" => bytes(&holds, put_hold),
            "item" => bytes(&items, put_item),
            "key record" => bytes(&effects.keys, put_key_record),
            "record" => bytes(&records, put_record),
            other => panic!("no examples of a {other}"),
        };
        assert!(!examples.is_empty(), "{}", parser.0);
        mutate(parser, &examples, ROUNDS);
    }
}
