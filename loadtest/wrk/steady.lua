-- steady.lua: ready-made requests, sent in turn, over and over; what wrk measured goes to a file as
-- JSON.
--
-- Told by the environment: LAB_REQUESTS (a file of requests, each behind a line that begins with its
-- length), LAB_OUT. There is no response(): defining it makes wrk copy every body into Lua, and then
-- the client is the limit. Bodies are checked by the lab, apart from the measuring.

local function read(path)
   local file, found = assert(io.open(path, "rb")), {}
   for line in function() return file:read("*l") end do
      found[#found + 1] = file:read(tonumber(line:match("^%d+")))
   end
   file:close()
   return found
end

function init()
   local requests = read(os.getenv("LAB_REQUESTS"))
   if #requests == 1 then -- wrk asks once, and then Lua costs the client nothing
      wrk.format = function() return requests[1] end
      return
   end
   local at = 0
   function request()
      at = at % #requests + 1
      return requests[at]
   end
end

-- latency(i) walks the histogram from its start, so that a dump of n values takes n times the range:
-- seconds, on a bad day. Read in place it takes one walk. The layout is that of wrk 4; if the first
-- fields are not what wrk says they are, nothing is read.
local ffi = require("ffi")
ffi.cdef("struct lab_stats { uint64_t count, limit, min, max, data[1]; };")

local function histogram(latency)
   local stats = ffi.cast("struct lab_stats **", ffi.cast("void *", latency))[0]
   if stats.min ~= latency.min or stats.max ~= latency.max or stats.max > stats.limit then
      return nil
   end
   local pairs = {}
   for value = latency.min, latency.max do
      local count = tonumber(stats.data[value])
      if count > 0 then
         pairs[#pairs + 1] = string.format("[%d,%d]", value, count)
      end
   end
   return "[" .. table.concat(pairs, ",") .. "]"
end

local PERCENTILES = { 50, 75, 90, 95, 99, 99.9, 99.99 }

function done(summary, latency, requests)
   local out = assert(io.open(os.getenv("LAB_OUT"), "w"))
   out:write(string.format('{"duration_us":%d,"requests":%d,"bytes":%d,"errors":{',
                           summary.duration, summary.requests, summary.bytes))
   local e = summary.errors
   out:write(string.format('"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d}',
                           e.connect, e.read, e.write, e.status, e.timeout))
   out:write(string.format(',"corrected":{"min":%d,"max":%d,"mean":%.3f,"percentiles":{',
                           latency.min, latency.max, latency.mean))
   for i, p in ipairs(PERCENTILES) do
      out:write(string.format('%s"%g":%d', i > 1 and "," or "", p, latency:percentile(p)))
   end
   out:write('}},"histogram":', histogram(latency) or "null", "}\n")
   out:close()
end
