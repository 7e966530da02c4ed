-- Takes from an allowance of so much a minute, which is refilled all the time, if enough is there.
-- KEYS[1]: what is left. ARGV: the time (empty: the store's own), how much a minute, how much must be there, how much is
-- taken. Gives the seconds to wait; 0: it was taken. What is left may be less than nothing.
local clock = redis.call('TIME')
local now = tonumber(ARGV[1]) or clock[1] + clock[2] / 1e6
local a_minute, needed, taken = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local stored = redis.call('HMGET', KEYS[1], 'left', 'at')
local left = tonumber(stored[1]) or a_minute
left = math.min(a_minute, left + math.max(0, now - (tonumber(stored[2]) or now)) * a_minute / 60)
local wait = needed > 0 and math.max(0, (math.min(needed, a_minute) - left) * 60 / a_minute) or 0
if wait == 0 then
  redis.call('HSET', KEYS[1], 'left', string.format('%.6f', left - taken), 'at', string.format('%.6f', now))
  redis.call('EXPIRE', KEYS[1], 60 + math.ceil(math.max(0, taken - left) * 60 / a_minute)) -- full again by then
end
return tostring(wait)
