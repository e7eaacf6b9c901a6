/**
 * Text that has something of others in it, for terminals and logs: they obey control characters, and take some for the end of
 * a line. Line ends stay.
 */
export function printable(text: string): string {
  return text.replace(
    /(?!\n)[\p{Cc}\u2028\u2029]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
