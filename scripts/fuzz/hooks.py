"""What a document can't say to a fuzzer: which items there are, bounds that are counted in bytes, and refusals that only
the state explains.

Two of schemathesis' checks are replaced by checks that ask them last. Nothing is excused that is not named here.
"""

import collections
import random
import re

import schemathesis
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

# Faults of a request whose every part is as the schemas want it: pointer and detail of `errors`.
NOT_IN_A_SCHEMA = [
    # JSON Schema counts characters, Stockhold bytes.
    (r".*", r"is \d+ bytes long, at most \d+ are allowed"),
    (r".*/metadata", r"is longer than 2,048 bytes without whitespace"),
    (r".*/metadata", r"makes the body more than 32 levels deep"),
    (r".*/metadata", r"has a number that is out of range: .*"),
    (r".*/description", r"must be 1 to 1000 bytes of text without control characters"),
    # Which providers there are is known to the configuration.
    (r".*/payment_method/provider", r"must be a provider that the server is configured with: .*"),
    # So is what the lines cost to the items.
    (r".*/extra", r"must not make the whole amount larger than \d+"),
    # An email address has more rules than a pattern can say.
    (r"/email", r"must be one email address like .*"),
    # What an item allows is known to the item.
    (r"/delta", r"must not bring the item past [\d,]+ units"),
    # A cursor is opaque: one that nobody gave out is refused.
    (r"/starting_after", r"must be the next_cursor of a page of this list, .*"),
    # Parameters that depend on each other.
    (r"/created_before", r"must be later than created_after"),
    (r"/tail", r"can't be combined with (after|limit): .*"),
    # The calendar: not every day of a pattern exists.
    (r"/created_(after|before)", r"must be a time in RFC 3339 .*"),
    # JSON Schema takes 2.0 for a whole number, Stockhold does not.
    (r".*", r"must be a whole number .*, found -?\d+\.0"),
    (r".*/attributes/.*", r"must be a string .*, a whole number of at most 64 bits, true or false, found -?\d+\.0"),
    # The fuzzer writes headers of letters and digits alone where a pattern asks for others.
    (r"/If-Match", r"must be an ETag .*, found \w+"),
    # Both conditions at once.
    (r"/If-None-Match", r"can't (stand beside|be combined with) If-Match.*"),
    (r"/If-None-Match", r"must be \* \(create, never overwrite\), found \w+"),
    # Two places for one key.
    (r"/Idempotency-Key", r'is ".*", but the body\'s idempotency_key is ".*": send one of them, or the same key'),
    (r"/Idempotency-Key", r"is not UTF-8"),
    # What a new item needs.
    (r"/total_units", r"is missing: a new item has to say how many units there are"),
    # An item whose units have ids has the total that follows from them.
    (r"/total_units", r"must be left out if units have ids: they are added one by one"),
    (r"/(oversell_allowance|incoming)", r"must be left out if units have ids: a unit that is not there can't be sold"),
    (r"/gated", r"must be left out if units have ids: a gate knows how many units there are, and not which"),
    # Deliveries and the sale window.
    (r"/incoming/\d+/supply_id", r"must not occur twice"),
    (r"/sale_ends_at", r"must be after `sale_starts_at`"),
    (r"/delta", r"must be at least 1 for a delivery that arrived"),
    # Prices: two ends of a discount, and what the prices of several items come to together.
    (r"/price/discounts/\d+/to", r"must be after `from`"),
    (r"/(lines|from)", r"must (bring together prices of one currency: .*|not cost more than \d+ together, before discounts)"),
    # Limits: an item or a channel counts once, and a limit that all share has no subjects.
    (r"/(items|channels)/\d+", r"must not occur twice"),
    (r"/subject", r"must be left out: this limit counts for all together"),
    # Which pools there are is known to the items.
    (r"/pool", r"is no pool of an item of the request: .*"),
    # Whether units are counted or have ids is known to the items, and so are sections.
    (r"/allocated", r"is missing: it says how many units are set aside"),
    (r"/allocated", r"must be left out if units have ids: they are put into the pool by their ids"),
    (r"/sections/\d+", r"is no section of the item"),
    (r"/sections", r"must have at most \d+ units together"),
    # A count of the shelf.
    (r"/on_hand", r"must be left out beside `total_units`"),
    (r"/on_hand", r"must be at most \d+, together with `fulfilled_units_seen`"),
    (r"/fulfilled_units_seen", r"is missing: a count of an existing item has to say which shipments it knows of"),
    # Reservations that are merged or split.
    (r"/from/\d+", r"must name each reservation once, and not the one that is merged into"),
    (r"/lines", r"must leave something: this is all that the reservation holds"),
    # What the units say that are there.
    (r"/units/\d+", r"is there already and is another: .*; a unit is never changed, retire it first"),
    (r"/units/\d+/unit_id", r"is named twice: .*"),
    (r"/units/\d+/position", r"must be at most 9007199254740991, as must the one after the highest"),
    (r"/units/\d+", r"is in more than one line of the reservation: name the unit in `lines`"),
    # Units that are named are not chosen, and are as many as they are.
    (r"(/lines/\d+)?/(adjacent|sections|min_together|attributes)", r"can't be combined with units: leave out one of them"),
    (r"(/lines/\d+)?/quantity", r"must be left out, or be the number of named units, which is \d+"),
    (r"/units", r"can't be combined with lines: .*"),
    # A source stands in place of a location, and gives counted stock.
    (r"(/lines/\d+)?/source", r"can't be combined with location: send one of them"),
    (r"(/lines/\d+)?/(units|adjacent|sections|min_together|attributes)", r"can't be combined with source: .*"),
    (r"/lines", r"must name at most [\d,]+ items together, found [\d,]+: .*"),
    # Days that no month has, and the first hours of 1970 with an offset.
    (r".*", r"must be a time like .*, found \"(?!(0|1[0-8]|19[0-6])).*"),
    # Which addresses webhooks may be sent to is known to the server. Of two ends of a range, one may be given.
    (r"/url", r"(must (be an address|begin with https|have no user name|name a host)|is \d+ bytes long|can't be used: ).*"),
    (r"/until", r"must be left out beside to_position"),
    (r"/from_position", r"must be [\d,]+ to [\d,]+: the events that the store has and the endpoint has got"),
    # How long keys are kept is known to the server.
    (r"/older_than_hours", r"what is younger than \d+ h can't be archived: .*"),
    # Which stock masters there are is known to the configuration, and which batch one refuses to the store.
    (r"/stock_master", r"is (no stock master|in the configuration of this server).*"),
    (r"/stock_master", r"must be left out if units have ids: they are added one by one"),
    (r"/accept_batch", r"is no batch that the stock master refuses; .*"),
    (r"/dry_run", r"must be left out beside accept_batch"),
    # API keys: what a pattern can't say of times, networks and lengths in bytes.
    (r"/expires_at", r"must be in the future"),
    (r"/allowed_cidrs/\d+", r".* is no network: .*"),
    (r"/principal", r"must have at most 124 bytes"),
    # Lines of one item are one line, and say one thing.
    (r"/lines/\d+", r"selects units of an item in another way than an earlier line does: .*"),
    (r"/lines/\d+/units", r"names a unit that another line also names"),
]


