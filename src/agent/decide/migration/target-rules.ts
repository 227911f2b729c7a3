import { type Rule, rest } from '../rule.ts';
import { isUntold, tell } from './not-supported.ts';

/** This node is asked to receive a guest: nothing is prepared, nothing is written; the controller's time limit ends it. */
export const targetRules: readonly Rule[] = [
  {
    name: 'migration-not-supported',
    why: 'The VMI is to be migrated, which this agent cannot do yet; the user is told once.',
    when: isUntold,
    plan: tell,
  },
  {
    name: 'migration-target-left-alone',
    why: 'The VMI is to be migrated to this node, which this agent cannot do yet; nothing is prepared.',
    when: () => true,
    plan: () => rest,
  },
];
