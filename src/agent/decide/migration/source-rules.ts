import type { Rule } from '../rule.ts';
import { isUntold, tell } from './not-supported.ts';

/** This node is asked to send a guest: said once, then the default route goes on serving it. */
export const sourceRules: readonly Rule[] = [{ name: 'migration-not-supported', when: isUntold, plan: tell }];
