-- What a script of the model sees besides the libraries that compute.
local native = ...
dofile, loadfile, load, collectgarbage = nil, nil, nil, nil

function print(...)
  local words = table.pack(...)
  for at = 1, words.n do
    words[at] = tostring(words[at])
  end
  native.print(table.unpack(words, 1, words.n))
end

local Tools = {}
function Tools.__index(_, name)
  return function(input)
    local texts, errors = native.call({ { name, input or {} } })
    return texts[1], errors[1]
  end
end

local function all(wanted)
  local calls = {}
  for at, call in ipairs(wanted) do
    calls[at] = { call[1], call[2] or {} }
  end
  local texts, errors = native.call(calls)
  local results = {}
  for at = 1, #calls do
    results[at] = { text = texts[at], error = errors[at] }
  end
  return results
end

tools = setmetatable({ all = all }, Tools)
