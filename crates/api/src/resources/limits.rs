//! Limits: how many units of which items one customer, one owner, or all together may have.

use crate::decode::Invalid;
use crate::encode;
use crate::field::{LABEL_CURSOR, PAGE_SIZE, Whole, entry, list, whole, words};
use crate::openapi::operation::{Operation, in_path};
use crate::openapi::reservations::{example, example_at};
use crate::openapi::samples::{label as made_label, written};
use crate::openapi::schema::{label, named};
use crate::problem::Reason;
use crate::routes::row::{self, empty, required};
use crate::routes::table::PLAIN;
use crate::routes::{Access, Preconditions, RequiredScope, RouteId, RouteSpec, Tag};
use serde_json::{Value, json};
use stockhold_api_macros::shape;
use stockhold_domain::limits::{LIMIT_CHANNELS, LIMIT_TARGETS, TOTAL_UNITS};
use stockhold_domain::{ItemKey, Label, LimitTarget, LimitTerms, LimitedUnits, SubjectKind};
use stockhold_service::Scope;

words! {
    SubjectKind { Customer = "customer", Owner = "owner", }
    LimitedUnits { HeldAndSold = "held_and_sold", Held = "held", }
}

/// Units of an item, as its figures have them.
const UNITS: Whole = whole(0..=TOTAL_UNITS);

/// How many units of which items, and for whom.
#[shape(request)]
pub struct LimitRequest {
    /// The items whose units are counted together.
    #[is(list(1..=LIMIT_TARGETS))]
    pub items: Vec<LimitItem>,
    /// Only units sold through these. Default: all channels, and reservations without one.
    #[is(list(1..=LIMIT_CHANNELS).each("A sales channel.").instead_of_none("be left out for every channel"))]
    pub channels: Option<Vec<Label>>,
    /// `customer`: each `customer_id` has its own count. `owner`: each `owner_id` has. Default: all share one count.
    pub per: Option<SubjectKind>,
    /// The most units. 0 refuses everybody.
    #[is(UNITS)]
    pub limit: u64,
    /// `held_and_sold`, the default: units in active reservations, and sold units that did not come back. `held`: only units in active
    /// reservations.
    #[is(default)]
    pub counts: LimitedUnits,
}

/// An item with both members, a SKU at every location, or every item at a location. It need not exist yet.
#[shape(request, any_of(sku, location))]
pub struct LimitItem {
    /// The SKU.
    pub sku: Option<Label>,
    /// The location.
    pub location: Option<Label>,
}

/// How many units of which items, and for whom.
#[shape(answer)]
pub struct Limit {
    /// Its id.
    pub limit_id: Label,
    /// What it says.
    #[is(flat)]
    pub terms: LimitRequest,
    /// The version with which its counts began at 0: a change of `items`, `channels` or `per` begins anew.
    pub generation: u64,
    /// It rises by 1 with every change; the `ETag`.
    pub version: u64,
}

/// A limit as it is after the event. One that was deleted has only its id and its version.
#[shape(answer)]
pub struct EventLimit {
    /// Its id.
    pub limit_id: Label,
    /// What it says.
    #[is(flat)]
    pub terms: Option<LimitRequest>,
    /// The version with which its counts began at 0: a change of `items`, `channels` or `per` begins anew.
    pub generation: Option<u64>,
    /// It rises by 1 with every change; the `ETag`.
    pub version: u64,
}

/// What a limit counts.
#[shape(answer)]
pub struct LimitUsage {
    /// Which limit.
    pub limit_id: Label,
    /// The customer or the owner. Absent: all together.
    pub subject: Option<Label>,
    /// The most units.
    #[is(UNITS)]
    pub limit: u64,
    /// The units that are compared with it: `held` and `sold`, or `held` alone.
    #[is(UNITS)]
    pub used: u64,
    /// Units in active reservations.
    #[is(UNITS)]
    pub held: u64,
    /// Units sold, less returns.
    #[is(UNITS)]
    pub sold: u64,
}

/// A limit that counts units of the line.
#[shape(answer)]
#[derive(Eq)]
pub struct LineLimit {
    /// Which limit.
    pub limit_id: Label,
    /// Its generation. Counts of an ended generation mean nothing more.
    pub generation: u64,
    /// The customer or the owner. Absent: all together.
    pub subject: Option<Label>,
    /// How many of them.
    pub quantity: u64,
}

/// A counter of a limit, as it is after the event.
#[shape(answer)]
#[derive(Eq)]
pub struct LimitCounter {
    /// Which limit.
    pub limit_id: Label,
    /// Its generation. Counts of an ended generation mean nothing more.
    pub generation: u64,
    /// The customer or the owner. Absent: all together.
    pub subject: Option<Label>,
    /// Units in active reservations.
    #[is(UNITS)]
    pub held: u64,
    /// Units sold, less returns.
    #[is(UNITS)]
    pub sold: u64,
}

