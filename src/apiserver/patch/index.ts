/**
 * Owns: the three ways to patch JSON: each makes a new value, within bounds, or refuses.
 * Must not know: the store, types of objects, HTTP.
 */
export { applyJsonPatch } from './json-patch.ts';
export { applyStrategicPatch } from './strategic.ts';
export {
  claimStrategic,
  namespaceStrategic,
  nodeStrategic,
  plainStrategic,
  podStrategic,
  type StrategicSchema,
  serviceAccountStrategic,
  serviceStrategic,
} from './strategic-schema.ts';
