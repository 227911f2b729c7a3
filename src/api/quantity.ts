const suffixes: Readonly<Record<string, number>> = {
  '': 1,
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

const pattern = /^([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:([eE][+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)$/;
/** A quantity has 19 digits of weight; a real API server lets texts of a megabyte through. */
const maxLength = 128;

/**
 * Value of a Kubernetes quantity (`"1Gi"`, `"500m"`, `2`). Undefined when it is malformed, longer than 128 characters, or larger
 * than a number can be (`"1e999"`).
 */
export function parseQuantity(quantity: string | number | undefined | null): number | undefined {
  if (typeof quantity === 'number') return Number.isFinite(quantity) ? quantity : undefined;
  if (typeof quantity !== 'string' || quantity.length > maxLength) return undefined;
  const match = pattern.exec(quantity.trim());
  if (!match) return undefined;
  const [, digits = '', exponent, suffix = ''] = match;
  const value = exponent ? Number(digits + exponent) : Number(digits) * (suffixes[suffix] ?? Number.NaN);
  return Number.isFinite(value) ? value : undefined;
}

const binarySuffixes = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'] as const;

/** Shortest exact form of whole bytes with a binary suffix, as the API server writes it: 1073741824 is `1Gi`. */
export function binaryQuantity(bytes: number): string {
  let [value, power] = [bytes, 0];
  while (value !== 0 && value % 1024 === 0 && power < binarySuffixes.length - 1)
    [value, power] = [value / 1024, power + 1];
  return `${value}${binarySuffixes[power]}`;
}
