-- Takes in how a call to one endpoint went.
-- KEYS[1]: what is known of its health. ARGV: the time (empty: the store's own), what happened ("fault"; "answers": the
-- endpoint began to answer; "whole": an answer is complete; "end": the call has ended, however it did), the token of the
-- call if it tried (else empty), the answer that it was made for (or empty), what failed, how many faults in a row open
-- it, the seconds that must lie between the first and the last of them, seconds until unused knowledge is forgotten, and
-- whether the fault may follow its request ("1"; else it is the endpoint's own).
local clock = redis.call('TIME')
local now = tonumber(ARGV[1]) or clock[1] + clock[2] / 1e6
local what, token, answer, failure = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local limit, over_s = tonumber(ARGV[6]), tonumber(ARGV[7])
local function get(field) return redis.call('HGET', KEYS[1], field) end
local tried = token ~= '' and get('trial') == token

if what == 'fault' then
  local faults = redis.call('HINCRBY', KEYS[1], 'faults', 1)
  if faults == 1 then redis.call('HSET', KEYS[1], 'since', string.format('%.6f', now)) end
  redis.call('HSET', KEYS[1], 'last', failure)
  if ARGV[9] ~= '1' then redis.call('HSET', KEYS[1], 'its_own', '1') end
  if not get('opened') then
    local blamed = get('blamed')
    redis.call('HSET', KEYS[1], 'blamed', (answer ~= '' and (not blamed or blamed == answer)) and answer or 'several')
  end
  if tried or (faults >= limit and now - tonumber(get('since')) >= over_s) then
    redis.call('HSET', KEYS[1], 'opened', string.format('%.6f', now))
  end
elseif what == 'answers' then
  redis.call('HDEL', KEYS[1], 'opened', 'trial', 'trial_ends')
elseif what == 'whole' then
  redis.call('DEL', KEYS[1])
end
if tried then redis.call('HDEL', KEYS[1], 'trial', 'trial_ends') end
redis.call('EXPIRE', KEYS[1], ARGV[8])
