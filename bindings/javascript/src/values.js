// Columns of an answer as values of JavaScript.

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Decodes a text as UTF-8, or, if it is not valid UTF-8, as Latin-1, so that no byte is lost. */
function text(bytes) {
  try {
    return utf8.decode(bytes);
  } catch {
    return Array.from(bytes, (byte) => String.fromCharCode(byte)).join('');
  }
}

/** Returns the values of a column: a typed array, an array, or for compounds an object of columns. */
export function values(column, buffers) {
  switch (column.kind) {
    case 'numbers':
      return new globalThis[column.array](buffers[column.buffer - 1]);
    case 'strings': {
      const bytes = new Uint8Array(buffers[column.bytes - 1]);
      let end = 0;
      return Array.from(new Uint32Array(buffers[column.lengths - 1]), (length) => {
        end += length;
        return text(bytes.subarray(end - length, end));
      });
    }
    case 'bytes': {
      const bytes = new Uint8Array(buffers[column.buffer - 1]);
      const parts = [];
      for (let at = 0; at < bytes.length; at += column.size) parts.push(bytes.subarray(at, at + column.size));
      return parts;
    }
    case 'compound': {
      const columns = Object.create(null);
      for (const member of column.members) columns[member.name] = values(member.column, buffers);
      return columns;
    }
    case 'array':
      return values(column.column, buffers);
    case 'sequences': {
      const all = values(column.column, buffers);
      const each = itemsEach(column.column);
      let end = 0;
      return Array.from(new Uint32Array(buffers[column.lengths - 1]), (length) => {
        end += length;
        return part(all, (end - length) * each, end * each);
      });
    }
    default:
      throw new Error(`unknown kind of column: ${column.kind}`);
  }
}

/** Returns the number of items of a list for one element. */
function itemsEach(column) {
  return column.kind === 'array' ? column.each * itemsEach(column.column) : 1;
}

/** Returns a part of values: of each column, if they are columns. */
function part(all, start, end) {
  if (ArrayBuffer.isView(all)) return all.subarray(start, end);
  if (Array.isArray(all)) return all.slice(start, end);
  const columns = Object.create(null);
  for (const name of Object.keys(all)) columns[name] = part(all[name], start, end);
  return columns;
}

/** Returns the shape of a result: the extent, then the extents of an array datatype. */
export function fullShape(shape, column) {
  const whole = [...shape];
  for (let inner = column; inner.kind === 'array'; inner = inner.column) whole.push(...inner.shape);
  return whole;
}

/** Returns the value of a scalar by itself: a number, a string, an object of members. */
export function single(all) {
  if (ArrayBuffer.isView(all) || Array.isArray(all)) return all.length === 1 ? all[0] : all;
  const members = Object.create(null);
  for (const name of Object.keys(all)) members[name] = single(all[name]);
  return members;
}
