/**
 * Owns: figures of one guest for who looks at it right now: one question to its launcher, its answer as a document.
 * Must not know: who shows them, metrics, how a launcher is found.
 */
export { FiguresService } from './service.ts';
