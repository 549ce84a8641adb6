-- Replaces what of the standard library would reach past the script.
local native = ...

-- All files share a metatable, which has one.
getmetatable(io.stdout).__metatable = false

-- Files are those that a script may touch.
local open_ = io.open
function io.open(path, mode)
  return native.open(open_, path, mode)
end
local lines_ = io.lines
function io.lines(path, ...)
  if path == nil then
    return lines_(nil, ...)
  end
  local file, fault = io.open(path)
  if not file then
    error(fault, 2)
  end
  local next_ = file:lines(...)
  local function line(...)
    if (...) == nil then
      file:close()
    end
    return ...
  end
  return function()
    return line(next_())
  end, nil, nil, file
end
for name, mode in pairs({ input = "r", output = "w" }) do
  local choose = io[name]
  io[name] = function(file)
    if type(file) == "string" then
      file = assert(io.open(file, mode))
    end
    return choose(file)
  end
end
os.remove, os.rename, os.tmpname = native.remove, native.rename, native.tmpname
function package.searchpath(name, path, separator, replacement)
  local below = name:gsub("%" .. (separator or "."), "%" .. (replacement or "/"))
  local tried = {}
  for template in path:gmatch("[^;]+") do
    local found = template:gsub("?", (below:gsub("%%", "%%%%")))
    local file = io.open(found)
    if file then
      file:close()
      return found
    end
    tried[#tried + 1] = "no file '" .. found .. "'"
  end
  return nil, table.concat(tried, "\n\t")
end

-- Only text is compiled: the interpreter trusts bytecode.
local load_ = load
function load(chunk, name, _, ...)
  return load_(chunk, name, "t", ...)
end
function loadfile(path, _, ...)
  local file, fault = io.open(path or "/dev/null")
  if not file then
    return nil, "cannot open " .. fault
  end
  local text = file:read("a") or ""
  file:close()
  -- A line that is for the system stays a line.
  return load_((text:gsub("^#", "--#", 1)), "@" .. (path or "stdin"), "t", ...)
end
function dofile(path)
  return assert(loadfile(path))()
end

-- Standard output carries the answers of the program, standard input its prompts.
function print(...)
  local words = table.pack(...)
  for at = 1, words.n do
    words[at] = tostring(words[at])
  end
  native.log(table.concat(words, "\t"))
end
io.input("/dev/null")
io.output("/dev/null")
io.stdin, io.stdout, io.stderr = io.input(), io.output(), io.output()

-- Commands are started as those of every tool, and end with the call.
function os.execute(line)
  if line == nil then
    return true
  end
  local outcome = native.run(line) or { code = 127 }
  return outcome.ok or nil, "exit", outcome.code
end

local Command = {}
Command.__index = Command
function Command:read(...)
  return self.output:read(...)
end
function Command:lines(...)
  return self.output:lines(...)
end
function Command:write(...)
  self.input[#self.input + 1] = table.concat({ ... })
  return self
end
function Command:flush() end
Command.setvbuf = Command.flush
function Command:close()
  if self.input then
    self.outcome = native.run(self.line, { stdin = table.concat(self.input) })
  end
  local outcome = self.outcome or { code = 127 }
  return outcome.ok or nil, "exit", outcome.code
end

-- The whole output is there before it is read, and what is written is taken at the end.
function io.popen(line, mode)
  local command = setmetatable({ line = line }, Command)
  if mode == "w" then
    command.input = {}
    return command
  end
  local outcome, fault = native.run(line)
  if not outcome then
    return nil, fault, 127
  end
  command.outcome = outcome
  command.output = assert(io.tmpfile())
  command.output:write(outcome.stdout)
  command.output:seek("set")
  return command
end

function os.exit()
  error("`os.exit` would end the whole program: return from `execute` instead", 2)
end
os.getenv = native.getenv
-- The locale is the whole process's.
function os.setlocale(locale)
  if locale == nil or locale == "" or locale == "C" then
    return "C"
  end
end
