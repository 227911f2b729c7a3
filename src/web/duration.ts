const units: readonly (readonly [unit: string, ms: number, below: number])[] = [
  ['ms', 1, 1_000],
  ['s', 1_000, 120_000],
  ['min', 60_000, 7_200_000],
  ['h', 3_600_000, 172_800_000],
];

/** Milliseconds as people say them, in whole units that have passed: `<1 ms`, `90 s`, `2 h`, `3 d`. */
export function durationText(ms: number): string {
  if (ms < 1) return '<1 ms';
  const [unit, size] = units.find(([, , below]) => ms < below) ?? ['d', 86_400_000];
  return `${Math.floor(ms / size)} ${unit}`;
}
