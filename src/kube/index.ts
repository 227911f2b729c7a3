/**
 * Owns: access to the Kubernetes API: kubeconfig and in-cluster credentials, requests with retry and rate limit, list and
 * watch as a cache (informer), events. The only user of @kubernetes/client-node.
 * Must not know: VMI rules, domains, launchers, who uses it; argv and the environment (they come as arguments).
 */
export * from './access.ts';
export * from './client.ts';
export * from './errors.ts';
export * from './event-recorder.ts';
export * from './if-there.ts';
export * from './informer.ts';
export * from './leader-elector.ts';
export * from './paths.ts';
export * from './rate-limiter.ts';
export type { WatchEvent } from './watch.ts';
