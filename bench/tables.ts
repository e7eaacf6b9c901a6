/** What all reports write: Markdown tables, and shares. */

/** Lines of a table. */
export function tableOf(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  return [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`);
}

export function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}
