CREATE TABLE IF NOT EXISTS {table} (
    event String CODEC(ZSTD(3)),
    event_id UUID DEFAULT toUUID(JSONExtractString(event, 'id')),
    type LowCardinality(String) DEFAULT substring(JSONExtractString(event, 'type'), 11),
    time DateTime64(3, 'UTC') DEFAULT parseDateTime64BestEffort(JSONExtractString(event, 'time'), 3, 'UTC'),
    position UInt64 DEFAULT toUInt64OrZero(JSONExtractString(event, 'position')),
    subject String DEFAULT JSONExtractString(event, 'subject'),
    sku String DEFAULT if(JSONHas(event, 'data', 'item'), JSONExtractString(event, 'data', 'item', 'sku'), JSONExtractString(event, 'data', 'sku')),
    location LowCardinality(String) DEFAULT if(JSONHas(event, 'data', 'item'), JSONExtractString(event, 'data', 'item', 'location'), JSONExtractString(event, 'data', 'location')),
    available UInt64 DEFAULT if(JSONHas(event, 'data', 'item'), JSONExtractUInt(event, 'data', 'item', 'available'), JSONExtractUInt(event, 'data', 'available')),
    reservation_id String DEFAULT JSONExtractString(event, 'data', 'reservation_id'),
    owner_id String DEFAULT JSONExtractString(event, 'data', 'owner_id'),
    customer_id String DEFAULT JSONExtractString(event, 'data', 'customer_id'),
    order_id String DEFAULT JSONExtractString(event, 'data', 'order_id'),
    channel LowCardinality(String) DEFAULT JSONExtractString(event, 'data', 'channel'),
    status LowCardinality(String) DEFAULT JSONExtractString(event, 'data', 'status'),
    actor LowCardinality(String) DEFAULT JSONExtractString(event, 'data', 'actor'),
    lines Array(Tuple(sku String, location String, quantity UInt32, amount UInt64, total_units UInt64, held_units UInt64, confirmed_sold UInt64))
        DEFAULT JSONExtract(event, 'data', 'lines', 'Array(Tuple(sku String, location String, quantity UInt32, amount UInt64, total_units UInt64, held_units UInt64, confirmed_sold UInt64))')
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(time)
ORDER BY (type, time, event_id)
