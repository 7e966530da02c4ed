-- Holds one of so many places for some seconds, or goes on holding it. Places that nobody renews come free.
-- KEYS[1]: the places, each with the time at which it comes free. ARGV: the time (empty: the store's own), who holds it, how many
-- places there are, for how many seconds; 0 gives it back. Gives 1 where it is held.
local clock = redis.call('TIME')
local now = tonumber(ARGV[1]) or clock[1] + clock[2] / 1e6
local most, seconds = tonumber(ARGV[3]), tonumber(ARGV[4])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.6f', now))
if seconds <= 0 then
  redis.call('ZREM', KEYS[1], ARGV[2])
  return 0
end
if not redis.call('ZSCORE', KEYS[1], ARGV[2]) and redis.call('ZCARD', KEYS[1]) >= most then return 0 end
redis.call('ZADD', KEYS[1], string.format('%.6f', now + seconds), ARGV[2])
redis.call('EXPIRE', KEYS[1], math.ceil(seconds) + 60)
return 1
