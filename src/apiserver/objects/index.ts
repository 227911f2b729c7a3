/**
 * Owns: reading, writing, deleting and binding objects: identity, selectors, admission, optimistic locking.
 * Must not know: HTTP, which types there are, how objects are printed.
 */
export { bindPod } from './bind-pod.ts';
export {
  addressOf,
  clusterDefaults,
  hotplugGates,
  lockKey,
  type ObjectContext,
  randomUuid,
  storedObjects,
  type Target,
} from './context.ts';
export type { FieldValidation } from './fields.ts';
export {
  checkNotFuture,
  expiredMessage,
  type ListQuery,
  type ListResult,
  parseRevision,
  parseSelectors,
  Reader,
} from './reader.ts';
export { foregroundFinalizer, orphanFinalizer, type Propagation, type RemovalOptions, Remover } from './remover.ts';
export { selectedName } from './selectors.ts';
export { isFinished, type WriteOptions, Writer, type Written } from './writer.ts';
