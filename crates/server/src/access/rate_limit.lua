-- The arithmetic of crates/service/src/rate_limit.rs, as far as the clock goes forward.
--
-- KEYS[1]: the caller. ARGV[1]: what the request costs. ARGV[2]: what a whole burst costs. Both in nanoseconds.
-- Answers 1 or 0 for allowed or not, and the nanoseconds until the caller has its whole burst again.
--
-- The time is that of this Redis server, so the clocks of the instances do not matter. It may be set back. So a record has the time at
-- which it was written, and the nanoseconds that the caller needed from then on: at most a whole burst's.
-- Lua's numbers are exact up to 2^53, and the nanoseconds since 1970 are more. So a time is seconds and nanoseconds, and only
-- differences are added up: a burst costs at most 10^15.
local time = redis.call('TIME')
local seconds, nanos = tonumber(time[1]), tonumber(time[2]) * 1000
local cost, tolerance = tonumber(ARGV[1]), tonumber(ARGV[2])

local used, was_set_back = 0, false
local stored = redis.call('GET', KEYS[1])
local at_seconds, at_nanos, needed = string.match(stored or '', '^(%d+) (%d+) (%d+)$')
if needed then
  local passed = (seconds - at_seconds) * 1e9 + nanos - at_nanos
  was_set_back = passed < 0
  used = math.max(0, needed - math.max(0, passed))
end
local allowed = used + cost <= tolerance
if allowed then
  used = used + cost
end
-- A refusal writes too after the clock was set back: otherwise no time would pass for the caller until the clock has caught up.
if allowed and cost > 0 or was_set_back then
  -- A caller that has its whole burst again needs no record.
  redis.call('SET', KEYS[1], string.format('%.0f %.0f %.0f', seconds, nanos, used), 'PX', math.max(1, math.ceil(used / 1e6)))
end
return { allowed and 1 or 0, used }
