-- For loadtest/run compare --plugin leases.so --script leases.lua: a thousand leases, taken and then
-- renewed. All clients are one holder, so that no answer depends on who comes first.
wrk.method = "PUT"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"holder":"lab","seconds":600}'

local n = 0

function request()
   n = n + 1
   return wrk.format(nil, "/leases/job-" .. n % 1000)
end
