-- Replaces what of the standard library would reach past the script.
local native = ...

-- A script that has to end cannot catch that.
local function passed(ok, ...)
  if not ok and native.ended() then
    error((...), 0)
  end
  return ok, ...
end

local pcall_, xpcall_, resume_ = pcall, xpcall, coroutine.resume
function pcall(...)
  return passed(pcall_(...))
end
function xpcall(f, handler, ...)
  -- A handler runs while nothing can interrupt it.
  return passed(xpcall_(f, function(fault)
    return native.ended() and fault or handler(fault)
  end, ...))
end
function coroutine.resume(...)
  return passed(resume_(...))
end

-- Hooks do not reach finalizers, so an endless one could not be ended.
local setmetatable_ = setmetatable
function setmetatable(value, metatable)
  if type(metatable) == "table" and rawget(metatable, "__gc") ~= nil then
    error("a tool cannot have finalizers (`__gc`); use a to-be-closed variable (`__close`)", 2)
  end
  return setmetatable_(value, metatable)
end

-- Only text is compiled: the interpreter trusts bytecode.
local load_, loadfile_ = load, loadfile
function load(chunk, name, _, ...)
  return load_(chunk, name, "t", ...)
end
function loadfile(path, _, ...)
  return loadfile_(path or "/dev/null", "t", ...)
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
