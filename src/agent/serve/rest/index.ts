/**
 * Owns: the agent's console and lifecycle interface (upstream: pkg/virt-handler/rest): routes, bodies, answers, events, and finding a guest's
 * sockets through the file system of its pod.
 * Must not know: TLS and certificates, how streams are shared, the VMI loop's decisions.
 */
export type { LauncherActions, LauncherCommands } from './ports.ts';
export { RestApi, type RestApiOptions } from './rest-api.ts';
