import type { VmiEvent } from '../../../api/index.ts';
import { errorMessage, isRecord, listOf, memberAt } from '../../../base/index.ts';
import { HostError } from './errors.ts';
import type { HookContext, HookResult, HostHook } from './work/index.ts';

export interface PluginHookDeps {
  /** All objects `Plugin` of the cluster; none where it does not know them. */
  readonly plugins: () => Promise<readonly unknown[]>;
  readonly monotonicMs: () => number;
}

/** A burst of starts is one question. */
const freshMs = 10_000;
const shownNames = 5;

interface Found {
  /** Plug-ins with a hook whose failure keeps the VM from starting. */
  readonly required: readonly string[];
  /** Those all of whose hooks may fail. */
  readonly optional: readonly string[];
}

/**
 * What a plug-in wants to be called around a VM: programs of the node (pkg/virt-handler/plugins/manager.go) and what changes its domain (the list of plug-ins
 * that goes to the launcher; gate Plugins, alpha). This agent calls none: a VM does not start, or arrive, beside one that has
 * to be called, whatever its condition says of the VM; of others there is an event. Without the gate nothing is asked.
 */
export function pluginHooks(deps: PluginHookDeps): HostHook<'plugin-hooks', null> {
  let kept: { readonly atMs: number; readonly found: Promise<Found> } | undefined;
  const look = (): Promise<Found> => {
    const nowMs = deps.monotonicMs();
    if (!kept || nowMs - kept.atMs >= freshMs) {
      const found = deps.plugins().then(withHooks);
      kept = { atMs: nowMs, found };
      // A question that failed is asked again.
      found.catch(() => {
        if (kept?.found === found) kept = undefined;
      });
    }
    return kept.found;
  };
  return { name: 'plugin-hooks', prepare: (context) => prepare(context, look) };
}

async function prepare({ config }: HookContext, look: () => Promise<Found>): Promise<HookResult<null>> {
  if (!config.plugins) return { kind: 'done', facts: null };
  const { required, optional } = await look().catch((cause: unknown) => {
    throw new HostError('PLUGIN_HOOKS', `hooks of plug-ins cannot be looked up: ${errorMessage(cause)}`, { cause });
  });
  if (required.length > 0) {
    const advice = 'set failureStrategy to Ignore, or run the VM on a node with upstream KubeVirt';
    throw new HostError('NOT_SUPPORTED', `this node agent does not call the hooks of ${named(required)}: ${advice}`);
  }
  return { kind: 'done', facts: null, events: optional.length > 0 ? [notCalled(optional)] : [] };
}

function notCalled(names: readonly string[]): VmiEvent {
  const message = `this node agent does not call the hooks of ${named(names)}; the VM goes on without`;
  return { type: 'Warning', reason: 'PluginHooksNotCalled', message };
}

/** `failureStrategy` of a hook goes before that of its plug-in, and is Fail where neither says otherwise. */
function withHooks(plugins: readonly unknown[]): Found {
  const [required, optional]: [string[], string[]] = [[], []];
  for (const plugin of plugins) {
    const all = ['nodeHooks', 'domainHooks'].flatMap((kind) => listOf(memberAt(plugin, 'spec', kind)));
    const hooks = all.filter(isRecord);
    if (hooks.length === 0) continue;
    const whole = memberAt(plugin, 'spec', 'failureStrategy');
    const mayFail = hooks.every(({ failureStrategy }) => (failureStrategy || whole) === 'Ignore');
    (mayFail ? optional : required).push(String(memberAt(plugin, 'metadata', 'name')));
  }
  return { required: required.sort(), optional: optional.sort() };
}

function named(names: readonly string[]): string {
  const rest = names.length > shownNames ? ` and ${names.length - shownNames} others` : '';
  return `plug-in${names.length > 1 ? 's' : ''} ${names.slice(0, shownNames).join(', ')}${rest}`;
}
