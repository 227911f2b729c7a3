/**
 * Owns: feeding a parser with foreign input in a process of its own, the input itself, and the judgement of what happened.
 * Must not know: which parsers there are.
 */
export {
  bytesChange,
  changedBytes,
  changedText,
  cuts,
  hostileText,
  inPieces,
  repeated,
  together,
} from './edits.ts';
export { declareTarget, fuzz, fuzzInChild } from './fuzz.ts';
export { changedJson, changedValue } from './json-edits.ts';
export { judged, judgedLater, type Target, type Verdict } from './target.ts';
