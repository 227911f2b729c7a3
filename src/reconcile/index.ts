/**
 * Owns: how objects are reconciled: the queue with one serial actor per key; rules with names and sentences; plans of steps with
 * deadlines; own writes on top of a cache (read-your-writes); guarded writes; the log of decisions and their explanation; back-off
 * and crash loops.
 * `Reconciler` is the loop over many objects, `SingleReconciler` the one over a single thing of a node.
 * Must not know: what is reconciled, Kubernetes clients, domains, nodes.
 */
export * from './cached-objects.ts';
export * from './crash-loop-backoff.ts';
export * from './decision-log.ts';
export * from './decision-record.ts';
export * from './explain-address.ts';
export * from './explanation.ts';
export * from './facts-parts.ts';
export * from './guarded-write.ts';
export * from './json-patch.ts';
export * from './keyed-queue.ts';
export * from './next.ts';
export * from './read-your-writes.ts';
export type * from './reconcile-parts.ts';
export * from './reconciler.ts';
export type * from './reporter.ts';
export * from './rules.ts';
export * from './single-reconciler.ts';
export * from './steps.ts';
