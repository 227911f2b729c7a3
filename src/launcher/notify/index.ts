/**
 * Owns: what the agent is notified of: the latest state of the domain until it is acknowledged, Kubernetes events, the client of the
 * notify pipe.
 * Must not know: libvirt, where a state comes from, what the agent does with it.
 */
export { NotifyClient, watchPipe } from './client.ts';
export { DomainNotifier } from './notifier.ts';
