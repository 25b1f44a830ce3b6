-- What wrk sends: the requests of a file, one a line, again and again.
--
-- wrk … URL -- FILE BODY
-- A line of the file is a method, a path, and perhaps a body. BODY goes with
-- every POST that has none.

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

-- One line for the program that started wrk.
function done(summary, latency)
  local errors = summary.errors
  print(string.format("RESULT %d %d %d %d %d %d",
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