/// Which limits.
#[shape(query)]
pub struct LimitsQuery {
    /// Most entries of the page.
    #[is(PAGE_SIZE)]
    pub limit: Option<u16>,
    /// The `next_cursor` of the previous page. Its content is opaque.
    #[is(LABEL_CURSOR)]
    pub starting_after: Option<String>,
}

/// Whose units a limit counts.
#[shape(query)]
pub struct LimitUsageQuery {
    /// The customer or the owner. Without it: all of them, in pages.
    pub subject: Option<Label>,
    /// Most entries of the page.
    #[is(PAGE_SIZE)]
    pub limit: Option<u16>,
    /// The `next_cursor` of the previous page. Its content is opaque.
    #[is(LABEL_CURSOR)]
    pub starting_after: Option<String>,
}

impl LimitRequest {
    /// As the rules have it.
    pub(crate) fn terms(self) -> Result<LimitTerms, Invalid> {
        let targets = self.items.into_iter().enumerate().map(|(place, item)| {
            item.target()
                .ok_or_else(|| Invalid::new(format!("/items/{place}"), "must have sku, location or both"))
        });
        Ok(LimitTerms {
            targets: targets.collect::<Result<_, _>>()?,
            channels: self.channels.unwrap_or_default().into(),
            per: self.per,
            limit: self.limit,
            counts: self.counts,
        })
    }
}

impl From<&LimitTerms> for LimitRequest {
    fn from(terms: &LimitTerms) -> Self {
        Self {
            items: terms.targets.iter().map(LimitItem::from).collect(),
            channels: Some(terms.channels.to_vec()).filter(|channels| !channels.is_empty()),
            per: terms.per,
            limit: terms.limit,
            counts: terms.counts,
        }
    }
}

impl LimitItem {
    fn target(self) -> Option<LimitTarget> {
        match (self.sku, self.location) {
            (Some(sku), None) => Some(LimitTarget::Sku(sku)),
            (None, Some(location)) => Some(LimitTarget::Location(location)),
            (Some(sku), Some(location)) => Some(LimitTarget::Item(ItemKey::new(&location, &sku))),
            (None, None) => None,
        }
    }
}

impl From<&LimitTarget> for LimitItem {
    fn from(target: &LimitTarget) -> Self {
        match target {
            LimitTarget::Sku(sku) => Self { sku: Some(sku.clone()), location: None },
            LimitTarget::Location(location) => Self { sku: None, location: Some(location.clone()) },
            LimitTarget::Item(key) => {
                Self { sku: Label::new(key.sku()).ok(), location: Label::new(key.location()).ok() }
            }
        }
    }
}

impl From<&stockhold_domain::Limit> for EventLimit {
    fn from(limit: &stockhold_domain::Limit) -> Self {
        Self {
            limit_id: limit.id.clone(),
            terms: limit.terms.as_deref().map(LimitRequest::from),
            generation: limit.terms.is_some().then_some(limit.generation),
            version: limit.version,
        }
    }
}

impl LimitUsage {
    /// What a limit counts for a subject, or for all together.
    pub fn of(
        limit: &stockhold_domain::Limit,
        subject: Option<&Label>,
        counter: stockhold_domain::LimitCounter,
    ) -> Self {
        let terms = limit.terms.as_deref();
        Self {
            limit_id: limit.id.clone(),
            subject: subject.cloned(),
            limit: terms.map_or(0, |terms| terms.limit),
            used: terms.map_or(0, |terms| counter.used(terms.counts)),
            held: counter.held,
            sold: counter.sold,
        }
    }
}

pub(crate) const SET_LIMIT: RouteSpec = RouteSpec {
    metric: "set_limit",
    tag: Tag::Sale,
    summary: "Create or replace a limit",
    description: "Limits how many units of some items one customer, one owner, or all together may have. It is judged when units \
        are reserved, amended, transferred, merged or taken again by a late confirm, never when they are confirmed. The body \
        replaces the whole limit. A new limit counts what comes after it. A change of `limit` or `counts` keeps the counts: below \
        what is in use it refuses more and takes nothing away. A change of `items`, `channels` or `per` begins them at 0. Setting the \
        same again changes nothing.",
    body: required("LimitRequest"),
    preconditions: Preconditions::IfMatchOrAbsent,
    access: Access::Write,
    scope: RequiredScope::One(Scope::SaleAdmin),
    responses: &[row::limit(201, "The new limit."), row::limit(200, "The limit, which existed before.")],
    own_reasons: &[Reason::TooManyLimits],
    ..PLAIN
};

pub(crate) const LIST_LIMITS: RouteSpec = RouteSpec {
    metric: "limits",
    tag: Tag::Sale,
    summary: "List limits",
    description: "In the order of their ids, compared byte by byte.",
    access: Access::Read,
    scope: RequiredScope::One(Scope::InventoryRead),
    responses: &[row::json(200, "A page of limits.", "LimitPage")],
    ..PLAIN
};

pub(crate) const GET_LIMIT: RouteSpec = RouteSpec {
    metric: "limit",
    tag: Tag::Sale,
    summary: "Read a limit",
    description: "What the limit says. `get_limit_usage` shows what it counts.",
    access: Access::Read,
    scope: RequiredScope::One(Scope::InventoryRead),
    responses: &[row::limit(200, "The limit.")],
    own_reasons: &[Reason::UnknownLimit],
    ..PLAIN
};

