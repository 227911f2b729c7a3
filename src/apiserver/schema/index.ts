/**
 * Owns: what is known of the fields of the server's resources: which there are, what they may hold, how lists are merged; generated
 *   from KubeVirt's and Kubernetes' own definitions, read when it is first needed.
 * Must not know: where objects come from, the store, HTTP.
 */
export { checkSchema } from './check.ts';
export { duplicateMembers } from './duplicates.ts';
export { SchemaLibrary, schemaKey } from './library.ts';
export { formOf, memberNode, type SchemaNode } from './node.ts';
export { prune } from './prune.ts';
