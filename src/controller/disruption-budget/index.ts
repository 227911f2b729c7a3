/**
 * Owns: the end of disruption budgets that older releases of KubeVirt made for VMIs.
 * Must not know: evictions, migrations; the webhook of virt-api, or the standalone API server, refuses the eviction of a guest that can move.
 */
export { DisruptionBudgets } from './disruption-budgets.ts';
