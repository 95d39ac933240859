"""Refusals that hooks.py excuses, as far as one request brings them about: a fuzzer meets them only when it is lucky, so an excuse
whose words the server no longer uses would be found by chance.

    excuses.py API ROOT_KEY, with the items of scripts/fuzz-api made
"""

import json
import sys
import urllib.error
import urllib.request

from hooks import is_known_detail, known, names_another_archive_directory

LONG = "é" * 65
SEAT = {"unit_id": "A-1", "section": "circle", "row": "A", "position": 1}
SUPPLY = {"supply_id": "po-1", "quantity": 1, "available_from": "2030-01-01T00:00:00Z"}
SOURCE = {"locations": ["hub-1", "hub-2"]}
WIDE_LINE = {"sku": "tea", "source": {"locations": [f"hub-{number}" for number in range(16)]}}
DISCOUNT = {"percent": 1, "from": "2030-01-01T00:00:00Z", "to": "2030-01-01T00:00:00Z"}
# Items whose prices some of the refusals need.
PRICED = [
    ("of-dollars", {"total_units": 10_000, "price": {"unit_amount": 10**12, "currency": "usd"}}),
    ("of-euros", {"total_units": 1, "price": {"unit_amount": 1, "currency": "eur"}}),
]
METHOD = {"provider": "test", "method_ref": "approve"}
LARGE = [{"name": "postage", "amount": 9_007_199_254_740_991}]
REFUSED = [
    ("POST", "inventory/tea/reserve", {"owner_id": "o", "auto_checkout": {"payment_method": {**METHOD, "provider": "nobodys"}}}),
    ("POST", "inventory/tea/reserve", {"owner_id": "o", "auto_checkout": {"payment_method": METHOD, "description": "é" * 600}}),
    ("POST", "inventory/tea/reserve", {"owner_id": "o", "auto_checkout": {"payment_method": METHOD, "extra": LARGE}}),
    ("PUT", "customers/ann", {"email": "ann@example.com,ben@example.com"}),
    ("PUT", "inventory/new", {}),
    ("PUT", "inventory/tea", {"on_hand": 1, "total_units": 1}),
    ("PUT", "inventory/tea", {"on_hand": 1}),
    ("PUT", "inventory/tea", {"on_hand": 1_000_000_000_000, "fulfilled_units_seen": 1}),
    ("POST", "reservations/00000000-0000-7000-8000-000000000000/merge", {"from": ["00000000-0000-7000-8000-000000000000"]}),
    ("PUT", "inventory/seats", {"mode": "units", "total_units": 1}),
    ("PUT", "inventory/hall", {"oversell_allowance": 1}),
    ("PUT", "inventory/hall", {"incoming": [SUPPLY]}),
    ("PUT", "inventory/hall", {"gated": True}),
    ("PUT", "inventory/tea", {"incoming": [SUPPLY, SUPPLY]}),
    ("PUT", "inventory/tea", {"sale_starts_at": "2030-01-02T00:00:00Z", "sale_ends_at": "2030-01-01T00:00:00Z"}),
    ("PUT", "inventory/tea", {"price": {"unit_amount": 1, "currency": "usd", "discounts": [DISCOUNT]}}),
    ("POST", "prices/quote", {"lines": [{"sku": "of-dollars"}, {"sku": "of-euros"}]}),
    ("POST", "prices/quote", {"lines": [{"sku": "of-dollars", "quantity": 9_008}]}),
    ("POST", "inventory/tea/adjust", {"delta": -1, "reason": "back", "supply_id": "po-88"}),
    ("PUT", "limits/twice", {"items": [{"sku": "tea"}, {"sku": "tea"}], "limit": 1}),
    ("PUT", "limits/twice", {"items": [{"sku": "tea"}], "channels": ["web", "web"], "limit": 1}),
    ("GET", "limits/shared/usage?subject=ann", None),
    ("POST", "inventory/tea/reserve", {"owner_id": "o", "pool": "nobodys"}),
    ("PUT", "inventory/tea/pools/vip", {}),
    ("PUT", "inventory/hall/pools/vip", {"allocated": 1}),
    ("PUT", "inventory/hall/pools/vip/units", {"sections": ["nobodys"]}),
    ("PUT", "inventory/new", {"total_units": 1, "metadata": {"a": "b" * 2100}}),
    ("POST", "inventory/tea/adjust", {"delta": 9007199254740991, "reason": "more"}),
    ("POST", "inventory/hall/units", {"units": [SEAT]}),
    ("POST", "inventory/hall/units", {"units": [{"unit_id": "B-1"}, {"unit_id": "B-1"}]}),
    ("POST", "inventory/tea/reserve", {"owner_id": LONG}),
    ("POST", "inventory/hall/reserve", {"owner_id": "o", "units": ["A-1"], "quantity": 2}),
    ("POST", "inventory/hall/reserve", {"owner_id": "o", "units": ["A-1"], "adjacent": True}),
    ("POST", "reservations", {"owner_id": "o", "lines": [{"sku": "tea", "location": "hub-1", "source": SOURCE}]}),
    ("POST", "reservations", {"owner_id": "o", "lines": [{"sku": "tea", "adjacent": True, "source": SOURCE}]}),
    ("POST", "reservations", {"owner_id": "o", "lines": [WIDE_LINE] * 257}),
    ("GET", "inventory?starting_after=nobodys", None),
    ("GET", "reservations?created_after=2026-01-01T00:00:00Z&created_before=2026-01-01T00:00:00Z", None),
    ("GET", "reservations?created_after=2026-02-30T00:00:00Z", None),
    ("GET", "events?tail=1&after=0", None),
    ("GET", "events?tail=1&limit=1", None),
    ("POST", "sinks/ledger/replay", {"since": "2026-02-30T00:00:00Z"}),
    ("POST", "archive", {"older_than_hours": 1}),
    ("POST", "archive", {"older_than_hours": 2160, "to": "/elsewhere"}),
    ("POST", "reconciliation", {"stock_master": "nobody"}),
    ("POST", "reconciliation", {"stock_master": "erp", "dry_run": True, "accept_batch": "b"}),
    ("POST", "webhooks", {"url": "http://shop.example"}),
    ("POST", "webhooks", {"url": "https://user@shop.example"}),
    ("POST", "webhooks", {"url": "https://127.0.0.1"}),
    ("POST", "keys", {"name": "n", "principal": "p", "scopes": ["events:read"], "expires_at": "2020-01-01T00:00:00Z"}),
    ("POST", "keys", {"name": "n", "principal": "p", "scopes": ["events:read"], "allowed_cidrs": ["10.0.0.0/33"]}),
    ("POST", "keys", {"name": "n", "principal": "p" * 127, "scopes": ["events:read"]}),
]

