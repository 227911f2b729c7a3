/**
 * Owns: which resources the server has, and for each its columns, admission, fields and patch schema; discovery reads it.
 * Must not know: the store, HTTP, requests.
 */
export { customResourceDefinitions, events, namespaces, pods } from './core-types.ts';
export { builtInDefinitions } from './crds.ts';
export {
  apiTypes,
  findKind,
  findType,
  type GroupVersion,
  groupVersions,
  metricsGroup,
  reviewGroups,
  typesOf,
  uploadGroup,
  verbsOf,
} from './registry.ts';
export {
  expandSpec,
  expandVmSpec,
  knownVmSubresources,
  memoryDumpSubresources,
  migrationSubresources,
  portForward,
  portForwardChecks,
  sevSession,
  sevSessionRules,
  type VmSubresource,
  vmiSubresources,
  vmSubresourceGroup,
  vmSubresources,
  volumeSubresources,
} from './vm-subresource-types.ts';
