-- Asks for a call to one endpoint.
-- KEYS[1]: what is known of its health. ARGV: the time (empty: the store's own), seconds for which an ill endpoint is
-- left alone, a token of this call, the answer that it is made for (empty: nobody knows), whether its request has not
-- failed yet ("1"), and how many such requests may try while nothing failed that cannot follow its request.
-- Gives "go", "try" (the call is the one that tries), "wait" (another one tries) or "no"; the seconds until one may try;
-- how many faults there were in a row, and the last.
local clock = redis.call('TIME')
local now = tonumber(ARGV[1]) or clock[1] + clock[2] / 1e6
local rest_s, token, answer = tonumber(ARGV[2]), ARGV[3], ARGV[4]
local fresh, most = ARGV[5] == '1', tonumber(ARGV[6])
local stored = redis.call('HMGET', KEYS[1], 'opened', 'trial', 'trial_ends', 'blamed', 'excepted', 'faults', 'last',
  'its_own', 'tries')
local opened, trial, trial_ends, blamed, excepted = stored[1], stored[2], stored[3], stored[4], stored[5]
local faults, last, its_own, tries = stored[6] or '0', stored[7] or '', stored[8], tonumber(stored[9]) or 0
if not opened then return { 'go', '0', faults, last } end

local left = math.max(0, tonumber(opened) + rest_s - now)
if trial and tonumber(trial_ends) > now then return { 'wait', tostring(left), faults, last } end
if left > 0 and not its_own and fresh and tries < most then
  -- All that failed may have failed for what it asked: a server must not be closed to others for that.
  redis.call('HINCRBY', KEYS[1], 'tries', 1)
elseif left > 0 then
  -- One answer may be what makes a server fail: another part of it has one call, as long as nobody else met a fault.
  if answer == '' or blamed ~= answer or excepted then return { 'no', tostring(left), faults, last } end
  redis.call('HSET', KEYS[1], 'excepted', '1')
end
redis.call('HSET', KEYS[1], 'trial', token, 'trial_ends', string.format('%.6f', now + rest_s))
return { 'try', '0', faults, last }
