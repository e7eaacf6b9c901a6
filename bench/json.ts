/** JSON of which everything from a depth on is on the line of what it belongs to. */
export function formatJson(value: unknown, depth: number): string {
  const format = (one: unknown, level: number): string => {
    if (level === depth || typeof one !== 'object' || one === null) return JSON.stringify(one);
    const indent = `\n${' '.repeat(level + 1)}`;
    const [open, close, items] = Array.isArray(one)
      ? ['[', ']', one.map((item) => format(item, level + 1))]
      : [
          '{',
          '}',
          Object.entries(one)
            .filter(([, item]) => item !== undefined)
            .map(([key, item]) => `${JSON.stringify(key)}: ${format(item, level + 1)}`),
        ];
    if (items.length === 0) return open + close;
    return `${open}${indent}${items.join(`,${indent}`)}\n${' '.repeat(level)}${close}`;
  };
  return `${format(value, 0)}\n`;
}
