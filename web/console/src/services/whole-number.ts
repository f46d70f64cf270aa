/** "12" → 12, "-3" → -3, " 1,200 " → 1200; undefined for what is no whole number, or too large to be exact. */
export function wholeNumber(text: string): number | undefined {
  const plain = text
    .trim()
    .replace(/(?<=\d),(?=\d{3}\b)/g, "")
    .replace("−", "-");
  if (!/^[+-]?\d+$/.test(plain)) return undefined;
  const value = Number(plain);
  return Number.isSafeInteger(value) ? value : undefined;
}
