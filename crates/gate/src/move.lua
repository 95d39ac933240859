-- Moves the counter of one item: first what the store has answered, then a number that the store has committed, then admissions.
--
-- KEYS[1]: the counter, a hash:
--   epoch      the number of the reload that wrote it
--   sequence   the newest transition of the item that `available` includes
--   available  units that the store had available after it
--   pending    units that were admitted in this epoch and whose outcome is not known yet
--   taken_at   the caller's microseconds at the newest admission
-- The units that can be admitted are `available - pending`.
--
-- ARGV: the caller's microseconds; the number of answers, and for each the epoch of the admission, the admitted units, the units that the
-- store took of them, and the item's sequence after that (-1 if it took none); 1 with `available` and `sequence`, or 0; then for each admission the units, and 1 if fewer will do.
--
-- Answers {1, units left, epoch, sequence, pending, admitted units of each admission...}, or {0} if there is no such counter: then the
-- store has to be asked.
local function whole(text)
  local number = text and tonumber(text)
  if number and number == math.floor(number) and math.abs(number) < 2 ^ 53 then
    return number
  end
end

local fields = redis.call('HMGET', KEYS[1], 'epoch', 'sequence', 'available', 'pending')
local epoch, sequence = whole(fields[1]), whole(fields[2])
local available, pending = whole(fields[3]), whole(fields[4])
if not (epoch and sequence and available and pending) or epoch < 0 or sequence < 0 or pending < 0 then
  return { 0 }
end

local at = 1
local function argument()
  at = at + 1
  return tonumber(ARGV[at])
end

local moved = false
for _ = 1, argument() do
  local admitted_in, admitted, taken, decided = argument(), argument(), argument(), argument()
  if admitted_in == epoch then
    pending = math.max(0, pending - admitted)
    -- `available` includes a later transition already.
    if decided > sequence then
      available = available - taken
    end
    moved = true
  end
end
if argument() == 1 then
  local committed, decided = argument(), argument()
  if decided > sequence then
    available, sequence, moved = committed, decided, true
  end
end
local answer, took = { 1, 0, epoch, sequence, 0 }, false
while at < #ARGV do
  local units, fewer = argument(), argument()
  local left = available - pending
  local admitted = 0
  if left >= units then
    admitted = units
  elseif fewer == 1 and left > 0 then
    admitted = left
  end
  pending = pending + admitted
  took = took or admitted > 0
  answer[#answer + 1] = admitted
end
if moved or took then
  redis.call('HSET', KEYS[1], 'sequence', sequence, 'available', available, 'pending', pending)
end
if took then
  redis.call('HSET', KEYS[1], 'taken_at', ARGV[1])
end
answer[2], answer[5] = available - pending, pending
return answer
