-- Takes in what a call has shown of the limits of one model.
-- KEYS[1]: what is known of the limits. ARGV: the first four as in limits_take.lua, and as JSON: what the replica still
-- has on its way by kind (flying), what a call took that never reached the server (returned), what the server reports
-- is left (reported: by kind, with remaining, size or 0, and seconds until it is full), and for how long it wants no call (hold).
local clock = redis.call('TIME')
local now = tonumber(ARGV[1]) or clock[1] + clock[2] / 1e6
local news = cjson.decode(ARGV[5])
local known, fields = {}, redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do known[fields[i]] = fields[i + 1] end

local mine = cjson.encode({ calls = news.flying, gone = now + ARGV[4] })
known['flying:' .. ARGV[2]] = mine
redis.call('HSET', KEYS[1], 'flying:' .. ARGV[2], mine)

for kind, amount in pairs(news.returned) do
  local bucket = known['bucket:' .. kind] and cjson.decode(known['bucket:' .. kind])
  if bucket then
    bucket.level = bucket.level + amount
    redis.call('HSET', KEYS[1], 'bucket:' .. kind, cjson.encode(bucket))
  end
end

local flying = {} -- what no report includes yet, of all replicas that still live
for field, value in pairs(known) do
  if string.sub(field, 1, 7) == 'flying:' then
    local theirs = cjson.decode(value)
    if theirs.gone <= now then
      redis.call('HDEL', KEYS[1], field)
    else
      for kind, amount in pairs(theirs.calls) do flying[kind] = (flying[kind] or 0) + amount end
    end
  end
end
for kind, report in pairs(news.reported) do
  local bucket = { at = now, full = now + report.window, believed = now + ARGV[4] }
  bucket.level = report.remaining - (flying[kind] or 0)
  if report.size > report.remaining and report.window > 0 then
    local rate = (report.size - report.remaining) / report.window
    if rate < math.huge then bucket.size, bucket.rate = report.size, rate end
  end
  redis.call('HSET', KEYS[1], 'bucket:' .. kind, cjson.encode(bucket))
end

if news.hold > 0 then
  local until_s = now + math.min(news.hold, tonumber(ARGV[4]))
  -- %.6f: a number as Lua prints it by itself loses everything below some seconds of a time
  if until_s > (tonumber(known['held']) or 0) then
    redis.call('HSET', KEYS[1], 'held', string.format('%.6f', until_s))
  end
end
redis.call('EXPIRE', KEYS[1], ARGV[3])
