-- Writes the counter of one item anew from what the store has committed, and begins an epoch. What was admitted before is not counted
-- any more.
--
-- KEYS[1]: the counter, see move.lua. ARGV: `available` and `sequence` of the store, read after the counter was read; the epoch and the
-- sequence of the counter that was read, -1 if there was none; the caller's microseconds; `available` of the counter that was read.
--
-- Answers {1, epoch, corrected}: `corrected` is 1 if the counter was wrong. Answers {0} if another reload was quicker.
local function whole(text)
  local number = text and tonumber(text)
  if number and number == math.floor(number) and math.abs(number) < 2 ^ 53 then
    return number
  end
end

-- An admission whose outcome is not known for so many microseconds was lost.
local LOST_AFTER = 5e6

local available, sequence = tonumber(ARGV[1]), tonumber(ARGV[2])
local read_epoch, read_sequence = tonumber(ARGV[3]), tonumber(ARGV[4])
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'hash' and kind ~= 'none' then
  redis.call('DEL', KEYS[1])
end
local fields = redis.call('HMGET', KEYS[1], 'epoch', 'sequence', 'available', 'pending', 'taken_at')
local old = { epoch = whole(fields[1]), sequence = whole(fields[2]), available = whole(fields[3]), pending = whole(fields[4]) }
local there = old.epoch and old.sequence and old.available and old.pending
  and old.epoch >= 0 and old.sequence >= 0 and old.pending >= 0
local corrected = 0
if there then
  if old.epoch ~= read_epoch then
    return { 0 }
  end
  if read_sequence > sequence then
    -- It was ahead of the store: restored, of another store, or damaged.
    corrected = 1
  elseif old.sequence > sequence then
    -- The store has committed more since it was read.
    available, sequence = old.available, old.sequence
  elseif old.sequence == sequence and old.available ~= available then
    if old.available == tonumber(ARGV[6]) then
      corrected = 1
    else
      -- The store has taken units since the counter was read.
      available = old.available
    end
  end
  local taken_at = whole(fields[5]) or 0
  if old.pending > 0 and tonumber(ARGV[5]) - taken_at > LOST_AFTER then
    corrected = 1
  end
elseif kind ~= 'none' then
  corrected = 1
end
local time = redis.call('TIME')
local epoch = tonumber(time[1]) * 1000000 + tonumber(time[2])
if there and epoch <= old.epoch then
  epoch = old.epoch + 1
end
if epoch >= 2 ^ 53 then
  -- Only what somebody else wrote is so large.
  epoch = tonumber(time[1]) * 1000000 + tonumber(time[2])
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'epoch', epoch, 'sequence', sequence, 'available', available, 'pending', 0)
return { 1, epoch, corrected }
