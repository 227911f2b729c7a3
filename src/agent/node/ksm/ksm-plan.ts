/** When and how hard the kernel looks for equal memory pages, as pkg/virt-handler/ksm/ksm.go does it. Pure. */

export interface KsmParameters {
  readonly pagesBoost: number;
  readonly pagesDecay: number;
  readonly pagesMin: number;
  readonly pagesMax: number;
  readonly pagesInit: number;
  readonly sleepBaselineMs: number;
  /** Part of the memory that shall be available, 0 to 1. */
  readonly freePart: number;
}

export interface KsmState {
  readonly isRunning: boolean;
  readonly pagesToScan: number;
  readonly totalKib: number;
  readonly availableKib: number;
}

export type KsmPlan =
  | { readonly run: false }
  | { readonly run: true; readonly pagesToScan: number; readonly sleepMs: number };

const prefix = 'kubevirt.io/ksm-';
const kibIn16Gib = 16 * 1024 * 1024;
/** The kernel keeps both figures in 32 bits. */
const largest = 2 ** 32 - 1;

/** Annotations of the node override the defaults. */
export function readKsmParameters(annotations: Readonly<Record<string, string>>): KsmParameters {
  const whole = (name: string, fallback: number, low: number, high: number) =>
    bounded(wholeNumber(annotations[`${prefix}${name}-override`]), fallback, low, high);
  const pagesMin = whole('pages-min', 64, 0, largest);
  const pagesMax = whole('pages-max', 1250, pagesMin, largest);
  return {
    pagesBoost: whole('pages-boost', 300, 0, largest),
    pagesDecay: whole('pages-decay', -50, -largest, 0),
    pagesMin,
    pagesMax,
    pagesInit: whole('pages-init', 100, pagesMin, pagesMax),
    sleepBaselineMs: whole('sleep-ms-baseline', 100, 1, largest),
    freePart: bounded(decimal(annotations[`${prefix}free-percent-override`]), 0.2, 0, 1),
  };
}

/** Out of bounds: the default, where it lies strictly within them, else the lower bound. */
function bounded(given: number | undefined, fallback: number, low: number, high: number): number {
  const value = given ?? fallback;
  if (value >= low && value <= high) return value;
  return fallback > low && fallback < high ? fallback : low;
}

function wholeNumber(text: string | undefined): number | undefined {
  return text !== undefined && /^[+-]?\d{1,15}$/.test(text) ? Number(text) : undefined;
}

function decimal(text: string | undefined): number | undefined {
  return text !== undefined && /^[+-]?(\d+(?:\.\d*)?|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : undefined;
}

/** One step: more pages while memory is short, fewer while it is not, until nothing is left to do. */
export function planKsm(
  { isRunning, pagesToScan, totalKib, availableKib }: KsmState,
  parameters: KsmParameters,
): KsmPlan {
  const { pagesBoost, pagesDecay, pagesMin, pagesMax, pagesInit } = parameters;
  const sleepMs = sleepFor(totalKib - availableKib, parameters.sleepBaselineMs);
  const isShort = availableKib <= totalKib * parameters.freePart;
  if (isShort) {
    return { run: true, pagesToScan: isRunning ? Math.min(pagesToScan + pagesBoost, pagesMax) : pagesInit, sleepMs };
  }
  const fewer = pagesToScan + pagesDecay;
  return isRunning && fewer >= pagesMin ? { run: true, pagesToScan: fewer, sleepMs } : { run: false };
}

/** The more memory is in use, the shorter. Nothing in use is no division by zero. */
function sleepFor(usedKib: number, baselineMs: number): number {
  const wanted = Math.floor((baselineMs * kibIn16Gib) / Math.max(1, usedKib));
  return Math.min(largest, Math.max(1, wanted, Math.floor(baselineMs / 10)));
}
