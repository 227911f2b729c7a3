import type { NodeProblem } from '../ports.ts';
import type { RunningPlugin } from './running-plugin.ts';

/** Why VMIs of this node would find no device of one kind; undefined: they do, or they do not need it. */
export function problemOf(plugin: RunningPlugin): NodeProblem | undefined {
  const { planned, unknown, unusableSinceMs } = plugin;
  if (planned.essential === undefined) return undefined;
  const { state } = plugin.report();
  const kind = pascal(planned.essential);
  const { resource } = planned;
  if (state.kind === 'waiting' && state.code === 'NOT_LISTENED') {
    const message = `The kubelet does not listen to device plugin ${resource}: ${state.reason}; restart the kubelet of this node.`;
    return { source: 'devices', reason: `${kind}PluginNotListened`, message, sinceMs: state.sinceMs };
  }
  if (state.kind !== 'registered') {
    const why = state.kind === 'waiting' ? `: ${state.reason}` : ' yet';
    const message = `The kubelet does not know device plugin ${resource}${why}; look at the kubelet of this node.`;
    return { source: 'devices', reason: `${kind}PluginNotRegistered`, message, sinceMs: state.sinceMs };
  }
  if (unknown) {
    const message = `Whether the device of ${resource} is there is not known: ${unknown.reason}; the agent must be able to read the host's /dev.`;
    return { source: 'devices', reason: `${kind}DeviceUnknown`, message, sinceMs: unknown.sinceMs };
  }
  if (unusableSinceMs === undefined) return undefined;
  const message = `The device of ${resource} is not there; load its kernel module on this node.`;
  return { source: 'devices', reason: `${kind}DeviceMissing`, message, sinceMs: unusableSinceMs };
}

/** `vhost-net` is `VhostNet`. */
function pascal(name: string): string {
  return name.replaceAll(/(?:^|-)([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