pub(crate) const GET_LIMIT_USAGE: RouteSpec = RouteSpec {
    metric: "limit_usage",
    tag: Tag::Sale,
    summary: "Read what a limit counts",
    description: "With `subject`: what one customer or owner has. Of a limit that is shared: what all have together. Else a page of \
        all customers or owners that have something.",
    access: Access::Read,
    scope: RequiredScope::One(Scope::InventoryRead),
    responses: &[row::json(200, "What it counts.", "LimitUsageAnswer")],
    own_reasons: &[Reason::UnknownLimit],
    ..PLAIN
};

pub(crate) const DELETE_LIMIT: RouteSpec = RouteSpec {
    metric: "delete_limit",
    tag: Tag::Sale,
    summary: "Delete a limit",
    description: "It refuses nobody any more, and its counts are forgotten. Deleting it again gives the same answer and changes \
        nothing. A limit that is created again with its id begins at 0, with a higher version.",
    preconditions: Preconditions::IfMatch,
    access: Access::Write,
    scope: RequiredScope::One(Scope::SaleAdmin),
    responses: &[empty(204, "The limit is deleted.")],
    own_reasons: &[Reason::UnknownLimit],
    ..PLAIN
};

/// The operations of the document.
pub(crate) fn operations() -> Vec<Operation> {
    vec![set(), list_all(), one(), usage(), delete()]
}

/// The schemas of the document, by name.
pub(crate) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        entry::<LimitRequest>(),
        entry::<LimitItem>(),
        entry::<Limit>(),
        entry::<EventLimit>(),
        entry::<LimitUsage>(),
        ("LimitUsageAnswer", json!({ "oneOf": [named("LimitUsage"), named("LimitUsagePage")] })),
        entry::<LineLimit>(),
        entry::<LimitCounter>(),
    ]
}

fn sample() -> stockhold_domain::Limit {
    stockhold_domain::Limit {
        id: made_label("drop-7-two-each"),
        version: 3,
        generation: 1,
        terms: Some(
            LimitTerms {
                targets: [LimitTarget::Sku(made_label("tee-s")), LimitTarget::Sku(made_label("tee-m"))]
                    .into(),
                channels: [].into(),
                per: Some(SubjectKind::Customer),
                limit: 2,
                counts: LimitedUnits::HeldAndSold,
            }
            .into(),
        ),
    }
}

/// The id of a limit that examples create and delete.
const QUOTA: &str = "marketplace-tea";

fn on_one(route: RouteId) -> Operation {
    on(route, "drop-7-two-each")
}

fn on(route: RouteId, limit_id: &'static str) -> Operation {
    Operation::of(route).parameter(in_path("limit_id", label("The limit's id."), limit_id))
}

fn set() -> Operation {
    on_one(RouteId::SetLimit)
        .requests(json!({
            "each": example("Two for each customer, of two sizes together", json!({
                "items": [{ "sku": "tee-s" }, { "sku": "tee-m" }], "per": "customer", "limit": 2,
            })),
            "quota": example_at("A quota of a marketplace", json!({ "limit_id": QUOTA }), json!({
                "items": [{ "sku": "tea", "location": "hub-9" }], "channels": ["marketplace"], "limit": 500,
            })),
            "hoarding": example_at("Carts of one owner at a location", json!({ "limit_id": "hub-9-carts" }), json!({
                "items": [{ "location": "hub-9" }], "per": "owner", "limit": 20, "counts": "held",
            })),
        }))
        .responds(json!({ "limit": example("The limit", written(|out| encode::limit(out, &sample()))) }))
}

fn list_all() -> Operation {
    let page = written(|out| {
        let mut list = encode::List::open(out, "data");
        encode::limit(list.entry(out), &sample());
        list.close_page(out, false, None);
    });
    Operation::of(RouteId::ListLimits)
        .query::<LimitsQuery>()
        .responds(json!({ "page": example("The last page", page) }))
}

fn one() -> Operation {
    on_one(RouteId::GetLimit)
        .responds(json!({ "limit": example("A limit", written(|out| encode::limit(out, &sample()))) }))
}

fn usage() -> Operation {
    let (ann, counter) = (made_label("ann"), stockhold_domain::LimitCounter { held: 1, sold: 1 });
    let one = written(|out| encode::limit_usage(out, &sample(), Some(&ann), counter));
    let page = written(|out| {
        let mut list = encode::List::open(out, "data");
        encode::limit_usage(list.entry(out), &sample(), Some(&ann), counter);
        list.close_page(out, false, None);
    });
    on_one(RouteId::GetLimitUsage).query::<LimitUsageQuery>().responds(json!({
        "one": example("Of a customer", one),
        "page": example("Of all customers", page),
    }))
}

fn delete() -> Operation {
    on(RouteId::DeleteLimit, QUOTA)
}
