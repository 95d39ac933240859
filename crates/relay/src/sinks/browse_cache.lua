-- Writes the availability of an item, unless Redis has that of a newer event. A deleted item has no hash.
-- KEYS: the hash of the item. ARGV: position, available or an empty text if it was deleted, sequence or an empty text, instant, and 1 to
-- write it whatever Redis has.
local position = redis.call('HGET', KEYS[1], 'position')
if ARGV[5] ~= '1' and position and tonumber(position) > tonumber(ARGV[1]) then
    return 0
end
redis.call('DEL', KEYS[1])
if ARGV[2] == '' then
    return 1
end
redis.call('HSET', KEYS[1], 'position', ARGV[1], 'available', ARGV[2], 'as_of', ARGV[4])
if ARGV[3] ~= '' then
    redis.call('HSET', KEYS[1], 'sequence', ARGV[3])
end
return 1
