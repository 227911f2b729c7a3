/**
 * Owns: time, waiting, back-off, start/stop order, errors, listeners, JSON values (foreign ones too), the logger. No I/O but the log.
 * Must not know: anything of this project, Kubernetes or libvirt.
 */
export * from './backoff.ts';
export * from './clock.ts';
export { copyJson } from './copy-json.ts';
export * from './errors.ts';
export { parseGoDurationMs } from './go-duration.ts';
export * from './go-flags.ts';
export { goQuote, goUnquote } from './go-quote.ts';
export * from './ip.ts';
export * from './json.ts';
export { type JsonShape, shapedJson } from './json-shape.ts';
export * from './lifecycle.ts';
export { Listeners } from './listeners.ts';
export * from './log.ts';
export { applyMergePatch } from './merge-patch.ts';
export { escapedJson, isPlainJson, plainText, plainTexts } from './plain-text.ts';
export { sameJson } from './same-json.ts';
export { Seldom } from './seldom.ts';
export { shareParts } from './shared-parts.ts';
export { shownNames } from './shown-names.ts';
export * from './sleep.ts';
export * from './token-bucket.ts';
export { Turn } from './turn.ts';
export * from './two-lines.ts';
