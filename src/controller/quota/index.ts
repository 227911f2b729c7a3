/**
 * Owns: limits that a launcher pod needs in its namespace, where quotas count limits and the VMI gives none.
 * Must not know: how pods are made, rules, the cache.
 */
export { createWithLimits, NamespaceQuotas, withNeededLimits } from './quota-limits.ts';
