import { type Rule, rest } from '../rule.ts';
import { isUntold, tell } from './not-supported.ts';

/** This node is asked to receive a guest: nothing is prepared, nothing is written; the controller's time limit ends it. */
export const targetRules: readonly Rule[] = [
  { name: 'migration-not-supported', when: isUntold, plan: tell },
  { name: 'migration-target-left-alone', when: () => true, plan: () => rest },
];
