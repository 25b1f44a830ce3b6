-- wrk script: replays the requests of a file in a loop.
--
-- wrk … URL -- FILE BODY
-- Each line of the file is a method, a path and an optional body. BODY is sent
-- with every POST that has none.

local requests, position = {}, 0

function init(args)
  for line in io.lines(args[1]) do
    local method, path, body = line:match("^(%u+) (%S+) ?(.*)$")
    if body == "" then body = method == "POST" and args[2] or nil end
    local headers = {}
    for name, value in pairs(wrk.headers) do headers[name] = value end
    if body then headers["Content-Type"] = "application/json" end
    requests[#requests + 1] = wrk.format(method, path, headers, body)
  end
end

function request()
  position = position % #requests + 1
  return requests[position]
end

-- One line of results for load.py to parse.
function done(summary, latency)
  local errors = summary.errors
  print(string.format("RESULT %d %d %d %d %d %d",
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
