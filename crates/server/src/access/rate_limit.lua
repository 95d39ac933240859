-- The arithmetic of crates/service/src/rate_limit.rs: a caller has one instant, at which it has its whole burst again.
--
-- KEYS[1]: the caller. ARGV[1]: what the request costs. ARGV[2]: what a whole burst costs. Both in nanoseconds.
-- Answers 1 or 0 for allowed or not, and the nanoseconds until the caller has its whole burst again.
--
-- The time is that of this Redis server, so the clocks of the instances do not matter.
-- Lua's numbers are exact up to 2^53, and the nanoseconds since 1970 are more. So an instant is seconds and nanoseconds, and only
-- their differences are added up: a burst costs at most 10^15.
local time = redis.call('TIME')
local seconds, nanos = tonumber(time[1]), tonumber(time[2]) * 1000
local cost, tolerance = tonumber(ARGV[1]), tonumber(ARGV[2])

local used = 0
local stored = redis.call('GET', KEYS[1])
if stored then
  local full_seconds, full_nanos = string.match(stored, '^(%d+) (%d+)$')
  used = math.max(0, (full_seconds - seconds) * 1e9 + full_nanos - nanos)
end
if used + cost > tolerance then
  return { 0, used }
end
if cost > 0 then
  used = used + cost
  local full = nanos + used
  local instant = string.format('%.0f %.0f', seconds + math.floor(full / 1e9), full % 1e9)
  -- A caller that has its whole burst again needs no record.
  redis.call('SET', KEYS[1], instant, 'PX', math.ceil(used / 1e6))
end
return { 1, used }
