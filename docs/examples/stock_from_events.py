"""Rebuilds the stock of every item from the events of a sink of kind `file`, and shows that none is missing.

    cat events/stockhold-*.jsonl | python3 stock_from_events.py

Events come at least once, so an id that was seen is dropped. The sequence of a counted item has no gaps: if one number is missing, an
event is missing. Each event has the figures of its items after it, so the newest event of an item has its stock.
"""

import json
import sys

seen = set()
stock = {}  # (location, sku): the figures after the newest event
gaps = 0


def figures_of(event):
    """The counted items of an event, with their figures after it."""
    for line in event["data"].get("lines", []):
        if "sequence" in line:
            yield (line["location"], line["sku"]), line


for text in sys.stdin:
    event = json.loads(text)
    if event["id"] in seen or event["type"].startswith("stockhold.inventory."):
        continue
    seen.add(event["id"])
    for item, figures in figures_of(event):
        before = stock.get(item, {"sequence": figures["sequence"] - 1})
        # An extension and the like do not move the sequence.
        if figures["sequence"] > before["sequence"] + 1:
            gaps += 1
            print(f"{item}: events are missing after sequence {before['sequence']}", file=sys.stderr)
        if figures["sequence"] >= before["sequence"]:
            stock[item] = figures

for (location, sku), figures in sorted(stock.items()):
    rebuilt = {name: figures[name] for name in ("total_units", "confirmed_sold", "held_units", "sequence")}
    print(json.dumps({"location": location, "sku": sku, **rebuilt}))
sys.exit(1 if gaps else 0)