HUB = {"hub_id": "default", "sku": "hall", "qty": 1, "order_id": "o", "user_id": "u"}
OF_PROFILES = [
    ("hub/reserve", {**HUB, "order_id": LONG}),
    ("hub/reserve", {**HUB, "qty": 10_001}),
    ("storefront/reserve", {"sku": "tea", "qty": 1, "sessionId": LONG}),
    ("storefront/reserve", {"sku": "tea", "qty": 2.0, "sessionId": "s"}),
]


def error_of_profile(api, root_key, path, body):
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {root_key}"}
    request = urllib.request.Request(f"{api}/{path}", method="POST", headers=headers, data=json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request) as answer:
            return f"it was answered with {answer.status}"
    except urllib.error.HTTPError as refused:
        detail = json.load(refused)["detail"]
        return None if refused.code == 400 and is_known_detail(detail) else f"not excused: {refused.code} {detail}"


def request_of(api, root_key, method, path, body):
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {root_key}"}
    request = urllib.request.Request(f"{api}/v1/{path}", method=method, headers=headers)
    if body is not None:
        request.data = json.dumps(body).encode()
    return request


def errors_of(api, root_key, method, path, body):
    request = request_of(api, root_key, method, path, body)
    try:
        with urllib.request.urlopen(request) as answer:
            return f"it was answered with {answer.status}"
    except urllib.error.HTTPError as refused:
        problem = json.load(refused)
        if refused.code == 403 and names_another_archive_directory(problem):
            return None
        if refused.code != 400:
            return f"it was refused with {refused.code}, which needs no excuse"
        strange = [error for error in problem["errors"] if not known(error)]
        return f"not excused: {strange}" if strange else None


def main(api, root_key):
    for sku, settings in PRICED:
        urllib.request.urlopen(request_of(api, root_key, "PUT", f"inventory/{sku}", settings)).close()
    wrong = [(call, found) for call in REFUSED if (found := errors_of(api, root_key, *call))]
    for (method, path, body), found in wrong:
        print(f"{method} /v1/{path} {json.dumps(body, ensure_ascii=False)[:200]}: {found}", file=sys.stderr)
    of_profiles = [(call, found) for call in OF_PROFILES if (found := error_of_profile(api, root_key, *call))]
    for (path, body), found in of_profiles:
        print(f"POST /{path} {json.dumps(body, ensure_ascii=False)[:200]}: {found}", file=sys.stderr)
    sys.exit(bool(wrong or of_profiles))


if __name__ == "__main__":
    main(*sys.argv[1:])
