//! The rows of the routes of event sinks, without their paths.

use super::row::{empty, json, required};
use super::table::PLAIN;
use super::{Access, RequiredScope, RouteSpec, Tag};
use crate::problem::Reason;
use stockhold_service::Scope;

pub(super) const LIST_SINKS: RouteSpec = RouteSpec {
    metric: "sinks",
    tag: Tag::Events,
    summary: "List event sinks",
    description: "The systems that events are delivered to: those of the configuration of this server, and those that the store has a \
        position of. Every instance shows the same. A sink that is `blocked` refuses an event for good, and nothing behind it is sent.",
    access: Access::Read,
    scope: RequiredScope::One(Scope::EventsRead),
    responses: &[json(200, "The sinks, in the order of their names.", "SinkList")],
    ..PLAIN
};

pub(super) const SKIP_EVENT: RouteSpec = RouteSpec {
    metric: "skip_event",
    tag: Tag::Events,
    summary: "Have a sink skip an event",
    description: "Skips the event that the sink refuses, and goes on behind it. `position` is that of `last_error`. The event \
        is not delivered to this sink. The skip is an event itself, `sink.event_skipped`.",
    body: required("SkipRequest"),
    access: Access::Write,
    scope: RequiredScope::One(Scope::WebhooksAdmin),
    responses: &[empty(204, "The sink goes on behind the event.")],
    own_reasons: &[Reason::UnknownSink],
    ..PLAIN
};

pub(super) const REPLAY_SINK: RouteSpec = RouteSpec {
    metric: "replay_sink",
    tag: Tag::Events,
    summary: "Deliver events to a sink again",
    description: "Sets the sink back to a position, or to the first event since an instant. It gets everything from there on again, and \
        then new events.",
    body: required("ReplayRequest"),
    access: Access::Write,
    scope: RequiredScope::One(Scope::WebhooksAdmin),
    responses: &[json(202, "The events that are delivered again.", "SinkReplay")],
    own_reasons: &[Reason::UnknownSink],
    ..PLAIN
};

pub(super) const INIT_SINK: RouteSpec = RouteSpec {
    metric: "init_sink",
    tag: Tag::Events,
    summary: "Create what a sink needs",
    description: "Creates in the other system what events are delivered to, if it does not exist: the stream of a `nats`, the exchange \
        of a `rabbitmq`. Does nothing for other kinds.",
    access: Access::Write,
    scope: RequiredScope::One(Scope::WebhooksAdmin),
    responses: &[empty(204, "It exists.")],
    own_reasons: &[Reason::UnknownSink, Reason::SinkFailed],
    ..PLAIN
};

pub(super) const FORGET_SINK: RouteSpec = RouteSpec {
    metric: "forget_sink",
    tag: Tag::Events,
    summary: "Forget a removed sink",
    description: "Deletes the position of a sink that is not in the configuration any more. A sink of this name begins anew if it is \
        configured again.",
    access: Access::Write,
    scope: RequiredScope::One(Scope::WebhooksAdmin),
    responses: &[empty(204, "The position is deleted.")],
    own_reasons: &[Reason::UnknownSink, Reason::SinkInUse],
    ..PLAIN
};
