/**
 * Owns: what is to be done about a VMI: named rules over an observation, and the vocabulary of steps.
 * Must not know: how steps are done, how the status is written, the clock, the logger, promises.
 */
export { decide, explainRule, rulesByRoute } from './decide.ts';
export { migrationOptionsOf } from './migration/migration-options.ts';
export type { Decision, Plan, Route, VmiPatch } from './rule.ts';
export {
  isOvertaken,
  type Outcome,
  type OvertakenCode,
  type Step,
  type StepArgs,
  type StepName,
  type StepOutcome,
} from './steps.ts';
