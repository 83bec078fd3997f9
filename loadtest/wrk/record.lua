-- record.lua: what a user's script would have wrk send, written down before wrk connects to anything.
--
-- Told by the environment: LAB_SCRIPT, LAB_COUNT (requests at most), LAB_OUT: a file that begins with
-- a line, "requests", "error" or "unsupported"; then requests, each behind a line with its length, or
-- a text.

local out = assert(io.open(os.getenv("LAB_OUT"), "wb"))

local function finish(what, text)
   out:write(what, "\n", text or "")
   out:close()
   os.exit(0)
end

local function try(...)
   local good, value = pcall(...)
   if not good then finish("error", tostring(value)) end
   return value
end

local function checked(text, from)
   if type(text) ~= "string" then
      finish("error", from .. " gave " .. type(text) .. ", and not a request (a string, as wrk.format makes it)")
   end
   return #text .. "\n" .. text
end

local script, why = loadfile(os.getenv("LAB_SCRIPT"))
if not script then finish("error", why) end
try(script)
for _, name in ipairs({ "setup", "delay", "response" }) do
   if type(_G[name]) == "function" then finish("unsupported", name) end
end
try(wrk.init, {})

local found = {}
if type(request) == "function" then
   for i = 1, tonumber(os.getenv("LAB_COUNT")) do found[i] = checked(try(request), "request()") end
else
   found[1] = checked(try(wrk.request), "wrk.format()")
end
finish("requests", table.concat(found))
