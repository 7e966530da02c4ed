-- Counts a call against the limits of one model, if all of them leave room for it.
-- KEYS[1]: what is known of the limits. ARGV: the time (empty: the store's own), the replica, seconds until unused
-- knowledge is forgotten, seconds for which a replica's calls on their way count, and as JSON the call's cost and what
-- the replica has on its way, this call included; both by kind.
-- Gives the seconds to wait (0: the call is counted), and those for which the server asked everybody to wait.
local clock = redis.call('TIME')
local now = tonumber(ARGV[1]) or clock[1] + clock[2] / 1e6
local cost, flying = cjson.decode(ARGV[5]), cjson.decode(ARGV[6])
local known, fields = {}, redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do known[fields[i]] = fields[i + 1] end

local held = math.max(0, (tonumber(known['held']) or now) - now)
local wait, levels = held, {}
for kind, needed in pairs(cost) do
  local bucket = known['bucket:' .. kind] and cjson.decode(known['bucket:' .. kind])
  if bucket and bucket.believed > now then
    local level = bucket.level
    if bucket.rate then
      level = math.min(bucket.size, level + bucket.rate * math.max(0, now - bucket.at))
      needed = math.min(needed, bucket.size)
    elseif now >= bucket.full then
      level = nil -- full again, and nobody knows how much that is
    end
    if level and needed > level then
      wait = math.max(wait, bucket.rate and (needed - level) / bucket.rate or bucket.full - now)
    elseif level then
      bucket.level, bucket.at = level - cost[kind], now
      levels[kind] = bucket
    end
  end
end

if wait == 0 then
  for kind, bucket in pairs(levels) do redis.call('HSET', KEYS[1], 'bucket:' .. kind, cjson.encode(bucket)) end
  local mine = cjson.encode({ calls = flying, gone = now + ARGV[4] })
  redis.call('HSET', KEYS[1], 'flying:' .. ARGV[2], mine)
  redis.call('EXPIRE', KEYS[1], ARGV[3])
end
return { tostring(wait), tostring(held) }