# Items and limits that scripts/fuzz-api has made, and reservations that were seen.
SHELF = [("tea", "default"), ("cup", "hub-9"), ("hall", "default")]
LIMITS = ["shared", "each"]
POOLS = ["vip", "partner-x"]
SEATS = [f"A-{number}" for number in range(1, 1001)]
SEEN = collections.deque(maxlen=32)


@schemathesis.hook
def before_call(ctx, case, kwargs):
    """Random names meet nothing: most requests that are made up are turned to what there is. What they are then, valid or
    not, schemathesis judges again."""
    if case.meta is None or case.meta.phase.name.value != "fuzzing":
        return
    pick = random.Random(repr((case.path_parameters, case.query, case.body)))

    def turn(part):
        if isinstance(part, list):
            for entry in part:
                turn(entry)
        if not isinstance(part, dict) or pick.random() < 0.2:
            return
        if isinstance(part.get("sku"), str):
            part["sku"], location = pick.choice(SHELF)
            part.pop("location", None)
            if "hub_id" in part:
                part["hub_id"] = location
            elif location != "default":
                (case.query if part is case.path_parameters else part)["location"] = location
        if isinstance(part.get("unit_id"), str):
            part["unit_id"] = pick.choice(SEATS)
        if isinstance(part.get("limit_id"), str):
            part["limit_id"] = pick.choice(LIMITS)
        # Items stay the server's own, so that most changes of their totals are not refused.
        if isinstance(part.get("stock_master"), str) and isinstance(case.path_parameters.get("sku"), str):
            part["stock_master"] = None
        # Most limits are wide, so that they do not refuse every reserve that follows.
        if isinstance(part.get("items"), list) and isinstance(part.get("limit"), int):
            part["limit"] = 10**9
        if isinstance(part.get("pool"), str):
            part["pool"] = pick.choice(POOLS)
        # Pools stay small, so that they do not refuse every reserve that follows.
        if isinstance(part.get("allocated"), int) and part["allocated"] > 0:
            part["allocated"] = min(part["allocated"], 10**6)
        named = part.get("units")
        if isinstance(named, list) and named and all(isinstance(unit, str) for unit in named):
            part["units"] = pick.sample(SEATS, min(len(named), 3))
            part.pop("quantity", None)
        if isinstance(part.get("reservation_id"), str) and SEEN:
            part["reservation_id"] = pick.choice(SEEN)
        if isinstance(part.get("reservationId"), str) and SEEN:
            part["reservationId"] = pick.choice(SEEN)
        for name in ("lines", "commands", "items"):
            turn(part.get(name))

    if isinstance(case.path_parameters.get("sku"), str) and isinstance(case.query, dict):
        case.query.pop("location", None)
    turn(case.path_parameters)
    turn(case.body)


