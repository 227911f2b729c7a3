const unitMs: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  μs: 1e-3,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
};

const longest = 128;
/** Go counts nanoseconds in 64 bits: some 292 years. */
const mostMs = 2 ** 63 / 1e6;
const term = /(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|\u03bcs|ms|s|m|h)/gy;
const whole = /^(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|\u03bcs|ms|s|m|h))+$/;

/** `3m`, `1m30s`, `-1.5h`, `500ms`, `0` in milliseconds, as Go reads it; undefined when it is no duration. */
export function parseGoDurationMs(text: string): number | undefined {
  if (text.length > longest) return undefined;
  const sign = text.startsWith('-') ? -1 : 1;
  const amount = text.replace(/^[-+]/, '');
  if (amount === '0') return 0;
  if (!whole.test(amount)) return undefined;
  let totalMs = 0;
  for (const [, number, unit] of amount.matchAll(term)) totalMs += Number(number) * (unitMs[unit ?? ''] ?? 0);
  return totalMs < mostMs ? sign * totalMs : undefined;
}
