/**
 * Owns: launcher pods: how one is made from a VMI, which pods are a VMI's own, what their state means.
 * Must not know: rules, requests to the API, the cache.
 */
export { podFacts } from './facts.ts';
export { LauncherPods } from './launcher-pods.ts';
export { renderLauncherPod } from './render.ts';
