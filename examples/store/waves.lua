-- Finds the biggest wave in the written data, and its index: hour, row, column.
function on_write(dataset, box, h)
  local max, at, sum = -math.huge, 0, 0
  for i = 1, box.size do
    if h[i] > max then max, at = h[i], i - 1 end
    sum = sum + h[i]
  end
  local where = {}
  for axis = #box.count, 1, -1 do
    where[axis] = box.start[axis] + at % box.count[axis]
    at = math.floor(at / box.count[axis])
  end
  return {max = max, where = where, sum = sum, count = box.size}
end
