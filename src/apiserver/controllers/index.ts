/**
 * Owns: what the API changes by itself: garbage collection, ending namespaces, expiring events, telling of pods that nobody runs.
 * Must not know: HTTP, patches, tables; who asked for a change.
 */
export { EventExpiry } from './event-expiry.ts';
export { GarbageCollector } from './garbage-collector.ts';
export { NamespaceEnder } from './namespaces.ts';
export { UnservedPods } from './unserved-pods.ts';
