-- Replaces what of the basic functions would escape the limits of a script.
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