@schemathesis.hook
def after_call(ctx, case, response):
    if response.headers.get("content-type") == ["application/json"] and b"reservation" in response.content:
        SEEN.extend(re.findall(r'"reservation(?:_id|Id)":"([0-9a-f-]{36})"', response.text)[:4])


def known(error):
    return any(
        re.fullmatch(pointer, error["pointer"], re.DOTALL) and re.fullmatch(detail, error["detail"], re.DOTALL)
        for pointer, detail in NOT_IN_A_SCHEMA
    )


# The same for the profiles, whose errors are one sentence each.
OF_A_PROFILE = [
    r".* is \d+ bytes long, at most \d+ are allowed.*",
    r".* must be a whole number .*, found -?\d+\.0.*",
    r".*header Idempotency-Key is not UTF-8.*",
    r"ttl is above the longest hold, which is \d+ seconds\.",
    r"A limit counts units for each customer, and the request names none\. .*",
    r"This idempotency key was used for another request\. .*",
    r"[\d,]+ units .* were requested\. One reservation may hold at most [\d,]+\. .*",
]


def is_known_detail(detail):
    return any(re.fullmatch(words, detail, re.DOTALL) for words in OF_A_PROFILE)


def is_of_a_profile(case):
    return case.operation.path.startswith(("/hub/", "/storefront/"))


# Reasons that the state explains, whatever the schema allows.
OF_THE_STATE = ["position_out_of_range", "mode_mismatch", "ttl_too_long", "quantity_limit", "idempotency_mismatch", "customer_required"]


# Which directories an archive may be written to is known to the configuration.
OTHER_ARCHIVE_DIRECTORY = r"The server writes archives to the directory of its setting `archive\.dir`, or below it\. .*"


def names_another_archive_directory(problem):
    return re.fullmatch(OTHER_ARCHIVE_DIRECTORY, problem.get("detail", "")) is not None


@schemathesis.check
def takes_what_the_document_allows(ctx, response, case):
    if is_of_a_profile(case) and response.status_code == 400:
        if is_known_detail(response.json().get("detail", "")):
            return None
        return positive_data_acceptance(ctx, response, case)
    if response.status_code in (400, 422) and response.json().get("reason") in OF_THE_STATE:
        return None
    if response.status_code == 400 and all(known(error) for error in response.json().get("errors", [{"pointer": "", "detail": ""}])):
        return None
    if response.status_code == 403 and names_another_archive_directory(response.json()):
        return None
    # A list as long as it may be, of names as long as they may be, is longer than a body may be.
    if response.status_code == 413 and is_of_a_profile(case):
        return None
    if response.status_code == 413 and len(response.request.body or b"") > response.json()["limit"]:
        return None
    return positive_data_acceptance(ctx, response, case)


@schemathesis.check
def refuses_what_the_document_forbids(ctx, response, case):
    # A malformed command is refused by itself: the call goes well.
    if case.operation.definition.raw["operationId"] == "run_commands" and response.status_code == 200:
        if any(result["status"] in (400, 404, 422) for result in response.json()["results"]):
            return None
    return negative_data_rejection(ctx, response, case)


@schemathesis.check
def problems_are_whole(ctx, response, case):
    """Every refusal is a problem with the status, the request's name and, where it makes sense, when to come back."""
    if response.status_code < 400:
        return None
    if is_of_a_profile(case):
        assert response.headers["content-type"] == ["application/json"], response.headers
        assert response.json()["error"], response.text
        assert ("retry-after" in response.headers) == (response.status_code in (429, 503)), response.headers
        return None
    assert response.headers["content-type"] == ["application/problem+json"], response.headers
    problem = response.json()
    assert problem["status"] == response.status_code, problem
    assert [problem["request_id"]] == response.headers["x-request-id"], problem
    assert ("retry-after" in response.headers) == (response.status_code in (429, 503)), problem
    return None
